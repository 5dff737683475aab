"""The hooks of `.pre-commit-hooks.yaml`: is what is committed still the optimised form of its original?

They go by names: of STEM.onnx the optimised model is STEM.superopt.onnx, and its certificate STEM.superopt.json.  A
model without both of the latter is none of their business.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from taso_py.cli.command import Command
from taso_py.cli.outcome import emit, exit_code_of
from taso_py.cli.shared import FILE, SETTINGS, takes
from taso_py.errors import ApproximateError, CertificateError, MismatchError, ModelError, UsageError
from taso_py.options import CertifyOptions
from taso_py.paths import exists

# The longest first: each ends in the one after the next.
_SUFFIXES = (".superopt.onnx.data", ".superopt.onnx", ".superopt.json", ".onnx.data", ".onnx")


@dataclass(frozen=True, slots=True, order=True)
class Trio:
    """The three files that belong together."""

    original: Path
    optimised: Path
    certificate: Path

    @classmethod
    def of(cls, file: Path) -> Trio | None:
        """The files of the same stem; None where the name is none of theirs."""
        suffix = next((suffix for suffix in _SUFFIXES if file.name.endswith(suffix)), None)
        if suffix is None:
            return None
        stem = file.name.removesuffix(suffix)
        return cls(*(file.with_name(stem + end) for end in (".onnx", ".superopt.onnx", ".superopt.json")))

    @property
    def concerned(self) -> bool:
        """Whether there is anything but an original."""
        return exists(self.optimised) or exists(self.certificate)

    def missing(self) -> Path | None:
        """The first of the three that is not there."""
        return next((file for file in (self.original, self.optimised, self.certificate) if not exists(file)), None)


@click.group(context_settings=SETTINGS)
def hooks() -> None:
    """Check STEM.superopt.onnx and STEM.superopt.json against STEM.onnx; exit code 1 where they do not belong together.

    FILES are any of the three, as pre-commit hands them over.
    """


@hooks.command(short_help="By digest: fast, needs no ONNX Runtime.")
@click.argument("files", type=FILE, nargs=-1)
def digest(files: tuple[Path, ...]) -> None:
    """Are both models, byte for byte, those that the certificate was written for? What else it says is believed."""
    _each(files, _require_digests)


@hooks.command(cls=Command, short_help="By replay: `superopt certify`, seconds to minutes for each model.")
@click.argument("files", type=FILE, nargs=-1)
@takes(options=CertifyOptions)
def certify(files: tuple[Path, ...], options: CertifyOptions) -> None:
    """Does the optimised model follow from the original? Nothing that the certificate says is believed."""
    from taso_py import api

    _each(files, lambda trio: api.certify(trio.original, trio.optimised, trio.certificate, options))


def _each(files: Iterable[Path], require: Callable[[Trio], object]) -> None:
    """Look at every trio, say what is wrong with each, and fail at the end."""
    trios = sorted({trio for file in files if (trio := Trio.of(file)) is not None and trio.concerned})
    wrong = [line for trio in trios for line in _findings(trio, require)]
    for line in wrong:
        emit(line)
    if wrong:
        raise MismatchError(f"optimised models that do not belong to their originals: {len(wrong)} of {len(trios)}")


def _findings(trio: Trio, require: Callable[[Trio], object]) -> Iterator[str]:
    if (missing := trio.missing()) is not None:
        yield f"{trio.optimised}: {missing} is missing"
        return
    try:
        require(trio)
    except (ApproximateError, CertificateError, ModelError, UsageError) as error:
        yield f"{trio.optimised}: {error}"


def _require_digests(trio: Trio) -> None:
    from taso_py.certificate.digest import digest as found
    from taso_py.certificate.document import read
    from taso_py.onnx_io.read import read_proto

    certificate, as_written = read(trio.certificate)
    words = ("superopt", "optimize", trio.original, "-o", trio.optimised, "--certificate", trio.certificate, "--force")
    again = shlex.join(map(str, words))
    if not as_written:
        raise CertificateError(f"{trio.certificate} was changed after it was written: {again}")
    # An approximation took the place of the exact model: that is the file, and `certify` says what it is.
    written = certificate.optimised if certificate.unproved is None else certificate.unproved.model
    for file, stated in ((trio.original, certificate.original), (trio.optimised, written)):
        read_proto(file)  # a model that is none has no digest
        if found(file) != stated:
            raise CertificateError(f"{file} is not the file that {trio.certificate} was written for: {again}")


if __name__ == "__main__":
    sys.exit(exit_code_of(hooks, None))

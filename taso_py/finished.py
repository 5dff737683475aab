"""A model that is done: it can be looked at, and written with what leads to it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from taso_py.approximate.record import Approximation
from taso_py.errors import SuperoptError
from taso_py.files import write_atomically, write_text
from taso_py.onnx_io.artifact import Artifact, CopiedFile, GivenProto, data_file, model_files
from taso_py.providers.record import (
    Placement,
    ProviderRun,
    remove_stale_record,
    require_no_record,
    session_file,
    write_session,
)

if TYPE_CHECKING:
    import onnx

    from taso_py.difference.graph import Graph


class Evidence(Protocol):
    """What leads from the original to the result; written down on demand."""

    def certificate(self, optimised: Path | onnx.ModelProto) -> str:
        """The text of a certificate for the result, which stands in this file or is this proto."""
        ...

    def decisions(self, measured: Mapping[str, Any]) -> str:
        """The text of the decisions; ``measured`` is for whoever reviews them."""
        ...

    def graphs(self) -> tuple[Graph, Graph]:
        """The original's graph and the result's, to be compared."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedModel:
    """What `optimize` and `apply` return in common."""

    output: Path | None = None
    output_sha256: str | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    """Of the files, external data included; None for a result that was not saved."""
    artifact: Artifact = field(repr=False)
    evidence: Evidence | None = field(default=None, repr=False)
    """What leads to the model, for `save_certificate`."""
    sources: tuple[Path, ...] = field(default=(), repr=False)
    """MODEL and its external data: files that `save` must never overwrite."""

    @property
    def model(self) -> onnx.ModelProto:
        """The resulting model, all weights inside; built on every access."""
        return self.artifact.proto()

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files of both models, which nothing that is written beside them may replace."""
        if self.output is None:
            return self.sources
        return (*self.sources, self.output, data_file(self.output), session_file(self.output))

    @property
    def ran(self) -> ProviderRun | None:
        """How the result is run, where that was chosen and stands beside it; None: as the options said."""
        return None

    @property
    def as_given(self) -> bool:
        """Whether the model came back as it was."""
        return isinstance(self.artifact, CopiedFile | GivenProto)

    def save(self, path: str | PathLike[str], *, force: bool = False) -> Self:
        """Write the model atomically, external data to ``<path>.data`` first; self with `output` filled.

        Raises OutputError; a file that exists is overwritten only by `force`, the input model never.  A session file
        of another model that is in the way goes with what is overwritten.
        """
        target = Path(path)
        if self.ran is None:
            require_no_record(target, force=force)
        write_atomically(target, lambda folder: self.write_into(folder, target), sources=self.sources, force=force)
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if self.ran is None:
            remove_stale_record(target, digest)
        before = total_bytes(self.sources)
        after = before if self.as_given else total_bytes(model_files(target))
        return dataclasses.replace(self, output=target, output_sha256=digest, bytes_before=before, bytes_after=after)

    def write_into(self, folder: Path, target: Path) -> None:
        """Write into ``folder`` what belongs at ``target`` and beside it: how it is run, if that was chosen."""
        self.artifact.write(folder, target)
        if self.ran is not None:
            write_session(self.ran, folder, target, self._approximation_words())

    def _approximation_words(self) -> str | None:
        """What its session changes in its values; None: nothing."""
        return None

    def save_certificate(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write all that leads from the original to this model, for `taso_py.certify`; save the model first.

        Raises OutputError like `save`.
        """
        self._write_beside(path, self._evidence().certificate(self.output or self.model), force=force)

    def _evidence(self) -> Evidence:
        if self.evidence is None:
            raise SuperoptError("this result holds nothing that leads to it")
        return self.evidence

    def _write_beside(self, path: str | PathLike[str], text: str, *, force: bool) -> None:
        """Write a text; the models are never overwritten."""
        write_text(Path(path), text, sources=self.kept, force=force)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedModel(FinishedModel):
    """A finished model that may run on a provider of its own, or with less precision there."""

    provider: ProviderRun | None = field(default=None, repr=False)
    """How its sessions were made where one provider was named; None: by default, or as `placement` says."""
    placement: Placement | None = None
    """On which of several providers it runs, and what that alone gains; None where one was named."""
    approximation: Approximation | None = None
    """What became of an error budget, which no proof speaks of; None where there was none."""

    @property
    def approximate(self) -> bool:
        """Whether the resulting model computes something else within an error budget: then it is not proved."""
        return self.approximation is not None and self.approximation.applied

    @property
    def ran(self) -> ProviderRun | None:
        """How the result is run, which stands beside it; None: in a session by default, on the CPU provider."""
        told = self.approximation
        hinted = told.provider if told is not None and told.session_words() is not None else None
        return hinted or self.placement or self.provider

    def _approximation_words(self) -> str | None:
        return None if self.approximation is None else self.approximation.session_words()


def total_bytes(files: Sequence[Path]) -> int | None:
    """Of a model's files together; None where there are none, or one cannot be looked at."""
    try:
        return sum(file.stat().st_size for file in files) or None
    except OSError:
        return None

"""`superopt verify`: prove the rule library, or look up that it is proved."""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, progress_on_stderr, takes
from taso_py.options import VerifyDisplay, VerifyOptions


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Prove the rules.",
    examples=(
        "superopt verify",
        "superopt verify my.rules",
        "superopt verify --only matmul-shared-weight --fresh",
    ),
)
@click.argument("files", type=FILE, nargs=-1)
@takes(options=VerifyOptions, display=VerifyDisplay)
def verify(files: tuple[Path, ...], options: VerifyOptions, display: VerifyDisplay) -> None:
    """Prove the rules of FILES (default: the library) for all sizes, or refute them by a counterexample.

    A proof names the numbers of axes and element types that it covers, and is about finite real numbers:
    docs/proofs.md says what it claims.

    Every law must be proved, unless the header of its file promises otherwise ("# promise: refuted"); exit code 1
    if one is not as promised. A verdict on record counts while rule, prover and operators stay the same, whichever
    Z3 found it; --anew, before a release, proves without the record and demands that it says the same.

    A proof that an instance contradicts is a bug of superopt: the rule is refused, law, proof and both sides are
    written to superopt-disagreement-ID.json in the current directory, and the exit code is 70.
    """
    from taso_py.report.verification import require_agreement

    with progress_on_stderr(display.verbosity) as progress:
        found = api.verify(files, options, progress=progress)
    emit(found.to_json() if display.as_json else found.text())
    require_agreement(found)
    found.require_expected()

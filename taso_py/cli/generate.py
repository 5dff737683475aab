"""`superopt generate`: discover rules by enumeration, prove them, keep those from which the others follow."""

from __future__ import annotations

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, progress_on_stderr, takes
from taso_py.options import GenerateDelivery, GenerateOptions


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Discover rules and prove them.",
    examples=(
        "superopt generate --ops Neg,Relu,Abs -o found.rules",
        "superopt generate --ops MatMul,Transpose --max-operators 2 --workers 2",
        "superopt generate --ops Neg,Add --max-operators 2 --checkpoint halfway",
    ),
)
@takes(options=GenerateOptions, delivery=GenerateDelivery)
def generate(options: GenerateOptions, delivery: GenerateDelivery) -> None:
    """Enumerate terms of up to --max-operators operators, and write the laws between them that are proved.

    Equal values are found by fingerprints over finite fields, generalised to symbolic sizes and attributes, tested in
    ONNX Runtime and proved for all sizes; a law that follows from others is left out. The file is the same for any
    number of workers, and `superopt optimize --rules FILE` loads it.
    """
    from taso_py.report.delivery import require_writable
    from taso_py.report.generation import is_generated

    replace = options.force or (options.resume and is_generated(delivery.output))
    require_writable(delivery.output, force=replace)
    with progress_on_stderr(delivery.verbosity) as progress:
        found = api.generate(options, progress=progress)
    found = found.save(delivery.output, force=replace)
    emit(found.to_json() if delivery.as_json else found.text(undecided=delivery.show_unknown))

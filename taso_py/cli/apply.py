"""`superopt apply`: make the steps again that an earlier run decided on."""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, takes
from taso_py.options import ApplyDelivery, ApplyOptions
from taso_py.options.field import files_named
from taso_py.streams import LEVELS, say


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Make the steps again that optimize decided on, without timing.",
    examples=(
        "superopt apply model.onnx decisions.json",
        "superopt apply model.onnx decisions.json -o faster.onnx --certificate faster.json",
        "superopt apply retrained.onnx decisions.json --partial",
    ),
)
@click.argument("model", type=FILE)
@click.argument("decisions", type=FILE)
@takes(options=ApplyOptions, delivery=ApplyDelivery)
def apply(model: Path, decisions: Path, options: ApplyOptions, delivery: ApplyDelivery) -> None:
    """Rewrite MODEL by the steps in DECISIONS, which `superopt optimize --record` wrote; nothing is timed.

    The same MODEL gives the same bytes on any machine. DECISIONS is not believed: every rule must be proved, every
    condition is decided again on the weights at hand, so that a retrained MODEL of the same graph is welcome, and the
    outputs are compared. Exit code 1 if a step does not hold or the outputs differ; then nothing is written.
    """
    from taso_py.report.delivery import delivered, require_deliverable

    require_deliverable(model, delivery, reads=(decisions, *files_named(options)), copied=False)
    found = delivered(api.apply(model, decisions, options), model, delivery)
    for note in found.notes:
        say(f"superopt: {note}", level=LEVELS["warning"])
    emit(found.to_json() if delivery.as_json else found.text())

"""`superopt optimize`: the main command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit, exit_code_after
from taso_py.cli.shared import FILE, SETTINGS, progress_on_stderr, takes
from taso_py.options import Delivery, Options
from taso_py.stop import SIGNALS, StopFlag, stop_on_interrupt
from taso_py.streams import say

if TYPE_CHECKING:
    from taso_py.result import Result


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Make a model faster without changing what it computes.",
    examples=(
        "superopt optimize model.onnx",
        "superopt optimize model.onnx faster.onnx --shape batch=8 --threads 2 --time-budget 60",
        "superopt optimize model.onnx -o faster.onnx --certificate faster.json --report faster.md",
    ),
)
@click.argument("model", type=FILE)
@takes(options=Options, delivery=Delivery)
def optimize(model: Path, options: Options, delivery: Delivery) -> None:
    """Find a faster model that computes the same function as MODEL, check it, measure it, write it to OUT."""
    from taso_py.report.delivery import delivered, require_deliverable

    delivery.require_compatible(options)
    require_deliverable(model, delivery)
    verbosity = -1 if delivery.quiet else delivery.verbosity
    with stop_on_interrupt(StopFlag(), SIGNALS) as stop:
        with progress_on_stderr(verbosity) as progress:
            result = api.optimize(model, options, progress=progress, stop=stop)
        result = delivered(result, model, delivery)
    _present(result, delivery)
    if stop.signal is not None:
        raise click.exceptions.Exit(exit_code_after(stop.signal))


def _present(result: Result, delivery: Delivery) -> None:
    from taso_py.report.document import write_report
    from taso_py.report.terminal import result_text, sentence

    if delivery.report is not None:
        write_report(result, delivery.report, force=delivery.force)
    for note in result.notes:
        say(f"superopt: {note}")
    if delivery.as_json:
        emit(result.to_json())
    else:
        emit(sentence(result) if delivery.quiet else result_text(result))
    if delivery.min_speedup is not None:
        result.require_speedup(delivery.min_speedup)

"""`superopt optimize`: the main command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py import api
from taso_py.cli.outcome import emit, exit_code_after
from taso_py.cli.shared import FILE, SETTINGS, progress_on_stderr, takes
from taso_py.options import Delivery, Options
from taso_py.stop import SIGNALS, StopFlag, stop_on_interrupt
from taso_py.streams import say

if TYPE_CHECKING:
    from taso_py.result import Result


@click.command(context_settings=SETTINGS, short_help="Make a model faster without changing what it computes.")
@click.argument("model", type=FILE)
@takes(options=Options, delivery=Delivery)
def optimize(model: Path, options: Options, delivery: Delivery) -> None:
    """Find a faster model that computes the same function as MODEL, check it, measure it, write it to OUT."""
    from taso_py.report.delivery import delivered, require_deliverable
    from taso_py.report.pipeline import failures_told, tell_pipeline

    verbosity = -1 if delivery.quiet else delivery.verbosity
    with failures_told(model, delivery):
        delivery.require_compatible(options)
        require_deliverable(model, delivery)
        with stop_on_interrupt(StopFlag(), SIGNALS) as stop:
            with progress_on_stderr(verbosity) as progress:
                result = api.optimize(model, options, progress=progress, stop=stop)
            result = delivered(result, model, delivery).judged(delivery.conditions)
            if delivery.record is not None:
                result.save_decisions(delivery.record, force=delivery.force)
    tell_pipeline(result, model, delivery)
    _present(result, delivery)
    result.require_gate()
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

"""`superopt optimize`: the main command."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit, exit_code_after
from taso_py.cli.shared import FILE, SETTINGS, progress_on_stderr, takes
from taso_py.errors import FileTakenError, OutputError
from taso_py.options import Delivery, Options
from taso_py.options.field import files_named
from taso_py.options.text import demand
from taso_py.stop import SIGNALS, Ended, Interrupted, StopFlag, stop_on_interrupt
from taso_py.streams import LEVELS, say

if TYPE_CHECKING:
    from taso_py.result import Result


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Make a model faster without changing what it computes.",
    examples=(
        "superopt optimize model.onnx",
        "superopt optimize model.onnx faster.onnx --shape batch=8 --threads 2",
        "superopt optimize model.onnx -o faster.onnx --certificate faster.json --report faster.html",
        "superopt optimize model.onnx faster.onnx --ep auto",
    ),
)
@click.argument("model", type=FILE)
@click.argument("out", type=FILE, required=False)
@takes(options=Options, delivery=Delivery)
def optimize(model: Path, out: Path | None, options: Options, delivery: Delivery) -> None:
    """Find a faster model that computes the same function as MODEL, check it, measure it, write it to OUT.

    Where OUT is the result for the same model, options and machine already, it says so and is done. Where it is a copy
    of MODEL, as a run leaves it that finds nothing faster, the search begins again.

    With --ep auto, or a list as in --ep cpu,openvino, MODEL is raced across providers, rewrites are searched for on the
    best two, and MODEL and what was found are raced on both; OUT.session.json beside OUT then says how
    superopt.session(OUT) makes a session of it.
    """
    if out is not None:
        delivery = _into(out, delivery)
    # From the first moment to the last: a signal while libraries are imported, or while the report is written, too.
    with stop_on_interrupt(StopFlag(time.monotonic()), SIGNALS) as stop:
        _optimize(model, options, delivery, stop)
        if stop.signal is not None:
            raise click.exceptions.Exit(exit_code_after(stop.signal))


def _optimize(model: Path, options: Options, delivery: Delivery, stop: StopFlag) -> None:
    from taso_py.report.delivery import delivered, require_deliverable
    from taso_py.report.pipeline import failures_told, tell_pipeline

    verbosity = -1 if delivery.quiet else delivery.verbosity
    with failures_told(model, delivery):
        delivery.require_compatible(options)
        over, placed = False, options.may_have_session_file
        try:
            require_deliverable(model, delivery, reads=files_named(options), placed=placed)
        except FileTakenError as error:
            if error.path != delivery.target(model):
                raise
            over = _is_copy(model, options, delivery, stop)
            if not over:
                return
            require_deliverable(model, delivery, over=over, reads=files_named(options), placed=placed)
        with progress_on_stderr(verbosity, stop) as progress:
            result = api.optimize(model, options, progress=progress, stop=stop)
        result = delivered(result, model, delivery, over=over).judged(delivery.conditions)
        if delivery.record is not None:
            result.save_decisions(delivery.record, force=delivery.force)
    tell_pipeline(result, model, delivery)
    _present(result, delivery, stop)
    result.require_gate()


def _into(out: Path, delivery: Delivery) -> Delivery:
    """The same with OUT as it stands behind MODEL; UsageError where --output names it as well."""
    twice = click.get_current_context().get_parameter_source("output") is ParameterSource.COMMANDLINE
    demand(not twice, f"OUT {out} and --output {delivery.output} are both given: keep one")
    return replace(delivery, output=out)


def _is_copy(model: Path, options: Options, delivery: Delivery, stop: StopFlag) -> bool:
    """Whether the file in the way is only MODEL again; otherwise it is said that it is the result already.

    FileTakenError with the reason where it is not, Ended where a signal comes before that is known.
    """
    output = delivery.target(model)
    try:
        with progress_on_stderr(-1 if delivery.quiet else delivery.verbosity) as progress, stop.abandoning():
            found = api.standing(model, output, options, progress=progress)
    except Interrupted:
        raise Ended(stop.signal or signal.SIGINT) from None
    if found.copy:
        return True
    why = found.unlike
    if found.current and (asked := delivery.more_than_model):
        why = f"it is the result already, but {asked} asks for more"
    if why is not None:
        words = f"exists already: {why}; choose another name, or replace it by what a new search finds: --force"
        raise FileTakenError(f"{output} {words}", output)
    emit(found.to_json() if delivery.as_json else found.sentence())
    return False


def _present(result: Result, delivery: Delivery, stop: StopFlag) -> None:
    from taso_py.report.document import write_report
    from taso_py.report.terminal import result_text, sentence

    if delivery.report is not None:
        write_report(result, delivery.report, force=delivery.force)
    for note in result.notes:
        say(f"superopt: {note}", level=LEVELS["warning"])
    if delivery.as_json:
        told = result.to_json()
    else:
        told = sentence(result) if delivery.quiet else result_text(result, delivery.certificate)
    try:
        emit(told)
    except OutputError:
        if stop.signal != getattr(signal, "SIGHUP", None):  # else it went with the terminal, and the model is written
            raise

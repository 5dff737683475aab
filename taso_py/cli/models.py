"""`superopt inspect`, `bench`, `check` and `diff`: look at models without changing them."""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, takes
from taso_py.errors import MismatchError, TimeBudgetError
from taso_py.options import BenchOptions, CheckOptions, DiffDelivery, DiffOptions, Display, InspectOptions
from taso_py.streams import LEVELS, say


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Operators, parameters, FLOPs and memory of a model.",
    examples=(
        "superopt inspect model.onnx",
        "superopt inspect model.onnx --shape batch=8 --json",
        "superopt inspect model.onnx --profile --threads 2",
    ),
)
@click.argument("model", type=FILE)
@takes(options=InspectOptions, display=Display)
def inspect(model: Path, options: InspectOptions, display: Display) -> None:
    """Operators, parameters, FLOPs, bytes moved and peak activation memory of MODEL."""
    from taso_py.report.terminal import inspection_text

    inspection = api.inspect(model, options)
    for note in inspection.notes:
        say(f"superopt: {note}", level=LEVELS["warning"])
    emit(inspection.to_json() if display.as_json else inspection_text(inspection))


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Time models against each other.",
    examples=(
        "superopt bench model.onnx faster.onnx",
        "superopt bench model.onnx faster.onnx --shape batch=8 --threads 2",
        "superopt bench model.onnx --rounds 50 --block 0.1 --json",
    ),
)
@click.argument("models", type=FILE, nargs=-1, required=True)
@takes(options=BenchOptions, display=Display)
def bench(models: tuple[Path, ...], options: BenchOptions, display: Display) -> None:
    """Time MODELS in alternating blocks on the same inputs; ratios are against the first.

    Under an error budget: exit code 1 if one of them does not keep it against the first.
    """
    from taso_py.report.benchmark import benchmark_text

    benchmark = api.bench(models, options)
    for note in benchmark.notes:
        say(f"superopt: {note}", level=LEVELS["warning"])
    emit(benchmark.to_json() if display.as_json else benchmark_text(benchmark))
    if benchmark.beyond is not None:
        raise MismatchError(benchmark.beyond)


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Do two models compute the same function?",
    examples=(
        "superopt check model.onnx faster.onnx",
        "superopt check model.onnx faster.onnx --shape batch=8 --seed 7",
        "superopt check model.onnx faster.onnx --input x=x.npy --json",
    ),
)
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@takes(options=CheckOptions, display=Display)
def check(first: Path, second: Path, options: CheckOptions, display: Display) -> None:
    """Run FIRST and SECOND on the same inputs and compare; exit code 1 if they differ.

    If nodes that both have are also made to go either way, so that no branch is left out.
    Under an error budget SECOND may differ by so much on each sample of the calibration file, or on random data.
    """
    from taso_py.report.comparison import comparison_json, comparison_text

    report = api.check(first, second, options)
    for remark in (*report.warnings, *report.notes):
        say(f"superopt: {remark}", level=LEVELS["warning"])
    if display.as_json:
        emit(comparison_json(first, second, report))
    if report.stop_reason == "time budget":
        raise TimeBudgetError(report.reason or "no verdict")
    if not report.passed:
        raise MismatchError(report.reason or f"{first} and {second} differ")
    if not display.as_json:
        emit(comparison_text(first, second, report))


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="What differs between two models?",
    examples=(
        "superopt diff model.onnx faster.onnx",
        "superopt diff model.onnx faster.onnx --report diff.html",
        "superopt diff model.onnx faster.onnx --ignore-names --json",
    ),
)
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@takes(options=DiffOptions, delivery=DiffDelivery)
def diff(first: Path, second: Path, options: DiffOptions, delivery: DiffDelivery) -> None:
    """What differs between FIRST and SECOND: changed places before and after, operators, sizes, inputs and outputs.

    Names of values and the order of nodes are no difference. Nothing is run: whether two different graphs compute the
    same is for superopt check. Exit code 0, whatever differs.
    """
    from taso_py.report.delivery import require_report_writable

    require_report_writable(delivery, first, second)
    found = api.diff(first, second, options)
    if delivery.report is not None:
        found.save_report(delivery.report, force=delivery.force)
    emit(found.to_json() if delivery.as_json else found.text())

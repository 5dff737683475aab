"""`superopt inspect`, `superopt bench` and `superopt check`: look at models without changing them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, data_options, json_option, option, runtime_options
from taso_py.errors import MismatchError, UsageError
from taso_py.options import Options, parse_ep_options, parse_inputs, parse_shapes

if TYPE_CHECKING:
    from taso_py.backend.protocol import WorkerConfig
    from taso_py.backend.timing import BenchReport

FILE = click.Path(path_type=Path)


@click.command(context_settings=SETTINGS, short_help="Operators, parameters, FLOPs and memory of a model.")
@click.argument("model", type=FILE)
@option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=SIZES",
    help="Sizes of an input or a symbol (repeatable).",
)
@json_option
def inspect(model: Path, shapes: tuple[str, ...], as_json: bool) -> None:
    """Operators, parameters, FLOPs, bytes moved and peak activation memory of MODEL."""
    sizes = parse_shapes(shapes)

    from taso_py.files import require_model_file
    from taso_py.report.terminal import inspection_text
    from taso_py.run import pipeline

    require_model_file(model)
    inspection = pipeline.inspect(model, sizes)
    emit(inspection.to_json() if as_json else inspection_text(inspection))


@click.command(context_settings=SETTINGS, short_help="Time models against each other.")
@click.argument("models", type=FILE, nargs=-1, required=True)
@runtime_options
@data_options
@option("--rounds", type=click.IntRange(min=2), default=20, show_default=True, help="Paired rounds.")
@option("--block", type=click.FloatRange(min=0.01), default=0.25, show_default=True, metavar="SECONDS",
              help="Length of one model's block in a round.")  # fmt: skip
@json_option
def bench(models: tuple[Path, ...], rounds: int, block: float, as_json: bool, **arguments: Any) -> None:
    """Time MODELS in alternating blocks on the same inputs; ratios are against the first."""
    options = _options(arguments)
    _preflight(models)

    from taso_py.backend.protocol import ModelRef
    from taso_py.backend.timing import bench as run_bench
    from taso_py.check.facts import interface_difference, read_facts
    from taso_py.check.inputs import make_feeds, override_shapes
    from taso_py.check.shapes import resolve_shapes
    from taso_py.files import load_arrays

    facts = [read_facts(ModelRef.of(model)) for model in models]
    for model, other in zip(models[1:], facts[1:], strict=True):
        if (reason := interface_difference(facts[0], other)) is not None:
            raise UsageError(f"{model} cannot be timed against {models[0]}: {reason}")
    arrays = load_arrays(options.inputs)
    sizes = resolve_shapes(facts[0].inputs, {**options.shapes, **override_shapes(arrays)})
    feeds = make_feeds(facts[0].inputs, sizes, seed=options.seed, overrides=arrays)
    config = _config(options)
    report = run_bench(models, config, feeds, rounds=rounds, block_s=block, seed=options.seed)
    circumstances = {"threads": config.threads, "ep": config.ep, "shapes": dict(sizes.shapes)}
    emit(_bench_json(models, report, circumstances) if as_json else _bench_text(report, config, sizes.describe()))


@click.command(context_settings=SETTINGS, short_help="Do two models compute the same function?")
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@runtime_options
@data_options
@json_option
def check(first: Path, second: Path, as_json: bool, **arguments: Any) -> None:
    """Run FIRST and SECOND on the same inputs and compare; exit code 1 if they differ."""
    options = _options(arguments)
    _preflight((first, second))

    from taso_py.check.check import check_models
    from taso_py.files import load_arrays

    report = check_models(
        first,
        second,
        _config(options),
        workloads=(options.shapes,) if options.shapes else (),
        overrides=load_arrays(options.inputs),
        seed=options.seed,
    )
    for remark in (*report.warnings, *report.notes):
        click.echo(f"superopt: {remark}", err=True)
    if as_json:
        emit(_check_json(first, second, report))
    if not report.passed:
        raise MismatchError(report.reason or f"{first} and {second} differ")
    if not as_json:
        emit(
            f"{first} and {second} agree on {len(report.cases)} sets of inputs: largest relative error "
            f"{report.max_rel_error:.1e}, tolerance {report.tolerance:.1e}"
        )


def _options(arguments: dict[str, Any]) -> Options:
    """The part of the options that these commands know, validated like all of them."""
    return Options(
        ep_options=parse_ep_options(arguments.pop("ep_options")),
        shapes=parse_shapes(arguments.pop("shapes")),
        inputs=parse_inputs(arguments.pop("inputs")),
        **arguments,
    )


def _preflight(models: Sequence[Path]) -> None:
    from taso_py.backend.runtime import require_runtime
    from taso_py.files import require_model_file

    require_runtime()
    for model in models:
        require_model_file(model)


def _config(options: Options) -> WorkerConfig:
    from taso_py.backend.protocol import WorkerConfig
    from taso_py.backend.runtime import available_threads

    return WorkerConfig(
        ep=options.provider,
        ep_options=tuple(options.ep_options.items()),
        threads=options.threads or available_threads(),
        ort_level=options.ort_level,
    )


def _bench_text(report: BenchReport, config: WorkerConfig, shapes: str) -> str:
    from rich.console import Group

    from taso_py.report.content import TextTable, three_digits
    from taso_py.report.terminal import render, table

    rows = tuple(
        (
            row.name,
            *(three_digits(value) for value in (row.latency_ms.p50, row.latency_ms.p90, row.latency_ms.p99)),
            f"{row.speedup.median:.3f}",
            f"{row.speedup.low:.3f} to {row.speedup.high:.3f}",
        )
        for row in report.rows
    )
    header = ("model", "p50 ms", "p90 ms", "p99 ms", "times faster", "95 % interval")
    title = f"{report.rounds} paired rounds, threads {config.threads}, {config.ep}, {shapes}"
    return render(Group(table(TextTable(title, header, rows, frozenset(range(1, 6))))))


def _bench_json(models: Sequence[Path], report: BenchReport, circumstances: dict[str, Any]) -> str:
    from taso_py.result import plain

    rows = [{**plain(row), "path": str(model)} for model, row in zip(models, report.rows, strict=True)]
    head = {"schema": "superopt.bench/1", "rounds": report.rounds, **plain(circumstances)}
    return json.dumps({**head, "models": rows}, indent=2)


def _check_json(first: Path, second: Path, report: Any) -> str:
    from taso_py.result import plain

    names = ("passed", "reason", "max_rel_error", "max_abs_error", "tolerance", "own_error")
    more = ("reference_error", "failing_case", "worst", "cases", "warnings", "notes", "elapsed_s")
    head = {"schema": "superopt.check/1", "first": str(first), "second": str(second)}
    return json.dumps(head | {name: plain(getattr(report, name)) for name in names + more}, indent=2)

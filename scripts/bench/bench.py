"""Optimise models of the zoo, run other tools on the same files, and time all results together.

    python -m scripts.bench.bench                        the whole zoo
    python -m scripts.bench.bench nasrnn mobileone_s0
    python -m scripts.bench.bench some/model.onnx --time-budget 300
    python -m scripts.bench.bench --tools generated      beside the library, the generated rules alone

Every model is timed in one new process by paired blocks: original, ours, the other tools' and, where there is
one, the hand-written reference graph. Exits with 1 when "never slower" failed for some model.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from scripts.bench import report, zoo
from scripts.bench.report import Column, Row
from scripts.bench.tools import (
    ToolRun,
    node_count,
    run_generated,
    run_onnxscript,
    run_onnxsim,
    run_onnxslim,
    run_ort_transformers,
    run_ours,
)
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.runtime import available_threads, cpu_name, require_runtime
from taso_py.backend.statistics import Interval, bootstrap_interval
from taso_py.check.facts import read_facts
from taso_py.check.inputs import make_feeds
from taso_py.check.shapes import resolve_shapes
from taso_py.errors import ModelError, SuperoptError, WorkerError

# Sessions are made anew this often: where a session lies in memory can favour it by a percent while it lives.
GROUPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one bench run holds fixed."""

    out: Path
    zoo: Path
    rounds: int
    threads: int
    block_s: float
    options: tuple[str, ...]
    tools: tuple[str, ...]

    @property
    def environment(self) -> dict[str, Any]:
        """Where the figures hold."""
        distribution, version = require_runtime()
        return {
            "cpu": cpu_name(), "threads": self.threads, distribution: version, "rounds": self.rounds,
            "options": shlex.join(self.options),
        }  # fmt: skip


def time_together(
    models: Sequence[Path], feeds: Feeds, settings: Settings
) -> tuple[list[list[float]], dict[Path, str]]:
    """Seconds as ``result[round][model]`` in one new worker, and why some models were left out.

    A model that ONNX Runtime cannot load or run is dropped; a first model that fails raises its error.
    """
    failures: dict[Path, str] = {}
    rounds: list[list[float]] = []
    with Worker(WorkerConfig(threads=settings.threads)) as worker:
        for model in models:
            try:
                handle = worker.open(model)
                worker.run(handle, feeds)
                worker.close(handle)
            except (ModelError, WorkerError) as error:
                if model == models[0]:
                    raise
                failures[model] = str(error)
        alive = [model for model in models if model not in failures]
        for group in range(GROUPS):
            order = alive if group % 2 == 0 else alive[::-1]
            handles = {model: worker.open(model) for model in order}
            count = -(-(settings.rounds - len(rounds)) // (GROUPS - group))
            rounds += worker.time_blocks(
                [handles[model] for model in alive], [feeds] * len(alive),
                rounds=count, block_s=settings.block_s,
            )  # fmt: skip
            for handle in handles.values():
                worker.close(handle)
    return rounds, failures


def feeds_for(model: Path) -> Feeds:
    """Normal inputs at the shapes that the optimiser assumes by default."""
    facts = read_facts(ModelRef.of(model))
    return make_feeds(facts.inputs, resolve_shapes(facts.inputs, {}))


def speedup(rounds: Sequence[Sequence[float]], before: int, after: int) -> Interval:
    """Median and interval of the per-round ratios before/after."""
    return bootstrap_interval([row[before] / row[after] for row in rounds])


def assess(model: Path, name: str, runs: Sequence[ToolRun], reference: Path | None, settings: Settings) -> Row:
    """Time all distinct files of one model and put the figures together; ``runs[0]`` is ours."""
    files = [model, *(run.output for run in runs if run.output and not run.same_bytes)]
    files += [reference] if reference else []
    rounds, failures = time_together(files, feeds_for(model), settings)
    index = {file: i for i, file in enumerate(file for file in files if file not in failures)}

    def column(run: ToolRun) -> Column:
        place = index.get(run.output) if run.output else None
        failure = run.failure or (failures.get(run.output) if run.output else None)
        measured = None if place is None else speedup(rounds, 0, place)
        growth = run.output.stat().st_size / model.stat().st_size if run.output else None
        over_ours = speedup(rounds, mine, place or 0) if run is not runs[0] and failure is None else None
        return Column(
            run.tool, run.nodes, run.seconds, run.same_bytes, measured, failure=failure, growth=growth,
            over_ours=over_ours,
        )  # fmt: skip

    mine = index.get(runs[0].output, 0) if runs[0].output else 0  # the same bytes run as the original
    ours, *others = map(column, runs)
    hand = index.get(reference) if reference else None
    return Row(
        model=name,
        nodes=node_count(model),
        latency_ms=1000 * median(row[0] for row in rounds),
        improved=(runs[0].result or {}).get("improved"),
        ours=ours,
        others=tuple(others),
        reference=None if hand is None else speedup(rounds, 0, hand),
        share=None if hand is None or ours.failure else speedup(rounds, hand, mine),
        result=runs[0].result,
    )


TOOLS: Mapping[str, Callable[[Path, Path, Settings], ToolRun]] = {
    "onnxsim": lambda model, output, _: run_onnxsim(model, output),
    "onnxslim": lambda model, output, _: run_onnxslim(model, output),
    "onnxscript": lambda model, output, _: run_onnxscript(model, output),
    "ort-transformers": lambda model, output, _: run_ort_transformers(model, output),
    "generated": lambda model, output, s: run_generated(model, output, threads=s.threads, options=s.options),
}
"""What may be run beside the library."""


def bench_model(model: Path, settings: Settings) -> Row:
    """Run all tools on one model, then time their results."""
    name = model.stem

    def target(tool: str) -> Path:
        return settings.out / f"{name}.{tool}.onnx"

    runs = [run_ours(model, target("superopt"), threads=settings.threads, options=settings.options)]
    runs += [TOOLS[tool](model, target(tool), settings) for tool in settings.tools]
    for run in runs:
        click.echo(f"{name}: {run.tool} {run.failure or 'done'} ({run.seconds:.1f} s)", err=True)
    reference = zoo.reference_path(model)
    return assess(model, name, runs, reference if reference.is_file() else None, settings)


def locate(name: str, zoo_dir: Path) -> Path:
    """The file of a zoo name, exported first if it is missing; any other name is a path already."""
    if name in zoo.ZOO:
        zoo_dir.mkdir(parents=True, exist_ok=True)
        if not (zoo_dir / f"{name}.onnx").is_file():
            zoo.export(name, zoo_dir)
        return zoo_dir / f"{name}.onnx"
    return Path(name)


def require_known(names: Sequence[str]) -> None:
    """Raise click.UsageError for a name that is neither in the zoo nor a file, before anything is run."""
    for name in names:
        if name not in zoo.ZOO and not Path(name).is_file():
            raise click.UsageError(f"{name!r} is neither a file nor in the zoo; see scripts/bench/zoo.py --list")


DIRECTORY = click.Path(file_okay=False, path_type=Path)


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, metavar="[NAME|MODEL]...")
@click.option("--out", type=DIRECTORY, default=Path("bench_output"), show_default=True)
@click.option("--zoo", "zoo_dir", type=DIRECTORY, default=zoo.DEFAULT_OUT, show_default=True)
@click.option("--rounds", type=click.IntRange(min=20), default=21, show_default=True)
@click.option("--block", type=float, default=0.25, show_default=True, help="Seconds of runs per block.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: the CPUs this process may use.")
@click.option("--time-budget", type=float, default=120.0, show_default=True, help="Of each optimisation.")
@click.option(
    "--tools",
    default=("onnxsim", "onnxslim", "onnxscript", "ort-transformers"),
    show_default=True,
    multiple=True,
    type=click.Choice(list(TOOLS)),
    help="What is run beside the library (repeatable).",
)
@click.option("--extra", default="", help="More options for `superopt optimize`, in one quoted string.")
def main(
    *, names: tuple[str, ...], out: Path, zoo_dir: Path, rounds: int, block: float,
    threads: int | None, time_budget: float, tools: tuple[str, ...], extra: str,
) -> None:  # fmt: skip
    require_known(names)
    options = ("--time-budget", f"{time_budget:g}", *shlex.split(extra))
    settings = Settings(
        out=out,
        zoo=zoo_dir,
        rounds=rounds,
        threads=threads or available_threads(),
        block_s=block,
        options=options,
        tools=tools,
    )
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    try:
        for name in names or zoo.ZOO:
            rows.append(bench_model(locate(name, zoo_dir), settings))
            report.write(rows, settings.environment, out)  # an interrupted bench keeps what it has
    except SuperoptError as error:
        raise click.ClickException(str(error)) from error
    _present(rows, out)


def _present(rows: Sequence[Row], out: Path) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200).print(report.terminal_table(rows))
    for line in (line for row in rows for line in row.missed):
        click.echo(f"goal missed: {line}")
    click.echo(report.means_text(rows))
    failed = [row.model for row in rows if row.verdict.failed]
    listed = f": {', '.join(failed)}" if failed else ""
    click.echo(f"{out / 'bench.md'}: {len(rows)} models, {len(failed)} failed{listed}")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()

"""Optimise models of the zoo, run other tools on the same files, and time all results together.

    python -m scripts.bench.bench                        the whole zoo
    python -m scripts.bench.bench nasrnn mobileone_s0
    python -m scripts.bench.bench some/model.onnx --time-budget 300
    python -m scripts.bench.bench --tools generated      beside the library, the generated rules alone
    python -m scripts.bench.bench --tools without-bundles    beside the whole program, one without a part of its search
    python -m scripts.bench.bench --ep auto --ep-python .venv/openvino/bin/python --out bench_eps_output
    python -m scripts.bench.bench --ep auto --ep-python ... --budget 1e-2 --nncf-python ... --out bench_budget_output

Every model is timed in one new process by paired blocks: original, ours, the other tools' and, where there is
one, the hand-written reference graph. Exits with 1 when "never slower" failed for some model.

With --ep or --budget it is a contest of other kinds: the original and our results on each provider, and with a budget
what ONNX Runtime's and NNCF's quantisers make, each in a process of its own, all timed in the same rounds. What is in
--out already is kept, so that a run may be continued. Exits with 1 where ours is below the best of the others.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.table import Table

from scripts.bench import contest_report, report, zoo
from scripts.bench.ablated import PARTS
from scripts.bench.contest import run as run_contest
from scripts.bench.contestants import Contest, Who
from scripts.bench.feeds import feeds_for
from scripts.bench.report import Column, Row
from scripts.bench.tools import (
    ToolRun,
    node_count,
    run_ablated,
    run_generated,
    run_onnxscript,
    run_onnxsim,
    run_onnxslim,
    run_ort_transformers,
    run_ours,
)
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, WorkerConfig
from taso_py.backend.runtime import available_threads, cpu_name, require_runtime
from taso_py.backend.statistics import Interval, bootstrap_interval
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


def _without(part: str, model: Path, output: Path, settings: Settings) -> ToolRun:
    return run_ablated(part, model, output, threads=settings.threads, options=settings.options)


TOOLS: Mapping[str, Callable[[Path, Path, Settings], ToolRun]] = {
    "onnxsim": lambda model, output, _: run_onnxsim(model, output),
    "onnxslim": lambda model, output, _: run_onnxslim(model, output),
    "onnxscript": lambda model, output, _: run_onnxscript(model, output),
    "ort-transformers": lambda model, output, _: run_ort_transformers(model, output),
    "generated": lambda model, output, s: run_generated(model, output, threads=s.threads, options=s.options),
    **{f"without-{part}": partial(_without, part) for part in PARTS},
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
FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, metavar="[NAME|MODEL]...")
@click.option("--out", type=DIRECTORY, default=Path("bench_output"), show_default=True)
@click.option("--zoo", "zoo_dir", type=DIRECTORY, default=zoo.DEFAULT_OUT, show_default=True)
@click.option("--rounds", type=click.IntRange(min=20), default=21, show_default=True)
@click.option(
    "--block", type=float, default=0.25, show_default=True, help="Seconds of runs per block; not of a contest."
)
@click.option("--threads", type=click.IntRange(min=1), help="Default: the CPUs this process may use.")
@click.option("--time-budget", type=float, default=120.0, show_default=True, help="Of each optimisation.")
@click.option(
    "--tools",
    default=("onnxsim", "onnxslim", "onnxscript", "ort-transformers"),
    show_default=True,
    multiple=True,
    type=click.Choice(list(TOOLS)),
    help="What is run beside the library (repeatable); not in a contest.",
)
@click.option("--extra", default="", help="More options for `superopt optimize`, in one quoted string.")
@click.option("--ep", default="cpu", show_default=True, help="As superopt's: anything else than cpu is a contest.")
@click.option("--ep-python", type=FILE, multiple=True, help="Python of an environment with OpenVINO (repeatable).")
@click.option("--budget", type=click.FloatRange(0, min_open=True), help="Relative error allowed, as in 1e-2.")
@click.option("--nncf-python", type=FILE, help="Python of an environment with nncf, onnx and onnxruntime.")
@click.option("--contestant", "only", multiple=True, type=click.Choice([*map(str, Who)]), help="Default: all.")
@click.option("--samples", type=DIRECTORY, help="Folder with NAME.npz of models that have samples; others are drawn.")
def main(
    *, names: tuple[str, ...], out: Path, zoo_dir: Path, rounds: int, block: float, threads: int | None,
    time_budget: float, tools: tuple[str, ...], extra: str, ep: str, ep_python: tuple[Path, ...],
    budget: float | None, nncf_python: Path | None, only: tuple[str, ...], samples: Path | None,
) -> None:  # fmt: skip
    require_known(names)
    options = ("--time-budget", f"{time_budget:g}", *shlex.split(extra))
    threads = threads or available_threads()
    wanted = names or tuple(zoo.ZOO)
    if ep == "cpu" and budget is None:
        if ep_python or nncf_python or samples or only:
            raise click.UsageError(
                "--ep-python, --nncf-python, --contestant and --samples are for --ep auto or --budget"
            )
        settings = Settings(
            out=out, zoo=zoo_dir, rounds=rounds, threads=threads, block_s=block, options=options, tools=tools
        )
        _bench(wanted, settings)
        return
    _contest(
        {Path(name).stem: partial(locate, name, zoo_dir) for name in wanted},
        Contest(
            out=out, rounds=rounds, threads=threads, options=options, ep=ep, ep_python=ep_python,
            nncf_python=nncf_python, budget=budget, samples=samples, only=only,
        ),
    )  # fmt: skip


def _bench(names: Sequence[str], settings: Settings) -> None:
    settings.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    try:
        for name in names:
            rows.append(bench_model(locate(name, settings.zoo), settings))
            report.write(rows, settings.environment, settings.out)  # an interrupted bench keeps what it has
    except SuperoptError as error:
        raise click.ClickException(str(error)) from error
    _present(rows, settings.out)


def _contest(models: Mapping[str, Callable[[], Path]], contest: Contest) -> None:
    rows = run_contest(models, contest, partial(click.echo, err=True))
    _print(contest_report.terminal_table(rows))
    for line in (*contest_report.failures(rows), contest_report.means_text(rows), *contest_report.clauses(rows)):
        click.echo(line)
    below = [row.model for row in rows if row.below or row.failure is not None]
    click.echo(f"{contest.out / 'contest.md'}: {len(rows)} models, {len(below)} below the best rival or failed")
    if below:
        sys.exit(1)


def _print(table: Table) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _present(rows: Sequence[Row], out: Path) -> None:
    _print(report.terminal_table(rows))
    for line in (line for row in rows for line in row.missed):
        click.echo(f"goal missed: {line}")
    click.echo(report.means_text(rows))
    click.echo(report.searches_text(rows))
    failed = [row.model for row in rows if row.verdict.failed]
    listed = f": {', '.join(failed)}" if failed else ""
    click.echo(f"{out / 'bench.md'}: {len(rows)} models, {len(failed)} failed{listed}")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()

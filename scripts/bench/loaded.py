"""What `optimize` says of a model on a busy machine: many runs beside processes that never rest.

    python -m scripts.bench.loaded nasrnn resnet50 --runs 20 --busy 2

Each run has a cache of its own.  First one run on the machine as it is; then it is busy, and each verdict is held
against the quiet one: an interval that excludes the quiet speed-up, or a gain that the quiet machine does not know,
is counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scripts.bench import zoo
from scripts.bench.bench import DIRECTORY, locate, require_known
from scripts.bench.tools import run_ours
from taso_py.backend.runtime import available_threads


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one run says: the speed-up with its interval, or why there is none."""

    reason: str
    speedup: float | None
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, result: dict[str, Any]) -> Verdict:
        if not result["improved"]:
            return cls(result["reason"]["code"], None, None)
        return cls("improved", result["speedup"], (result["speedup_low"], result["speedup_high"]))

    def excludes(self, quiet: float) -> bool:
        """Whether a gain was claimed whose interval does not hold ``quiet``."""
        return self.interval is not None and not self.interval[0] <= quiet <= self.interval[1]

    def __str__(self) -> str:
        if self.speedup is None or self.interval is None:
            return self.reason
        return f"{self.speedup:.3f} [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """``count`` processes at equal priority that never rest."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def verdict(model: Path, time_budget_s: float) -> Verdict:
    """Of one run with a new cache."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--time-budget", f"{time_budget_s:g}", "--cache", str(Path(folder) / "cache.sqlite"))
        run = run_ours(model, Path(folder) / "out.onnx", threads=available_threads(), options=options)
        if run.result is None:
            raise click.ClickException(f"{model}: {run.failure}")
        return Verdict.of(run.result)


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, required=True, metavar="NAME|MODEL...")
@click.option("--zoo", "zoo_dir", type=DIRECTORY, default=zoo.DEFAULT_OUT, show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--busy", "count", type=click.IntRange(min=0), default=2, show_default=True, help="Processes beside.")
@click.option("--time-budget", type=float, default=60.0, show_default=True, help="Of each optimisation.")
def main(*, names: tuple[str, ...], zoo_dir: Path, runs: int, count: int, time_budget: float) -> None:
    require_known(names)
    for name in names:
        model = locate(name, zoo_dir)
        quiet = verdict(model, time_budget)
        click.echo(f"{model.stem}, quiet: {quiet}")
        said: list[Verdict] = []
        with busy(count):
            for number in range(runs):
                said.append(verdict(model, time_budget))
                click.echo(f"{model.stem}, {number + 1} of {runs}: {said[-1]}")
        click.echo(summary(model.stem, quiet, said))


def summary(name: str, quiet: Verdict, said: list[Verdict]) -> str:
    """How often which verdict was given, and how many contradict the quiet one."""
    counts = ", ".join(f"{count} {reason}" for reason, count in Counter(v.reason for v in said).most_common())
    against = sum(v.excludes(quiet.speedup or 1.0) for v in said)
    return f"{name}: {counts}; {against} of {len(said)} intervals exclude the quiet value ({quiet})"


if __name__ == "__main__":
    main()

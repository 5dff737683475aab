"""A classifier with learned weights under an error budget: the file types of `magika`, judged on files of this machine.

    pip install --no-deps --target magika_package magika==1.0.3
    python -m scripts.bench.magika magika_package --budget 0.2 --budget 0.5

The package ships its network (3.2 MB of ONNX) and reads files into its inputs itself.  Files are drawn by a seed; equal
inputs count once.  The first go to `superopt optimize --calibration`, the others judge what comes out, as its session
file says: on how many is its first class that of the original?  Exits with 1 where that is less than 99 % for a budget.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from scripts.bench.contestants import deployed_config
from scripts.bench.tools import run_ours
from taso_py.approximate.measure import relative_error
from taso_py.arrays import Array
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
from taso_py.backend.runtime import available_threads

GOAL = 0.99
_INPUT = "bytes"
_DRAWN = 6
"""Files that are looked at for each that is wanted: many are too short for the network, or equal to others."""

# Under our own interpreter with the package on its path, which is no dependency of ours; what it reads with is private.
_READ = """
import json, pathlib, sys, numpy, magika
from magika import Magika
target, wanted = sys.argv[1], int(sys.argv[2])
reader, rows = Magika(), {}
for line in sys.stdin:
    try:
        _, found = reader._get_result_or_features_from_path(pathlib.Path(json.loads(line)))
    except (OSError, AssertionError):
        continue
    if found is not None:
        row = numpy.array([*found.beg, *found.mid, *found.end], numpy.int32)
        rows.setdefault(row.tobytes(), row)
    if len(rows) == wanted:
        break
numpy.savez(target, rows=numpy.stack(list(rows.values())))
print(reader._model_path)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of one budget."""

    budget: float
    words: str
    """What was approximated, or why nothing was."""
    speedup: str
    error: float | None
    """On the samples that `optimize` tested by."""
    agreeing: float
    """The share of the other inputs with the original's first class."""
    largest: float
    """The largest relative error among them."""

    def row(self) -> str:
        """A row of the table in docs/precision.md."""
        error = "-" if self.error is None else f"{100 * self.error:.2g} %"
        told = [f"{100 * self.budget:g} %", self.words, self.speedup, error]
        return f"| {' | '.join([*told, f'{100 * self.agreeing:.1f} %', f'{100 * self.largest:.2g} %'])} |"


def draw(folder: Path, count: int, seed: int) -> list[Path]:
    """Files below a folder, no links, in an order that the seed decides."""
    found = sorted(
        Path(where) / name for where, _, names in os.walk(folder) for name in names
    )  # fmt: skip
    real = [path for path in found if path.is_file() and not path.is_symlink() and path.stat().st_size > 0]
    order = np.random.default_rng(seed).permutation(len(real))
    return [real[number] for number in order[:count]]


def read(package: Path, files: Sequence[Path], wanted: int, target: Path) -> tuple[Array, Path]:
    """The inputs that the package makes of files, different ones alone, and the file of its network."""
    lines = "".join(f"{json.dumps(str(path))}\n" for path in files)
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(target), str(wanted)], input=lines, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    if done.returncode:
        raise click.ClickException(f"{package}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    with np.load(target) as found:
        return found["rows"], Path(done.stdout.strip())


def answers(model: Path, config: WorkerConfig, rows: Array) -> list[Array]:
    """What a model gives for each input by itself, as it is deployed."""
    with Worker(config) as worker:
        handle = worker.open(model)
        return [next(iter(worker.run(handle, {_INPUT: row[np.newaxis]}).values())) for row in rows]


def compared(expected: Sequence[Array], found: Sequence[Array]) -> tuple[float, float]:
    """The share with the same first class, and the largest relative error."""
    same = [int(one.argmax()) == int(other.argmax()) for one, other in zip(expected, found, strict=True)]
    return float(np.mean(same)), max(relative_error(*pair) for pair in zip(expected, found, strict=True))


def approximated(result: dict[str, Any]) -> tuple[str, str, float | None]:
    """Of the JSON of a run: what is approximated, how much faster all together is, and the error that was tested."""
    told = result["approximation"]
    exact = result["speedup"] or 1.0
    if not told["applied"]:
        return f"nothing: {told['reason']['words']}", f"{exact:.2f}", None
    made = [layer for layer in told["layers"] if layer["approximated"]]
    calibrator = f" {told['calibrator']}" if told["calibrator"] else ""
    words = f"{told['kind']}{calibrator}, {len(made)} of {len(told['layers'])} layers"
    interval = f"{told['speedup']:.2f} [{told['speedup_low']:.2f}, {told['speedup_high']:.2f}]"
    return words, f"{exact:.2f} proved, {interval}", told["error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The network, the samples of its inputs for `optimize`, and others with what the original gives for them."""

    model: Path
    calibration: Path
    judged: Array
    expected: Sequence[Array]
    out: Path
    threads: int
    options: tuple[str, ...]

    def under(self, budget: float) -> Figures:
        """Optimise under a budget and judge the result by inputs that it has not seen."""
        output = self.out / f"magika.{budget:g}.onnx"
        asked = (*self.options, "--error-budget", f"rel={budget:g}", "--calibration", str(self.calibration))
        run = run_ours(self.model, output, threads=self.threads, options=asked)
        if run.output is None or run.result is None:
            raise click.ClickException(f"budget {budget:g}: {run.failure}")
        found = answers(run.output, deployed_config(run.output, self.threads), self.judged)
        return Figures(budget, *approximated(run.result), *compared(self.expected, found))


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("package", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--budget", "budgets", type=float, multiple=True, default=(0.2, 0.5), show_default=True)
@click.option("--files", type=click.Path(exists=True, path_type=Path), default=Path("/usr"), show_default=True)
@click.option("--given", type=click.IntRange(min=10), default=500, show_default=True, help="Inputs for optimize.")
@click.option("--judged", type=click.IntRange(min=1), default=1000, show_default=True, help="Inputs that judge.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="Default: the CPUs this process may use.")
@click.option("--time-budget", type=float, default=120.0, show_default=True, help="Of each optimisation.")
@click.option("--extra", default="", help="More options for `superopt optimize`, in one quoted string.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("magika_output"))
def main(
    *, package: Path, budgets: tuple[float, ...], files: Path, given: int, judged: int, seed: int,
    threads: int | None, time_budget: float, extra: str, out: Path,
) -> None:  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    wanted, threads = given + judged, threads or available_threads()
    rows, model = read(package, draw(files, _DRAWN * wanted, seed), wanted, out / "files.npz")
    if len(rows) < wanted:
        raise click.ClickException(f"{files} has {len(rows)} files that the network is for, {wanted} are needed")
    calibration = out / "calibration.npz"
    np.savez(calibration, bytes=rows[:given])  # the input's name
    expected = answers(model, WorkerConfig(threads=threads), rows[given:])
    task = Task(
        model=model, calibration=calibration, judged=rows[given:], expected=expected, out=out, threads=threads,
        options=("--time-budget", f"{time_budget:g}", *shlex.split(extra)),
    )  # fmt: skip
    names = ("budget", "made less precise", "speed-up", "error on unseen files", f"of {judged} others: same class")
    click.echo(f"| {' | '.join((*names, 'largest error'))} |")
    click.echo(f"|{'---|' * 6}")
    found = []
    for budget in budgets:
        found.append(task.under(budget))
        click.echo(found[-1].row())
    if any(one.agreeing < GOAL for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()

"""How true the search's prices are: what it predicts of candidates, against what a race measures of the same.

    python -m scripts.bench.prices                       the whole zoo
    python -m scripts.bench.prices googlenet --time-budget 60

The finalists of a run are raced as ever, and beside them states that were drawn by seed among all that the search has
priced.  Two of them, or one and the original, that differ by more than 3 % are a pair: its sign is right where the
prices say the same.  An error is that of a predicted speed-up, relative to the measured one.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from scripts.bench import zoo
from scripts.bench.bench import DIRECTORY, locate, require_known
from taso_py.options import Options
from taso_py.progress import SilentProgress
from taso_py.run import pipeline
from taso_py.run.candidates import shortlist
from taso_py.search.state import Found, State
from taso_py.stop import StopFlag

_DRAWN = 4
_UNEQUAL = 0.03
"""Share by which two models differ that are told apart."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Predicted and measured speed-ups of one model's candidates."""

    model: str
    pairs: tuple[tuple[float, float], ...]

    def errors(self) -> list[float]:
        """Of each prediction, relative to what was measured."""
        return sorted(abs(predicted / measured - 1) for predicted, measured in self.pairs)

    def signs(self) -> list[bool]:
        """Of each two that differ, the original among them: whether the prices say which is faster."""
        told = [(1.0, 1.0), *self.pairs]
        unequal = [(a, b) for a, b in itertools.combinations(told, 2) if abs(a[1] / b[1] - 1) > _UNEQUAL]
        return [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in unequal]


def prices(model: Path, seed: int, time_budget_s: float) -> Prices:
    """Those of one run with a new cache."""

    def with_drawn(found: Found, start_cost: float, limit: int) -> list[State]:
        chosen = shortlist(found, start_cost, limit)
        known = [state.table.nodes for state in chosen]
        others = [state for state in found.states if state.trace and state.table.nodes not in known]
        return [*chosen, *random.Random(seed).sample(others, min(_DRAWN, len(others)))]

    with tempfile.TemporaryDirectory() as folder:
        options = Options(time_budget_s=time_budget_s, cache=Path(folder) / "cache.sqlite")
        result = pipeline.optimize(model, options, progress=SilentProgress(), stop=StopFlag(), finalists=with_drawn)
    told = ((one.predicted_speedup, one.speedup) for one in result.raced)
    return Prices(model.stem, tuple((p, m) for p, m in told if p is not None and m is not None))


def line(name: str, rows: Sequence[Prices]) -> str:
    """The figures of some models together."""
    errors = sorted(error for row in rows for error in row.errors())
    signs = [sign for row in rows for sign in row.signs()]
    if not errors:
        return f"{name}: nothing was raced"
    tenth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    right = f"{sum(signs)} of {len(signs)} pairs" if signs else "no pairs"
    return f"{name}: {len(errors)} raced, median error {median(errors):.1%}, nine in ten {tenth:.1%}, signs {right}"


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, metavar="[NAME|MODEL]...")
@click.option("--zoo", "zoo_dir", type=DIRECTORY, default=zoo.DEFAULT_OUT, show_default=True)
@click.option("--time-budget", type=float, default=60.0, show_default=True, help="Of each optimisation.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
def main(*, names: tuple[str, ...], zoo_dir: Path, time_budget: float, seed: int) -> None:
    """The command line."""
    require_known(names)
    rows: list[Prices] = []
    for name in names or zoo.ZOO:
        rows.append(prices(locate(name, zoo_dir), seed, time_budget))
        click.echo(line(rows[-1].model, rows[-1:]))
    click.echo(line("all", rows))


if __name__ == "__main__":
    main()

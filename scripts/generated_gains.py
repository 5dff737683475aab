"""What each rule of a file gains on models by itself: the places where it pays, timed inside ONNX Runtime.

    python scripts/generated_gains.py rules/generated.rules zoo_models/nasrnn.onnx zoo_models/repvgg_a0.onnx

Every rule is applied once, wherever it matches, and its places are timed as the search would time them (with
merges of n siblings as one move); a gain is the sum over the places that got faster, as a share of the model's time.
Rules that only prepare others show no gain here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from taso_py.backend.client import Worker
from taso_py.backend.runtime import cpu_name
from taso_py.cost.cache import Cache
from taso_py.cost.measured import MeasuredCost
from taso_py.cost.roofline import Roofline
from taso_py.options import Options
from taso_py.prove.verify import proved
from taso_py.rules.library import Library, load
from taso_py.search.canonical import Canonical
from taso_py.search.moves import Rewriter
from taso_py.search.view import View
from taso_py.setting import Setting, prepare

_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rule does to a model: its sites, seconds saved where it pays, and the model's time in seconds."""

    rule: str
    model: str
    sites: int
    saved: float
    whole: float

    @property
    def share(self) -> float:
        """Of the model's time."""
        return self.saved / self.whole


@click.command(help=__doc__)
@click.argument("rules", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seconds", default=60.0, show_default=True, help="For one model.")
@click.option("--least", default=0.002, show_default=True, help="Smallest share of a model's time that is listed.")
def main(rules: Path, models: Sequence[Path], seconds: float, least: float) -> None:
    """Prints the rules, the most useful first."""
    library = load([rules])
    library = Library(proved(library.search, allow_bounded=False), library.canonical, library.cleanup)
    with Cache(None) as cache:
        found = [gain for model in models for gain in gains(model, library, cache, seconds)]
    table = Table("rule", "model", "sites", "gain")
    for gain in sorted(found, key=lambda g: -g.share):
        if gain.share >= least:
            table.add_row(gain.rule, gain.model, str(gain.sites), f"{100 * gain.share:.1f} %")
    Console(width=120).print(table)


def gains(path: Path, library: Library, cache: Cache, seconds: float) -> Iterator[Gain]:
    """What each rule gains on a model, in the order in which they were tried."""
    setting = prepare(path, Options())
    canonical = Canonical.of(library.canonical, library.cleanup)
    rewriter = Rewriter.of(library.search, canonical)
    view = View.of(setting.loaded.model, canonical.expand, setting.loaded.folder.value)
    with Worker(setting.config) as worker:
        whole = _seconds(worker, setting)
        deadline = time.monotonic() + seconds
        environment = f"{setting.config}|{worker.info().ort_version}|{cpu_name()}"
        cost = MeasuredCost(worker, cache, Roofline(setting.sizes), environment, deadline, setting.sizes)
        for group in rewriter.groups(rewriter.all_matches(view)):
            outcome = rewriter.apply(view, group, _ROUNDS)
            estimate = outcome and cost.difference(view.model, outcome.view.model)
            if outcome and not estimate:
                click.echo(f"{path.stem}: no time left for {group[0].rule.name}", err=True)
            if outcome and estimate:
                saved = -sum(min(0.0, part.seconds) for part in estimate.parts)
                yield Gain(group[0].rule.name, path.stem, len(outcome.sites), saved, whole)


def _seconds(worker: Worker, setting: Setting) -> float:
    handle = worker.open(setting.reference)
    try:
        return min(b[0] for b in worker.time_blocks([handle], [setting.feeds[0]], rounds=3, block_s=0.1))
    finally:
        worker.close(handle)


if __name__ == "__main__":
    main()

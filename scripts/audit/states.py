"""Write every state of a short search of random models, hold it against the promises to callers, and run it.

    python -m scripts.audit.states --random 300
    python -m scripts.audit.states --only branched --random 300 --first 1000

One process and its worker look at hundreds of rewritten models a minute where `robustness`, which starts the command
for each model, looks at twenty.  The models: the random ones of `random_models`, and `planted_models`, the left side
of one rule after the other, as they are, in float16, at other opsets and with functions around their nodes; those of
`wild_models`; those of `branched_models`, run with either condition; and `exporter_models`, one after the other.
What cannot be written, breaks a promise or computes other values is a finding, and the exit code is 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import click
import numpy as np
import onnx
from onnx import version_converter
from rich.progress import track

from scripts.audit.branched_models import branched_model
from scripts.audit.exporter_models import MODELS as ODD
from scripts.audit.exporter_models import exporter_model
from scripts.audit.function_models import with_functions
from scripts.audit.half_precision import halved
from scripts.audit.planted_models import planted_model
from scripts.audit.random_models import random_model
from scripts.audit.wild_models import wild_model
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, Outputs, WorkerConfig
from taso_py.check.compare import compare_outputs
from taso_py.check.facts import read_facts
from taso_py.check.inputs import make_feeds
from taso_py.check.shapes import resolve_shapes
from taso_py.cost.model import RooflineCost
from taso_py.cost.roofline import Roofline
from taso_py.errors import ModelError
from taso_py.graph.table import Table
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.rules.library import load as load_library
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from taso_py.search.rounding import rounding_bodies
from taso_py.search.strategy import Backtracking, Limits
from taso_py.search.view import View

OPSETS = (9, 11, 12, 13, 15, 18, 20, 21, 22)
CLOSE = 5e-3
"""The largest difference relative to the largest value of an output: what is wrong is mostly far off."""
SEARCH_S = 10.0

Model = tuple[onnx.ModelProto, list[Feeds]]
"""With the inputs that it is run on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one model."""

    states: int
    """Those that were looked at; -1 where ONNX Runtime does not run the model, or it is random."""
    findings: tuple[str, ...] = ()


def fed(model: onnx.ModelProto) -> Model:
    """A model with inputs that are made up."""
    inputs = read_facts(ModelRef.of(model.SerializeToString())).inputs
    return model, [make_feeds(inputs, resolve_shapes(inputs, {}))]


def branched(seed: int) -> Model:
    """A model of If nodes with either condition."""
    x = np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)
    ways = product((True, False), repeat=2)
    return branched_model(seed), [{"x": x, "c": np.array(c), "d": np.array(d)} for c, d in ways]


def wild(seed: int) -> Model:
    """A wild model with the inputs that come with it."""
    model, feeds = wild_model(seed)
    return model, [feeds]


def at_another_opset(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The model at one of `OPSETS`."""
    return version_converter.convert_version(model, OPSETS[seed % len(OPSETS)])


SOURCES: Mapping[str, Callable[[int], onnx.ModelProto]] = {"random": random_model, "planted": planted_model}
FORMS: Mapping[str, Callable[[onnx.ModelProto, int], onnx.ModelProto]] = {
    "": lambda model, seed: model,
    "float16": lambda model, seed: halved(model),
    "opset": at_another_opset,
    "functions": with_functions,
}


def _kind(source: str, form: str) -> Callable[[int], Model]:
    return lambda seed: fed(FORMS[form](SOURCES[source](seed), seed))


KINDS: Mapping[str, Callable[[int], Model]] = {
    **{f"{source}-{form}".strip("-"): _kind(source, form) for source in SOURCES for form in FORMS},
    "wild": wild,
    "branched": branched,
    "odd": lambda seed: fed(exporter_model(sorted(ODD)[seed % len(ODD)])),
}


def looked_at(worker: Worker, model: onnx.ModelProto, feeds: list[Feeds], most: int) -> Outcome:
    """At most so many states of a search, each written, judged and run."""
    content = model.SerializeToString()
    try:
        before, again = (_results(worker, content, feeds) for _ in range(2))
    except ModelError:
        return Outcome(-1)
    if _difference(before, again) is not None:
        return Outcome(-1)
    loaded = load(model)
    findings, count = [], 0
    for rules, table in _states(loaded, most):
        count += 1
        try:
            exported = export(loaded, table)
            reason = next(iter(check_contract(loaded.proto, exported)), None)
            reason = reason or _difference(before, _results(worker, serialize(exported), feeds))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            findings.append(f"{', '.join(rules)}: {' '.join(reason.split())}")
    return Outcome(count, tuple(findings))


def _states(loaded: Loaded, most: int) -> Iterator[tuple[list[str], Table]]:
    """Tables that rules lead to, however much slower they may be, and these rules."""
    library, roofline = load_library(), Roofline({})
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    limits = Limits(time.monotonic() + SEARCH_S, alpha=100.0, states=most)
    strategy = Backtracking(Rewriter.of(library.search, canonical), RooflineCost(roofline), roofline, limits)
    rounding, read = rounding_bodies(loaded.proto), loaded.folder.value
    view = View.of(loaded.table, canonical.expand, read, rounding=rounding, scopes=loaded.scopes)
    found = strategy.run(view, roofline.total(loaded.table), lambda: False, lambda count, best: None)
    for state in found.states[:most]:
        yield [step.rule for step in state.trace], state.table


def _results(worker: Worker, content: bytes, feeds: list[Feeds]) -> list[Outputs]:
    handle = worker.open(content)
    try:
        return [worker.run(handle, one) for one in feeds]
    finally:
        worker.close(handle)


def _difference(one: list[Outputs], other: list[Outputs]) -> str | None:
    """How results differ, in words."""
    deviations = (d for a, b in zip(one, other, strict=True) for d in compare_outputs(a, b))
    return next((d.describe() for d in deviations if d.relative > CLOSE), None)


@click.command(help=__doc__)
@click.option("--random", "count", type=int, default=50, show_default=True, help="Models of each kind.")
@click.option("--first", type=int, default=0, show_default=True, help="Their first seed.")
@click.option("--states", "most", type=int, default=25, show_default=True, help="At most so many of each model.")
@click.option("--only", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Only this kind (repeatable).")
def main(count: int, first: int, most: int, kinds: tuple[str, ...]) -> None:
    """Look at models of each kind, and tell of what was found."""
    wrong = False
    with Worker(WorkerConfig()) as worker:
        for kind in kinds or KINDS:
            outcomes = {seed: _outcome(worker, kind, seed, most) for seed in track(range(first, first + count), kind)}
            run = [one for one in outcomes.values() if one.states >= 0]
            print(f"{kind}: {len(run)} of {count} models run, {sum(one.states for one in run)} states")
            for seed, one in outcomes.items():
                for finding in one.findings[:1]:
                    wrong = True
                    print(f"  {kind}{seed}: {finding}")
    sys.exit(wrong)


def _outcome(worker: Worker, kind: str, seed: int, most: int) -> Outcome:
    try:
        model, feeds = KINDS[kind](seed)
    except RuntimeError:  # ONNX's converter knows no way to that opset
        return Outcome(-1)
    return looked_at(worker, model, feeds, most)


if __name__ == "__main__":
    main()

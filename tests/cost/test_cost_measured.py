"""The measured cost of rewritten places, on a worker with scripted times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import Info, WorkerConfig
from taso_py.cost import measured as measuring
from taso_py.cost.cache import Cache
from taso_py.cost.measured import MeasuredCost
from taso_py.cost.roofline import Roofline
from taso_py.errors import WorkerError
from taso_py.graph.table import Table
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model, rewriter, view_of

RULES = """
rule to-abs: Neg(x) => Abs(x)
rule to-exp: Neg(x) => Exp(x)
rule to-tanh: Neg(x) => Tanh(x)
"""


class Paced(Worker):
    """A worker on which an operator takes the same share of a slower or faster moment's pace."""

    def __init__(
        self, shares: Mapping[str, float], *, pace: float = 1.0, jitter: float = 0.0, broken: str = ""
    ) -> None:
        super().__init__(WorkerConfig())
        self.shares, self.pace, self.jitter, self.broken = shares, pace, jitter, broken
        self.opened: list[str] = []
        self.calls = 0

    def info(self) -> Info:
        return Info("1.0", (), 0)

    def open(self, model: Any, **_options: Any) -> int:
        (node,) = onnx.load_from_string(model.model).graph.node
        if node.op_type == self.broken:
            raise WorkerError("this one does not open")
        self.opened.append(node.op_type)
        return len(self.opened) - 1

    def close(self, handle: int) -> None:
        pass

    def time_blocks(self, handles: Any, feeds: Any, *, rounds: int = 6, **_options: Any) -> list[list[float]]:
        wobbles = [1 + self.jitter * (self.calls * rounds + k) for k in range(rounds)]
        self.calls += 1
        return [[self.pace * self.shares[self.opened[h]] * wobble for h in handles] for wobble in wobbles]


def tables() -> dict[str, Table]:
    """One operator, and what each rule makes of it."""
    loaded = load(model("agraph (float[4] x) => (float[4] y) {y = Neg(x)}"))
    rules, canonical = rewriter(RULES)
    view = view_of(loaded, canonical)
    found = {"Neg": view.table}
    for group in rules.groups(view, rules.all_matches(view)):
        outcome = rules.apply(view, group)
        assert outcome is not None
        (node,) = outcome.view.table.nodes.values()
        found[type(node.operator).__name__] = outcome.view.table
    assert set(found) == {"Neg", "Abs", "Exp", "Tanh"}
    return found


def cost(worker: Paced, cache: Cache, start: float = 100.0) -> MeasuredCost:
    return MeasuredCost(
        worker=worker,
        cache=cache,
        roofline=Roofline({}),
        environment="here",
        start=start,
        deadline=time.monotonic() + 60,
        sizes={},
    )


def seconds(measured: MeasuredCost, before: Table, after: Table) -> float:
    estimate = measured.difference(before, after)
    assert estimate is not None
    return estimate.seconds


def test_forms_of_one_place_are_compared_by_their_ratios_to_it(tmp_path: Path) -> None:
    """On a machine that is three times slower a smaller gain is more seconds; that must not choose it."""
    found = tables()
    worker = Paced({"Neg": 10.0, "Abs": 5.0, "Exp": 7.0})
    with Cache(tmp_path / "c.sqlite") as cache:
        measured = cost(worker, cache)
        assert seconds(measured, found["Neg"], found["Abs"]) == pytest.approx(-5.0)
        worker.pace = 3.0
        assert seconds(measured, found["Neg"], found["Exp"]) == pytest.approx(-3.0)
        # A later run has one price for the old form as well: the first that it meets.
        later = cost(worker, cache)
        assert seconds(later, found["Neg"], found["Exp"]) == pytest.approx(-9.0)
        assert seconds(later, found["Neg"], found["Abs"]) == pytest.approx(-15.0)
        assert worker.calls == 2


def test_no_place_costs_more_than_the_whole_original(tmp_path: Path) -> None:
    """The original was timed in a quiet moment, its only operator in a loud one: it gains no more than there is."""
    found = tables()
    with Cache(tmp_path / "c.sqlite") as cache:
        measured = cost(Paced({"Neg": 10.0, "Abs": 5.0}, pace=3.0), cache, start=10.0)
        assert seconds(measured, found["Neg"], found["Abs"]) == pytest.approx(-5.0)


def test_differences_below_the_noise_are_ties(tmp_path: Path) -> None:
    found = tables()
    with Cache(tmp_path / "c.sqlite") as cache:
        loud = Paced({"Neg": 10.0, "Abs": 9.0, "Exp": 4.0}, jitter=0.2)
        measured = cost(loud, cache)
        assert seconds(measured, found["Neg"], found["Abs"]) == 0.0
        assert loud.calls > 1, "near the noise more rounds are taken"
        assert seconds(measured, found["Neg"], found["Exp"]) == pytest.approx(-6.0)


def test_a_place_that_does_not_run_alone_is_estimated_and_not_remembered(tmp_path: Path) -> None:
    found = tables()
    with Cache(tmp_path / "c.sqlite") as cache:
        worker = Paced({"Neg": 10.0, "Tanh": 1.0}, broken="Tanh")
        measured = cost(worker, cache)
        expected = measured.roofline.difference(found["Neg"], found["Tanh"])
        assert seconds(measured, found["Neg"], found["Tanh"]) == pytest.approx(expected)
        assert cache.show().entries == 0


def test_nothing_is_timed_after_the_deadline(tmp_path: Path) -> None:
    found = tables()
    with Cache(tmp_path / "c.sqlite") as cache:
        measured = cost(Paced({"Neg": 10.0, "Abs": 5.0}), cache)
        measured.deadline = time.monotonic() - 1
        assert measured.difference(found["Neg"], found["Abs"]) is None


@pytest.mark.parametrize("fails", ["__init__", "tensor"])
def test_places_carry_their_weights_when_there_is_no_room_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(measuring.StoredWeights, fails, full)
    loaded = load(model("agraph (float[1,256] x) => (float[1,256] y) {y = MatMul(x, w)}", w=(256, 256)))
    with Cache(tmp_path / "c.sqlite") as cache, Worker(WorkerConfig()) as worker:
        rules, canonical = rewriter("rule twice: MatMul(x, w) => Neg(MatMul(x, Neg(w)))")
        view = view_of(loaded, canonical)
        (group,) = rules.groups(view, rules.all_matches(view))
        outcome = rules.apply(view, group)
        assert outcome is not None
        measured = MeasuredCost(
            worker=worker,
            cache=cache,
            roofline=Roofline({}),
            environment="here",
            start=1.0,
            deadline=time.monotonic() + 60,
            sizes={},
        )
        assert measured.difference(view.table, outcome.view.table) is not None
        assert cache.show().entries == 1

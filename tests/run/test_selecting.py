"""Moves are judged in the whole model; here its time is a table of operators, so that nothing depends on a clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from taso_py.graph.table import Table
from taso_py.onnx_io.load import load
from taso_py.run.selecting import Selection
from taso_py.search.moves import Rewriter
from taso_py.search.state import State, TraceStep
from taso_py.search.view import View
from tests.helpers.graphs import model, rewriter, running, view_of

LAWS = """
rule bad: Tanh(x) => Neg(Neg(Tanh(x)))
rule good: Exp(Log(x)) => Abs(x)
rule needed: Sqrt(x) => Log(x)
rule idle: Relu(Relu(x)) => Relu(x)
"""
GRAPH = """agraph (float[4] x) => (float[4] r) {
  a = Tanh(x) b = Sqrt(a) c = Exp(b) d = Relu(c) r = Relu(d)}"""
SECONDS = {"Tanh": 5.0, "Neg": 2.0, "Exp": 5.0, "Log": 6.0, "Sqrt": 5.0, "Abs": 1.0, "Relu": 1.0}


class Weighed(Selection):
    """A selection whose whole models take as long as their operators do together."""

    seconds: Mapping[str, float] = SECONDS

    def _ratio(self, one: State | None, other: State) -> float | None:
        return self._of(other.table) / self._of(self.start.table if one is None else one.table)

    def _of(self, table: Table) -> float:
        return sum(self.seconds[name] * count for name, count in running(table).items())


def walked(rules: Rewriter, start: View, *names: str) -> State:
    """The state after these rules, each with the same gain."""
    view, trace = start, list[TraceStep]()
    for name in names:
        found = [m for ms in rules.all_matches(view).values() for m in ms if m.rule.name == name]
        moved = rules.apply(view, found, 1)
        assert moved is not None, name
        view = moved.view
        done = {"sites": moved.sites, "tidied": moved.tidied, "table": view.table, "applied": moved.applied}
        trace.append(TraceStep(rule=name, before=1.0, after=0.9, **done))
    return State(view, rules.later(view), 0.5, 0.5, tuple(trace))


def selection(
    seconds: Mapping[str, float] = SECONDS, deadline: float | None = None, baseline: float = 0.001
) -> Weighed:
    loaded = load(model(GRAPH))
    rules, canonical = rewriter(LAWS)
    job = SimpleNamespace(
        start_cost=20.0, baseline=baseline, setting=SimpleNamespace(feeds=[{}]),
        stopped=lambda: False, roofline=SimpleNamespace(total=lambda table: 1.0),
    )  # fmt: skip
    chosen = Weighed(
        job, SimpleNamespace(barred=set()), rules, view_of(loaded, canonical), deadline or time.monotonic() + 60
    )
    chosen.seconds = seconds
    return chosen


def test_a_move_that_loses_in_the_whole_model_is_left_out() -> None:
    choice = selection()
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "bad", "idle")], None)
    assert [step.rule for step in best.trace] == ["idle"]


def test_a_move_that_makes_room_for_another_stays() -> None:
    choice = selection()
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "bad", "needed", "idle")], None)
    assert {step.rule for step in best.trace} == {"idle"}
    cheaper = selection({**SECONDS, "Log": 1.0})
    best, *_ = cheaper.best([walked(cheaper.rewriter, cheaper.start, "bad", "needed", "idle")], None)
    assert {step.rule for step in best.trace} == {"needed", "idle"}


def test_the_tidied_original_is_a_candidate_too() -> None:
    choice = selection()
    tidied = walked(choice.rewriter, choice.start, "idle")
    found = choice.best([walked(choice.rewriter, choice.start, "bad")], tidied)
    assert [[step.rule for step in state.trace] for state in found] == [["idle"]]


def test_nothing_is_selected_where_the_original_is_fastest() -> None:
    choice = selection()
    assert choice.best([walked(choice.rewriter, choice.start, "bad")], None) == []


def test_prices_are_those_of_the_whole_model_and_add_up() -> None:
    choice = selection({**SECONDS, "Log": 1.0})
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "needed", "idle")], None)
    assert best.cost == pytest.approx(20.0 * (5 + 1 + 5 + 1) / (5 + 5 + 5 + 1 + 1))
    assert best.trace[0].before == pytest.approx(20.0)
    assert best.trace[-1].after == pytest.approx(best.cost)
    assert all(a.after == pytest.approx(b.before) for a, b in zip(best.trace, best.trace[1:], strict=False))


def test_a_pair_that_would_end_after_the_deadline_is_not_begun() -> None:
    choice = selection(deadline=time.monotonic() + 60, baseline=10.0)
    assert choice.best([walked(choice.rewriter, choice.start, "idle")], None) == []


def test_after_the_deadline_nothing_is_timed() -> None:
    choice = selection(deadline=time.monotonic() - 1)
    assert choice.best([walked(choice.rewriter, choice.start, "idle")], None) == []
    assert choice.timed == 0

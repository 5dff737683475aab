"""States are priced from the last state before them that was timed as a whole model."""

from __future__ import annotations

import pytest

from taso_py.onnx_io.load import load
from taso_py.run.anchoring import Timed, anchored, at_share
from taso_py.search.moves import AppliedSite
from taso_py.search.state import Found, State, StopReason, TraceStep
from tests.helpers.graphs import model, rewriter, view_of

START = 0.010
"""Seconds of the original."""


def state(*gains: float, after: State | None = None) -> State:
    """A state some moves further on, each of which gains a share of the original's time by the search's prices."""
    rules, canonical = rewriter("rule r: Relu(Relu(x)) => Relu(x)")
    trace = list[TraceStep]() if after is None else list(after.trace)
    cost = START if after is None else after.cost
    for gain in gains:
        view = view_of(load(model("agraph (float[4] x) => (float[4] y) { y = Relu(x) }")), canonical)
        made = {"sites": (AppliedSite("r", (1,)),), "tidied": (), "table": view.table}
        trace.append(TraceStep(rule="r", before=cost, after=cost - gain * START, **made))
        cost -= gain * START
    return State(view, rules.later(view), cost, 0.0, tuple(trace))


def test_what_lies_behind_a_timed_state_is_priced_from_it() -> None:
    timed = state(0.2, 0.3)
    further, other = state(0.1, after=timed), state(0.45)
    found = anchored(Found((further, timed, other), StopReason.TIME, 3, simplest=timed), [Timed(timed, 1.1)], START)
    assert [s.cost / START for s in found.states] == pytest.approx([0.55, 1.1 * 0.4 / 0.5, 1.1])
    assert found.simplest is not None
    assert found.simplest.cost == pytest.approx(1.1 * START)
    for s in found.states:
        assert s.trace[0].before == START
        assert s.trace[-1].after == pytest.approx(s.cost)


def test_the_last_timed_state_counts() -> None:
    first = state(0.2)
    second = state(0.1, after=first)
    last = state(0.07, after=second)
    found = anchored(Found((last,), StopReason.TIME, 1), [Timed(first, 0.9), Timed(second, 0.6)], START)
    assert found.states[0].cost == pytest.approx(0.6 * 0.63 / 0.7 * START)


def test_prices_stay_where_nothing_was_timed() -> None:
    known = Found((state(0.2), state(0.1)), StopReason.SATURATED, 2)
    assert anchored(known, [], START) == known


def test_gains_of_moves_add_up_to_a_share() -> None:
    told = at_share(state(0.05, 0.1), 0.7, START)
    assert [step.before - step.after for step in told.trace] == pytest.approx([0.1 * START, 0.2 * START])
    lost = at_share(state(0.0, 0.0), 1.2, START)
    assert [step.before - step.after for step in lost.trace] == pytest.approx([-0.1 * START, -0.1 * START])

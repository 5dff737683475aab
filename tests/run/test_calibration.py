"""States that were not timed are priced with what the prices of their rules missed in those that were."""

from __future__ import annotations

import pytest

from taso_py.run.calibration import Timed, at_share, calibrated, most_telling
from tests.helpers.priced import START, found, state


def test_what_was_timed_costs_what_was_measured() -> None:
    timed = state(("a", 0.2), ("b", 0.3))
    told = calibrated(found(timed, simplest=timed), [Timed(timed, 1.1)], START)
    assert told.states[0].cost == pytest.approx(1.1 * START)
    assert told.simplest is not None
    assert told.simplest.cost == pytest.approx(1.1 * START)


def test_what_lies_behind_a_timed_state_is_priced_from_it() -> None:
    timed = state(("a", 0.2), ("b", 0.3))
    further = state(("c", 0.1), after=timed)
    told = calibrated(found(further), [Timed(timed, 0.75)], START)
    assert told.states[0].cost / START == pytest.approx(0.75 * 0.4 / 0.5, rel=0.02)
    assert told.states[0].trace[0].before == START
    assert told.states[0].trace[-1].after == pytest.approx(told.states[0].cost)


def test_what_shares_no_rule_with_a_timed_state_keeps_its_price() -> None:
    timed, other = state(("a", 0.2)), state(("b", 0.3))
    told = calibrated(found(other, timed), [Timed(timed, 1.0)], START)
    assert [s.cost / START for s in told.states] == pytest.approx([0.7, 1.0])


def test_a_rule_is_told_from_those_beside_it() -> None:
    """Both times agree if the third rule gains nothing: the price of a state with it alone is no gain either."""
    plain = state(("a", 0.2), ("b", 0.1))
    lucky = state(("a", 0.2), ("b", 0.1), ("c", 0.2))
    alone = state(("c", 0.2))
    told = calibrated(found(lucky, plain, alone), [Timed(plain, 0.7), Timed(lucky, 0.7)], START)
    assert {len(s.trace): s.cost / START for s in told.states}[1] == pytest.approx(1.0, abs=0.12)
    assert {len(s.trace): s.cost / START for s in told.states}[1] > 0.85


def test_a_large_gain_is_expected_to_miss_more_than_a_small_one() -> None:
    """What two rules miss together is laid on the one that gains ten times as much."""
    both, large, small = state(("a", 0.5), ("b", 0.02)), state(("a", 0.5)), state(("b", 0.02))
    told = calibrated(found(both, large, small), [Timed(both, 0.6)], START)
    shares = {s.trace[0].rule + str(len(s.trace)): s.cost / START for s in told.states}
    assert shares["a1"] / 0.5 > 1.2
    assert shares["b1"] / 0.98 < 1.02


def test_the_state_that_tells_most_shares_its_rules_with_others() -> None:
    others = [state(*[("common", 0.1)] * k) for k in range(1, 6)]
    alone = state(("rare", 0.1))
    told = most_telling(found(alone, *others), [], START, [])
    assert told is not None
    assert told.trace[0].rule == "common"
    seen = [other.table.nodes for other in others]
    assert most_telling(found(alone, *others), [], START, seen[1:]) in (alone, others[0])


def test_nothing_is_left_to_tell_where_prices_are_known() -> None:
    common = [state(*[("common", 0.01)] * k) for k in range(1, 6)]
    assert most_telling(found(*common), [Timed(common[4], 0.9)], START, []) is None
    assert most_telling(found(), [], START, []) is None


def test_prices_stay_where_nothing_was_timed() -> None:
    known = found(state(("a", 0.2)), state(("b", 0.1)))
    assert calibrated(known, [], START) == known


def test_gains_of_moves_add_up_to_a_share() -> None:
    told = at_share(state(("a", 0.05), ("b", 0.1)), 0.7, START)
    assert [step.before - step.after for step in told.trace] == pytest.approx([0.1 * START, 0.2 * START])
    lost = at_share(state(("a", 0.0), ("b", 0.0)), 1.2, START)
    assert [step.before - step.after for step in lost.trace] == pytest.approx([-0.1 * START, -0.1 * START])

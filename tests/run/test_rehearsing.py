"""The states that would be raced are timed as whole models first."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from taso_py.options import Options
from taso_py.run.calibration import Timed
from taso_py.run.rehearsing import candidates_wanted, rehearsed
from taso_py.run.run import Run
from taso_py.run.selecting import Selection
from taso_py.search.state import Found, State
from tests.helpers.priced import START, found, state


@dataclass
class Clock:
    """A selection whose whole models take a share of the original's time that follows from their rules."""

    shares: dict[str, float]
    left: int = 99
    timed: list[Timed] = field(default_factory=list)
    job: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            start_cost=START, options=SimpleNamespace(min_gain=0.01), clock=SimpleNamespace(budget=60.0)
        )
    )

    def against_original(self, measured: State, *, roughly: bool = False) -> Timed | None:
        """The state, timed as often as there is time."""
        if not self.left:
            return None
        self.left -= 1
        self.timed.append(Timed(measured, self.shares[measured.trace[-1].rule]))
        return self.timed[-1]


def looked_at(clock: Clock, states: Found, *chosen: State) -> Found:
    """What is known of the states before two of them are raced."""
    return rehearsed(cast("Selection", clock), states, chosen, 2)


def test_a_price_that_was_luck_is_found_out() -> None:
    lucky, honest = state(("lucky", 0.6)), state(("x", 0.0), ("honest", 0.3))
    told = looked_at(Clock({"lucky": 1.1, "honest": 0.7}), found(lucky, honest))
    assert [s.trace[-1].rule for s in told.states] == ["honest", "lucky"]
    assert [s.cost / START for s in told.states] == pytest.approx([0.7, 1.1])


def test_those_that_take_the_place_of_a_lucky_one_are_timed_too() -> None:
    places = [state(*[("x", 0.0)] * k, (f"r{k}", 0.5 - k / 100)) for k in range(5)]
    clock = Clock({"r0": 1.2, "r1": 1.2, "r2": 0.8, "r3": 0.9, "r4": 0.95})
    told = looked_at(clock, found(*places))
    assert {t.state.trace[-1].rule for t in clock.timed} >= {"r0", "r1", "r2", "r3"}
    assert told.states[0].cost / START == pytest.approx(0.8)


def test_what_promises_next_to_nothing_is_not_timed() -> None:
    clock = Clock({"a": 1.0})
    clock.job.clock.budget = 0.0
    looked_at(clock, found(state(("a", 0.001))))
    assert not clock.timed


def test_what_tells_of_others_is_timed_and_a_gain_that_no_price_showed_is_found() -> None:
    shy = [state(*[("x", 0.0)] * k, ("shy", -0.05)) for k in range(4)]
    clock = Clock({"shy": 0.6})
    told = looked_at(clock, found(*shy))
    assert clock.timed
    assert told.states[0].cost / START == pytest.approx(0.6)
    assert all(s.cost < START for s in told.states)


def test_without_time_the_prices_are_those_of_the_search() -> None:
    known = found(state(("a", 0.5)), state(("x", 0.0), ("b", 0.3)))
    assert rehearsed(Clock({}, left=0), known, [], 2) == known  # type: ignore[arg-type]


def test_what_was_chosen_in_the_whole_model_comes_first() -> None:
    chosen = state(("x", 0.0), ("x", 0.0), ("c", 0.2))
    told = looked_at(Clock({"a": 0.6, "c": 0.8}), found(state(("a", 0.5))), chosen)
    assert [s.table for s in told.selected] == [chosen.table]
    assert told.states[0] is told.selected[0]


def test_what_was_timed_against_others_only_is_timed_against_the_original() -> None:
    chosen = state(("x", 0.0), ("c", 0.4))
    clock = Clock({"c": 0.7})
    clock.timed.append(Timed(chosen, 0.6, derived=True))
    told = looked_at(clock, found(chosen), chosen)
    assert [s.cost / START for s in told.states] == pytest.approx([0.7, 0.7])
    assert told.selected[0].cost / START == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("run_s", "saved", "wanted"), [(0.02, 0.2, 6), (0.02, 0.001, 2), (0.2, 0.2, 6), (0.2, 0.001, 0), (0.2, 0.006, 6)]
)
def test_a_long_model_is_not_checked_for_a_gain_that_nothing_promises(run_s: float, saved: float, wanted: int) -> None:
    job = SimpleNamespace(options=Options(), stop=False, run_s=run_s, start_cost=START)
    assert candidates_wanted(cast("Run", job), found(state(("x", 0.0), ("a", saved)))) == wanted

"""Who is raced: the states that would be are timed as whole models first, and what that teaches corrects the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from taso_py.backend.blocks import is_long
from taso_py.run.calibration import at_share, calibrated, most_telling
from taso_py.run.candidates import shortlist
from taso_py.run.run import Run
from taso_py.run.selecting import Selection
from taso_py.search.state import Found, State

_RACED, _DOUBTFUL = 6, 2
"""Candidates that are checked and raced, and how many where none is priced as the gain that is asked for."""
_REHEARSED = 8
"""States that are timed at most because they would be raced."""
_TELLING, _TELLING_SHARE = 12, 0.1
"""States that are timed at most a second time, or for what they tell of others, and the share of the time budget."""


def promises(job: Run, state: State) -> bool:
    """Whether a state is priced as half of the gain that is asked for: prices may be wrong by the other half."""
    return job.start_cost >= (1 + job.options.min_gain / 2) * state.cost


def candidates_wanted(job: Run, found: Found) -> int:
    """How many states are checked and raced.

    None where none promises anything and runs take long: the check of one alone would take a quarter of the time.
    """
    if job.stop or not job.options.race:
        return 1
    if any(promises(job, state) for state in found.states):
        return _RACED
    return 0 if is_long(job.run_s) else _DOUBTFUL


def rehearsed(selection: Selection, found: Found, chosen: Sequence[State], limit: int = _RACED) -> Found:
    """What a search found, ``chosen`` states first, at prices that are measured for the ``limit`` that would be raced.

    The best of thousands of prices is the luckiest.  So that one is timed, all are priced anew, and again, until those
    on the shortlist are known, or time is up.  Those that promise less than half of the gain that is asked for are not.
    Then those of them are timed against the original that were only timed against others, and those that tell most
    about the rest, which may bring others onto the shortlist.
    """
    start_cost = selection.job.start_cost
    tried, telling, telling_s = 0, 0, _TELLING_SHARE * selection.job.clock.budget
    seen = [state.table.nodes for state in (*chosen, *(one.state for one in selection.timed))]
    anew = [one.state.table.nodes for one in selection.timed if not one.derived]
    while True:
        timed = {id(one.state.table): one.share for one in selection.timed}
        chosen = [at_share(s, timed.get(id(s.table), s.cost / start_cost), start_cost) for s in chosen]
        known = with_selected(calibrated(found, selection.timed, start_cost), chosen)
        promising = [s for s in shortlist(known, start_cost, limit) if promises(selection.job, s)]
        state = next((s for s in promising if s.table.nodes not in seen), None) if tried < _REHEARSED else None
        if state is not None:
            tried += 1
            selection.against_original(state)
        elif telling < _TELLING and telling_s > 0:
            begin, telling = time.monotonic(), telling + 1
            state = next((s for s in promising if s.table.nodes not in anew), None)
            roughly = state is None
            state = state or most_telling(found, selection.timed, start_cost, seen)
            if state is not None:
                selection.against_original(state, roughly=roughly)
            telling_s -= time.monotonic() - begin
        if state is None:
            return known
        seen.append(state.table.nodes)
        anew.append(state.table.nodes)


def with_selected(found: Found, chosen: Sequence[State]) -> Found:
    """What a search found, with the states whose moves pay in the whole model first."""
    return replace(found, states=(*chosen, *found.states), selected=tuple(chosen))

"""Who is raced: the states that would be are timed as whole models first, and what that teaches corrects the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taso_py.run.calibration import calibrated
from taso_py.run.candidates import shortlist
from taso_py.run.selecting import Selection
from taso_py.search.state import Found, State

_REHEARSED = 8
"""States that are timed at most."""


def rehearsed(selection: Selection, found: Found, chosen: Sequence[State], limit: int) -> Found:
    """What a search found, ``chosen`` states first, at prices that are measured for the ``limit`` that would be raced.

    The best of thousands of prices is the luckiest.  So that one is timed, all are priced anew, and again, until those
    on the shortlist are known, or time is up.  Those that promise less than half of the gain that is asked for are not.
    """
    start_cost, least = selection.job.start_cost, 1 + selection.job.options.min_gain / 2
    tried = list[State]()
    while True:
        known = with_selected(calibrated(found, selection.timed, start_cost), chosen)
        seen = [s.table.nodes for s in (*chosen, *tried, *(one.state for one in selection.timed))]
        promising = (s for s in shortlist(known, start_cost, limit) if least * s.cost <= start_cost)
        unseen = (s for s in promising if s.table.nodes not in seen)
        state = next(unseen, None) if len(tried) < _REHEARSED else None
        if state is None:
            return known
        tried.append(state)
        selection.against_original(state)


def with_selected(found: Found, chosen: Sequence[State]) -> Found:
    """What a search found, with the states whose moves pay in the whole model first."""
    return replace(found, states=(*chosen, *found.states), selected=tuple(chosen))

"""Making known moves again on a graph: each found anew, with all its conditions."""

from __future__ import annotations

from collections.abc import Iterable

from taso_py.cost.roofline import Roofline
from taso_py.search.moves import Rewriter
from taso_py.search.state import State, TraceStep
from taso_py.search.strategy import ROUNDS
from taso_py.search.view import View


def made_again(rewriter: Rewriter, start: View, steps: Iterable[TraceStep], roofline: Roofline) -> State | None:
    """The state after ``steps``, as far as they still match; at no cost.  None where none does.

    A step is asked for when those before it were made and what matches then is known.  Raises OutOfTime.
    """
    view, matches, trace = start, rewriter.later(start), list[TraceStep]()
    waiting = iter(steps)
    while True:
        known = matches()
        step = next(waiting, None)
        if step is None:
            break
        found = step.found_again(known)
        moved = rewriter.apply(view, found, ROUNDS) if found else None
        if moved is not None:
            view, matches = moved.view, rewriter.later(moved.view, (view, matches))
            trace.append(step.done_as(moved))
    if not trace:
        return None
    return State(view, rewriter.later(view), 0.0, roofline.total(view.table), tuple(trace))

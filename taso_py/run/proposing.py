"""Quick searches by the roofline whose ends are judged in the whole model, before any place is timed on its own.

The roofline knows nothing of what ONNX Runtime fuses, so that some rules that it likes cost time.  Which ones, a model
built without them tells; the next quick search goes on without them from the best that there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from taso_py.run.calibration import Timed
from taso_py.run.selecting import Selection
from taso_py.search.state import State

Quick = Callable[[frozenset[str], tuple[State, ...]], tuple[State, ...]]
"""States of a search without the barred rules that also goes on from the given states; best first."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Where the measured search may begin besides the original, and what it leaves out."""

    states: tuple[State, ...] = ()
    judged: tuple[Timed, ...] = ()
    """The best of them in the whole model, if it is faster than the original."""
    losers: frozenset[str] = frozenset()
    """Rules that cost time in the whole model."""


def proposed(selection: Selection, quick: Quick, tidied: State | None) -> Proposals:
    """Quick searches until none of their rules loses in the whole model, or until the selection's deadline.

    The bundles come first: what they gain no price of a single rule tells.
    """
    best = selection.bundled(tidied)
    losers, states = frozenset[str](), tuple[State, ...]()
    while time.monotonic() < selection.deadline:
        states = quick(losers, () if best is None else (best.state,))
        judged = selection.judged(states[0]) if states else None
        if judged is None:
            break
        if best is None or judged.best.share < best.share:
            best = judged.best
        if judged.losers <= losers:
            break
        losers |= judged.losers
    clean = [s for s in states if not any(step.rule in losers for step in s.trace)]
    if best is None or best.share >= 1:
        return Proposals(tuple(clean), (), losers)
    return Proposals((best.state, *clean), (best,), losers)

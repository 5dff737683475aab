"""A graph with its composite operators written out, where rules that know only the simple ones find more."""

from __future__ import annotations

import time
from collections.abc import Iterable

from taso_py.cost.roofline import Roofline
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonical, nothing
from taso_py.search.index import RuleIndex
from taso_py.search.moves import Rewriter
from taso_py.search.strategy import Exhaustive, State
from taso_py.search.view import View

_PASSES = 8
"""Most times that all laws have their turn: each brings what is added to a summand one sum further out."""


def lowered(view: View, laws: Iterable[Rule], roofline: Roofline, deadline: float) -> State | None:
    """What the laws with => make of a table, applied wherever they match until none does; None: nothing.

    ``laws`` are those of canonical.rules; the state's cost is in seconds by the roofline.
    """
    untidied = Canonical(RuleIndex.of(()), RuleIndex.of(()))  # tidying would put back what is written out here
    rewriter = Rewriter.of([law for law in laws if law.arrow == "=>"], untidied)
    search = Exhaustive(rewriter, roofline)
    state: State | None = None
    now = View.of(view.model, nothing, view.read_constant)
    for _ in range(_PASSES):
        cost = roofline.total(now.model) if state is None else state.cost
        found = search.run(now, cost, lambda: time.monotonic() > deadline, lambda count, best: None)
        if not found.states:
            break
        trace = (*(state.trace if state is not None else ()), *found.states[0].trace)
        state = State(found.states[0].view, {}, found.states[0].cost, found.states[0].cost, trace)
        now = state.view
    return state

"""A graph with its composite operators written out, where rules that know only the simple ones find more."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from taso_py.cost.roofline import Roofline
from taso_py.rules.rule import Rule
from taso_py.search.arity import gathered
from taso_py.search.canonical import Canonicalizer, nothing
from taso_py.search.exhaustive import Exhaustive
from taso_py.search.index import RuleIndex
from taso_py.search.moves import AppliedSite, Later, Rewriter
from taso_py.search.rewriter import Rewrite
from taso_py.search.state import State, TraceStep
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime

_PASSES = 8
"""Most times that all laws have their turn: each brings what is added to a summand one sum further out."""


def lowered(view: View, laws: Iterable[Rule], roofline: Roofline, deadline: float) -> State | None:
    """What the laws with => make of a table, applied wherever they match until none does; None: nothing.

    ``laws`` are those of canonical.rules; the state's cost is in seconds by the roofline.
    """
    untidied = Canonicalizer(RuleIndex.of(()), RuleIndex.of(()))  # tidying would put back what is written out here
    rewriter = Rewriter.of([law for law in laws if law.arrow == "=>"], untidied)
    search = Exhaustive(rewriter, roofline)
    state: State | None = None
    now = View.of(view.table, nothing, view.read_constant, view.watch, rounding=view.rounding)
    for _ in range(_PASSES):
        cost = roofline.total(now.table) if state is None else state.cost
        found = search.run(now, cost, lambda: time.monotonic() > deadline, lambda count, best: None)
        if not found.states:
            break
        earlier = state.trace if state is not None else ()
        state = replace(found.states[0], trace=(*earlier, *found.states[0].trace))
        now = state.view
    return _with_sums(now, state, roofline)


def _with_sums(view: View, state: State | None, roofline: Roofline) -> State | None:
    """Sums of sums written as one: two summands that a rule puts together need not stand side by side."""
    steps: list[Rewrite] = []
    start = view.table
    with suppress(OutOfTime):
        for value, _ in reversed(list(start.order())):  # the whole sum before its parts
            step = gathered(view, value)
            if step is not None:
                view = view.after(step.table)
                steps.append(step)
    if not steps:
        return state
    trace, before = (state.trace, state.cost) if state is not None else ((), roofline.total(start))
    cost = roofline.total(view.table)
    sites = tuple(AppliedSite(step.rule, step.outputs) for step in steps)
    applied = tuple(step.matches for step in steps)
    last = TraceStep(
        rule=steps[0].rule, sites=sites, tidied=(), before=before, after=cost, table=view.table, applied=applied
    )
    return State(view, Later(None), cost, cost, (*trace, last))

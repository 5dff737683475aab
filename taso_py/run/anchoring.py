"""Prices anchored to whole models that were timed: what the places of a state add up to may miss much of what it takes.

A search goes on from states that were timed as whole models, yet prices these place by place as any other.  What it
says of the moves *behind* such a state is worth having; of the state itself, the whole model says more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from taso_py.search.state import Found, State, TraceStep


@dataclass(frozen=True, slots=True)
class Timed:
    """A state and its whole model's seconds as a share of the original's."""

    state: State
    share: float


def anchored(found: Found, timed: Iterable[Timed], start: float) -> Found:
    """What a search from an original of ``start`` seconds found, each state priced from the last one that was timed."""
    shares = {id(one.state.table): one.share for one in timed}
    states = sorted((_anchored(state, shares, start) for state in found.states), key=lambda state: state.cost)
    simplest = None if found.simplest is None else _anchored(found.simplest, shares, start)
    return replace(found, states=tuple(states), simplest=simplest)


def _anchored(state: State, shares: dict[int, float], start: float) -> State:
    for step in reversed(state.trace):
        share = shares.get(id(step.table))
        if share is not None and step.after > 0:
            return at_share(state, share * state.cost / step.after, start)
    return state


def at_share(state: State, share: float, start: float) -> State:
    """A state that costs a share of the start's ``start`` seconds; what its moves gain is scaled to add up to that."""
    steps = state.trace
    told = [step.before - step.after for step in steps]
    gained = start * (1 - share)
    scale = gained / sum(told) if sum(told) > 0 else 0.0
    even = 0.0 if sum(told) > 0 else gained / len(steps)
    trace, cost = list[TraceStep](), start
    for step, gain in zip(steps, told, strict=True):
        after = cost - scale * gain - even
        trace.append(replace(step, before=cost, after=after))
        cost = after
    return replace(state, cost=start * share, trace=tuple(trace))

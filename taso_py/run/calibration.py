"""Prices corrected by whole models that were timed: what the places of a state add up to may miss much of its time.

A search prices a state place by place.  How far that is from the whole model, where one was timed, is laid on the rules
that led there, and every other state is priced with what its own rules miss: Gaussian process regression of the log of
the ratio between both (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equation 2.23), where the
covariance of two states is the number of rules that they share.  A state that was timed keeps what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taso_py.search.state import Found, State, TraceStep

_MISSED = 0.1
"""What the prices of one rule's places are expected to miss, as a share of the time: a standard deviation."""
_CHANCE = 0.02
"""What a time differs by for no reason that its rules tell, likewise."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A state and its whole model's seconds as a share of the original's."""

    state: State
    share: float


def calibrated(found: Found, timed: Iterable[Timed], start: float) -> Found:
    """What a search from an original of ``start`` seconds found, at the prices that the timed states speak for."""
    shares = {id(one.state.table): one.share for one in timed}
    missed = _Missed.of(found, shares, start)

    def priced(state: State) -> State:
        share = shares.get(id(state.table))
        if share is None and missed.samples:
            share = state.cost / start * math.exp(missed.by(_rules(state.trace)))
        return state if share is None else at_share(state, share, start)

    states = sorted(map(priced, found.states), key=lambda state: state.cost)
    return replace(found, states=tuple(states), simplest=found.simplest and priced(found.simplest))


@dataclass(frozen=True, slots=True)
class _Missed:
    """The log of measured over priced time: of the states that were timed, and from these of others."""

    samples: Sequence[frozenset[str]]
    """The rules of each state that was timed."""
    weights: Sequence[float]

    @staticmethod
    def of(found: Found, shares: Mapping[int, float], start: float) -> _Missed:
        """Of the timed states that the search has priced: found ones, and those from which it found others."""
        seen: dict[int, tuple[frozenset[str], float]] = {}
        for state in found.states:
            for length, step in enumerate(state.trace, 1):
                table = id(step.table)
                if table in shares and table not in seen and step.after > 0:
                    ratio = shares[table] * start / step.after
                    seen[table] = (_rules(state.trace[:length]), math.log(ratio))
        samples = [rules for rules, _ in seen.values()]
        shared = np.array([[len(a & b) for b in samples] for a in samples], float).reshape(len(samples), len(samples))
        covariance = _MISSED**2 * shared + _CHANCE**2 * np.eye(len(samples))
        weights = np.linalg.solve(covariance, [ratio for _, ratio in seen.values()])
        return _Missed(samples, [float(w) for w in weights])

    def by(self, rules: frozenset[str]) -> float:
        """Of a state that was not timed."""
        return _MISSED**2 * sum(w * len(rules & known) for w, known in zip(self.weights, self.samples, strict=True))


def _rules(trace: Sequence[TraceStep]) -> frozenset[str]:
    return frozenset(step.rule for step in trace)


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

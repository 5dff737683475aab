"""Prices corrected by whole models that were timed: what the places of a state add up to may miss much of its time.

A search prices a state place by place.  How far that is from the whole model, where one was timed, is laid on the rules
that led there, and every other state is priced with what its own rules miss: Bayesian linear regression (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 2.1) of the log of the ratio between both, on each
rule's share of the priced gain, and on whether it was applied.  A state that was timed keeps what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taso_py.graph.table import Node
from taso_py.search.state import Found, State, TraceStep

_MISSED_SHARE, _MISSED = 0.3, 0.03
"""What the price of a rule's moves is expected to miss: a share of what it gains or costs, and however little that is,
a share of the model's time.  Standard deviations, both of the log of the time."""
_CHANCE = 0.02
"""What a time differs by for no reason that its rules tell, likewise."""
_LOOKED_AT = 200
"""States of a search that stand for all in what is still to be learnt of their prices."""

_Array: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Timed:
    """A state and its whole model's seconds as a share of the original's."""

    state: State
    share: float
    derived: bool = False
    """Timed against another state, with an error for each state between it and the original."""


def calibrated(found: Found, timed: Iterable[Timed], start: float) -> Found:
    """What a search from an original of ``start`` seconds found, at the prices that the timed states speak for."""
    shares = _shares(timed)
    missed = _Missed.of(found, shares, start)

    def priced(state: State) -> State:
        share = shares.get(id(state.table))
        if share is None and missed.told:
            share = state.cost / start * math.exp(missed.by(state.trace))
        return state if share is None else at_share(state, share, start)

    states = sorted(map(priced, found.states), key=lambda state: state.cost)
    return replace(found, states=tuple(states), simplest=found.simplest and priced(found.simplest))


def most_telling(
    found: Found, timed: Iterable[Timed], start: float, seen: Collection[Mapping[int, Node]]
) -> State | None:
    """The state whose time would tell most about the prices of all; None where they are known as well as times are.

    Those whose tables were ``seen`` are left out.  That is, the one that takes most from the sum of the variances.
    """
    missed = _Missed.of(found, _shares(timed), start)
    states = [state for state in found.states if state.trace]
    states = states[:: math.ceil(len(states) / _LOOKED_AT) or 1]
    if not states:
        return None
    features = missed.features([state.trace for state in states])
    covariance = features @ missed.covariance @ features.T
    variances = covariance.diagonal()
    if variances.mean() < _CHANCE**2:
        return None
    taken = (covariance**2).sum(axis=0) / (variances + _CHANCE**2)
    unseen = [k for k, state in enumerate(states) if state.table.nodes not in seen]
    return states[max(unseen, key=lambda k: float(taken[k]))] if unseen else None


def _shares(timed: Iterable[Timed]) -> dict[int, float]:
    """What was measured, by the identity of the table."""
    return {id(one.state.table): one.share for one in timed}


@dataclass(frozen=True, slots=True, eq=False)
class _Missed:
    """The log of measured over priced time: for each rule a slope times the log of what its moves do, and an offset."""

    rules: Mapping[str, int]
    """Places of the rules among slopes, and behind these among offsets."""
    mean: _Array
    """Slopes and offsets, in units of what they are expected to miss."""
    covariance: _Array
    told: bool
    """Whether anything was timed."""

    @staticmethod
    def of(found: Found, shares: Mapping[int, float], start: float) -> _Missed:
        """Of the timed states that the search has priced: found ones, and those from which it found others."""
        seen: dict[int, tuple[Sequence[TraceStep], float]] = {}
        for state in found.states:
            for length, step in enumerate(state.trace, 1):
                table = id(step.table)
                if table in shares and table not in seen and step.after > 0:
                    ratio = shares[table] * start / step.after
                    seen[table] = (state.trace[:length], math.log(ratio))
        names = dict.fromkeys(step.rule for state in found.states for step in state.trace)
        prior = _Missed({name: k for k, name in enumerate(names)}, np.zeros(0), np.eye(2 * len(names)), told=bool(seen))
        features = prior.features([trace for trace, _ in seen.values()]) / _CHANCE
        covariance = np.linalg.inv(prior.covariance + features.T @ features)
        ratios = np.array([ratio for _, ratio in seen.values()])
        return replace(prior, mean=covariance @ features.T @ ratios / _CHANCE, covariance=covariance)

    def features(self, traces: Sequence[Sequence[TraceStep]]) -> _Array:
        """A row for each trace, of what the mean is multiplied by."""
        rows: _Array = np.zeros((len(traces), 2 * len(self.rules)))
        for row, trace in zip(rows, traces, strict=True):
            for step in trace:
                place = self.rules[step.rule]
                row[place] += _MISSED_SHARE * _log_ratio(step)
                row[len(self.rules) + place] = _MISSED
        return rows

    def by(self, trace: Sequence[TraceStep]) -> float:
        """Of a state that was not timed."""
        return float(self.features([trace])[0] @ self.mean)


def _log_ratio(step: TraceStep) -> float:
    """The log of what a move multiplies the time by."""
    return math.log(step.after / step.before) if min(step.before, step.after) > 0 else 0.0


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

"""Search strategies; the default is TASO's cost-relaxed best-first search, over moves instead of single sites."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from taso_py.cost.model import CostModel, Estimate
from taso_py.cost.roofline import Roofline
from taso_py.graph.model import Model
from taso_py.search.matcher import Match
from taso_py.search.moves import Matches, Outcome, Rewriter, Site, live_size
from taso_py.search.view import View

_ROUNDS = 16
"""Most rounds of one sweep."""


class StopReason(Enum):
    """Why a search ended."""

    SATURATED = "saturated"
    TIME = "time budget"
    STATES = "state limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Step:
    """One move of a trace: its rule, the sites, and the cost in seconds before and after it."""

    rule: str
    sites: tuple[Site, ...]
    tidied: tuple[Site, ...]
    before: float
    after: float
    model: Model = field(repr=False)
    """The table after the move."""
    refined: bool = False
    """Whether sites where the rule does not pay were left out."""


@dataclass(frozen=True, slots=True)
class State:
    """A table that the search has reached."""

    view: View = field(compare=False)
    matches: Matches = field(compare=False)
    cost: float
    estimate: float
    """Roofline seconds; breaks ties between equal costs."""
    trace: tuple[Step, ...] = field(compare=False, default=())

    @property
    def model(self) -> Model:
        """The table."""
        return self.view.model


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop and what not to build."""

    deadline: float
    alpha: float = 1.05
    states: int = 2000
    nodes: float = 2.0
    """Largest growth of the number of nodes."""
    constant_bytes: float = float("inf")
    """Most bytes that new constants may add to the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search brings home: states in the order of their cost, the start excluded, and why it ended."""

    states: tuple[State, ...]
    reason: StopReason
    explored: int


Stop = Callable[[], bool]
Report = Callable[[int, float], None]


_KEPT = 256
"""States kept as possible candidates; the queue holds what is still to be explored."""


@dataclass(slots=True)
class Backtracking:
    """α-relaxed best-first search: pop the cheapest state, try each class of matches as one move, keep every new
    state that costs less than α times the best."""

    rewriter: Rewriter
    cost: CostModel
    roofline: Roofline
    limits: Limits
    file_growth: Callable[[Model], float] = lambda model: 0.0
    _seen: dict[int, list[Model]] = field(default_factory=dict)

    def run(self, start: View, start_cost: float, stop: Stop, report: Report) -> Found:
        """Searches from a table whose cost is ``start_cost`` seconds."""
        first = State(start, self.rewriter.all_matches(start), start_cost, self.roofline.total(start.model))
        self._is_new(first.model)
        counter = itertools.count()
        queue = [((first.cost, first.estimate, next(counter)), first)]
        reached: Sequence[State] = ()
        best = first
        explored = built = 0
        while queue:
            reason = self._ended(stop, explored)
            if reason is not None:
                return Found(tuple(reached), reason, explored)
            _, state = heapq.heappop(queue)
            if state.cost >= self.limits.alpha * best.cost and state is not first:
                continue
            explored += 1
            for child in self._children(state, stop):
                reached = _ranked([*reached, child])[:_KEPT]
                if (child.cost, child.estimate) < (best.cost, best.estimate):
                    best = child
                if child.cost < self.limits.alpha * best.cost:
                    heapq.heappush(queue, ((child.cost, child.estimate, next(counter)), child))
                built += 1
                report(built, best.cost)
        return Found(tuple(reached), StopReason.SATURATED, explored)

    def _ended(self, stop: Stop, explored: int) -> StopReason | None:
        if stop():
            return StopReason.INTERRUPTED
        if time.monotonic() > self.limits.deadline:
            return StopReason.TIME
        return StopReason.STATES if explored >= self.limits.states else None

    def _children(self, state: State, stop: Stop) -> list[State]:
        """Sweeps first: a rule at all its sites. Where a sweep does not pay everywhere, its classes one by one."""
        children: list[State] = []
        for matches in self.rewriter.groups(state.matches):
            if self._ended(stop, 0) is not None:
                break
            sweep = self._child(state, matches, _ROUNDS)
            if sweep is not None:
                children.append(sweep)
            if sweep is not None and sweep.cost < state.cost and not sweep.trace[-1].refined:
                continue
            classes = self.rewriter.classes(matches)
            if len(classes) > 1:
                children += [c for c in (self._child(state, m, 1) for m in classes) if c is not None]
        return children

    def _child(self, state: State, matches: Sequence[Match], rounds: int) -> State | None:
        outcome = self.rewriter.apply(state.view, matches, rounds)
        if outcome is None or not self._admissible(state, outcome):
            return None
        estimate = self.cost.difference(state.model, outcome.view.model)
        refined = None
        if estimate.slower and len(matches) > 1:
            refined = self._refined(state, matches, rounds, estimate)
            outcome, estimate = refined or (outcome, estimate)
        after = outcome.view
        step = Step(
            matches[0].rule.name,
            outcome.sites,
            outcome.tidied,
            state.cost,
            state.cost + estimate.seconds,
            after.model,
            refined is not None,
        )
        return State(
            after,
            self.rewriter.matches_after(state.view, state.matches, after),
            step.after,
            state.estimate + self.roofline.difference(state.model, after.model),
            (*state.trace, step),
        )

    def _admissible(self, state: State, outcome: Outcome) -> bool:
        model = outcome.view.model
        if not self._is_new(model):
            return False
        if live_size(model) > self.limits.nodes * max(live_size(state.model), 16):
            return False
        return self.file_growth(model) <= self.limits.constant_bytes

    def _refined(
        self, state: State, matches: Sequence[Match], rounds: int, estimate: Estimate
    ) -> tuple[Outcome, Estimate] | None:
        """The same move without the sites whose regions got slower."""
        kept = [m for m in matches if not set(m.outputs) & estimate.slower]
        if not kept or len(kept) == len(matches):
            return None
        outcome = self.rewriter.apply(state.view, kept, rounds)
        if outcome is None or not self._admissible(state, outcome):
            return None
        better = self.cost.difference(state.model, outcome.view.model)
        return (outcome, better) if better.seconds < estimate.seconds else None

    def _is_new(self, model: Model) -> bool:
        key = 0
        for value, node in model.nodes.items():
            key ^= hash((value, node))
        known = self._seen.setdefault(key, [])
        if any(model.nodes == other.nodes for other in known):
            return False
        known.append(model)
        return True


def _ranked(states: Sequence[State]) -> tuple[State, ...]:
    return tuple(sorted(states, key=lambda s: (s.cost, s.estimate, len(s.trace))))


@dataclass(slots=True)
class Exhaustive:
    """Every rule wherever it still matches, one rule after the other, whatever it costs: for testing rules."""

    rewriter: Rewriter
    roofline: Roofline

    def run(self, start: View, start_cost: float, stop: Stop, report: Report) -> Found:
        """One state: the table after all rules had their turn once."""
        state = State(start, self.rewriter.all_matches(start), start_cost, self.roofline.total(start.model))
        built = 0
        for name in self.rewriter.rule_names():
            found = [m for matches in state.matches.values() for m in matches if m.rule.name == name]
            outcome = self.rewriter.apply(state.view, found) if found else None
            if outcome is None:
                continue
            after = outcome.view
            cost = state.cost + self.roofline.difference(state.model, after.model)
            step = Step(name, outcome.sites, outcome.tidied, state.cost, cost, after.model)
            state = State(
                after,
                self.rewriter.matches_after(state.view, state.matches, after),
                cost,
                cost,
                (*state.trace, step),
            )
            built += 1
            report(built, cost)
            if stop():
                return Found((state,) if state.trace else (), StopReason.INTERRUPTED, built)
        return Found((state,) if state.trace else (), StopReason.SATURATED, built)

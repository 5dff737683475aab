"""TASO's cost-relaxed best-first search, over moves instead of single sites."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from taso_py.cost.model import CostModel, Estimate, changed
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table
from taso_py.search.matcher import Match
from taso_py.search.moves import Moved, Rewriter, live_size
from taso_py.search.state import Found, State, StopReason, TraceStep
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime

_NEGLIGIBLE = 0.003
"""Share of the start's cost that a simpler state may cost more."""
_LEAST_STATES = 8
"""States without a better one before a search gives up, however long they took."""
_STEP = 0.01
"""Share of the start's cost that is worth going on for."""
ROUNDS = 16
"""Most rounds of one sweep."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop and what not to build."""

    deadline: float
    """Of seeking states; what was found is priced and simplified until ``last``."""
    _: KW_ONLY
    last: float = float("inf")
    alpha: float = 1.05
    states: int = 5000
    """Most states to build."""
    patience: int = 400
    """States to build without a better one before beginning again without one of the rules."""
    patience_s: float = 0.0
    """Seconds without a better state after which the whole search ends (and some states at least); 0: never."""
    grace: float = 0.0
    """Seconds after each gain of a hundredth of the start's cost in which only ``last`` ends the search."""
    nodes: float = 2.0
    """Largest growth of the number of nodes."""
    constant_bytes: float = float("inf")
    """Most bytes that new constants may add to the file."""
    file_growth: Callable[[Table], float] = lambda table: 0.0
    """The bytes that a table's constants add to it."""

    def admit(self, before: Table, after: Table) -> bool:
        """Whether what a move makes of a table is not too large."""
        if live_size(after) > self.nodes * max(live_size(before), _SMALL):
            return False
        return self.file_growth(after) <= self.constant_bytes

    def admit_bundle(self, before: Table, after: Table) -> bool:
        """The same of a bundle, which may write one operator with several wherever it stands."""
        return replace(self, nodes=_BUNDLE * self.nodes).admit(before, after)


_BUNDLE = 3.0
"""How many times as many nodes a bundle may make."""
Stop = Callable[[], bool]
Report = Callable[[int, float], None]


_SMALL = 64
"""Nodes of a model that is small: each of them may become several."""
_KEPT = 256
"""States kept as possible candidates; the queue holds what is still to be explored."""


@dataclass(slots=True)
class _Open:
    """A state in the queue, and the groups of matches that it has not tried yet; None: it has not been looked at."""

    state: State
    groups: list[Sequence[Match]] | None = None


@dataclass(slots=True)
class _Progress:
    """When a search last got anywhere; costs are in seconds, times time.monotonic()'s."""

    best: State
    """Of all that it has done."""
    step: float
    """What counts as a gain that a search may go on for."""
    marked: float = field(init=False)
    """The cost at the last such gain."""
    marked_at: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)
    """When the best state was found."""
    built: int = 0
    """States since then."""

    def __post_init__(self) -> None:
        self.marked = self.best.cost

    def saw(self, state: State) -> None:
        """One more state."""
        self.built += 1
        if _priority(state) < _priority(self.best):
            self.best, self.built, self.since = state, 0, time.monotonic()
        if state.cost <= self.marked - self.step:
            self.marked, self.marked_at = state.cost, time.monotonic()

    def stalled(self, limits: Limits) -> bool:
        """Whether the whole search may end."""
        waited = time.monotonic() - self.since
        return 0 < limits.patience_s <= waited and self.built >= _LEAST_STATES


@dataclass(slots=True)
class Backtracking:
    """α-relaxed best-first search (TASO's) over moves, expanding one move at a time.

    The cheapest state tries its most promising rule; a state that results is kept if it costs less than α times the
    best.  A state's cost is the start's plus the difference *between the start and it*, so rewrites that undo
    each other gain nothing however often they are repeated.
    """

    rewriter: Rewriter
    cost: CostModel
    roofline: Roofline
    limits: Limits
    _: KW_ONLY
    barred: frozenset[str] = frozenset()
    """Rules that make no move."""
    _seen: dict[int, list[Table]] = field(default_factory=dict)
    _gains: dict[str, float] = field(default_factory=dict)
    """Best gain of each rule so far, as a share of the start's cost."""
    _built: int = 0
    _late: bool = False
    """Whether the time was up within a move."""

    def run(self, start: View, start_cost: float, stop: Stop, report: Report, seeds: Sequence[State] = ()) -> Found:
        """`seek`, from ``seeds`` too that another search reached; then the best state is explained and simplified."""
        with start.watch.until(self.limits.last):
            return self._run(self._first(start, start_cost), stop, report, seeds)

    def _run(self, first: State, stop: Stop, report: Report, seeds: Sequence[State]) -> Found:
        found = self._sought(first, stop, report, seeds)
        best = min([first, *found.states[:1]], key=_priority)
        if not best.trace or found.reason is StopReason.INTERRUPTED:
            return found
        steps = self._told_apart(first, best)
        best, *states = (replace(s, trace=tuple(steps.get(id(x), x) for x in s.trace)) for s in (best, *found.states))
        return replace(found, states=tuple(states), simplest=self._simplified(first, best))

    def seek(self, start: View, start_cost: float, stop: Stop, report: Report, seeds: Sequence[State] = ()) -> Found:
        """Searches from a table whose cost is ``start_cost`` seconds, and from ``seeds``.

        A search that has ended begins again without one of the rules that its best state used: a first move
        that gains can lead away from a better end, and all that lies behind the others was pruned.
        """
        with start.watch.until(self.limits.last):
            return self._sought(self._first(start, start_cost), stop, report, seeds)

    def _first(self, start: View, start_cost: float) -> State:
        return State(start, self.rewriter.later(start), start_cost, self.roofline.total(start.table))

    def _sought(self, first: State, stop: Stop, report: Report, seeds: Sequence[State]) -> Found:
        reached: tuple[State, ...] = ()
        progress = _Progress(first, _STEP * first.cost)
        waiting = [self.barred]
        tried = set(waiting)
        reason = StopReason.SATURATED
        while waiting:
            barred = waiting.pop(0)
            before = progress.best
            self._seen.clear()
            self._is_new(first.table)
            priced = [self._priced(first, seed) for seed in seeds] if barred == self.barred else []
            begin = [state for state in priced if state is not None]
            self._built += len(begin)
            for state in begin:
                progress.saw(state)
            found, reason = self._descend(first, begin, barred, progress, stop, report)
            reached = _ranked([*reached, *found])[:_KEPT]
            if reason not in (StopReason.SATURATED, StopReason.STALLED) or progress.stalled(self.limits):
                break
            if found and (barred == self.barred or _priority(found[0]) < _priority(before)):
                rules = dict.fromkeys(step.rule for step in found[0].trace)
                fresh = [barred | {rule} for rule in rules if barred | {rule} not in tried]
                waiting += fresh
                tried.update(fresh)
        return Found(reached, reason, self._built, gains=dict(self._gains))

    def _descend(
        self,
        first: State,
        seeds: Sequence[State],
        barred: frozenset[str],
        progress: _Progress,
        stop: Stop,
        report: Report,
    ) -> tuple[tuple[State, ...], StopReason]:
        """One best-first search without the barred rules; its states, best first, and why it ended."""
        counter = itertools.count()
        reached = _ranked(seeds)
        queue = [(*_priority(state), next(counter), _Open(state)) for state in (first, *reached)]
        heapq.heapify(queue)
        best = min([first, *reached], key=_priority)
        idle = 0
        while queue:
            reason = self._ended(stop, idle, progress)
            if reason is not None:
                return reached, reason
            *_, parent = heapq.heappop(queue)
            if parent.state is not first and parent.state.cost >= self.limits.alpha * best.cost:
                continue
            child = self._child(first, parent, barred)
            if parent.groups or self._late:
                heapq.heappush(queue, (*_priority(parent.state), next(counter), parent))
            if child is None:
                continue
            self._built += 1
            progress.saw(child)
            reached = _ranked([*reached, child])[:_KEPT]
            idle += 1
            if _priority(child) < _priority(best):
                best, idle = child, 0
            if child.cost < self.limits.alpha * best.cost:
                heapq.heappush(queue, (*_priority(child), next(counter), _Open(child)))
            report(self._built, progress.best.cost)
        return reached, StopReason.SATURATED

    def _child(self, first: State, parent: _Open, barred: frozenset[str]) -> State | None:
        try:
            if parent.groups is None:
                parent.groups = self._groups(parent.state, barred)
            return self._expand(first, parent.state, parent.groups) if parent.groups else None
        except OutOfTime:
            self._late = True
            return None

    def _priced(self, first: State, seed: State) -> State | None:
        """A state of another search at this one's prices: the whole gain is booked on its last move."""
        if not self._is_new(seed.table) or time.monotonic() > self.limits.last:
            return None
        estimate = self.cost.difference(first.table, seed.table)
        if estimate is None:
            return None
        cost = first.cost + estimate.seconds
        steps = [replace(step, before=first.cost, after=first.cost) for step in seed.trace]
        steps[-1] = replace(steps[-1], after=cost)
        return replace(seed, cost=cost, trace=tuple(steps), parts=estimate.parts)

    def _ended(self, stop: Stop, idle: int, progress: _Progress) -> StopReason | None:
        if stop():
            return StopReason.INTERRUPTED
        now, limits = time.monotonic(), self.limits
        if self._late or (now > limits.deadline and (now > limits.last or now >= progress.marked_at + limits.grace)):
            return StopReason.TIME
        if self._built >= limits.states:
            return StopReason.STATES
        return StopReason.STALLED if idle >= limits.patience or progress.stalled(limits) else None

    def _groups(self, state: State, barred: frozenset[str]) -> list[Sequence[Match]]:
        """What may be done to a state, in ascending order of promise: the last one is tried first."""
        groups = [g for g in self.rewriter.groups(state.view, state.matches()) if g[0].rule.name not in barred]
        # A rule that was not tried yet may gain anything.
        return sorted(groups, key=lambda g: (self._gains.get(g[0].rule.name, float("inf")), len(g)))

    def _expand(self, first: State, state: State, groups: list[Sequence[Match]]) -> State | None:
        """The next move of a state: a rule at all its sites; where that does not pay, later its classes of sites."""
        matches = groups.pop()
        outcome = self.rewriter.apply(state.view, matches, ROUNDS)
        if outcome is None or not self._is_new(outcome.view.table):
            return None
        classes = self.rewriter.classes(matches)
        if not self.limits.admit(state.table, outcome.view.table):
            groups[:0] = classes if len(classes) > 1 else []
            return None
        estimate = self.cost.difference(first.table, outcome.view.table)
        if estimate is None:
            return None
        refined = False
        lost, won = changed(state.parts, estimate.parts)
        if lost and len(matches) > 1:
            better = self._refined(first, state, matches, estimate, lost)
            if better is not None:
                refined, (outcome, estimate) = True, better
            elif won:
                groups[:0] = classes if len(classes) > 1 else []
        return self._reached(first, state, matches, outcome, estimate, refined=refined)

    def _reached(
        self,
        first: State,
        state: State,
        matches: Sequence[Match],
        outcome: Moved,
        estimate: Estimate,
        *,
        refined: bool,
    ) -> State:
        after, rule = outcome.view, matches[0].rule.name
        cost = first.cost + estimate.seconds
        self._gains[rule] = max(self._gains.get(rule, 0.0), (state.cost - cost) / first.cost)
        step = TraceStep.of(outcome, matches[0], state.cost, cost, refined=refined)
        return State(
            after,
            self.rewriter.later(after, (state.view, state.matches)),
            cost,
            state.estimate + self.roofline.difference(state.table, after.table),
            (*state.trace, step),
            estimate.parts,
        )

    def _simplified(self, first: State, best: State) -> State:
        """The best state without the rules whose absence costs nothing: what is left explains the gain.

        Rules that gained least are tried first.  A rewrite that only looked like a tie may lose in the whole model.
        """
        gains: dict[str, float] = {}
        for step in best.trace:
            gains[step.rule] = gains.get(step.rule, 0.0) + step.before - step.after
        current = best
        for rule in sorted(gains, key=lambda name: gains[name]):
            trial = self._replayed(first, [step for step in current.trace if step.rule != rule])
            if trial is not None and trial.cost <= best.cost + _NEGLIGIBLE * first.cost:
                current = trial
        return current

    def _told_apart(self, first: State, state: State) -> dict[int, TraceStep]:
        """A state's moves with the price of each, by identity, where `_priced` has booked all on one."""
        if all(step.before != step.after for step in state.trace):
            return {}
        found = self._replayed(first, state.trace)
        if found is None or found.table.nodes != state.table.nodes or len(found.trace) != len(state.trace):
            return {}
        pairs = zip(state.trace, found.trace, strict=True)
        return {id(old): replace(old, before=new.before, after=new.after) for old, new in pairs}

    def _replayed(self, first: State, steps: Sequence[TraceStep]) -> State | None:
        """The moves of a trace made again, as far as they still match; priced step by step.  None: there is no time."""
        try:
            return self._made_again(first, steps)
        except OutOfTime:
            return None

    def _made_again(self, first: State, steps: Sequence[TraceStep]) -> State | None:
        rewriter = self.rewriter.only(step.rule for step in steps)
        state = replace(first, matches=rewriter.later(first.view))
        for step in steps:
            if time.monotonic() > self.limits.last:
                return None
            found = step.found_again(state.matches())
            outcome = self.rewriter.apply(state.view, found, ROUNDS) if found else None
            if outcome is None:
                continue
            estimate = self.cost.difference(first.table, outcome.view.table)
            if estimate is None:
                return None
            before = (state.view, state.matches)
            state = self._reached(first, state, found, outcome, estimate, refined=step.refined)
            state = replace(state, matches=rewriter.later(outcome.view, before))
        return replace(state, matches=self.rewriter.later(state.view)) if state.trace else None

    def _refined(
        self, first: State, state: State, matches: Sequence[Match], estimate: Estimate, lost: set[int]
    ) -> tuple[Moved, Estimate] | None:
        """The same move without the sites in regions that got slower."""
        kept = [m for m in matches if not (set(m.outputs) | m.used) & lost]
        if not kept:
            return None
        outcome = self.rewriter.apply(state.view, kept, ROUNDS)
        if outcome is None or not self.limits.admit(state.table, outcome.view.table):
            return None
        if not self._is_new(outcome.view.table):
            return None
        better = self.cost.difference(first.table, outcome.view.table)
        return (outcome, better) if better is not None and better.seconds < estimate.seconds else None

    def _is_new(self, table: Table) -> bool:
        key = 0
        for value, node in table.nodes.items():
            key ^= hash((value, node))
        known = self._seen.setdefault(key, [])
        if any(table.nodes == other.nodes for other in known):
            return False
        known.append(table)
        return True


def _priority(state: State) -> tuple[float, float, int]:
    """Cheapest first, then by the roofline, then by the shorter trace; sums are compared to a tenth of a nanosecond."""
    return round(state.cost, 10), round(state.estimate, 10), len(state.trace)


def _ranked(states: Sequence[State]) -> tuple[State, ...]:
    return tuple(sorted(states, key=_priority))

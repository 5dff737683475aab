"""Which moves pay in the whole model: candidates are built without one rule after another and timed against each other.

The search prices the places that a move changes, each on its own.  In the whole model ONNX Runtime may fuse across
them, and a price that only looked good was the luckiest of thousands.  Here nothing counts but pairs of whole models.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from taso_py.backend.blocks import is_long
from taso_py.backend.statistics import Interval
from taso_py.backend.timing import CLEAR
from taso_py.errors import ModelError, TooLateError, WorkerError
from taso_py.run.calibration import Timed, at_share
from taso_py.run.losses import Losses
from taso_py.run.pairs import pair_seconds, paired
from taso_py.run.run import Run
from taso_py.run.sessions import OpenModels
from taso_py.search.again import made_again
from taso_py.search.bundle import Bundle
from taso_py.search.bundles import BUNDLES
from taso_py.search.matcher import Match
from taso_py.search.moves import Rewriter
from taso_py.search.state import State, TraceStep
from taso_py.search.strategy import ROUNDS, Limits
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime

_ONE_LOOK = (0.0,)
"""A bound that no ratio is near: the first rounds decide."""
_TIE = 0.003
"""Share of the time below which two models are equally fast: the simpler one is taken."""
_LOSS = 0.01
"""Share of the time that a rule costs which is told to have lost, and that leaving one out may cost at most."""
_DOUBT = 0.01
"""Share of the time by which the search may take a state to be slower than one that was judged."""
_PASSES = 2
"""How often each rule is tried without."""
_BUNDLE_ROUNDS = 40
"""How often the rules of a bundle have their turn."""


_Move: TypeAlias = tuple[Hashable, Callable[[], State | None]]
"""What tells a move from others, and the state after it; None where it changes nothing, or there is no time."""
_Mover: TypeAlias = Callable[[State, Sequence[Match]], State | None]


@dataclass(frozen=True, slots=True)
class Judged:
    """The fastest selection of a state's moves, and the rules that cost time in the whole model."""

    best: Timed
    losers: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Selection:
    """Builds states from moves of others and times them in the whole model, until ``deadline`` (time.monotonic())."""

    job: Run
    models: OpenModels
    rewriter: Rewriter
    start: View
    deadline: float
    limits: Limits
    """What a move may make of a model."""
    least: float = math.inf
    """The smallest share of the original's time that a state was measured at."""
    making_s: float = field(default=0.0, init=False)
    """The longest that making the model of a state, and its session, took."""
    timed: list[Timed] = field(default_factory=list, init=False)
    """The states that were timed."""
    _tidied: Timed | None = field(default=None, init=False)
    """The tidied original, once it is timed."""

    def best(
        self,
        states: Sequence[State],
        tidied: State | None,
        known: Sequence[Timed] = (),
        gains: Mapping[str, float] | None = None,
        losses: Losses | None = None,
    ) -> list[State]:
        """The fastest selection of the moves of ``states`` and the tidied one, at their measured costs.

        Those only that are faster than the original.  Backwards from each of the states: without the rules whose
        absence costs nothing.  Forwards from the tidied one.  What is ``known`` was judged before; a state that does
        not even promise as much, or hardly more than another, is left to the race.  Last, whatever else matches is
        tried on top of the best, in the order of the ``gains`` that the search took its rule for (None: it is not).
        """
        enough = min((timed.share for timed in known), default=1.0) * (1 + _DOUBT)
        promising = [state for state in states if state.cost <= enough * self.job.start_cost]
        ends, seen = list(known), math.inf
        for state in promising:
            if state.cost < (1 - _DOUBT) * seen and (found := self.judged(state)) is not None:
                ends.append(found.best)
                seen = state.cost
        plain = self._plain(tidied)
        if plain is not None:
            ends.append(plain)
        if states and (not ends or min(t.share for t in ends) > 1 - _TIE or _is_least(plain, ends)):
            ends.append(self._forwards(plain, states[0].trace))
        if gains is not None:
            fastest = min([self._original(), *ends], key=lambda timed: timed.share)
            ends.append(self._extended(fastest, partial(self._moves, gains=gains), losses))
        best = sorted(ends, key=lambda timed: timed.share)[:1]
        return self.faster([*best, *([plain] if plain is not None and plain not in best else [])])

    def bundled(self, tidied: State | None) -> Timed | None:
        """The tidied original, slow as it may be, with every bundle that pays on top of it; None where that is no gain.

        A bundle may need what tidying uncovers.
        """
        plain = self._original() if tidied is None else self._plain(tidied)
        found = None if plain is None else self._extended(plain, self._bundles, None)
        return found if found is not None and found.share < 1 - _TIE else None

    def faster(self, ends: Iterable[Timed]) -> list[State]:
        """Those that are faster than the original, at their measured costs."""
        return [at_share(t.state, t.share, self.job.start_cost) for t in ends if t.share < 1 - _TIE and t.state.trace]

    def judged(self, state: State) -> Judged | None:
        """Without each rule in turn, those that gained least first; as often as that helps.  None: there is no time."""
        best = self.against_original(state)
        if best is None:
            return None
        losers = set[str]()
        least = best.share
        for _ in range(_PASSES):
            before = best
            for rule in _by_gain(best.state.trace):
                if len({step.rule for step in best.state.trace}) > 1:
                    trial = self._replayed(step for step in best.state.trace if step.rule != rule)
                    # Against the least so far: many rules that each cost next to nothing to lose cost something.
                    better, ratio = self._simpler(best, trial, most=least * (1 + _TIE))
                    if ratio is not None and ratio.high < 1 - _LOSS:
                        losers.add(rule)
                    best, least = better, min(least, better.share)
            if best is before or self._late():
                break
        return Judged(best, frozenset(losers))

    def _forwards(self, best: Timed | None, steps: Sequence[TraceStep]) -> Timed:
        """From the tidied state, or the original: with each further rule that pays there."""
        current = best or self._original()
        for rule in reversed(_by_gain(steps)):
            if any(step.rule == rule for step in current.state.trace):
                continue
            trial = self._replayed((*current.state.trace, *(step for step in steps if step.rule == rule)))
            ratio = self._compared(current.state, trial, 1 - _TIE)
            if trial is not None and ratio is not None and ratio.high < 1 - _TIE:
                current = self._measured(trial, current.share * ratio.median, derived=True)
        return current

    def _extended(self, best: Timed, moves: Callable[[State], Iterator[_Move]], losses: Losses | None) -> Timed:
        """With every one of the ``moves`` that pays on top of it.

        A place by itself may hide what a move is worth, such as that a layout is kept from one end of the model to the
        other.  What costs nothing is tried again after every gain: it may have waited for that.
        """
        current, settled = best, set[Hashable]()
        while True:
            before = current
            for move, make in moves(current.state):
                trial = None if move in settled or self._late() else make()
                if trial is None:
                    continue
                least = None if losses is None else losses.least(current.state.table, trial.table)
                if least is None:
                    ratio = self._seen_twice(current.state, trial)
                    if ratio is None:
                        continue
                    if ratio.high < 1 - _TIE:
                        current = self._measured(trial, current.share * ratio.median, derived=True)
                        settled.add(move)
                        break
                    least = ratio.low
                    if losses is not None:
                        losses.add(current.state.table, trial.table, ratio)
                if least > 1 + _TIE:
                    settled.add(move)
            if current is before or self._late():
                return current

    def _seen_twice(self, best: State, trial: State) -> Interval | None:
        """Their ratio, of a gain that of a second look: many are tried, so that chance alone would let one pass.

        A gain that is clear in runs that take long is none by chance.
        """
        ratio = self._compared(best, trial, 1 - _TIE)
        if ratio is None or ratio.high >= 1 - _TIE or (is_long(self.job.run_s) and ratio.high < 1 - CLEAR):
            return ratio
        return self._compared(best, trial, 1 - _TIE)

    def _bundles(self, state: State) -> Iterator[_Move]:
        """The bundles of rules, on top of a state."""
        for name, bundle in BUNDLES.items():
            yield name, partial(self._with_bundle, state, bundle)

    def _moves(self, state: State, gains: Mapping[str, float]) -> Iterator[_Move]:
        """What may be done to a state: bundles, then each rule at all its sites, by what the search took it to gain.

        Where it knows nothing of a rule, the more sites the better.
        """
        yield from self._bundles(state)
        try:
            with self.start.watch.until(self.deadline):
                groups = self.rewriter.groups(state.view, state.matches())
        except OutOfTime:
            return
        for group in sorted(groups, key=lambda g: (gains.get(g[0].rule.name, 0.0), len(g)), reverse=True):
            yield (group[0].rule.name, group[0].choice), partial(self._moved, state, group)

    def _with_bundle(self, state: State, bundle: Bundle) -> State | None:
        """A state after all that the bundle's rules do to it, as long as any does; None where none begins.

        How large it is counts at the end: a chain of products has a matrix for each of them until they are one.  Where
        that is too large, moves that are too large are left out.
        """
        whole = self._whole_bundle(state, bundle, self._after)
        if whole is None or self.limits.admit_bundle(state.table, whole.table):
            return whole
        return self._whole_bundle(state, bundle, self._moved)

    def _whole_bundle(self, state: State, bundle: Bundle, move: _Mover) -> State | None:
        begun = self._with_rules(state, bundle, bundle.leading, 1, move)
        rules = (*bundle.leading, *bundle.following)
        return begun and (self._with_rules(begun, bundle, rules, _BUNDLE_ROUNDS, move) or begun)

    def _with_rules(
        self, state: State, bundle: Bundle, rules: Sequence[str], rounds: int, move: _Mover
    ) -> State | None:
        """A state after what each of the rules does to it everywhere, one after the other; None where none does."""
        reached = state
        for _ in range(rounds):
            before = reached
            for rule in rules:
                try:
                    with self.start.watch.until(self.deadline):
                        matches = self.rewriter.only((rule,)).all_matches(reached.view)
                except OutOfTime:
                    return None
                found = bundle.chosen(rule, chain.from_iterable(matches.values()), reached.table)
                reached = (move(reached, found) if found else None) or reached
            if reached is before:
                break
        return None if reached is state else reached

    def _moved(self, state: State, group: Sequence[Match]) -> State | None:
        """A state after one more move; None where it makes too much of the model, and where time is up."""
        moved = self._after(state, group)
        return moved if moved is not None and self.limits.admit(state.table, moved.table) else None

    def _after(self, state: State, group: Sequence[Match]) -> State | None:
        """The same, however large."""
        try:
            with self.start.watch.until(self.deadline):
                moved = self.rewriter.apply(state.view, group, ROUNDS)
        except OutOfTime:
            return None
        if moved is None:
            return None
        step = TraceStep.of(moved, group[0])
        later = self.rewriter.later(moved.view, (state.view, state.matches))
        return State(moved.view, later, 0.0, self.job.roofline.total(moved.view.table), (*state.trace, step))

    def _original(self) -> Timed:
        return Timed(State(self.start, self.rewriter.later(self.start), self.job.start_cost, 0.0), 1.0)

    def _simpler(self, best: Timed, trial: State | None, *, most: float) -> tuple[Timed, Interval | None]:
        """A state without one rule, where that is surely no slower; else what it was tried against.  And their ratio.

        On an unsteady machine half of all comparisons would find that a rule gains nothing: it stays where they cannot
        tell.  A ratio below 1 that may be chance changes no share, or the luckiest of many would add up.
        """
        ratio = self._compared(best.state, trial, 1 - _LOSS, 1 + _LOSS)
        if trial is None or ratio is None:
            return best, None
        share = best.share * (ratio.median if ratio.high < 1 else max(1.0, ratio.median))
        if share >= most or ratio.high >= 1 + _LOSS:
            return best, None
        return self._measured(trial, share, derived=True), ratio

    def _compared(self, best: State, trial: State | None, *bounds: float) -> Interval | None:
        """Seconds of the trial over those of the best; None where there is nothing to compare, or no time.

        Measured until it is clear between which of the ``bounds`` it lies.
        """
        if trial is None or self._late() or trial.table.nodes == best.table.nodes:
            return None
        return self._ratio(best if best.trace else None, trial, bounds)

    def _plain(self, tidied: State | None) -> Timed | None:
        if self._tidied is None and tidied is not None:
            self._tidied = self.against_original(tidied)
        return self._tidied

    def against_original(self, state: State, *, roughly: bool = False) -> Timed | None:
        """The state, timed; None where it does not run, and where time is up."""
        ratio = None if self._late() else self._ratio(None, state, _ONE_LOOK if roughly else ())
        return None if ratio is None else self._measured(state, ratio.median)

    def _measured(self, state: State, share: float, *, derived: bool = False) -> Timed:
        """A state that was timed; the user hears of it if none was faster."""
        if share < self.least:
            self.least = share
            self.job.tell_measured(1 / share)
        self.timed.append(Timed(state, share, derived))
        return self.timed[-1]

    def _replayed(self, steps: Iterable[TraceStep]) -> State | None:
        """The moves made again as far as they still match; None where none does, and where time is up."""
        told = tuple(steps)
        try:
            with self.start.watch.until(self.deadline):
                state = made_again(self.rewriter.only(s.rule for s in told), self.start, told, self.job.roofline)
        except OutOfTime:
            return None
        return None if state is None else replace(state, matches=self.rewriter.later(state.view))

    def _ratio(self, one: State | None, other: State, bounds: Sequence[float] = ()) -> Interval | None:
        """Seconds of the second model over those of the first (None: the original); None where one does not run."""
        if not self.models.allows(other):
            return None
        try:
            first, begin = self.models.handle(one), time.monotonic()
            with self.job.setting.loaded.folder.until(self.deadline):
                second = self.models.handle(other)
            self.making_s = max(self.making_s, time.monotonic() - begin)
            return None if self._late() else paired(self.job, first, second, bounds, self._late)
        except (ModelError, TooLateError, WorkerError):
            return None

    def _late(self) -> bool:
        """Whether the time does not suffice for one more pair of models."""
        return time.monotonic() + self.making_s + pair_seconds(self.job) > self.deadline or self.job.stopped()


def _by_gain(steps: Sequence[TraceStep]) -> list[str]:
    """Rules by what the search took their moves to gain, ascending."""
    gains: dict[str, float] = {}
    for step in steps:
        gains[step.rule] = gains.get(step.rule, 0.0) + step.before - step.after
    return sorted(gains, key=lambda rule: gains[rule])


def _is_least(one: Timed | None, others: Sequence[Timed]) -> bool:
    return one is not None and one.share <= min(t.share for t in others)

"""Which candidate is fastest: a race that drops clear losers early.

Only ratios of blocks from the same round are compared; absolute times drift on shared machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from taso_py.backend.blocks import is_long
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef
from taso_py.backend.statistics import Interval, bootstrap_interval, geometric_mean
from taso_py.backend.timing import affordable_block
from taso_py.errors import ModelError, SuperoptError, UsageError, WorkerError

NO_TIME = "no time left"
"""Why a candidate was not timed that nothing is wrong with."""
_MOST_ROUNDS = 16
"""Rounds after which models that cannot be told apart are not timed any more."""
_FINALISTS = 3
"""Candidates that are still timed after the least number of rounds: the others were no better, if not surely worse."""
_TIE = 0.01
"""An advantage below this that may be chance is none: the earlier model wins."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the race saw of one model: median speed-up over model 0 (geometric mean of the workloads)."""

    name: str
    speedup: float | None
    rounds: int
    slower: bool = False
    """Clearly slower than model 0 in some workload."""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RaceResult:
    """``winner`` indexes the models raced; 0, the original, when no candidate beat it."""

    winner: int
    standings: tuple[Standing, ...]
    elapsed_s: float


def race(
    worker: Worker,
    models: Sequence[ModelRef],
    workloads: Sequence[Feeds],
    *,
    deadline: float,
    rounds: int = 6,
    block_s: float = 0.25,
    run_s: float = 0.0,
    max_sessions: int = 8,
    least_gain: float = _TIE,
    progress: Callable[[float], None] = lambda _speedup: None,
) -> RaceResult:
    """Time the models against model 0; ``deadline`` is a time.monotonic() value.

    After ``rounds`` those few go on, while there is time, that cannot be told from the best; the first of them wins.
    Where none can be ``least_gain`` faster than the original any more, the original does.
    At most ``max_sessions`` sessions are alive: the candidates run in heats, each against the original. A
    candidate that cannot be loaded or run is listed with its failure; a failing original raises ModelError.
    ``block_s`` is a model's block in a round, ``run_s`` one run.  ``progress`` hears the best after each round.
    """
    if max_sessions < 2:
        raise UsageError(f"max_sessions must be at least 2, not {max_sessions}")
    begin = time.monotonic()
    standings: dict[int, Standing] = {0: Standing(models[0].name, 1.0, 0)}
    candidates = list(range(1, len(models)))
    size = max_sessions - 1
    heats = [candidates[i : i + size] for i in range(0, len(candidates), size)]
    fastest: list[int] = []
    for position, members in enumerate(heats):
        now = time.monotonic()
        share = now + (deadline - now) / (len(heats) - position)
        heat = _Heat(worker, models, workloads, share, least_gain, progress, warm=not is_long(run_s))
        standings.update(heat.run(members, rounds, block_s))
        fastest.append(heat.fastest(members))
    for index in candidates:
        standings.setdefault(index, Standing(models[index].name, None, 0, failure=NO_TIME))
    ordered = tuple(standings[index] for index in range(len(models)))
    winner = max([0, *fastest], key=lambda i: ordered[i].speedup or 0.0)
    return RaceResult(winner, ordered, time.monotonic() - begin)


class _Heat:
    """Some candidates and the original, alive at the same time in one worker."""

    def __init__(
        self,
        worker: Worker,
        models: Sequence[ModelRef],
        workloads: Sequence[Feeds],
        deadline: float,
        least_gain: float,
        progress: Callable[[float], None],
        *,
        warm: bool,
    ) -> None:
        self.worker = worker
        self.models = models
        self.workloads = workloads
        self.deadline = deadline
        self.least_gain = least_gain
        self.progress = progress
        self.warm = warm
        self.handles: dict[int, int] = {}
        self.ratios: dict[int, list[list[float]]] = {}  # model -> per round, per workload: original / model
        self.failures: dict[int, str] = {}

    def run(self, members: Sequence[int], rounds: int, block_s: float) -> dict[int, Standing]:
        try:
            self._open(members)
            for number in range(max(rounds, _MOST_ROUNDS)):
                alive = [i for i in members if i in self.handles]
                if not alive or (number >= rounds and len(alive) == 1):
                    break
                if not self._round(number, alive, rounds, block_s):
                    break
                self._drop(alive, number >= rounds)
                if number + 1 >= rounds and self._settled(members):
                    break
        finally:
            for handle in self.handles.values():
                self.worker.close(handle)
        return {i: self._standing(i) for i in members}

    def _open(self, members: Sequence[int]) -> None:
        self.handles[0] = self.worker.open(self.models[0])
        for i in members:
            if time.monotonic() >= self.deadline:
                return
            self.ratios[i] = []
            try:
                self.handles[i] = self.worker.open(self.models[i])
                # First runs allocate, and may fail: neither belongs into a round.
                for feeds in self.workloads:
                    self.worker.run(self.handles[i], feeds)
            except (ModelError, WorkerError) as error:
                self._lose(i, str(error))

    def _round(self, number: int, alive: Sequence[int], rounds: int, block_s: float) -> bool:
        """Time one block per model and workload; False when the deadline came first."""
        order = [0, *alive] if number % 2 == 0 else [*reversed(alive), 0]
        plan = [(i, w) for w in range(len(self.workloads)) for i in order]
        now = time.monotonic()
        length = affordable_block(block_s, self.deadline - now, rounds - number, len(plan))
        try:
            medians = self.worker.time_blocks(
                [self.handles[i] for i, _ in plan],
                [self.workloads[w] for _, w in plan],
                rounds=1,
                block_s=length,
                deadline=self.deadline,
                warm=self.warm,
            )
        except (ModelError, WorkerError) as error:
            self._blame(alive, error)
            return True
        if not medians:
            return False
        seconds = dict(zip(plan, medians[0], strict=True))
        for i in alive:
            ratios = [seconds[0, w] / seconds[i, w] for w in range(len(self.workloads))]
            self.ratios[i].append(ratios)
        self.progress(max(map(self._score, alive)))
        return True

    def _blame(self, alive: Sequence[int], error: SuperoptError) -> None:
        """Find the model that broke a round: run each alone; a failing original is the caller's matter."""
        for feeds in self.workloads:
            self.worker.run(self.handles[0], feeds)
        for i in alive:
            try:
                for feeds in self.workloads:
                    self.worker.run(self.handles[i], feeds)
            except (ModelError, WorkerError) as own:
                self._lose(i, str(own))
        if all(i in self.handles for i in alive):  # nobody fails alone: the round itself is at fault
            raise error

    def _lose(self, index: int, reason: str) -> None:
        self.failures[index] = reason
        handle = self.handles.pop(index, None)
        if handle is not None:
            self.worker.close(handle)

    def _drop(self, alive: Sequence[int], late: bool) -> None:
        """Stop timing models whose best round is below the best model's worst (or below the original).

        ``late``: and those that are slower than the best model by more than chance.
        """
        timed = min(len(self.ratios[i]) for i in alive)
        if timed < 2:
            return
        margin = 0.9 if timed == 2 else 1.0  # two rounds of equal models are often apart by chance
        best = max(alive, key=lambda i: (not self._is_slower(i), self._score(i)))
        bar = max(1.0, min(map(geometric_mean, self.ratios[best])))
        for i in alive:
            highest = max(map(geometric_mean, self.ratios[i]))
            behind = late and self._advantage(best, i).low > 1
            if highest < margin * bar or behind or (timed > 2 and self._is_slower(i)):
                self.worker.close(self.handles.pop(i))
        if late:
            self._keep_finalists(alive)

    def _keep_finalists(self, alive: Sequence[int]) -> None:
        ranked = sorted((i for i in alive if i in self.handles), key=self._score, reverse=True)
        for i in ranked[_FINALISTS:]:
            self.worker.close(self.handles.pop(i))

    def _settled(self, members: Sequence[int]) -> bool:
        """Whether none of those still timed can be faster than the best by more than a tie, or none wins anyway."""
        alive = [i for i in members if i in self.handles]
        best = max(alive, key=self._score, default=0)
        if all(self._hopeless(i) for i in alive):
            return True
        return all(self._advantage(i, best).high < 1 + _TIE for i in alive if i != best)

    def _hopeless(self, index: int) -> bool:
        """Whether a model is surely not faster than the original by what counts as a gain."""
        return bootstrap_interval(list(map(geometric_mean, self.ratios[index]))).high < 1 + self.least_gain

    def fastest(self, members: Sequence[int]) -> int:
        """The fastest model, or the first of those that cannot be told from it; 0 when none beats the original."""
        timed = [i for i in members if self.ratios.get(i) and i not in self.failures and not self._is_slower(i)]
        best = max(timed, key=self._score, default=0)
        if best == 0 or self._score(best) <= 1 or self._hopeless(best):
            return 0
        return next(i for i in timed if i == best or self._ties(best, i))

    def _ties(self, best: int, other: int) -> bool:
        if len(self.ratios[other]) < len(self.ratios[best]):
            return False  # it was dropped
        advantage = self._advantage(best, other)
        return advantage.low <= 1 and advantage.median < 1 + _TIE

    def _advantage(self, one: int, other: int) -> Interval:
        """How many times faster the first model is, by the rounds of both."""
        pairs = zip(self.ratios[one], self.ratios[other], strict=False)
        return bootstrap_interval([geometric_mean(a) / geometric_mean(b) for a, b in pairs])

    def _is_slower(self, index: int) -> bool:
        """Whether every round of some workload was slower than the original's."""
        return any(max(column) < 1 for column in zip(*self.ratios[index], strict=True))

    def _score(self, index: int) -> float:
        rounds = self.ratios[index]
        return median([geometric_mean(row) for row in rounds]) if rounds else 0.0

    def _standing(self, index: int) -> Standing:
        rounds = self.ratios.get(index, [])
        name = self.models[index].name
        if index in self.failures or not rounds:
            return Standing(name, None, len(rounds), failure=self.failures.get(index, NO_TIME))
        return Standing(name, self._score(index), len(rounds), self._is_slower(index))

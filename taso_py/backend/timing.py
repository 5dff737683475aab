"""Is a model really faster: the confirmation that decides, and the comparison behind ``superopt bench``.

Only ratios of blocks from the same round are compared; absolute times drift on shared machines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from taso_py.backend.blocks import block_seconds, is_long
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, Timings, WorkerConfig
from taso_py.backend.statistics import (
    Interval,
    Percentiles,
    bootstrap_interval,
    geometric_mean,
    percentiles,
)
from taso_py.errors import TooLateError
from taso_py.stop import Interrupted

MIN_CONFIRM_ROUNDS, FEW_ROUNDS, CLEAR = 12, 6, 0.05
"""Rounds of a confirmation that suffice, and that suffice where each of them shows a gain of so much: more than a
session's place in memory is worth, and by chance one in 64."""
GROUPS = 3
"""How often a confirmation makes its sessions anew."""
_LONGER_S, _LONGER_GROUPS = 20.0, 4
"""How long a doubtful gain is measured on, and how often with new sessions: the speeds of a shared machine last for
seconds, and a small gain at one of them can be a loss at another."""
_SPEEDS_APART, _SPEED_ROUNDS = 1.25, 4
"""Factor between the times of rounds that belong to two speeds of the machine, and rounds that tell of one."""
_OPENING_SHARE = 0.3
"""Part of a confirmation's time that opening the sessions may take."""
_PATIENCE_S = 2.0
"""How long after the end of its time a worker is still waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Paired comparison of original and winner in a fresh process: speed-up = median of before/after.

    With several workloads a round's ratio is their geometric mean; ``workloads`` holds each one's interval.
    """

    speedup: float
    low: float
    high: float
    before_ms: float
    after_ms: float
    rounds: int
    workloads: tuple[Interval, ...]
    rounds_ms: tuple[tuple[float, float], ...] = ()
    """Before and after of each round, summed over the workloads."""
    delayed: int = 0
    """Rounds that did not count, because other processes had the CPUs."""

    @property
    def slower(self) -> bool:
        """Whether the winner is measurably slower in some workload (its whole interval lies below 1)."""
        return any(interval.high < 1 for interval in self.workloads)

    def suffices(self, min_gain: float = 0.01) -> bool:
        """Whether there are enough rounds to say that it improves."""
        every = all(before >= (1 + max(min_gain, CLEAR)) * after for before, after in self.rounds_ms)
        return self.rounds >= (FEW_ROUNDS if self.rounds_ms and every else MIN_CONFIRM_ROUNDS)

    def improves(self, min_gain: float = 0.01) -> bool:
        """Enough rounds, lower bound above 1, median at least 1 + min_gain, slower in no workload."""
        fast = self.low > 1 and self.speedup >= 1 + min_gain
        return fast and self.suffices(min_gain) and not self.slower and min(self.by_speed(), default=1.0) >= 1

    def by_speed(self) -> list[float]:
        """The median speed-up at each speed that the machine had, fastest first; rounds that are too few have none.

        Rounds are told apart by both of their times, so that chance in one of them favours none.
        """
        rounds = sorted(self.rounds_ms, key=math.prod)
        found, first = list[float](), 0
        for i in range(1, len(rounds) + 1):
            if i == len(rounds) or math.prod(rounds[i]) > _SPEEDS_APART**2 * math.prod(rounds[first]):
                if i - first >= _SPEED_ROUNDS:
                    found.append(median([before / after for before, after in rounds[first:i]]))
                first = i
        return found

    @property
    def doubtful(self) -> bool:
        """Whether it seems a gain, but so small that chance, or another speed of the machine, may take it away."""
        return self.speedup > 1 and self.low < 1 + CLEAR


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Not one round counted: there was no time, or other processes had the CPUs in ``delayed`` rounds."""

    delayed: int = 0


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One model of a bench: latency in ms over all its runs, and speed-up of it over the first model."""

    name: str
    latency_ms: Percentiles
    speedup: Interval
    runs: int


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Rows in the order given; ``rounds`` may be below what was asked when the deadline came first."""

    rows: tuple[BenchRow, ...]
    rounds: int


def affordable_block(block_s: float, seconds: float, rounds: int, entries: int, run_s: float = 0.0) -> float:
    """The block length that lets all rounds fit into ``seconds``, between 20 ms and ``block_s``.

    A fifth is for warm runs; one run of ``run_s`` where that is more, and another that ends after its block.
    """
    share = seconds / max(1, rounds * entries)
    return min(block_s, max(0.02, min(0.8 * share, share - 2 * run_s)))


def confirm(
    config: WorkerConfig,
    original: ModelRef,
    winner: ModelRef,
    workloads: Sequence[Feeds],
    *,
    deadline: float,
    rounds: int = MIN_CONFIRM_ROUNDS,
    block_s: float = 0.25,
    groups: int = GROUPS,
    run_s: float = 0.0,
    seed: int = 0,
) -> Confirmation | Unconfirmed:
    """Original against winner in a fresh worker, until ``deadline`` (time.monotonic()); one run takes ``run_s``.

    Rounds in which a model had to wait for a CPU in all its runs do not count, and are made up for as time allows.
    Where it waited little, the interval holds the ratio without that as well.
    The sessions are made anew ``groups`` times, in alternating order, because a session's place in memory can
    favour it by a percent for as long as it lives; less often where opening them would take most of the time.
    A gain that is doubtful is measured for longer, as far as there is time.
    """
    measured = partial(_measured, config, original, winner, workloads, block_s=block_s, run_s=run_s)
    found = measured(deadline=deadline, rounds=rounds, groups=groups)
    first = _concluded(found, seed)
    now = time.monotonic()
    until = min(deadline, now + _LONGER_S)
    more = int((until - now) / (2 * len(workloads) * 1.25 * block_seconds(block_s, run_s)))
    if isinstance(first, Confirmation) and first.doubtful and more > 0:
        with suppress(Interrupted):
            found += measured(deadline=until, rounds=more, groups=_LONGER_GROUPS)
            return _concluded(found, seed)
    return first


def _measured(
    config: WorkerConfig,
    original: ModelRef,
    winner: ModelRef,
    workloads: Sequence[Feeds],
    *,
    deadline: float,
    rounds: int,
    groups: int,
    block_s: float,
    run_s: float,
) -> list[Timings]:
    """Rounds of both in a fresh worker, in so many pairs of sessions or fewer."""
    found, missing = list[Timings](), rounds
    feeds = [feed for feed in workloads for _ in range(2)]
    with Worker(config) as worker, worker.keeping_to(deadline + _PATIENCE_S):
        while groups and (begin := time.monotonic()) < deadline:
            handles = _open_pair(worker, original, winner, reverse=groups % 2 == 0)
            now = time.monotonic()
            groups = _affordable_groups(groups, deadline - begin, now - begin)
            rest = deadline - now - (groups - 1) * (now - begin)  # the later sessions take as long to open
            timed = worker.time_undelayed(
                handles * len(workloads),
                feeds,
                rounds=-(-missing // groups),
                block_s=affordable_block(block_s, rest, missing, len(feeds), run_s),
                deadline=now + rest / groups,
                warm=not is_long(run_s),
            )
            found.append(timed)
            missing, groups = missing - len(timed.rounds), groups - 1
            for handle in handles:
                worker.close(handle)
    return found


def bench(
    models: Sequence[Path | ModelRef],
    config: WorkerConfig,
    feeds: Feeds,
    *,
    rounds: int = 20,
    block_s: float = 0.25,
    deadline: float | None = None,
    seed: int = 0,
) -> BenchReport:
    """Time every model in paired blocks; ratios are first model / model, per round."""
    refs = [ModelRef.of(model) for model in models]
    patience = math.inf if deadline is None else deadline + _PATIENCE_S
    with Worker(config) as worker, worker.keeping_to(patience):
        handles = [worker.open(ref) for ref in refs]
        timed = worker.time_rounds(handles, [feeds] * len(refs), rounds=rounds, block_s=block_s, deadline=deadline)
    if not timed:
        raise TooLateError("the time allowed is too short for one round: raise it or give fewer models")
    medians = [[float(np.median(block)) for block in blocks] for blocks in timed]
    rows = []
    for i, ref in enumerate(refs):
        runs = 1000 * np.concatenate([blocks[i] for blocks in timed])
        ratios = [row[0] / row[i] for row in medians]
        rows.append(BenchRow(ref.name, percentiles(runs), bootstrap_interval(ratios, seed=seed), len(runs)))
    return BenchReport(tuple(rows), len(timed))


def _concluded(found: Sequence[Timings], seed: int) -> Confirmation | Unconfirmed:
    pairs = [[float(np.median(block)) for block in blocks] for timed in found for blocks in timed.rounds]
    waited = [parts for timed in found for parts in timed.waited]
    delayed = sum(timed.delayed for timed in found)
    return replace(confirmation_of(pairs, seed, waited), delayed=delayed) if pairs else Unconfirmed(delayed)


def _open_pair(worker: Worker, original: ModelRef, winner: ModelRef, *, reverse: bool) -> list[int]:
    if not reverse:
        return [worker.open(original), worker.open(winner)]
    second = worker.open(winner)
    return [worker.open(original), second]


def _affordable_groups(groups: int, seconds: float, opening_s: float) -> int:
    """How often sessions that take so long to open can be made anew; at least once."""
    return max(1, int(min(groups, _OPENING_SHARE * seconds / max(opening_s, 1e-9))))


def confirmation_of(
    pairs: Sequence[Sequence[float]], seed: int, waited: Sequence[Sequence[float]] = ()
) -> Confirmation:
    """Of at least one round: seconds before and after in workload 0, before and after in workload 1, and so on.

    ``waited``: the part of each of them, at most, that was spent waiting for a CPU; none if it is empty.
    """
    calm = waited or [[0.0] * len(row) for row in pairs]
    ratios = [_ratios(row) for row in pairs]
    least = [_ratios(_without(row, parts, 0)) for row, parts in zip(pairs, calm, strict=True)]
    most = [_ratios(_without(row, parts, 1)) for row, parts in zip(pairs, calm, strict=True)]
    total = _interval(*([geometric_mean(row) for row in rows] for rows in (ratios, least, most)), seed=seed)
    summed = tuple((1000 * sum(row[::2]), 1000 * sum(row[1::2])) for row in pairs)
    columns = zip(*(zip(*rows, strict=True) for rows in (ratios, least, most)), strict=True)
    return Confirmation(
        speedup=total.median,
        low=total.low,
        high=total.high,
        before_ms=median([before for before, _ in summed]),
        after_ms=median([after for _, after in summed]),
        rounds=len(pairs),
        rounds_ms=summed,
        workloads=tuple(_interval(*column, seed=seed) for column in columns),
    )


def _without(row: Sequence[float], parts: Sequence[float], side: int) -> list[float]:
    """The times of a round, of which those before (``side`` 0) or after (1) did not wait."""
    return [t * (1 - w) if i % 2 == side else t for i, (t, w) in enumerate(zip(row, parts, strict=True))]


def _ratios(row: Sequence[float]) -> list[float]:
    return [row[i] / row[i + 1] for i in range(0, len(row), 2)]


def _interval(ratios: Sequence[float], least: Sequence[float], most: Sequence[float], *, seed: int) -> Interval:
    """The median of the ratios; from the lower end of the least that they may be to the upper end of the most."""
    found = bootstrap_interval(ratios, seed=seed)
    return Interval(found.median, bootstrap_interval(least, seed=seed).low, bootstrap_interval(most, seed=seed).high)

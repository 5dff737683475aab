"""Blocks of runs of one model: all of them, or those that did not wait for a CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taso_py.backend.delays import stolen_s, waited_s, was_delayed

LONG_RUN_S = 0.1
"""A run that takes so long needs none before it that does not count: filling the caches anew, some milliseconds, is a
small part of it, and it scatters hardly more than several."""
_GROUP_S = 0.0005
"""Runs are judged together for so long: looking at every thread takes a tenth of it."""
_PATIENCE, _LEAST = 4.0, 0.1
"""How many times longer a block may take than wanted, and which part of it must be left of runs that count."""
_SHORT_PATIENCE = 1.5
"""How many times longer where there are runs enough that waited little."""
_BEARABLE = 0.1
"""Part of a run for which its threads may have waited, together, for it to count where no other does."""


@dataclass(frozen=True, slots=True)
class Block:
    """Runs of one model, one after the other."""

    seconds: Any
    """Of each run, as an array of NumPy; empty where none counts."""
    waited: float = 0.0
    """The part of each run, at most, by which it may be longer because its threads waited for a CPU."""

    @property
    def counts(self) -> bool:
        """Whether there are runs."""
        return len(self.seconds) > 0


def is_long(run_s: float) -> bool:
    """Whether a run of so many seconds is timed without one before it."""
    return run_s >= LONG_RUN_S


def block_seconds(block_s: float, run_s: float) -> float:
    """What a block of runs takes that take ``run_s`` each, with the one before it if they are short."""
    return math.ceil(block_s / run_s) * run_s if is_long(run_s) else block_s + 2 * run_s


def run_block(run: Callable[[], object], block_s: float, deadline: float) -> Any:
    """Seconds of each run of one block (at least one run), or None when the deadline passes first."""
    import numpy as np

    clock = time.perf_counter
    if clock() >= deadline:
        return None
    seconds = []
    begin = before = clock()
    while True:
        if before >= deadline:
            return None
        run()
        after = clock()
        seconds.append(after - before)
        if after - begin >= block_s:
            return np.array(seconds)
        before = after


def undelayed_block(run: Callable[[], object], block_s: float, deadline: float, threads: int) -> Block | None:
    """Runs that waited for no CPU, for as long as it takes within reason; else the calmer half of what waited little.

    No kernel boundary is reached later than its threads have waited together: what a run took less that is the least
    that it would have taken.  Long runs wait a little on any machine, for its own housekeeping.

    There are no runs where all waited longer, or where some waited and then the deadline passes: without them the time
    would have been enough.  None where it passes for no such reason.
    """
    import numpy as np

    kept: list[Any] = []
    bearable: list[tuple[float, Any]] = []
    clean, calm, late, begin, stolen = 0.0, 0.0, False, time.perf_counter(), stolen_s()
    while clean < block_s:
        patience = _PATIENCE if clean + calm < block_s else _SHORT_PATIENCE
        if time.perf_counter() - begin >= patience * block_s:
            break
        before = waited_s()
        runs = run_block(run, _GROUP_S, deadline)
        if runs is None:
            return Block(()) if late else None
        took = float(runs.sum())
        waited = waited_s() - before
        if not was_delayed(waited, took, threads):
            kept.append(runs)
            clean += took
            continue
        late = True
        if waited <= _BEARABLE * took:
            bearable.append((waited / took, runs))
            calm += took
    if was_delayed(stolen_s() - stolen, time.perf_counter() - begin, threads):
        return Block(())
    if clean >= _LEAST * block_s:
        return Block(np.concatenate(kept))
    calmer = sorted(bearable, key=lambda part: part[0])[: (len(bearable) + 1) // 2]
    if not calmer:
        return Block(())
    return Block(np.concatenate([*kept, *(runs for _, runs in calmer)]), calmer[-1][0])

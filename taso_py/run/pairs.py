"""Two whole models timed against each other, for as long as it takes to tell what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from taso_py.backend.blocks import LONG_RUN_S, block_seconds, is_long
from taso_py.backend.statistics import Interval, bootstrap_interval
from taso_py.run.run import Run

_ROUNDS, _LONG_ROUNDS, _MOST_ROUNDS = 5, 3, 20
_PRECISION = 0.006
"""Rounds of two models, fewer where one run takes long, and as many more as it takes for an interval of the ratio that
is no wider than this, or that decides what was asked."""
_PAIR_S = 4.0
"""Seconds of rounds after which no more are begun."""
_HOPE = 2.0
"""Times the most rounds after which an interval may be expected to decide something, for it to be waited for."""
_RUNS, _LEAST_BLOCK_S = 3, 0.04
"""Runs and seconds that a block of short runs has at least: in half of that what the other model leaves in the caches
decides, and ratios scatter three times as far."""


def paired(job: Run, first: int, second: int, bounds: Sequence[float], late: Callable[[], bool]) -> Interval:
    """Seconds of the second over those of the first, both by their handles: the geometric mean of the workloads.

    It is the median ratio of the fastest runs of a round: within one others can only add time; from one round to the
    next the machine itself may get slower or faster.  Measured until it is clear between which of the ``bounds`` it
    lies, or it is ``late``.
    """
    product = Interval(1.0, 1.0, 1.0)
    for feed in job.setting.feeds:
        for handle in (first, second):
            job.worker.run(handle, feed)
        ratios, end = list[float](), time.monotonic() + _PAIR_S
        while len(ratios) < _MOST_ROUNDS and (not ratios or time.monotonic() < end):
            rounds = job.worker.time_rounds(
                [first, second], [feed, feed], rounds=_rounds(job), block_s=_block_s(job), warm=not is_long(job.run_s)
            )
            ratios += [float(min(after) / min(before)) for before, after in rounds]
            found = bootstrap_interval(ratios)
            if _is_settled(found, len(ratios), bounds) or late():
                break
        product = Interval(product.median * found.median, product.low * found.low, product.high * found.high)
    root = 1 / len(job.setting.feeds)
    return Interval(product.median**root, product.low**root, product.high**root)


def pair_seconds(job: Run) -> float:
    """What the first rounds of a pair take."""
    return 2 * _rounds(job) * block_seconds(_block_s(job), job.run_s) * len(job.setting.feeds)


def _rounds(job: Run) -> int:
    return _LONG_ROUNDS if is_long(job.run_s) else _ROUNDS


def _block_s(job: Run) -> float:
    return max(_LEAST_BLOCK_S, min(_RUNS * job.run_s, LONG_RUN_S))


def _is_settled(found: Interval, rounds: int, bounds: Sequence[float]) -> bool:
    """Whether more rounds would say no more: between which of the bounds a ratio lies is clear, or stays unclear.

    Intervals narrow with the root of the number of rounds; one that many rounds would leave around a bound is as good
    now.
    """
    width = found.high - found.low
    open_ = [abs(found.median - bound) for bound in bounds if found.low <= bound <= found.high]
    if width < _PRECISION or (bounds and not open_):
        return True
    wanted = max(_PRECISION, 2 * min(open_, default=0.0))
    return bool(bounds) and rounds * (width / wanted) ** 2 > _HOPE * _MOST_ROUNDS

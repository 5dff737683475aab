"""How long two models are timed against each other, and what a run that takes long spares; no test asserts a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from taso_py.backend.blocks import LONG_RUN_S, block_seconds
from taso_py.run.pairs import pair_seconds, paired
from taso_py.run.run import Run


class Clocked:
    """A worker whose second model takes these shares of the first one's time, in turn."""

    def __init__(self, *shares: float) -> None:
        self.shares = shares
        self.timed = 0
        self.asked: list[dict[str, Any]] = []

    def run(self, _handle: int, _feeds: object) -> None: ...

    def time_rounds(self, _handles: object, _feeds: object, *, rounds: int, **asked: Any) -> list[object]:
        self.timed += rounds
        self.asked.append(asked)
        return [([1.0, 1.2], [self.shares[k % len(self.shares)], 1.5]) for k in range(rounds)]


def job(worker: Clocked, run_s: float = 0.001, feeds: int = 1) -> Run:
    return cast(Run, SimpleNamespace(worker=worker, run_s=run_s, setting=SimpleNamespace(feeds=[{}] * feeds)))


@pytest.mark.parametrize(
    ("bounds", "shares", "rounds"),
    [
        ((), (0.97, 0.99), 20),
        ((0.99, 1.01), (0.96, 0.98), 5),
        ((0.99, 1.01), (0.995, 1.005), 5),
        ((0.99, 1.01), (0.98, 0.992), 20),
        ((0.99, 1.01), (0.985, 1.05), 5),
        ((), (0.99, 0.991), 5),
    ],
    ids=["unasked", "surely-faster", "surely-alike", "open", "hopeless", "precise"],
)
def test_a_pair_is_timed_until_what_was_asked_is_decided(
    bounds: tuple[float, ...], shares: tuple[float, float], rounds: int
) -> None:
    worker = Clocked(*shares)
    found = paired(job(worker), 1, 2, bounds, lambda: False)
    assert worker.timed == rounds
    assert min(shares) <= found.low <= found.median <= found.high <= max(shares)


def test_a_long_run_is_timed_by_itself_and_seldom() -> None:
    short, long = Clocked(0.9), Clocked(0.9)
    paired(job(short, LONG_RUN_S / 2), 1, 2, (1.0,), lambda: False)
    paired(job(long, LONG_RUN_S), 1, 2, (1.0,), lambda: False)
    assert long.timed < short.timed
    assert [asked["warm"] for asked in short.asked + long.asked] == [True, False]
    assert long.asked[0]["block_s"] <= LONG_RUN_S, "a block is one run"


def test_every_workload_counts_alike() -> None:
    found = paired(job(Clocked(0.25), feeds=2), 1, 2, (1.0,), lambda: False)
    assert found.median == pytest.approx(0.25)


def test_what_a_pair_takes() -> None:
    assert block_seconds(0.25, 0.4) == 0.4
    assert block_seconds(0.25, 0.2) == 0.4
    assert block_seconds(0.25, 0.01) == pytest.approx(0.27)
    assert pair_seconds(job(Clocked(1.0), 0.4)) == pytest.approx(6 * 0.4)
    assert pair_seconds(job(Clocked(1.0), 0.4, feeds=2)) == pytest.approx(12 * 0.4)

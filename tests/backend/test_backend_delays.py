"""Runs that waited for a CPU, on scripted clocks; what the kernel tells of waiting."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from taso_py.backend import blocks, delays, worker
from taso_py.backend.blocks import Block
from taso_py.backend.protocol import Feeds, Time, WorkerConfig

NEVER = float("inf")
X: Feeds = {"x": np.ones((4, 4), np.float32)}


@pytest.mark.parametrize(
    ("waits", "kept", "share"),
    [
        ([0.0] * 8, 4, 0.0),  # nobody else: until the block is full
        ([0.0, 0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0], 4, 0.0),  # what waited is made up for
        ([0.0, 0.05, 0.0, 0.0, 0.0, 0.05, 0.0, 0.0], 4, 0.0),  # what waited little as well
        ([0.02, 0.05, 0.5, 0.03] * 4, 3, 0.03),  # a machine's housekeeping: the calmer half of what waited little
        ([0.11] * 20, 0, 0.0),
        ([0.5] * 20, 0, 0.0),  # others have the CPUs: nothing counts
    ],
)
def test_runs_that_waited_for_a_cpu_do_not_count(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], kept: int, share: float
) -> None:
    clock, waited, left = [0.0], [0.0], iter(waits)

    def run() -> None:
        clock[0] += 1.0
        waited[0] += next(left)

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(blocks, "waited_s", lambda: waited[0])
    monkeypatch.setattr(blocks, "stolen_s", lambda: 0.0)
    found = blocks.undelayed_block(run, 4.0, NEVER, 2)
    assert found is not None
    assert list(found.seconds) == [1.0] * kept
    assert found.waited == pytest.approx(share)
    assert found.counts == bool(kept)


def test_a_block_in_which_the_machine_was_given_to_others_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def run() -> None:
        clock[0] += 1.0

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(blocks, "waited_s", lambda: 0.0)
    monkeypatch.setattr(blocks, "stolen_s", lambda: 0.2 * clock[0])
    found = blocks.undelayed_block(run, 4.0, NEVER, 2)
    assert found is not None
    assert not found.counts


@pytest.mark.parametrize(("wait", "delayed"), [(0.5, 1), (0.0, 0)])
def test_a_round_that_the_deadline_cuts_off_was_delayed_only_if_runs_waited(
    monkeypatch: pytest.MonkeyPatch, wait: float, delayed: int
) -> None:
    clock, waited = [0.0], [0.0]

    def run() -> None:
        clock[0] += 1.0
        waited[0] += wait

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(blocks, "waited_s", lambda: waited[0])
    monkeypatch.setattr(blocks, "stolen_s", lambda: 0.0)
    monkeypatch.setattr(worker.Host, "_runner", lambda *_: run)
    host = worker.Host.__new__(worker.Host)
    host.config = WorkerConfig()
    found = host.time(Time(((1, X), (2, X)), rounds=4, block_s=9.0, budget_s=5.0, warm=False, undelayed=True))
    assert (found.rounds, found.delayed) == ([], delayed)


def test_a_delayed_round_is_made_up_for_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([Block(()), Block((1.0,)), Block((1.0,), 0.05), *[Block(())] * 20])
    monkeypatch.setattr(worker.Host, "_block", lambda *_: next(results))
    monkeypatch.setattr(worker.Host, "_runner", lambda *_: lambda: None)
    host = worker.Host.__new__(worker.Host)
    host.config = WorkerConfig()
    found = host.time(Time(((1, X),), rounds=4, block_s=0.0, budget_s=1e6, warm=False, undelayed=True))
    assert (len(found.rounds), found.delayed, found.waited) == (2, 12, [[0.0], [0.05]])


def test_a_process_knows_how_long_it_waited() -> None:
    before = delays.waited_s()
    assert before >= 0
    assert delays.waited_s() >= before
    assert delays.stolen_s() >= 0


@pytest.mark.parametrize(("threads", "most"), [(1, 0.01), (2, 0.01), (4, 0.02), (16, 0.08)])
def test_what_is_tolerated_grows_with_the_threads_that_can_wait(threads: int, most: float) -> None:
    assert not delays.was_delayed(0.99 * most, 1.0, threads)
    assert delays.was_delayed(1.01 * most, 1.0, threads)
    assert delays.was_delayed(0.5, 1.0, threads), "another process on one of the CPUs"


def test_where_nothing_tells_nothing_was_delayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(delays, "_TASKS", tmp_path / "none")
    monkeypatch.setattr(delays, "_STAT", tmp_path / "none")
    assert (delays.waited_s(), delays.stolen_s()) == (0.0, 0.0)

"""Timing logic on scripted clocks, and its plumbing on real sessions (no figure of time is asserted)."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taso_py.backend import timing
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, Time, Timings, WorkerConfig
from taso_py.backend.statistics import bootstrap_interval, geometric_mean, percentiles
from taso_py.backend.timing import Confirmation, Unconfirmed, bench, confirm, confirmation_of
from taso_py.errors import TooLateError
from taso_py.stop import Interrupted
from tests.helpers.scripted import NEVER, ONE, ScriptedWorker, X, refs, text_model


def test_bootstrap_interval_is_seeded_and_contains_the_median() -> None:
    ratios = list(np.random.default_rng(1).normal(1.1, 0.01, 12))
    first, second = bootstrap_interval(ratios, seed=3), bootstrap_interval(ratios, seed=3)
    assert first == second
    assert first.low <= first.median <= first.high
    assert first.median == pytest.approx(np.median(ratios))
    assert min(ratios) <= first.low < first.high <= max(ratios)
    wide = bootstrap_interval(ratios, level=0.5, seed=3)
    assert first.low <= wide.low <= wide.high <= first.high
    assert bootstrap_interval([2.0] * 5).high == 2.0
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval([])


def test_bootstrap_interval_covers_the_true_median() -> None:
    """Coverage of the nominal 95 % interval on 200 samples of 12: binomial, so well above 85 %."""
    generator = np.random.default_rng(0)
    hits = 0
    for seed in range(200):
        found = bootstrap_interval(list(generator.normal(1.0, 0.02, 12)), seed=seed)
        hits += found.low <= 1.0 <= found.high
    assert hits >= 170


def test_small_statistics() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4)
    found = percentiles(list(range(101)))
    assert (found.p50, found.p90, found.p99) == (50, 90, 99)


@pytest.mark.parametrize(
    ("change", "improves"),
    [
        ({}, True),
        ({"low": 0.999}, False),
        ({"speedup": 1.005}, False),
        ({"rounds": 11}, False),
        ({"rounds": 6, "rounds_ms": ((2.2, 2.0),) * 6}, True),
        ({"rounds": 5, "rounds_ms": ((2.2, 2.0),) * 5}, False),
        ({"rounds": 11, "rounds_ms": (*((2.2, 2.0),) * 10, (2.09, 2.0))}, False),
        ({"rounds_ms": ((2.2, 2.0),) * 20 + ((3.9, 4.0),) * 4}, False),
        ({"rounds_ms": ((2.2, 2.0),) * 20 + ((3.9, 4.0),) * 3}, True),
        ({"rounds_ms": ((2.2, 2.0),) * 20 + ((4.0, 4.0),) * 4}, True),
        ({"rounds_ms": ((2.2, 2.0),) * 20 + ((2.2, 2.3),) * 4}, True),
        ({"workloads": (timing.Interval(1.2, 1.1, 1.3), timing.Interval(0.97, 0.95, 0.99))}, False),
        ({"workloads": (timing.Interval(1.2, 1.1, 1.3), timing.Interval(0.99, 0.97, 1.01))}, True),
    ],
)
def test_what_counts_as_an_improvement(change: dict[str, Any], improves: bool) -> None:
    fields: dict[str, Any] = {
        **dict.fromkeys(("before_ms", "after_ms"), 2.0),
        "speedup": 1.1,
        "low": 1.05,
        "high": 1.15,
        "rounds": 12,
        "workloads": (timing.Interval(1.1, 1.05, 1.15),),
    }
    assert Confirmation(**(fields | change)).improves() is improves


def test_confirmation_pairs_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine drifts by a factor of 2 over the rounds; the ratio stays."""
    made: list[ScriptedWorker] = []

    def worker(_config: WorkerConfig) -> ScriptedWorker:
        made.append(ScriptedWorker(lambda name, _w, n: (1 + n / 12) * (1.0 if name == "original" else 0.8)))
        return made[-1]

    monkeypatch.setattr(timing, "Worker", worker)
    original, winner = refs("original", "winner")
    found = confirm(WorkerConfig(), original, winner, ONE, deadline=NEVER, rounds=13, groups=3)
    assert isinstance(found, Confirmation)
    assert found.rounds == 13
    assert found.speedup == pytest.approx(1.25)
    assert (found.low, found.high) == pytest.approx((1.25, 1.25))
    assert found.before_ms == pytest.approx(1000 * (1 + 7 / 12))
    assert len(found.rounds_ms) == 13
    assert all(before == pytest.approx(1.25 * after) for before, after in found.rounds_ms)
    assert found.improves()
    assert [made[0].names[i] for i in range(1, 7)] == [
        *("original", "winner"),
        *("winner", "original"),
        *("original", "winner"),
    ]
    assert made[0].most_alive == 2


def test_a_small_gain_is_measured_for_longer_and_must_hold_at_every_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the rounds of the first confirmation the machine is fast, and after them it is slow for a while."""
    made: list[ScriptedWorker] = []

    def confirmed(slow: float, **options: Any) -> Confirmation | timing.Unconfirmed:
        def seconds(name: str, _workload: int, number: int) -> float:
            own = 1.0 if len(made) == 1 else 2.0 if number <= 10 else 1.1
            return own * (1.0 if name == "original" else 0.98 if own < 2 else 1 / slow)

        def worker(_config: WorkerConfig) -> ScriptedWorker:
            made.append(ScriptedWorker(seconds))
            return made[-1]

        made.clear()
        monkeypatch.setattr(timing, "Worker", worker)
        return confirm(WorkerConfig(), *refs("original", "winner"), ONE, rounds=12, **options)

    held, lost = confirmed(1.02, deadline=NEVER), confirmed(0.93, deadline=NEVER)
    assert isinstance(held, Confirmation)
    assert isinstance(lost, Confirmation)
    assert held.improves()
    assert held.rounds == lost.rounds > 30
    assert lost.low > 1
    assert lost.by_speed() == pytest.approx([1 / 0.98, 0.93])
    assert not lost.improves()
    assert len(made[1].names) == 2 * 4


def test_who_asks_to_stop_while_a_small_gain_is_measured_longer_gets_what_was_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ScriptedWorker] = []

    def seconds(name: str, _workload: int, _number: int) -> float:
        if len(made) > 1:
            raise Interrupted
        return 1.0 if name == "original" else 0.98

    def worker(_config: WorkerConfig) -> ScriptedWorker:
        made.append(ScriptedWorker(seconds))
        return made[-1]

    monkeypatch.setattr(timing, "Worker", worker)
    found = confirm(WorkerConfig(), *refs("original", "winner"), ONE, deadline=NEVER, rounds=12)
    assert isinstance(found, Confirmation)
    assert (found.rounds, len(made)) == (12, 2)
    assert found.improves()


@pytest.mark.parametrize(("budget", "openings"), [(100.0, 3), (8.0, 2), (4.0, 1)])
def test_sessions_that_take_long_to_open_are_opened_less_often(
    monkeypatch: pytest.MonkeyPatch, budget: float, openings: int
) -> None:
    """Each pair takes a second to open, and the rounds take no time."""
    now = [0.0]

    class Slow(ScriptedWorker):
        def open(self, model: Any, **options: Any) -> int:
            now[0] += 0.5
            return super().open(model, **options)

    made = Slow(lambda name, _w, _n: 1.0 if name == "original" else 0.5)
    monkeypatch.setattr(timing, "Worker", lambda _config: made)
    monkeypatch.setattr(timing.time, "monotonic", lambda: now[0])
    found = confirm(WorkerConfig(), *refs("original", "winner"), ONE, deadline=budget, rounds=12, groups=3)
    assert isinstance(found, Confirmation)
    assert found.rounds == 12
    assert len(made.names) == 2 * openings


@pytest.mark.parametrize("seconds", [14.0, 17.0, 30.0])
def test_all_rounds_fit_beside_the_openings(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A session opens in half a second, a run takes a tenth; a block begins with a warm run and ends with its last."""
    now, run_s = [0.0], 0.1

    class Heavy(ScriptedWorker):
        def open(self, model: Any, **options: Any) -> int:
            now[0] += 0.5
            return super().open(model, **options)

        def time_undelayed(self, handles: Any, feeds: Any, *, rounds: int, **options: Any) -> Timings:
            round_s = len(handles) * (run_s + run_s * math.ceil(options["block_s"] / run_s))
            fit = min(rounds, int((options["deadline"] - now[0]) / round_s + 1e-9))
            now[0] += fit * round_s
            return super().time_undelayed(handles, feeds, rounds=fit)

    made = Heavy(lambda name, _w, _n: 1.0 if name == "original" else 0.5)
    monkeypatch.setattr(timing, "Worker", lambda _config: made)
    monkeypatch.setattr(timing.time, "monotonic", lambda: now[0])
    found = confirm(WorkerConfig(), *refs("original", "winner"), ONE, deadline=seconds, rounds=15, run_s=run_s)
    assert isinstance(found, Confirmation)
    assert found.rounds == 15
    assert now[0] <= seconds


def test_rounds_that_were_delayed_are_told_and_too_few_others_confirm_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(_config: WorkerConfig) -> ScriptedWorker:
        return ScriptedWorker(lambda name, _w, n: 1.0 if name == "original" else 0.5, undelayed=1)

    monkeypatch.setattr(timing, "Worker", worker)
    found = confirm(WorkerConfig(), *refs("original", "winner"), ONE, deadline=NEVER, rounds=12, groups=3)
    assert isinstance(found, Confirmation)
    assert (found.rounds, found.delayed) == (3, 17)  # what is missing is asked for again
    assert not found.improves()
    monkeypatch.setattr(timing, "Worker", lambda _: ScriptedWorker(lambda *_: 1.0, undelayed=0))
    nothing = confirm(WorkerConfig(), *refs("original", "winner"), ONE, deadline=NEVER, rounds=12, groups=3)
    assert nothing == Unconfirmed(22)


def test_what_may_have_been_waited_is_within_the_interval() -> None:
    pairs = [[1.0, 0.5]] * 12
    calm, waited = confirmation_of(pairs, 0), confirmation_of(pairs, 0, [[0.05, 0.02]] * 12)
    assert (calm.speedup, calm.low, calm.high) == (2.0, 2.0, 2.0)
    assert (waited.speedup, waited.low, waited.high) == pytest.approx((2.0, 2 * 0.95, 2 / 0.98))
    assert waited.improves()
    assert not confirmation_of([[1.03, 1.0]] * 12, 0, [[0.05, 0.0]] * 12).improves()
    several = confirmation_of([[1.0, 0.5, 1.0, 1.0]] * 12, 0, [[0.0, 0.0, 0.1, 0.0]] * 12)
    assert [w.low for w in several.workloads] == pytest.approx([2.0, 0.9])
    assert [w.high for w in several.workloads] == pytest.approx([2.0, 1.0])


def test_blocks_of_real_sessions() -> None:
    with Worker(WorkerConfig(threads=2)) as worker:
        handles = [worker.open(text_model("y = Relu(x)")), worker.open(text_model("y = Softmax(x)"))]
        rounds = worker.time_rounds(handles, [X, X], rounds=3, block_s=0.01)
        assert [len(blocks) for blocks in rounds] == [2, 2, 2]
        assert all(len(block) >= 1 and (block > 0).all() for blocks in rounds for block in blocks)
        medians = worker.time_blocks(handles, [X, X], rounds=2, block_s=0.01)
        assert [len(row) for row in medians] == [2, 2]
        assert worker.time_blocks(handles, [X, X], rounds=5, deadline=time.monotonic() - 1) == []
        assert worker.restarts == 0


@pytest.mark.parametrize(("warm", "runs"), [(True, 2), (False, 1)])
def test_a_block_begins_with_a_warm_run_if_wanted(warm: bool, runs: int) -> None:
    from taso_py.backend.worker import Host

    done: list[None] = []
    request = Time((), rounds=1, block_s=0.0, budget_s=1.0, warm=warm)
    block = Host.__new__(Host)._block(lambda: done.append(None), request, NEVER)
    assert block is not None
    assert len(block.seconds) == 1
    assert len(done) == runs


def test_odd_rounds_visit_the_sessions_in_reverse_and_a_round_that_does_not_fit_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from taso_py.backend.worker import Host

    clock, visited = [0.0], list[int]()

    def runner(_host: Host, number: int, _feeds: Feeds) -> Callable[[], object]:
        def run() -> None:
            visited.append(number)
            clock[0] += number

        return run

    monkeypatch.setattr(Host, "_runner", runner)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    host = Host.__new__(Host)
    found = host.time(Time(((1, X), (2, X)), rounds=3, block_s=0.0, budget_s=6.5, warm=False))
    assert visited == [1, 2, 2, 1, 1]
    assert (found.rounds, found.delayed) == ([[1, 2], [1, 2]], 0)


def test_device_binding_runs_on_the_cpu_too() -> None:
    """The path that CUDA takes, with the CPU as the device."""
    code = (
        "import numpy as np, onnxruntime as ort; from taso_py.backend import accelerators, values;"
        f"s = ort.InferenceSession({text_model('y = Neg(x)')!r}, providers=['CPUExecutionProvider']);"
        "b = values.bind(s, {'x': np.ones((2, 4), np.float32)}, accelerators.HOST);"
        "s.run_with_iobinding(b); b.synchronize_outputs(); print(b.copy_outputs_to_cpu()[0].sum())"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "-8.0\n"), done.stderr


def test_confirm_and_bench_on_real_sessions(tmp_path: Path) -> None:
    slow, fast = tmp_path / "slow.onnx", tmp_path / "fast.onnx"
    slow.write_bytes(text_model("a = Softmax(x) b = Softmax(a) y = Softmax(b)"))
    fast.write_bytes(text_model("y = Softmax(x)"))
    config = WorkerConfig(threads=1)
    found = confirm(config, ModelRef.of(slow), ModelRef.of(fast), [X, X], deadline=NEVER, block_s=0.005)
    assert isinstance(found, Confirmation), "other processes had the CPUs all the time"
    assert 0 < found.rounds <= 12
    assert len(found.workloads) == 2
    assert found.low <= found.speedup <= found.high
    assert confirm(config, ModelRef.of(slow), ModelRef.of(fast), [X], deadline=time.monotonic() - 1) == Unconfirmed()
    report = bench([slow, fast], config, X, rounds=4, block_s=0.005)
    assert [row.name for row in report.rows] == ["slow.onnx", "fast.onnx"]
    assert report.rounds == 4
    first, second = report.rows
    assert (first.speedup.median, first.speedup.low, first.speedup.high) == (1, 1, 1)
    for row in (first, second):
        assert 0 < row.latency_ms.p50 <= row.latency_ms.p90 <= row.latency_ms.p99
        assert row.runs >= 4
    with pytest.raises(TooLateError, match="too short for one round"):
        bench([slow], config, X, deadline=time.monotonic() - 1)

"""The race on scripted clocks and on real sessions (no figure of time is asserted)."""

from __future__ import annotations

import time

import pytest

from taso_py.backend import timing
from taso_py.backend.blocks import LONG_RUN_S
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.backend.race import race
from taso_py.backend.timing import confirm
from taso_py.errors import ModelError, UsageError
from tests.helpers.scripted import NEVER, ONE, ScriptedWorker, X, refs, text_model


@pytest.mark.parametrize(("run_s", "warm"), [(LONG_RUN_S / 2, True), (LONG_RUN_S, False)])
def test_long_runs_need_none_before_them(run_s: float, warm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = ScriptedWorker(lambda name, _workload, _number: run_s * (1.0 if name == "original" else 0.8))
    assert race(worker, refs("original", "fast"), ONE, deadline=NEVER, run_s=run_s).winner == 1
    assert worker.warm == {warm}
    worker.warm.clear()
    monkeypatch.setattr(timing, "Worker", lambda _config: worker)
    confirm(WorkerConfig(), *refs("original", "fast"), ONE, deadline=NEVER, run_s=run_s)
    assert worker.warm == {warm}


def test_the_fastest_wins_and_clear_losers_stop_early() -> None:
    speeds = {"original": 1.0, "slow": 2.0, "fast": 0.5, "good": 0.8}
    worker = ScriptedWorker(lambda name, _workload, number: speeds[name] * (1 + 0.001 * (number % 2)))
    result = race(worker, refs("original", "slow", "fast", "good"), ONE, deadline=NEVER, rounds=6)
    assert result.winner == 2
    assert result.standings[2].speedup == pytest.approx(2, rel=0.01)
    assert [one.rounds for one in result.standings[1:]] == [2, 6, 2]
    assert result.standings[1].slower
    assert worker.alive == set()


def test_near_losers_get_a_third_round() -> None:
    near = {"original": 1.0, "a": 0.8, "b": 0.82}
    worker = ScriptedWorker(lambda name, _workload, number: near[name] * (1 + 0.001 * (number % 2)))
    result = race(worker, refs("original", "a", "b"), ONE, deadline=NEVER, rounds=6)
    assert [one.rounds for one in result.standings[1:]] == [6, 3]


def test_what_cannot_be_told_apart_goes_on_and_the_first_of_it_wins() -> None:
    rough = {"original": 1.0, "simple": 0.802, "other": 0.8, "slow": 0.9}

    def seconds(name: str, _workload: int, number: int) -> float:
        return rough[name] * (1 + 0.05 * (number * 7 % 5) * (name != "original"))

    worker = ScriptedWorker(seconds)
    result = race(worker, refs("original", "slow", "simple", "other"), ONE, deadline=NEVER, rounds=6)
    assert result.standings[3].speedup > result.standings[2].speedup
    assert result.winner == 3, "an advantage in every round is no chance"

    def shaken(name: str, _workload: int, number: int) -> float:
        return rough[name] * (1 + 0.02 * (-1) ** number * (name == "other"))

    worker = ScriptedWorker(shaken)
    result = race(worker, refs("original", "slow", "simple", "other"), ONE, deadline=NEVER, rounds=6)
    assert result.winner == 2
    assert [one.rounds for one in result.standings[1:]] == [3, 16, 16]


def test_what_is_surely_a_tie_is_timed_no_longer() -> None:
    even = {"original": 1.0, "simple": 0.8, "other": 0.8}

    def seconds(name: str, _workload: int, number: int) -> float:
        return even[name] * (1 + 0.002 * (-1) ** number * (name == "other"))

    result = race(ScriptedWorker(seconds), refs("original", "simple", "other"), ONE, deadline=NEVER, rounds=6)
    assert result.winner == 1
    assert [one.rounds for one in result.standings[1:]] == [6, 6]


def test_a_race_goes_on_only_where_another_may_be_faster() -> None:
    behind = (1.03, 1.005, 0.996)

    def seconds(name: str, _workload: int, number: int) -> float:
        return 1.0 if name == "original" else 0.8 * (behind[number % 3] if name == "behind" else 1)

    for names in (("ahead", "behind"), ("behind", "ahead")):
        result = race(ScriptedWorker(seconds), refs("original", *names), ONE, deadline=NEVER, rounds=6)
        assert [one.rounds for one in result.standings[1:]] == [6, 6]
        assert result.standings[result.winner].name == names[0], "they are less than a tie apart"


@pytest.mark.parametrize(("least_gain", "rounds", "winner"), [(0.02, 6, 0), (0.001, 16, 1)])
def test_a_race_that_nobody_can_win_any_more_ends(least_gain: float, rounds: int, winner: int) -> None:
    speeds = {"original": (1.0, 1.0), "steady": (1.004, 1.004), "wild": (1.018, 0.98)}
    worker = ScriptedWorker(lambda name, _workload, number: 1 / speeds[name][number % 2])
    result = race(worker, refs("original", "steady", "wild"), ONE, deadline=NEVER, rounds=6, least_gain=least_gain)
    assert (result.standings[1].rounds, result.winner) == (rounds, winner)


def test_the_original_wins_against_ties_and_losers() -> None:
    worker = ScriptedWorker(lambda name, _workload, _number: 1.0 if name == "original" else 1.01)
    assert race(worker, refs("original", "a", "b"), ONE, deadline=NEVER).winner == 0


def test_a_candidate_slower_in_one_workload_does_not_win() -> None:
    def seconds(name: str, workload: int, _number: int) -> float:
        return {"original": (1.0, 1.0), "mixed": (0.2, 1.5), "fair": (0.9, 0.9)}[name][workload]

    worker = ScriptedWorker(seconds)
    both = [{"workload": 0}, {"workload": 1}]
    result = race(worker, refs("original", "mixed", "fair"), both, deadline=NEVER)
    assert result.standings[1].speedup > result.standings[2].speedup
    assert result.standings[1].slower
    assert [one.rounds for one in result.standings[1:]] == [3, 6]
    assert result.winner == 2


@pytest.mark.parametrize("failure", ["load bad", "run bad", "time bad"])
def test_a_failing_candidate_is_listed_and_the_race_goes_on(failure: str) -> None:
    worker = ScriptedWorker(lambda name, _workload, _number: 0.5 if name == "fast" else 1.0, broken=[failure])
    result = race(worker, refs("original", "bad", "fast"), ONE, deadline=NEVER)
    assert result.winner == 2
    assert "bad" in (result.standings[1].failure or "")
    assert worker.alive == set()


def test_a_failing_original_is_the_callers_error() -> None:
    worker = ScriptedWorker(lambda *_: 1.0, broken=["load original"])
    with pytest.raises(ModelError, match="original: cannot load"):
        race(worker, refs("original", "a"), ONE, deadline=NEVER)


def test_a_limit_on_sessions_makes_heats() -> None:
    speeds = {"original": 1.0, "a": 0.9, "b": 0.7, "c": 0.8}
    worker = ScriptedWorker(lambda name, _workload, _number: speeds[name])
    result = race(worker, refs("original", "a", "b", "c"), ONE, deadline=NEVER, max_sessions=2)
    assert result.winner == 2
    assert worker.most_alive == 2
    with pytest.raises(UsageError, match="max_sessions must be at least 2"):
        race(worker, refs("original", "a"), ONE, deadline=NEVER, max_sessions=1)


def test_no_time_leaves_the_original() -> None:
    worker = ScriptedWorker(lambda *_: 1.0)
    result = race(worker, refs("original", "a"), ONE, deadline=time.monotonic() - 1)
    assert result.winner == 0
    assert result.standings[1].failure == "no time left"


def test_race_on_real_sessions() -> None:
    models = [
        ModelRef("original", text_model("a = Relu(x) y = Softmax(a)")),
        ModelRef("candidate", text_model("y = Softmax(x)")),
        ModelRef("broken", b"not a model"),
    ]
    with Worker(WorkerConfig(threads=1)) as worker:
        result = race(worker, models, [X], deadline=time.monotonic() + 30, rounds=3, block_s=0.01)
    assert result.winner in (0, 1)
    assert result.standings[1].rounds >= 2
    assert "broken: ONNX Runtime cannot load it" in (result.standings[2].failure or "")

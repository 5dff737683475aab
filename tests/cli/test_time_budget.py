"""`check` and `bench` end within their time budget, with what they know by then, and at a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import taso_py
from taso_py import api
from taso_py.backend.timing import BenchReport
from taso_py.check import trial
from taso_py.errors import TimeBudgetError
from taso_py.run import bench as benching
from tests.cli.test_signals import heeded
from tests.conftest import RunCli, cli_environment

FOREVER = 10**9
"""Rounds of a loop."""


def endless(path: Path) -> Path:
    """A model whose one run takes hours: a loop that multiplies matrices."""
    matrix = helper.make_tensor_value_info("c", TensorProto.FLOAT, [64, 64])
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["v", "v"], ["w"]),
            helper.make_node("Softmax", ["w"], ["v_out"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [64, 64]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [64, 64]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "yes", "x"], ["c"], body=body)],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
        [matrix],
        [
            helper.make_tensor("n", TensorProto.INT64, [], [FOREVER]),
            helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("command", ["check", "bench"])
def test_what_never_ends_ends_with_the_budget(command: str, tmp_path: Path, run_cli: RunCli) -> None:
    model = endless(tmp_path / "model.onnx")
    done = run_cli(command, model, model, "--time-budget", "4", "--json")
    assert done.returncode == 8, done.stderr
    assert done.stderr.count("\n") == 1
    assert "the time budget ended" in done.stderr
    assert "raise --time-budget" in done.stderr
    told = json.loads(done.stdout)
    if command == "check":
        assert (told["passed"], told["stop_reason"]) == (False, "time budget")
    else:
        assert (told["code"], told["exit_code"]) == ("not decided", 8)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_signal_ends_what_never_ends(command: str, number: int, code: int, tmp_path: Path) -> None:
    model, temporary = endless(tmp_path / "model.onnx"), tmp_path / "tmp"
    temporary.mkdir()
    env = cli_environment({"TMPDIR": str(temporary)})
    with subprocess.Popen(
        [sys.executable, "-m", "taso_py", command, model, model],
        env=env, text=True, stderr=subprocess.PIPE, preexec_fn=heeded,  # noqa: PLW1509 - this test starts no threads
    ) as process:  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4)  # it is at work by then
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.count("\n") == 1, err
    assert list(temporary.iterdir()) == []


def test_what_agrees_so_far_has_not_passed(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    affordable = trial.CandidateTrial._affordable

    def late(self: trial.CandidateTrial) -> object:
        self.deadline = 0.0
        return affordable(self)

    monkeypatch.setattr(trial.CandidateTrial, "_affordable", late)
    found = api.check(tiny_model, tiny_model)
    assert (found.passed, found.stop_reason, len(found.cases)) == (False, "time budget", 2)
    assert "no verdict: the models agree on 2 sets of inputs" in (found.reason or "")
    other = onnx.load(tiny_model)
    other.graph.node[2].op_type = "Sigmoid"
    found = api.check(tiny_model, other)
    assert (found.passed, found.stop_reason) == (False, "completed")


def timing(rounds: int) -> Callable[..., BenchReport]:
    """A bench that ends after so many rounds."""
    real = benching.time_models

    def timed(*arguments: Any, **further: Any) -> BenchReport:
        return real(*arguments, **(further | {"rounds": rounds}))

    return timed


def test_rounds_that_were_timed_are_shown(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"rounds": 5, "block_s": 0.01}
    assert taso_py.bench([tiny_model], **options).stop_reason == "completed"
    monkeypatch.setattr(benching, "time_models", timing(3))
    found = taso_py.bench([tiny_model], **options)
    assert (found.rounds, found.stop_reason) == (3, "time budget")
    assert found.notes == ("the time budget ended after 3 of 5 rounds, for which the figures hold",)
    assert json.loads(found.to_json())["stop_reason"] == "time budget"
    monkeypatch.undo()
    monkeypatch.setattr(benching, "time_models", timing(1))
    with pytest.raises(TimeBudgetError, match="after 1 of the rounds"):
        taso_py.bench([tiny_model], **options)


def test_an_error_budget_is_held_against_in_time(tiny_model: Path) -> None:
    hurried = {"error_budget": 0.01, "time_budget_s": 1e-6}
    found = api.check(tiny_model, tiny_model, **hurried)
    assert (found.passed, found.stop_reason, found.budget) == (False, "time budget", None)
    with pytest.raises(TimeBudgetError):
        taso_py.bench([tiny_model, tiny_model], **hurried)

"""The audit of every state finds what is wrong, and nothing else."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scripts.audit import states
from scripts.audit.function_models import DOMAIN, with_functions
from scripts.audit.random_models import random_model
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig


@pytest.mark.parametrize("kind", states.KINDS)
def test_a_few_of_each_kind_are_sound(kind: str) -> None:
    count = "9" if kind in ("branched", "planted-opset") else "3"
    done = CliRunner().invoke(states.main, ["--only", kind, "--random", count, "--first", "3", "--states", "8"])
    assert done.exit_code == 0, done.output
    assert f"{kind}: " in done.output
    assert " 0 states" not in done.output


def test_a_wrong_value_a_broken_promise_and_an_error_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--only", "random", "--random", "1", "--first", "5", "--states", "2"]
    monkeypatch.setattr(states, "check_contract", lambda *_: ["a promise"])
    done = CliRunner().invoke(states.main, arguments)
    assert (done.exit_code, "a promise" in done.output) == (1, True)
    monkeypatch.setattr(states, "check_contract", lambda *_: [])
    monkeypatch.setattr(states, "serialize", lambda _: random_model(9).SerializeToString())
    assert CliRunner().invoke(states.main, arguments).exit_code == 1
    monkeypatch.setattr(states, "serialize", lambda _: 1 / 0)
    done = CliRunner().invoke(states.main, arguments)
    assert (done.exit_code, "ZeroDivisionError" in done.output) == (1, True)


def test_functions_compute_what_the_nodes_did() -> None:
    model = random_model(4)
    made = with_functions(model, 4)
    calls = [node for node in made.graph.node if node.domain == DOMAIN]
    assert len(calls) == len(made.functions) > 2
    _, feeds = states.fed(model)
    with Worker(WorkerConfig()) as worker:
        before, after = (states._results(worker, one.SerializeToString(), feeds) for one in (model, made))
    assert states._difference(before, after) is None

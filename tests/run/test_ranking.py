"""`superopt rules rank`: which rules pay on which models."""

from __future__ import annotations

import json
from pathlib import Path

import onnx

from taso_py.report.ranking import ranked
from tests.conftest import RunCli
from tests.helpers.graphs import model

CHAIN = "agraph (float[64,256] x) => (float[64,256] q) {p = MatMul(x, A) q = MatMul(p, B)}"
WEIGHTS = {"A": (256, 256), "B": (256, 256)}


def test_rules_are_ordered_by_what_they_gain_together() -> None:
    found = ranked({"a.onnx": {"p": 0.1, "q": 0.2, "r": 0.0}, "b.onnx": {"p": 0.2, "r": 0.0}})
    assert [u.rule for u in found.rules] == ["p", "q"]
    assert found.tried == 3
    assert found.rules[0].best == ("b.onnx", 0.2)
    assert found.rules[1].gains == {"a.onnx": 0.2}


def test_the_command_tells_what_it_tried(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(model(CHAIN, **WEIGHTS), path)
    arguments = ("rules", "rank", str(path), "--time-budget", "5", "--cache", str(tmp_path / "cache.db"))
    told = json.loads(run_cli(*arguments, "--json").stdout)
    assert told["models"] == [str(path)]
    assert told["tried"] > 0
    for rule in told["rules"]:
        assert 0 < rule["total"] < 1
    assert "rules that were tried gain; models: 1" in run_cli(*arguments).stdout


def test_a_missing_model_is_one_line(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("rules", "rank", str(tmp_path / "none.onnx"))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1

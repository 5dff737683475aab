"""The audit of match sites: what it counts on small networks, and that no loss hides in its comparison."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from click.testing import CliRunner
from onnx import TensorProto, helper

from scripts.audit.sites import Recorder, counted, differences, main, matches_in, survey, with_prover
from taso_py.onnx_io.load import load
from taso_py.prove.sites import SiteProofs
from taso_py.rules.library import Library
from taso_py.rules.lock import Record, with_verdict
from taso_py.rules.parser import parse_rules
from taso_py.rules.rule import RuleSet

TWICE = "rule twice: Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=compose(p, q))"


def transposes(path: Path, axes: int) -> Path:
    """Two transpositions that turn the axes by one each."""
    perm = [*range(1, axes), 0]
    nodes = [
        helper.make_node("Transpose", ["x"], ["y"], perm=perm),
        helper.make_node("Transpose", ["y"], ["z"], perm=perm),
    ]
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2] * axes) for n in "xz")
    graph = helper.make_graph(nodes, "g", [x], [z])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def library(text: str, patterns: tuple[str, ...] = ()) -> Library:
    """Search rules whose proofs cover these typings."""
    rules = RuleSet.of(with_verdict(r, Record("proved", patterns=patterns)) for r in parse_rules(text, "test.rules"))
    return Library(rules, RuleSet(), RuleSet())


def test_a_match_whose_typing_is_not_on_record_is_proved_at_the_site(tmp_path: Path) -> None:
    found = survey(transposes(tmp_path / "m.onnx", 3), library(TWICE))
    assert found["rules"] == {"twice": {"sites": 1, "matches": 1}}
    assert found["applied"] == {"twice": 1}
    assert [(a["rule"], a["proved"], a["why"]) for a in found["asked"]] == [("twice", True, "")]


def test_a_refused_match_says_why(tmp_path: Path) -> None:
    wrong = TWICE.replace("twice", "wrong").replace("compose(p, q)", "p")
    found = survey(transposes(tmp_path / "m.onnx", 3), library(wrong))
    assert found["rules"] == {}
    assert found["applied"] == {}
    (asked,) = found["asked"]
    assert (asked["rule"], asked["proved"], asked["matches"] > 0) == ("wrong", False, True)
    assert asked["why"]


def test_what_is_on_record_is_not_asked_for(tmp_path: Path) -> None:
    loaded = load(transposes(tmp_path / "m.onnx", 3))
    prover = Recorder(SiteProofs())
    matches_in(loaded, with_prover(library(TWICE), prover))
    signatures = tuple(signature for _, _, signature in prover.asked)
    again = Recorder(SiteProofs())
    assert counted(matches_in(loaded, with_prover(library(TWICE, signatures), again)))["twice"]["sites"] == 1
    assert not again.asked


def _count(sites: int) -> dict[str, object]:
    seconds = dict.fromkeys(("cold_s", "warm_s", "cold_proofs_s", "warm_proofs_s"), 0.5)
    refused = {"rule": "r", "matches": 3, "proved": False, "why": "open"}
    return {"rules": {"r": {"sites": sites, "matches": sites}}, "applied": {"r": 2}, "asked": [refused], **seconds}


def test_a_gain_on_one_model_hides_no_loss_on_another() -> None:
    found = differences({"a": _count(4), "b": _count(1)}, {"a": _count(1), "b": _count(4)})
    assert found["sites"] == [5, 5]
    assert found["rules"]["r"]["sites"] == {"counts": [5, 5], "lost": 3, "gained": 3}
    assert found["rules"]["r"]["refused"] == {"open": 6}
    assert "applied" not in found["rules"]["r"]


def test_only_models_that_both_have_are_compared() -> None:
    found = differences({"a": _count(4), "b": _count(1)}, {"a": _count(4)})
    assert found["only_in_one"] == ["b"]
    assert found["rules"] == {}


def test_the_command_prints_json(tmp_path: Path) -> None:
    for name, sites in (("before", 4), ("after", 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"a": _count(sites)}))
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "before.json"), str(tmp_path / "after.json")])
    assert result.exit_code == 0
    assert json.loads(result.output)["rules"]["r"]["sites"]["lost"] == 3

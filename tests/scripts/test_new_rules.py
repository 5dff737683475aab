"""Whether other optimisers have a rule: asked of ONNX Runtime itself, and of stand-ins for tools that may be absent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.audit import new_rules
from scripts.bench.tools import ToolRun
from taso_py.generate.kept.derive import Rules
from taso_py.rules.parser import parse_rule

FACTOR = parse_rule(
    "rule factor: Mul(Conv(x, w), a) => Conv(x, Mul(w, Reshape(a, shape=[o, 1, 1, 1]))) "
    "for x[n, c, h, v], w[o, c, k, l], a[o, 1, 1]"
)
"""ONNX Runtime has it for constant factors."""
POOLED = parse_rule(
    "rule pooled: AveragePool(Conv(x, w), kernel_shape=[2, 2], strides=[2, 2]) "
    "=> Conv(AveragePool(x, kernel_shape=[2, 2], strides=[2, 2]), w) for x[n, c, h, v], w[o, c, 1, 1]"
)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxsim and onnxslim may be absent: these leave the model as it is."""

    def copied(model: Path, output: Path) -> ToolRun:
        shutil.copy(model, output)
        return ToolRun(output.stem, output, 0.0)

    monkeypatch.setattr(new_rules, "run_onnxsim", copied)
    monkeypatch.setattr(new_rules, "run_onnxslim", copied)


def test_what_onnx_runtime_does_itself_is_not_new() -> None:
    verdict = new_rules.judged(FACTOR, Rules())
    assert (verdict.left, verdict.right) == (("Conv", "Mul"), ("Conv",))
    assert verdict.has("ONNX Runtime")
    assert not verdict.has("onnxsim")
    assert not verdict.new


def test_a_rule_that_none_has_is_new_until_tasos_rules_derive_it() -> None:
    assert new_rules.judged(POOLED, Rules()).new
    assert not new_rules.judged(POOLED, Rules.of([POOLED])).new


def test_a_side_without_operators_is_a_side() -> None:
    verdict = new_rules.judged(parse_rule("rule twice: Neg(Neg(x)) => x for x[m, n]"), Rules())
    assert (verdict.left, verdict.right) == (("Neg", "Neg"), ())


def test_a_rule_of_a_later_operator_is_written_at_its_opset() -> None:
    join = parse_rule("rule join: Concat(Gelu(x), Gelu(y), axis=0) => Gelu(Concat(x, y, axis=0)) for x[m, n], y[o, n]")
    assert new_rules.judged(join, Rules()).right == ("Concat", "Gelu")


def test_a_rule_of_two_outputs_is_not_called_new() -> None:
    merge = parse_rule(
        "rule merge: MatMul(x, y), MatMul(x, z) "
        "=> Slice(MatMul(x, Concat(y, z, axis=1)), axes=[1], starts=[0], ends=[k], "
        "steps=[1]), Slice(MatMul(x, Concat(y, z, axis=1)), axes=[1], starts=[k], ends=[k + l], steps=[1]) "
        "for x[m, n], y[n, k], z[n, l]"
    )
    verdict = new_rules.judged(merge, Rules())
    assert verdict.taso is None
    assert not verdict.new


@pytest.mark.parametrize("names", [["pooled"], ["pooled", "absent"]])
def test_a_tool_that_fails_and_an_unknown_rule_are_one_line(
    names: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that did not run has not said that it lacks the rule."""
    absent = ToolRun("onnxsim", None, 0.0, failure="No module named onnxsim")
    monkeypatch.setattr(new_rules, "run_onnxsim", lambda model, output: absent)
    (tmp_path / "one.rules").write_text(POOLED.text())
    (tmp_path / "taso.json").write_text(json.dumps({"rules": []}))
    arguments = [str(tmp_path / "one.rules"), *names, "--taso", str(tmp_path / "taso.json")]
    outcome = CliRunner().invoke(new_rules.main, arguments)
    assert outcome.exit_code == len(names)
    wanted = "has no rule absent" if "absent" in names else "pooled: onnxsim: No module named onnxsim"
    assert wanted in outcome.output

"""Branches that no input takes are compared as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import taso_py
from taso_py.backend.protocol import WorkerConfig
from taso_py.check.branches import forced
from taso_py.check.models import check_models
from taso_py.check.report import CheckReport
from taso_py.onnx_io.branches import lifted
from taso_py.options import Options
from taso_py.run.subject import checker_of, prepare
from tests.helpers.certified import optimised

NEVER = "n = ReduceSum<keepdims = 0>(x) big = Constant<value_float = 1e30>() c = Greater(n, big)"
"""A condition that holds for no input that is made up."""
TWO = """y = If(c) <then_branch = t () => (float[2,3] r) {{ {} }},
                   else_branch = e () => (float[2,3] r) {{ {} }}>"""
ONE, OTHER = "a = Neg(x) b = Neg(a) r = Exp(b)", "a = Relu(x) b = Relu(a) r = Abs(b)"


def _model(then: str = ONE, other: str = OTHER, condition: str = NEVER) -> onnx.ModelProto:
    text = f"{condition} {TWO.format(then, other)}"
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) {{{text}}}'
    )


def _checked(original: onnx.ModelProto, candidate: onnx.ModelProto) -> CheckReport:
    options = Options(race=False)
    with checker_of(prepare(original, options), options) as checker:
        return checker.check(candidate.SerializeToString())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"then": "r = Exp(x)"}, None),
        ({"then": "r = Exp(x)", "other": "a = Relu(x) r = Abs(a)"}, None),
        ({"then": "a = Neg(x) r = Exp(a)"}, "where If goes 'then'"),
        ({"other": "r = Abs(x)"}, "Abs"),
    ],
)
def test_a_wrong_branch_is_found_whether_it_is_taken_or_not(changed: dict[str, str], reason: str | None) -> None:
    report = _checked(_model(), _model(**changed))
    assert report.passed == (reason is None), report.reason
    assert reason is None or reason == "Abs" or reason in str(report.reason)
    assert not report.incomparable


def test_nothing_is_said_for_a_branch_that_does_not_run() -> None:
    then = "i = Constant<value_ints = [7, 7]>() g = Gather(x, i) {} r = Exp(b)"
    report = _checked(_model(then.format("a = Neg(g) b = Neg(a)")), _model(then.format("b = Identity(g)")))
    assert (report.passed, report.incomparable) == (False, True)
    assert "does not run on any inputs" in str(report.reason)


def test_a_branch_that_stays_needs_not_run() -> None:
    then = "i = Constant<value_ints = [7, 7]>() g = Gather(x, i) r = Exp(g)"
    assert _checked(_model(then), _model(then, "a = Relu(x) r = Abs(a)")).passed


def test_every_way_through_branches_within_branches() -> None:
    inner = """h = Neg(x) i = If(c) <then_branch = u () => (float[2,3] q) {{ {} }},
                                      else_branch = v () => (float[2,3] q) {{ q = Abs(h) }}> r = Exp(i)"""
    one = _model(inner.format("q = Relu(h)"))
    assert _checked(one, _model(inner.format("k = Relu(h) q = Relu(k)"))).passed
    wrong = _checked(one, _model(inner.format("q = Sigmoid(h)")))
    assert not wrong.passed
    assert "where If goes 'then, then'" in str(wrong.reason)


def test_a_model_that_is_made_to_go_one_way_has_nothing_of_the_other() -> None:
    made = forced(lifted(_model()), ("then_branch",))
    assert [node.op_type for node in made.graph.node] == ["Neg", "Neg", "Exp", "Identity"]


WEIGHTED = "w = Constant<value_floats = [1.0, {}, 3.0]>() r = Mul(x, w)"
UNABLE = "i = Constant<value_ints = [7, 7]>() g = Gather(x, i) r = Exp(g)"


@pytest.mark.parametrize(
    ("one", "other", "reason", "warning"),
    [
        (_model(), _model("r = Exp(x)", "a = Relu(x) r = Abs(a)"), None, None),
        (_model(), _model("r = Exp(x)", "a = Neg(x) r = Abs(a)"), "Abs", None),
        (_model(), _model("a = Neg(x) r = Exp(a)"), "where If goes 'then'", None),
        (_model(WEIGHTED.format(2.0)), _model(WEIGHTED.format(2.5)), "where If goes 'then'", None),
        (_model(UNABLE), _model(UNABLE), None, "a branch of an If does not run"),
    ],
)
def test_any_two_models_are_compared_whichever_branch_is_taken(
    one: onnx.ModelProto, other: onnx.ModelProto, reason: str | None, warning: str | None
) -> None:
    report = check_models(one.SerializeToString(), other.SerializeToString(), WorkerConfig())
    assert report.passed == (reason is None), report.reason
    assert reason is None or reason == "Abs" or reason in str(report.reason)
    assert [text.startswith(warning or "") for text in report.warnings] == [True] * (warning is not None)


def test_weights_of_a_branch_are_compared() -> None:
    one, other = _model("r = Mul(x, w)"), _model("r = Mul(x, w)")
    for model, values in ((one, [1.0, 2.0, 3.0]), (other, [1.0, 2.5, 3.0])):
        (node,) = (node for node in model.graph.node if node.op_type == "If")
        then = next(a.g for a in node.attribute if a.name == "then_branch")
        then.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], values))
    report = check_models(one.SerializeToString(), other.SerializeToString(), WorkerConfig())
    assert "where If goes 'then'" in str(report.reason)


def test_an_if_that_one_of_them_lacks_goes_as_it_goes() -> None:
    plain = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) {{{OTHER.replace("r =", "y =")}}}'
    )
    assert check_models(_model().SerializeToString(), plain.SerializeToString(), WorkerConfig()).passed


def test_what_is_done_in_branches_is_certified_and_done_again(tmp_path: Path) -> None:
    case = optimised(tmp_path, _model(condition=NEVER.replace("1e30", "0.0")))
    assert case.certify().places >= 2
    (node,) = (node for node in onnx.load(case.optimised).graph.node if node.op_type == "If")
    inside: dict[str, Any] = {a.name: [inner.op_type for inner in a.g.node] for a in node.attribute}
    assert inside == {"then_branch": ["Exp"], "else_branch": ["Relu"]}
    result = taso_py.optimize(case.original, race=False, cache=tmp_path / "other.sqlite")
    result.save_decisions(tmp_path / "decisions.json")
    taso_py.apply(case.original, tmp_path / "decisions.json").save(tmp_path / "again.onnx")
    result.save(tmp_path / "first.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "first.onnx").read_bytes()
    assert result.nodes_before - result.nodes_after == 4
    assert np.isfinite(result.max_rel_error or 0.0)

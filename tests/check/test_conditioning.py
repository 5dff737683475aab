"""What hangs on the last bits of the inputs is told from what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

from taso_py import api
from taso_py.backend.reference import evaluate
from taso_py.errors import ModelError
from tests.helpers.graphs import model
from tests.helpers.onnx_io_models import model as onnx_model
from tests.helpers.onnx_io_models import node, value, weight

SCORES = """agraph (float[2,96,256] x, float[256,256] q, float[256,256] r, float[256,64] v) => (float[2,96,64] y) {{
  p = MatMul(x, q) n = MatMul(x, r) t = Transpose<perm = [0, 2, 1]>(n) s = MatMul(p, t)
  k = Constant<value_float = {scale}>() a = Mul(s, k) h = Softmax<axis = -1>(a) w = MatMul(x, v) y = MatMul(h, w) }}"""
"""Attention whose scores are far apart: most rows have one winner, and where two are close rounding decides."""


def scores(scale: float, *, regrouped: bool = False, wrong: float = 1.0) -> onnx.ModelProto:
    text = SCORES.format(scale=scale * wrong)
    if regrouped:
        text = text.replace("s = MatMul(p, t)", "u = Transpose<perm = [1, 0]>(r) o = MatMul(q, u) e = MatMul(x, o)")
        text = text.replace("k = Constant", "z = Transpose<perm = [0, 2, 1]>(x) s = MatMul(e, z) k = Constant", 1)
    return model(text)


def test_a_softmax_of_huge_scores_agrees_with_what_rounds_elsewhere() -> None:
    told = api.check(scores(0.5), scores(0.5, regrouped=True))
    assert told.passed, told.reason
    assert any("hang on the last bits" in note for note in told.notes)


@pytest.mark.parametrize("wrong", [1.01, 0.9, -1.0])
def test_another_function_does_not(wrong: float) -> None:
    assert not api.check(scores(0.5), scores(0.5, regrouped=True, wrong=wrong)).passed


def test_where_hardly_anything_can_be_compared_nothing_passes() -> None:
    """As far as the last bits of the inputs go, both agree; but that holds of any sine of such numbers."""
    sine = "agraph (float[8,64] x) => (float[8,64] y) {{ k = Constant<value_float = {}>() {} y = Sin(a) }}"
    one = model(sine.format("90000.0", "a = Mul(x, k)"))
    other = model(sine.format("30000.0", "t = Constant<value_float = 3.0>() m = Mul(x, t) a = Mul(m, k)"))
    told = api.check(one, other)
    assert not told.passed
    assert told.incomparable
    assert "no rewrite of it can be compared" in str(told.reason)


def test_what_differs_elsewhere_says_more_than_that_nothing_can_be_compared() -> None:
    both = """agraph (float[8,64] x) => (float[8,64] y, float[8,64] z) {{
      k = Constant<value_float = {}>() {} y = Sin(a) two = Constant<value_float = {}>() z = Mul(x, two) }}"""
    one = model(both.format("90000.0", "a = Mul(x, k)", "2.0"))
    tripled = "t = Constant<value_float = 3.0>() m = Mul(x, t) a = Mul(m, k)"
    assert api.check(one, model(both.format("30000.0", tripled, "2.0"))).incomparable
    wrong = api.check(one, model(both.format("30000.0", tripled, "2.5")))
    assert not wrong.passed
    assert not wrong.incomparable
    assert "'z'" in str(wrong.reason)


def test_a_users_tolerance_stands() -> None:
    told = api.check(scores(0.5), scores(0.5, regrouped=True), rtol=1e-6, atol=1e-6)
    assert not told.passed


def test_the_original_agrees_with_itself_without_a_remark() -> None:
    told = api.check(scores(0.5), scores(0.5))
    assert told.passed
    assert not any("last bits" in note for note in told.notes)
    assert np.isfinite(told.max_rel_error)


ELU = """agraph (float[61,7] x) => (float[61,7] y) {{
  k = Constant<value_float = 0.03>() one = Constant<value_float = 1.0>() o = Constant<value_float = 0.0>()
  a = Mul(x, k) {} n = Max(a, o) g = Min(m, o) y = Add(n, g) }}"""


def test_an_elu_of_tiny_numbers_is_as_true_as_its_kernel() -> None:
    """Of exp(x) - 1 all but rounding is gone there, and every kernel rounds otherwise."""
    kernel = model(ELU.format("m = Elu(a)"))
    rounded = model(ELU.format("t = Exp(a) m = Sub(t, one)"))
    told = api.check(kernel, rounded)
    assert told.passed, told.reason
    assert any("hang on the last bits" in note for note in told.notes)
    half = "k2 = Constant<value_float = 0.5>() h = Mul(a, k2) t = Tanh(h) u = Sub(one, t) w = Add(t, t)"
    true = model(ELU.format(f"{half} m = Div(w, u)"))
    assert api.check(kernel, true).passed
    for wrong in ("1.002", "0.99"):
        scaled = f"c = Constant<value_float = {wrong}>() t = Elu(a) m = Mul(t, c)"
        assert not api.check(kernel, model(ELU.format(scaled))).passed


def layer(scale: float, *, folded: bool, large: int = 2) -> onnx.ModelProto:
    """sin(scale * (x W + b)), of whose 64 biases so many are large; ``folded`` has the scale in W and b."""
    random = np.random.default_rng(0)
    w = random.normal(0, 1 / 8, (64, 64)).astype(np.float32)
    b = np.where(np.arange(64) < large, random.uniform(1, 2, 64), 0).astype(np.float32)
    k = np.float32(scale)
    end = value("y", [8, 64])
    if folded:
        nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "z"), node("Sin", "z", "y")]
        return onnx_model(nodes, [value("x", [8, 64])], [end], [weight("w", w * k), weight("b", b * k)])
    nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "l"), node("Mul", "l k", "z"), node("Sin", "z", "y")]
    return onnx_model(nodes, [value("x", [8, 64])], [end], [weight("w", w), weight("b", b), weight("k", k)])


def test_what_hangs_on_rounding_in_the_middle_is_told_too() -> None:
    """Where the inputs are small next to a bias, their own last bits say nothing of it."""
    told = api.check(layer(1e4, folded=False), layer(1e4, folded=True))
    assert told.passed, told.reason
    assert any("hang on the last bits" in note for note in told.notes)
    wrong = api.check(layer(1e4, folded=False), layer(1.01e4, folded=True))
    assert not wrong.passed
    assert not wrong.incomparable


def test_where_rounding_in_the_middle_decides_all_nothing_can_be_compared() -> None:
    told = api.check(layer(1e4, folded=False, large=64), layer(1e4, folded=True, large=64))
    assert told.incomparable
    wrong = api.check(layer(1e4, folded=False, large=64), layer(1.01e4, folded=True, large=64))
    assert not wrong.incomparable
    assert not wrong.passed


def test_a_rewrite_that_nothing_can_compare_is_barred_and_no_mismatch() -> None:
    result = api.optimize(layer(1e4, folded=False, large=64), strict=True, apply="all", race=False)
    assert {rejection.reproduction for rejection in result.rejected} == {None}
    assert all("can be compared" in rejection.reason for rejection in result.rejected)
    assert result.reason is not None
    assert result.reason.code == "all rejected"


def logistic_map(steps: int = 25) -> onnx.ModelProto:
    """z -> 3.99 z (1 - z) again and again: every step doubles an error."""
    lines = [f"m{k} = Mul(z{k}, k) l{k} = Sub(one, z{k}) z{k + 1} = Mul(m{k}, l{k})" for k in range(steps)]
    return model(f"""agraph (float[8,64] x) => (float[8,64] y) {{ z0 = Sigmoid(x)
      k = Constant<value_float = 3.99>() one = Constant<value_float = 1.0>() {" ".join(lines)} y = Neg(z{steps}) }}""")


def variance_that_cancels() -> onnx.ModelProto:
    """By moments of numbers that differ in their last digits."""
    return model("""agraph (float[8,64] x) => (float[8,64] y) {
      small = Constant<value_float = 0.001>() far = Constant<value_float = 100.0>() s = Mul(x, small) z = Add(s, far)
      m = ReduceMean<axes = [-1]>(z) zz = Mul(z, z) q = ReduceMean<axes = [-1]>(zz) mm = Mul(m, m) v = Sub(q, mm)
      a = Abs(v) e = Constant<value_float = 0.00001>() w = Add(a, e) r = Sqrt(w) d = Sub(z, m) y = Div(d, r) }""")


@pytest.mark.parametrize("chaotic", [logistic_map, variance_that_cancels])
def test_no_rewrite_of_a_chaotic_model_is_called_wrong(chaotic: Callable[[], onnx.ModelProto]) -> None:
    """Some draws of rounding tell how far elements move, and one element may move further than its own draws did."""
    result = api.optimize(chaotic(), strict=True, apply="all", race=False)
    assert result.rejected
    assert all("can be compared" in rejection.reason for rejection in result.rejected)


def test_rounding_to_float32_excuses_nothing_in_double_precision() -> None:
    double = """agraph (double[8,64] x) => (double[8,64] y) {{
      b = Constant<value = double {{1.1}}>() k = Constant<value = double {{{}}}>()
      l = Add(x, b) z = Mul(l, k) y = Sin(z) }}"""
    told = api.check(model(double.format(1e4)), model(double.format(1e4 * (1 + 1e-9))))
    assert not told.passed
    assert not told.incomparable


def test_errors_of_rounding_reach_bodies_and_meet_no_other_names() -> None:
    """A value may be called as the evaluation would call another one."""
    proto = model("""agraph (float[8,64] x, bool c) => (float[8,64] y) {
      a = Exp(x) b = Neg(x) t = If(c) <
        then_branch = one () => (float[8,64] p) { u = Sin(a) p = Mul(u, b) },
        else_branch = two () => (float[8,64] q) { q = Add(a, b) }> y = Cos(t) }""")
    for node_ in proto.graph.node:
        for names in (node_.input, node_.output):
            names[:] = ["a/exact" if name == "b" else name for name in names]
        for attribute in node_.attribute:
            for inner in attribute.g.node:
                inner.input[:] = ["a/exact" if name == "b" else name for name in inner.input]
    feeds = {"x": np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64), "c": np.array(True)}
    exact, noisy = (evaluate(proto.SerializeToString(), feeds, noise)["y"] for noise in (None, 1))
    assert 1e-7 < np.abs(noisy - exact).max() < 1e-4


def test_float64_within_a_function_counts() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
      agraph (float[4] x) => (float[4] y) { y = own.widely(x) }
      <domain: "own", opset_import: ["" : 17]> widely (a) => (b) {
        d = Cast<to = 11>(a) e = Exp(d) b = Cast<to = 1>(e) }""")
    feeds = {"x": np.ones(4, np.float32)}
    assert evaluate(proto.SerializeToString(), feeds)
    with pytest.raises(ModelError, match="float64"):
        evaluate(proto.SerializeToString(), feeds, noise=0)


@pytest.mark.parametrize("opset", [8, 14])
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.001, False)])
def test_a_mean_that_cancels_with_the_bias_is_as_true_as_its_kernel(opset: int, factor: float, passes: bool) -> None:
    """The float64 evaluation tells it, which before opset 14 evaluated BatchNormalization as in training."""
    scale = factor / np.sqrt(1 + 1e-5)
    numbers = f"scale = Constant<value = float {{{scale:.9f}}}>() shift = Constant<value = float {{{1 - scale:.9e}}}>()"
    ones = "ones = Constant<value = float[4] {1, 1, 1, 1}>()"
    text = "agraph (float[1,4,8,8] x) => (float[1,4,8,8] y) {{ {} }}"
    one = model(text.format(f"{ones} y = BatchNormalization(x, ones, ones, ones, ones)"), opset)
    other = model(text.format(f"{numbers} s = Mul(x, scale) y = Add(s, shift)"), opset)
    assert api.check(one, other).passed == passes

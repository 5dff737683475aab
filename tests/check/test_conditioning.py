"""What hangs on the last bits of the inputs is told from what is wrong."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from taso_py import api
from tests.helpers.graphs import model

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
    assert not api.check(one, other).passed


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

"""float16 values that only a candidate computes keep clear of the largest one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.headroom import cramped
from tests.helpers.graphs import model

DIVIDED_FIRST = """agraph (float16[8192] x) => (float16[1] y) {
  f = Constant<value_float = 0.0001220703125>() n = Cast<to = 10>(f) m = Mul(x, n) y = ReduceSum(m) }"""
DIVIDED_LAST = """agraph (float16[8192] x) => (float16[1] y) {
  f = Constant<value_float = 0.0001220703125>() n = Cast<to = 10>(f) s = ReduceSum(x) y = Mul(s, n) }"""


def reference(text: str) -> ModelRef:
    return ModelRef("m", model(text).SerializeToString())


def judged(before: str, after: str, number: float) -> str | None:
    feeds = {"x": np.full(8192, number, np.float16)}
    with Worker(WorkerConfig()) as worker:
        return cramped(worker, reference(before), reference(after), [feeds])


def test_a_sum_before_its_division_may_overflow() -> None:
    reason = judged(DIVIDED_FIRST, DIVIDED_LAST, 1.0)
    assert reason is not None
    assert "'s'" in reason
    assert "8192" in reason
    assert judged(DIVIDED_LAST, DIVIDED_FIRST, 1.0) is None


def test_small_sums_have_room() -> None:
    assert judged(DIVIDED_FIRST, DIVIDED_LAST, 0.25) is None


def test_what_overflows_at_once_is_seen() -> None:
    reason = judged(DIVIDED_FIRST, DIVIDED_LAST, 64.0)
    assert reason is not None
    assert "reaches inf" in reason


def test_values_as_large_as_those_that_they_replace_are_no_matter() -> None:
    renamed = DIVIDED_LAST.replace("s = ReduceSum(x) y = Mul(s, n)", "t = ReduceSum(x) y = Mul(t, n)")
    assert judged(DIVIDED_LAST, renamed, 4.0) is None


@pytest.mark.parametrize("kind", ["float", "double"])
def test_wider_types_are_not_looked_at(kind: str) -> None:
    text = f"agraph ({kind}[2] x) => ({kind}[2] y) {{ a = Exp(x) y = Neg(a) }}"
    other = f"agraph ({kind}[2] x) => ({kind}[2] y) {{ b = Exp(x) y = Neg(b) }}"
    dtype = onnx.helper.tensor_dtype_to_np_dtype(1 if kind == "float" else 11)
    with Worker(WorkerConfig()) as worker:
        assert cramped(worker, reference(text), reference(other), [{"x": np.full(2, 80, dtype)}]) is None

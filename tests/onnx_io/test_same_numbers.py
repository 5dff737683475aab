"""Numbers that a model holds more than once are one value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model
from tests.helpers.onnx_io_models import run

TWICE = """agraph (float[2,3] x) => (float[2,3] y, float z) {
  p = Constant<value_float = 1.0>() q = Constant<value_float = 1.0>() z = Constant<value_float = 1.0>()
  minus = Constant<value_float = -0.0>() zero = Constant<value_float = 0.0>()
  a = Sub(p, x) b = Sub(q, x) d = Mul(a, b) e = Div(d, minus) f = Div(d, zero) g = Div(e, f) y = Add(d, g) }"""


def test_a_number_for_each_use_is_one_value() -> None:
    table = load(model(TWICE)).table
    reads = [node.inputs for _, node in table.order() if node.operator.onnx == "Sub"]
    assert len(reads) == 1
    divisors = {node.inputs[1] for _, node in table.order() if node.operator.onnx == "Div"}
    assert len(divisors) == 3


def test_what_is_written_computes_the_same_and_returns_the_same() -> None:
    proto = model(TWICE)
    loaded = load(proto)
    feeds = {"x": np.full((2, 3), 3, np.float32)}
    written_anew = {value: replace(node) for value, node in loaded.table.nodes.items()}
    made = run(serialize(export(loaded, replace(loaded.table, nodes=written_anew))), feeds)
    for one, other in zip(run(proto, feeds), made, strict=True):
        np.testing.assert_array_equal(one, other)
    assert made[1] == 1

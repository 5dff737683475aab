"""Nodes that compute the same are one value of the table, whatever names the file gives it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import taso_py
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from tests.helpers import graphs
from tests.helpers.onnx_io_models import run

TWICE = """agraph (float[4,8] x) => (float[4,8] y) {
  a = Relu(x) b = Relu(x) c = Exp(a) d = Exp(b) e = Neg(d) s = Add(c, d) y = Mul(s, e) }"""


def test_what_is_computed_twice_is_one_value() -> None:
    loaded = load(graphs.model(TWICE))
    assert loaded.ids["a"] == loaded.ids["b"]
    assert loaded.ids["c"] == loaded.ids["d"]
    assert len(loaded.table.nodes) == 5


def test_a_rewritten_model_computes_it_once_and_the_same() -> None:
    proto = graphs.model(TWICE)
    loaded = load(proto)
    total = loaded.ids["s"]
    written = export(loaded, loaded.table.rebind({total: loaded.table.nodes[loaded.ids["c"]]}))  # half of the sum
    assert [node.op_type for node in written.graph] == ["Relu", "Exp", "Neg", "Exp", "Mul"]
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 8), np.float32)}
    np.testing.assert_allclose(2 * run(serialize(written), feeds)[0], run(proto, feeds)[0], rtol=1e-6)


def test_all_pieces_of_a_split_are_met_again() -> None:
    text = """agraph (float[4,8] x) => (float[4,4] y) {
      a, b = Split<axis = 1>(x) c, d = Split<axis = 1>(x)
      p = Mul(a, d) q = Mul(c, b) y = Sub(p, q) }"""
    loaded = load(graphs.model(text))
    assert loaded.ids["p"] == loaded.ids["q"]
    assert len(loaded.table.nodes) == 4


KEPT = {
    "returned": ("agraph (float[4] x) => (float[4] a, float[4] b) { a = Relu(x) b = Relu(x) }", "a", "b"),
    "unread": ("agraph (float[4] x) => (float[4] y) { a = Relu(x) b = Relu(x) y = Neg(a) }", "a", "b"),
    "read by a body": (
        """agraph (float[4] x, int64 k) => (float[4] y) { a = Relu(x) b = Relu(x) n = Neg(a)
          z = Loop(k, , x) <body = g (int64 i, bool on, float[4] s) => (bool more, float[4] t) {
            more = Identity(on) t = Add(s, b) }> y = Add(z, n) }""",
        "a", "b",
    ),
    "random": (
        """agraph (float[4] x) => (float[4] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b) }""",
        "a", "b",
    ),
    "another attribute": (
        "agraph (float[4] x) => (float[4] y) { a = Elu<alpha = 1.0>(x) b = Elu<alpha = 2.0>(x) y = Sub(a, b) }",
        "a", "b",
    ),
    "other operands": (
        "agraph (float[4] x, float[4] z) => (float[4] y) { a = Sub(x, z) b = Sub(z, x) y = Mul(a, b) }", "a", "b",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "one", "other"), KEPT.values(), ids=KEPT)
def test_what_has_to_stay_apart_does(text: str, one: str, other: str) -> None:
    proto = graphs.model(text)
    loaded = load(proto)
    assert loaded.ids[one] != loaded.ids[other]
    again = onnx.ModelProto.FromString(serialize(export(loaded, loaded.table)))
    assert [n.op_type for n in again.graph.node] == [n.op_type for n in proto.graph.node]


NORMALISED = """agraph (float[4,8] x) => (float[4,8] y) {
  m = ReduceMean<axes = [-1]>(x) a = Sub(x, m) b = Sub(x, m) v = Mul(a, b) w = ReduceMean<axes = [-1]>(v)
  e = Constant<value_float = 1e-5>() p = Add(w, e) r = Sqrt(p) c = Sub(x, m) q = Div(c, r)
  k = Mul(q, g) y = Add(k, h) }"""


def test_rules_see_through_it() -> None:
    """Keras writes a difference from the mean wherever it is read; the variance is of one difference, read twice."""
    proto = graphs.model(NORMALISED, g=(8,), h=(8,))
    result = taso_py.optimize(proto, apply="all", race=False, strict=True)
    assert "deviation-of-powers" in {rule.name for rule in result.rules}
    assert [node.op_type for node in result.model.graph.node].count("Sub") == 1

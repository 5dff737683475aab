"""What computes nothing goes first, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest

from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.load import load
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load_library
from taso_py.rules.parser import parse_rule
from taso_py.search.removal import removes, without_idle_nodes
from taso_py.search.state import State
from taso_py.search.view import View
from tests.helpers.graphs import model, rewriter, running, view_of

IDLE = """agraph (float[4, 8] x) => (float[4, 8] r) {
  begin = Constant<value_ints = [0, 0]>() end = Constant<value_ints = [4, 8]>()
  a = Slice(x, begin, end) b = Transpose<perm=[1, 0]>(a) c = Transpose<perm=[1, 0]>(b)
  d = Relu(c) e = Relu(d) f = Reshape(e, end) g = Slice(f, begin, end) r = Tanh(g)}"""


def tidied(proto: onnx.ModelProto) -> State | None:
    loaded = load(proto)
    _, canonical = rewriter(None)
    laws = [replace(law, patterns=DEFINED) for law in load_library()]
    return without_idle_nodes(view_of(loaded, canonical), laws, Roofline({}), 1.0, lambda: False)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("Relu(Relu(x)) => Relu(x)", True),
        ("Transpose(Transpose(x, perm=p), perm=q) => Transpose(x, perm=compose(p, q))", True),
        ("Slice(x, axes=[], starts=[], ends=[], steps=[]) => x", True),
        (
            "Slice(Slice(x, axes=[0], starts=[0], ends=[m], steps=[1]), axes=[1], starts=[0], ends=[n], steps=[1])"
            " => Slice(x, axes=[0, 1], starts=[0, 0], ends=[m, n], steps=[1, 1]) for x[p, q]",
            False,
        ),
        ("Mul(x, 1.0) => x", True),
        ("Exp(Log(x)) => Abs(x)", False),
        ("Add(MatMul(x, a), MatMul(x, b)) => MatMul(x, Add(a, b)) for x[m, k], a[k, n], b[k, n]", False),
        ("Relu(x) => Relu(Relu(x))", False),
        ("Reshape(Flatten(x, axis=1), shape=s) => Reshape(x, shape=s)", True),
        ("Flatten(Reshape(x, shape=s), axis=1) => Transpose(x, perm=[1, 0]) for x[m, n]", False),
    ],
)
def test_what_only_removes(law: str, expected: bool) -> None:
    assert removes(parse_rule(f"rule a: {law}")) is expected


def test_all_that_is_idle_goes() -> None:
    proto = model(IDLE)
    state = tidied(proto)
    assert state is not None
    assert running(state.table) == {"Relu": 1, "Tanh": 1}
    assert {"whole-slice", "relu-of-relu"} <= {step.rule for step in state.trace}
    assert state.trace[-1].table.nodes == state.table.nodes


def test_nothing_idle_is_no_state() -> None:
    assert tidied(model("agraph (float[4] x) => (float[4] r) {a = Relu(x) r = Tanh(a)}")) is None


def test_a_long_graph_is_not_copied_for_each_idle_node(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 600
    body = " ".join(f"a{k} = Relu(b{k - 1}) b{k} = Relu(a{k})" for k in range(1, count))
    proto = model(f"agraph (float[4] x) => (float[4] r) {{ b0 = Tanh(x) {body} r = Tanh(b{count - 1}) }}")
    copies = []
    after = View.after
    monkeypatch.setattr(View, "after", lambda view, table: copies.append(1) or after(view, table))
    state = tidied(proto)
    assert state is not None
    assert running(state.table) == {"Relu": 1, "Tanh": 2}
    assert len(copies) < 100

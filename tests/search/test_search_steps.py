"""Steps of a sequence that are written apart: what no step waits for is computed for all of them at once."""

from __future__ import annotations

from collections import Counter

import pytest

from taso_py.graph.table import Table
from tests.helpers.bundles import after
from tests.helpers.graphs import model

BUNDLE = "steps of a sequence"
STEPS = 4
WEIGHTS = {"w": (6, 6), "u": (6, 6), "o": (6, 5), "b": (6,), "c": (6,)}
GATED = (
    "p{t} = MatMul(x{t}, w) q{t} = Add(p{t}, b) f{t} = Sigmoid(q{t}) one{t} = Constant<value_float = 1.0>() "
    "g{t} = Sub(one{t}, f{t}) r{t} = MatMul(x{t}, u) s{t} = Mul(g{t}, r{t}) m{t} = Mul(f{t}, h{t}) "
    "h{next} = Add(m{t}, s{t}) a{t} = Tanh(h{next}) d{t} = Mul(a{t}, f{t}) y{t} = MatMul(d{t}, o) "
)
"""A simple recurrent unit (Lei et al., EMNLP 2018) whose output gate is its input gate, and a layer on top."""
FIRST = {"single": ("float[1,4,6]", "float[1,6]"), "some": ("float[2,4,6]", "float[2,6]")}
BEFORE = ("float[4,2,6]", "float[2,6]")


def kinds(table: Table) -> Counter[str]:
    return Counter(n.operator.onnx for v, n in table.order() if v not in table.values.constant)


def unrolled(shapes: tuple[str, str], read: str, end: str, shape: str = "l, m, n") -> str:
    """A graph of steps, each ``read`` in its way, with an ``end`` that puts their results together."""
    steps = " ".join((read + GATED).format(t=t, next=t + 1) for t in range(STEPS))
    return f"agraph ({shapes[0]} x, {shapes[1]} h0) => (float[{shape}] y) {{ {steps} {end} }}"


PICKED = "i{{t}} = Constant<value_int = {{t}}>() x{{t}} = Gather<axis = {axis}>(x, i{{t}}) "
STACKED = " ".join(f"k{t} = Unsqueeze(y{t}, axes)" for t in range(STEPS)) + " y = Concat<axis = {axis}>(k0, k1, k2, k3)"


def stacked(axis: int) -> str:
    return f"axes = Constant<value_ints = [{axis}]>() " + STACKED.format(axis=axis)


@pytest.mark.parametrize(
    ("shapes", "axis"), [(FIRST["single"], 1), (FIRST["some"], 1), (BEFORE, 0)], ids=["single", "some", "steps first"]
)
def test_gates_and_layers_are_computed_for_all_steps(shapes: tuple[str, str], axis: int) -> None:
    graph = unrolled(shapes, PICKED.format(axis=axis), stacked(axis))
    made = kinds(after(model(graph, **WEIGHTS), BUNDLE))
    assert made["MatMul"] + made["Gemm"] == 3
    assert made["Sigmoid"] == made["Tanh"] == made["Sub"] == made["Concat"] == 1
    assert made["Mul"] == STEPS + 2
    assert made["Gather"] == made["Unsqueeze"] == 0


def test_steps_may_keep_their_axis() -> None:
    read = (
        "from{t} = Constant<value_ints = [{t}]>() to{t} = Constant<value_ints = [{next}]>() "
        "x{t} = Slice(x, from{t}, to{t}, axes) "
    )
    axes = "axes = Constant<value_ints = [1]>() "
    graph = unrolled(("float[2,4,6]", "float[2,1,6]"), read, "y = Concat<axis = 1>(y0, y1, y2, y3)")
    made = kinds(after(model(graph.replace("{ ", "{ " + axes, 1), **WEIGHTS), BUNDLE))
    assert made["MatMul"] + made["Gemm"] == 3
    assert made["Sigmoid"] == made["Tanh"] == made["Sub"] == made["Concat"] == 1


def test_steps_may_come_from_a_split() -> None:
    read = "x{t} = Squeeze(z{t}, axes) "
    parts = "axes = Constant<value_ints = [1]>() z0, z1, z2, z3 = Split<axis = 1>(x) "
    graph = unrolled(FIRST["some"], read, STACKED.format(axis=1)).replace("{ ", "{ " + parts, 1)
    made = kinds(after(model(graph, **WEIGHTS), BUNDLE))
    assert made["MatMul"] + made["Gemm"] == 3
    assert made["Sigmoid"] == 1


def test_what_is_read_at_one_step_only_is_not_computed_for_all() -> None:
    last = """agraph (float[2,4,6] x) => (float[2,6] y) {
      i = Constant<value_int = 3>() v = Gather<axis = 1>(x, i) y = MatMul(v, w) }"""
    made = kinds(after(model(last, w=(6, 6)), BUNDLE))
    assert made["MatMul"] == 1
    assert made["Slice"] == made["Reshape"] == 0


def test_what_others_read_too_is_not_joined() -> None:
    """Joined states would be computed a second time, from joined states before them, and so on."""
    graph = unrolled(FIRST["single"], PICKED.format(axis=1), "y = Concat<axis = 0>(h1, h2, h3, h4)", "m, n")
    made = kinds(after(model(graph, **WEIGHTS), BUNDLE))
    assert made["Add"] == STEPS
    assert made["Concat"] == 1

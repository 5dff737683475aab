"""Operators of variable arity: two operands that a rule puts together need not stand side by side, or in front."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest

import taso_py
from taso_py.graph.types import TensorType
from taso_py.onnx_io.load import load
from taso_py.ops.layout import Concat
from taso_py.search.arity import expanding_laws, flatten, split_of_slices
from tests.helpers.graphs import model, rewriter, view_of

FAR_APART = """
agraph (float[1,4,6,6] x) => (float[1,4,6,6] y) {
  a = Conv <pads = [1,1,1,1]> (x, K)
  b = Sigmoid(x)
  c = Add(a, b)
  d = Tanh(x)
  e = Add(c, d)
  f = Conv <pads = [1,1,1,1]> (x, L)
  y = Add(e, f)
}
"""
KERNELS_ADDED = """
rule kernels-added:
  Add(Conv(x, w, pads=p), Conv(x, v, pads=p)) => Conv(x, Add(w, v), pads=p)
  for x[n, c, h, u], w[o, c, k, l], v[o, c, k, l]
"""
JOINED = """
agraph (float[1,4] x) => (float[1,20] y) {
  m = MatMul(x, A) a = Softsign(m)
  n = MatMul(x, B) b = Softsign(n)
  o = MatMul(x, C) c = Softsign(o)
  p = MatMul(x, D) d = Softsign(p)
  y = Concat<axis = 1>(x, a, b, c, d)
}
"""
FUNCTION_OUTSIDE = """
rule softsign-outside:
  Concat(Softsign(x), Softsign(y), axis=rank(a)) => Softsign(Concat(x, y, axis=rank(a)))
  for x[*a, m, *b], y[*a, n, *b]

rule products-joined:
  Concat(MatMul(x, y), MatMul(x, z), axis=1) => MatMul(x, Concat(y, z, axis=1))
  for x[m, n], y[n, k], z[n, l]
"""


def improved(proto: onnx.ModelProto, rules: str, folder: Path) -> taso_py.Result:
    """The model that these rules alone lead to, certified and run."""
    (folder / "own.rules").write_text(rules)
    result = taso_py.optimize(proto, rules=(folder / "own.rules",), race=False, cache=None)
    result.save(folder / "out.onnx")
    result.save_certificate(folder / "steps.json")
    assert taso_py.certify(proto, folder / "out.onnx", folder / "steps.json").largest_ulp <= 2
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(evaluated(result.model, x), evaluated(proto, x), rtol=1e-4, atol=1e-5)
    return result


def evaluated(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})[0])


def operators(result: taso_py.Result) -> Counter[str]:
    return Counter(n.op_type for n in result.model.graph.node)


def test_summands_that_belong_together_need_not_stand_side_by_side(tmp_path: Path) -> None:
    result = improved(model(FAR_APART, K=(4, 4, 3, 3), L=(4, 4, 3, 3)), KERNELS_ADDED, tmp_path)
    assert operators(result)["Conv"] == 1
    assert "kernels-added" in {r.name for r in result.rules}


def test_neighbours_in_a_join_of_many_are_joined_first(tmp_path: Path) -> None:
    result = improved(model(JOINED, **dict.fromkeys("ABCD", (4, 4))), FUNCTION_OUTSIDE, tmp_path)
    assert operators(result) == Counter({"MatMul": 1, "Softsign": 1, "Concat": 1})


def cuts(count: int, *, split: bool) -> onnx.ModelProto:
    """A tensor in so many columns, each with a reader."""
    columns = [f"c{k}" for k in range(count)]
    outputs = ", ".join(f"float[2,1] y{k}" for k in range(count))
    if split:
        body = f"sizes = Constant<value_ints = {[1] * count}>() {', '.join(columns)} = Split<axis = 1>(x, sizes)"
    else:
        ends = [f"e{k} = Constant<value_ints = [{k}]>()" for k in range(count + 1)]
        slices = [f"{c} = Slice(x, e{k}, e{k + 1}, axes)" for k, c in enumerate(columns)]
        body = " ".join(["axes = Constant<value_ints = [1]>()", *ends, *slices])
    readers = " ".join(f"y{k} = Tanh({c})" for k, c in enumerate(columns))
    return model(f"agraph (float[2,{count}] x) => ({outputs}) {{ {body} {readers} }}")


@pytest.mark.parametrize("split", [False, True])
def test_hundreds_of_cuts_are_left_as_they_are(split: bool) -> None:
    """The law that makes one Split of them, or cuts of a Split, adds up hundreds of sizes."""
    for count, few in ((5, True), (400, False)):
        loaded = load(cuts(count, split=split))
        view = view_of(loaded, rewriter()[1])
        first = next(v for v, n in view.table.nodes.items() if n.operator.onnx == ("Split" if split else "Slice"))
        found = view.expansions(first) if split else split_of_slices(view, first)
        assert bool(found) is few


def test_laws_of_one_name_are_told_apart_by_their_hashes() -> None:
    """What is remembered by law compares it with all laws of its hash, and these are as deep as they are wide."""
    laws = [law for count in range(3, 30) for law in expanding_laws(Concat(0), [TensorType("float32", (2,))] * count)]
    assert {law.name for law in laws} == {"concat-variadic"}
    assert len({hash(law) for law in laws}) == len(laws)


@pytest.mark.parametrize("operator", ["Max", "Min", "Sum", "Concat<axis = 0>"])
def test_hundreds_in_one_another_are_left_as_they_are(operator: str) -> None:
    for count, few in ((5, True), (420, False)):
        nest = " ".join(f"m{k + 1} = {operator}(m{k}, x)" for k in range(count))
        loaded = load(model(f"agraph (float[2] x) => (float[M] y) {{ m0 = Abs(x) {nest} y = Neg(m{count}) }}"))
        assert bool(flatten(view_of(loaded, rewriter()[1]), loaded.ids[f"m{count}"])) is few


def test_a_balanced_tree_that_is_refused_is_not_tried_in_all_its_orders() -> None:
    """Those of thirty-two maxima, one of which is minus infinity, are two billion."""
    level, nodes = [*(f"x{k}" for k in range(31)), "mask"], []
    while len(level) > 1:
        above = [f"t{len(level)}_{k}" for k in range(len(level) // 2)]
        pairs = zip(above, level[::2], level[1::2], strict=True)
        nodes += [f"{name} = Max({a}, {b})" for name, a, b in pairs]
        level = above
    inputs = ", ".join(f"float[4] x{k}" for k in range(31))
    proto = model(f"agraph ({inputs}) => (float[4] y) {{ {' '.join(nodes)} y = Neg({level[0]}) }}", mask=(4,))
    assert flatten(view_of(load(proto), rewriter()[1]), load(proto).ids[level[0]]) is not None
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full(4, -np.inf, np.float32), "mask"))
    assert flatten(view_of(load(proto), rewriter()[1]), load(proto).ids[level[0]]) is None

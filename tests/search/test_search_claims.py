"""A match is rewritten only within the claim of its proof: sizes, attributes, element types; and into what ONNX has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import taso_py
from tests.helpers.onnx_io_models import model, node, value, weight

STRIDES = """rule strides: MaxPool(Relu(x), kernel_shape=[k], strides=[s])
  => LeakyRelu(MaxPool(x, kernel_shape=[k], strides=[s]), alpha=s // 9) for x[n, c, h]
"""
PADS = """rule pads: Pad(x, pads=[p, 0], value=u) + Pad(y, pads=[p, 0], value=v)
  => Pad(x + y, pads=[p, 0], value=u + v) for x[n], y[n]
"""
GEMM = "rule gemm: MatMul(x, y) => Gemm(x, y) for x[m, k], y[k, n]\n"
TURNS = "rule turns: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x + x - x for x[m, n]\n"


def used(proto: onnx.ModelProto, law: str, tmp_path: Path) -> bool:
    """Whether the law rewrites the model in what is written."""
    path = tmp_path / "own.rules"
    path.write_text(law)
    result = taso_py.optimize(proto, rules=[path], race=False, apply="all", allow_bounded=True, strict=True)
    return any(rule.name in law for rule in result.rules)


def pooled(size: int, stride: int) -> onnx.ModelProto:
    nodes = [node("Relu", "x", "r"), node("MaxPool", "r", "y", kernel_shape=[1], strides=[stride])]
    return model(nodes, [value("x", [1, 1, size])], [value("y", [1, 1, None])])


@pytest.mark.parametrize(("size", "stride", "within"), [(2, 1, True), (2, 2, True), (2, 9, False), (20, 1, False)])
def test_a_bounded_proof_counts_up_to_its_bound(size: int, stride: int, within: bool, tmp_path: Path) -> None:
    assert used(pooled(size, stride), STRIDES, tmp_path) == within


def padded(dtype: int, numbers: tuple[float, float]) -> onnx.ModelProto:
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype).type
    nodes = [node("Pad", "x p u", "a"), node("Pad", "y p v", "b"), node("Add", "a b", "z")]
    weights = [weight("p", [1, 0], np.int64), weight("u", numbers[0], kind), weight("v", numbers[1], kind)]
    ends = [value(name, [n], dtype) for name, n in (("x", 3), ("y", 3), ("z", 4))]
    return model(nodes, ends[:2], ends[2:], weights)


@pytest.mark.parametrize(
    ("dtype", "numbers", "applied"),
    [
        (TensorProto.FLOAT, (1.0, 2.0), True),
        (TensorProto.INT64, (2**53, 1), False),  # the sum of two attributes is a float
        (TensorProto.INT32, (2**31 - 1, 1), False),
        (TensorProto.UINT8, (200, 100), False),
    ],
)
def test_a_law_of_floats_matches_no_integers(
    dtype: int, numbers: tuple[float, float], applied: bool, tmp_path: Path
) -> None:
    assert used(padded(dtype, numbers), PADS, tmp_path) == applied


@pytest.mark.parametrize(("dtype", "applied"), [(TensorProto.FLOAT, True), (TensorProto.INT32, False)])
def test_an_operator_is_made_for_its_own_element_types(dtype: int, applied: bool, tmp_path: Path) -> None:
    ends = [value("x", [2, 3], dtype), value("y", [3, 4], dtype), value("z", [2, 4], dtype)]
    proto = model([node("MatMul", "x y", "z")], ends[:2], ends[2:])
    assert used(proto, GEMM, tmp_path) == applied


@pytest.mark.parametrize(("dtype", "applied"), [(TensorProto.INT32, True), (TensorProto.BOOL, False)])
def test_truths_are_no_numbers(dtype: int, applied: bool, tmp_path: Path) -> None:
    nodes = [node("Transpose", "x", "t", perm=[1, 0]), node("Transpose", "t", "y", perm=[1, 0])]
    proto = model(nodes, [value("x", [2, 3], dtype)], [value("y", [2, 3], dtype)])
    assert used(proto, TURNS, tmp_path) == applied


@pytest.mark.parametrize(("opset", "bounds"), [(10, "attributes"), (17, "inputs")])
def test_bounds_that_are_infinite_are_compared_as_others_are(opset: int, bounds: str) -> None:
    """A Clip without a bound has an infinite one: max(b, -inf) of a symbol b is no matter of their difference."""
    clips = [("x", -1.0, None), ("c0", None, 0.5), ("c1", -0.25, None), ("c2", None, None), ("c3", None, 3.0)]
    nodes, weights = [], []
    for k, (source, low, high) in enumerate(clips):
        given = {name: bound for name, bound in (("min", low), ("max", high)) if bound is not None}
        if bounds == "attributes":
            nodes.append(node("Clip", source, f"c{k}", **given))
            continue
        weights += [weight(f"{name}{k}", bound) for name, bound in given.items()]
        inputs = [source, *(f"{name}{k}" if name in given else "" for name in ("min", "max"))]
        nodes.append(onnx.helper.make_node("Clip", inputs, [f"c{k}"]))
    proto = model(
        [*nodes, node("Relu", "c4", "y")], [value("x", ["n", 8])], [value("y", ["n", 8])], weights, opset=opset
    )
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    assert len(result.model.graph.node) < len(clips)


MENU = "rule menu: Pad(Relu(x), pads=[d, k]) => Relu(Pad(x, pads=[d, k])) for x[n] when k in [k, n // d]\n"


@pytest.mark.parametrize(("front", "matched"), [(1, True), (0, False)])
def test_a_menu_that_divides_by_zero_matches_nothing(front: int, matched: bool, tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Pad", "r p", "y")]
    proto = model(nodes, [value("x", [4])], [value("y", [5 + front])], [weight("p", [front, 1], np.int64)])
    assert used(proto, MENU, tmp_path) == matched

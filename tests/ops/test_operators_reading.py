"""Forms that a class must refuse (the node stays opaque), and forms whose meaning depends on the opset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from taso_py.errors import TypingError
from taso_py.graph.sizes import symbol
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.activations import Clamp, Clip, Gelu, LeakyRelu, PRelu
from taso_py.ops.algebra import algebra
from taso_py.ops.comparison import Cast, Where
from taso_py.ops.constants import Fill
from taso_py.ops.elementwise import Add, Identity, Max, Neg, Pow, Power, Sub
from taso_py.ops.linear import Gemm, MatMul
from taso_py.ops.normalization import BatchNormalization, LayerNormalization, RMSNormalization, Softmax
from taso_py.ops.numeric import evaluate, operations
from taso_py.ops.operator import Operator, Reading
from taso_py.ops.reduce import ReduceMax, ReduceMean, ReduceSum
from tests.helpers.operator_models import call_of, type_of

X = TensorType("float32", (2, 3, 4))
SCALAR = TensorType("float32", ())
VECTOR = TensorType("float32", (3,))
AXES = TensorType("int64", (1,))


def _read(
    op_type: str,
    opset: int,
    inputs: tuple[TensorType | np.ndarray | None, ...],
    attributes: Mapping[str, Any] | None = None,
    outputs: int = 1,
) -> Reading | None:
    """What the class makes of a node; arrays are constant inputs, None is an absent one."""
    names = ["" if given is None else f"i{k}" for k, given in enumerate(inputs)]
    named = {name: given for name, given in zip(names, inputs, strict=True) if given is not None}
    constants = {name: given for name, given in named.items() if isinstance(given, np.ndarray)}
    types = {n: type_of(given) if isinstance(given, np.ndarray) else given for n, given in named.items()}
    node = helper.make_node(op_type, names, [f"o{k}" for k in range(outputs)], **(attributes or {}))
    return OPERATORS[op_type].read(call_of(node, opset, types, constants))


def _constant(*values: float, dtype: str = "float32", shape: tuple[int, ...] | None = None) -> np.ndarray:
    return np.array(values, dtype=dtype).reshape(() if shape is None else shape)


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes", "outputs"),
    [
        ("Relu", 13, (X,), {"unknown": 1}, 1),
        ("HardSwish", 13, (X,), {}, 1),
        ("Max", 7, (X, TensorType("float32", (4,))), {}, 1),
        ("Sum", 7, (X, SCALAR), {}, 1),
        ("Add", 6, (X, X), {"broadcast": 1}, 1),
        ("Clip", 13, (X, SCALAR), {"max": 1.0}, 1),
        ("CastLike", 15, (X, TensorType("bfloat16", ())), {}, 1),
        ("Clip", 13, (X, _constant(math.nan)), {}, 1),
        ("Clip", 13, (X, _constant(math.inf)), {}, 1),
        ("Clip", 13, (X, _constant(0.0, 1.0, shape=(2,))), {}, 1),
        ("Clip", 13, (X,), {"min": 0.0}, 1),
        ("Gelu", 20, (X,), {"approximate": "sigmoid"}, 1),
        ("Gemm", 13, (X, X), {"axis": 1}, 1),
        ("Softmax", 13, (X,), {"spatial": 1}, 1),
        ("ReduceSum", 13, (X, AXES), {}, 1),
        ("ReduceSum", 13, (X,), {"axes": [1]}, 1),
        ("ReduceSum", 11, (X,), {"noop_with_empty_axes": 1}, 1),
        ("ReduceMean", 18, (X, AXES), {}, 1),
        ("ReduceMean", 17, (X, _constant(1, dtype="int64", shape=(1,))), {}, 1),
        ("LayerNormalization", 17, (X, TensorType("float32", (4,))), {"stash_type": 10}, 1),
        ("RMSNormalization", 23, (X, TensorType("float32", (4,))), {"stash_type": 10}, 1),
        ("RMSNormalization", 23, (X, *[TensorType("float32", (4,))] * 2), {}, 1),
        ("BatchNormalization", 7, (X, *[VECTOR] * 4), {"spatial": 0}, 1),
        ("BatchNormalization", 9, (X, *[VECTOR] * 4), {"spatial": 1}, 1),
        ("BatchNormalization", 9, (X, *[VECTOR] * 4), {}, 5),
        ("BatchNormalization", 14, (X, *[VECTOR] * 4), {"training_mode": 1}, 1),
        ("BatchNormalization", 15, (X, *[VECTOR] * 4), {"training_mode": 0}, 3),
        ("Cast", 13, (X,), {"to": TensorProto.STRING}, 1),
        ("Cast", 13, (X,), {"to": TensorProto.BFLOAT16}, 1),
        ("Cast", 19, (X,), {"to": TensorProto.FLOAT8E4M3FN}, 1),
    ],
)
def test_undefined_forms_stay_opaque(
    op_type: str,
    opset: int,
    inputs: tuple[TensorType | np.ndarray | None, ...],
    attributes: Mapping[str, Any],
    outputs: int,
) -> None:
    assert _read(op_type, opset, inputs, attributes, outputs) is None


_LOWEST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes", "expected"),
    [
        ("Softmax", 11, (X,), {}, Reading(Softmax(1, 1), (0,))),
        ("Softmax", 13, (X,), {}, Reading(Softmax(-1), (0,))),
        ("ReduceSum", 13, (X,), {"noop_with_empty_axes": 1}, Reading(Identity(), (0,))),
        ("ReduceSum", 13, (X,), {}, Reading(ReduceSum(), (0,))),
        ("ReduceMean", 17, (X,), {"axes": [1], "keepdims": 0}, Reading(ReduceMean((1,), 0), (0,))),
        ("ReduceMean", 18, (X, _constant(1, dtype="int64", shape=(1,))), {}, Reading(ReduceMean((1,)), (0,))),
        ("Clip", 10, (X,), {}, Reading(Clip(), (0,))),
        ("Clip", 13, (X, SCALAR), {}, Reading(Clamp("low"), (0, 1))),
        ("Clip", 13, (X, None, SCALAR), {}, Reading(Clamp("high"), (0, 2))),
        ("Clip", 13, (X, _constant(0.0), SCALAR), {}, Reading(Clamp(), (0, 1, 2))),
        ("CastLike", 15, (X, AXES), {}, Reading(Cast("int64"), (0,))),
        ("Clip", 10, (X,), {"min": _LOWEST, "max": 6.0}, Reading(Clip(_LOWEST, 6.0), (0,))),
        ("Clip", 13, (X, None, _constant(-_LOWEST)), {}, Reading(Clip(max=-_LOWEST), (0,))),
        ("Clip", 11, (X, None, _constant(6.0)), {}, Reading(Clip(max=6.0), (0,))),
        ("Clip", 11, (X, _constant(-math.inf), _constant(math.inf)), {}, Reading(Clip(), (0,))),
        ("Gemm", 11, (X, X, None), {}, Reading(Gemm(), (0, 1))),
        ("LayerNormalization", 17, (X, SCALAR, None), {}, Reading(LayerNormalization(), (0, 1))),
        (
            "BatchNormalization",
            8,
            (X, *[VECTOR] * 4),
            {"spatial": 1, "momentum": 0.5},
            Reading(BatchNormalization(), tuple(range(5))),
        ),
        (
            "BatchNormalization",
            14,
            (X, *[VECTOR] * 4),
            {"training_mode": 0},
            Reading(BatchNormalization(), tuple(range(5))),
        ),
        ("Pow", 13, (X, _constant(2.0)), {}, Reading(Pow(2.0), (0,))),
        ("Pow", 13, (X, _constant(2, dtype="int64", shape=(1, 1))), {}, Reading(Pow(2.0), (0,))),
        ("Pow", 13, (X, _constant(2.0, shape=(1, 1, 1, 1))), {}, Reading(Power(), (0, 1))),
        ("Pow", 13, (X, SCALAR), {}, Reading(Power(), (0, 1))),
        ("Cast", 13, (X,), {"to": TensorProto.INT64}, Reading(Cast("int64"), (0,))),
        ("LeakyRelu", 13, (X,), {"alpha": 0.01}, Reading(LeakyRelu(), (0,))),
        ("Gelu", 20, (X,), {"approximate": "tanh"}, Reading(Gelu("tanh"), (0,))),
        ("Max", 8, (X, SCALAR), {}, Reading(Max(), (0, 1))),
    ],
)
def test_forms_of_each_opset(
    op_type: str,
    opset: int,
    inputs: tuple[TensorType | np.ndarray | None, ...],
    attributes: Mapping[str, Any],
    expected: Reading,
) -> None:
    assert _read(op_type, opset, inputs, attributes) == expected


@pytest.mark.parametrize(
    ("operator", "types"),
    [
        (Add(), (X, VECTOR)),
        (Add(), (X, TensorType("float64", (2, 3, 4)))),
        (Add(), (X,)),
        (Add(), (X, TensorType("float32", (2, 3, symbol("n"))))),
        (PRelu(), (VECTOR, X)),
        (Where(), (X, X, X)),
        (MatMul(), (X, X)),
        (MatMul(), (X, SCALAR)),
        (Gemm(), (X, X)),
        (
            Gemm(),
            (TensorType("float32", (1, 3)), TensorType("float32", (3, 2)), TensorType("float32", (5, 2))),
        ),
        (Gemm(transA=1), (TensorType("float32", (2, 3)), TensorType("float32", (3, 2)))),
        (ReduceMax((3,)), (X,)),
        (ReduceMax((1, -2)), (X,)),
        (Softmax(3), (X,)),
        (Softmax(), (SCALAR,)),
        (LayerNormalization(), (X, X)),
        (RMSNormalization(), (X, VECTOR)),
        (BatchNormalization(), (VECTOR, *[VECTOR] * 4)),
        (BatchNormalization(), (X, *[TensorType("float32", (1,))] * 4)),
    ],
)
def test_ill_typed_applications_are_refused(operator: Operator, types: tuple[TensorType, ...]) -> None:
    with pytest.raises(TypingError):
        operator.infer(*types)


def test_float_attributes_are_what_onnx_stores() -> None:
    assert LeakyRelu(0.01) == LeakyRelu(float(np.float32(0.01)))
    assert str(LeakyRelu(0.01)) == "LeakyRelu(alpha=0.01)"
    assert str(Clip(-1.0, 1 / 3)) == f"Clip(min=-1.0, max={1 / 3})"


def test_integers_are_exact_beyond_float64() -> None:
    big = np.array([2**62 + 1, -(2**60) - 3])
    types = [type_of(big)] * 2
    for operator, expected in ((Add(), big + 1), (Sub(), big - 1), (Max(), big)):
        value = evaluate(operator, [big, np.ones_like(big)], types)
        np.testing.assert_array_equal(value, np.maximum(expected, 1) if operator == Max() else expected)
    np.testing.assert_array_equal(evaluate(Neg(), [big], types[:1]), -big)
    np.testing.assert_array_equal(evaluate(ReduceMax(), [big], types[:1]), big.max(keepdims=True))
    assert evaluate(Fill(0.5, (1,)), [], []).tolist() == [0.5]


def test_a_folded_product_is_the_sum_in_index_order() -> None:
    generator = np.random.default_rng(3)
    a, b = generator.standard_normal((5, 7)), generator.standard_normal((7, 6))
    expected = np.zeros((5, 6))
    for k in range(7):
        expected = expected + a[:, k, None] * b[None, k] if k else a[:, 0, None] * b[None, 0]
    np.testing.assert_array_equal(evaluate(MatMul(), [a, b], [type_of(a), type_of(b)]), expected)


def test_operation_counts() -> None:
    matrix = TensorType("float32", (8, 8))
    assert operations(MatMul(), (matrix, matrix)) == 2 * 8**3
    assert operations(Sub(), (X, X)) == 24
    # mean: 24 sums, 6 quotients; variance: 24 differences, squares and sums, 6 quotients; epsilon, root: 12;
    # then difference, quotient and scale of every element
    assert operations(LayerNormalization(), (X, TensorType("float32", (4,)))) == 30 + 78 + 12 + 3 * 24


@pytest.mark.parametrize(
    ("first", "second", "types"),
    [
        (ReduceSum((2, 0)), ReduceSum((0, -1)), (X,)),
        (ReduceSum(), ReduceSum((-3, 1, 2)), (X,)),
        (Softmax(-1), Softmax(2, 1), (X,)),
        (Softmax(1), Softmax(0, 1), (TensorType("float32", (1, 5, 1)),)),
        (LayerNormalization(-2), LayerNormalization(1), (X, TensorType("float32", (3, 4)))),
        (Gemm(beta=0.5), Gemm(), (TensorType("float32", (2, 3)), TensorType("float32", (3, 2)))),
    ],
)
def test_equal_meanings_have_one_normal_form(first: Operator, second: Operator, types: tuple[TensorType, ...]) -> None:
    assert first.normal(*types) == second.normal(*types)


@pytest.mark.parametrize(
    ("source", "target", "keeps"),
    [
        ("int32", "int64", True),
        ("bool", "float32", True),
        ("float16", "float32", True),
        ("int32", "float64", True),
        ("int64", "float64", False),
        ("uint64", "float64", False),
        ("int32", "float32", False),
        ("float64", "float32", False),
        ("int64", "uint64", False),
        ("float32", "bool", False),
    ],
)
def test_only_casts_that_keep_every_value_move_data(source: str, target: str, keeps: bool) -> None:
    assert (algebra(Cast(target), (TensorType(source, (3,)),)) == "move") == keeps

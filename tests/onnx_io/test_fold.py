"""Folding keeps to the time that there is, and to a bound of memory."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from taso_py.errors import TooLateError, TypingError
from taso_py.graph.sizes import element_variables
from taso_py.graph.table import Opaque
from taso_py.graph.types import TensorType
from taso_py.onnx_io import fold, steps
from taso_py.onnx_io.load import Loaded, load
from taso_py.ops.constants import Fill
from taso_py.ops.meaning import Operand, add, total
from tests.helpers.graphs import model


def products(size: int) -> Loaded:
    """x · (a · b), with square weights of this size, and a · a · b beside it."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((size, size), dtype=np.float32), name) for name in "ab"]
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["ab"]),
        helper.make_node("MatMul", ["a", "ab"], ["aab"]),
        helper.make_node("MatMul", ["x", "ab"], ["y"]),
        helper.make_node("MatMul", ["y", "aab"], ["z"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in "xz"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def test_what_would_be_ready_too_late_is_not_begun() -> None:
    loaded = products(256)
    value, nodes = loaded.ids["ab"], loaded.table.nodes
    with loaded.folder.until(time.monotonic()), pytest.raises(TooLateError, match="takes too long to fold"):
        loaded.folder.value(value, nodes)
    assert loaded.folder.deadline == math.inf
    assert loaded.folder.value(value, nodes).shape == (256, 256)
    with loaded.folder.until(time.monotonic()):
        assert loaded.folder.value(value, nodes).shape == (256, 256)  # it is remembered
        with pytest.raises(TooLateError):
            loaded.folder.value(loaded.ids["aab"], nodes)


def test_what_takes_next_to_no_time_is_always_folded() -> None:
    loaded = products(16)
    with loaded.folder.until(time.monotonic() - 1):
        assert loaded.folder.value(loaded.ids["aab"], loaded.table.nodes).shape == (16, 16)


def test_how_fast_an_operator_is_was_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = products(256)
    loaded.folder.value(loaded.ids["ab"], loaded.table.nodes)
    seen = 256**3 / loaded.folder._rates[type(loaded.table.nodes[loaded.ids["ab"]].operator)]
    now = time.monotonic()
    monkeypatch.setattr(fold.time, "monotonic", lambda: now)
    with loaded.folder.until(now + 0.9 * seen), pytest.raises(TooLateError):
        loaded.folder.value(loaded.ids["aab"], loaded.table.nodes)
    with loaded.folder.until(now + 1.1 * seen):
        assert loaded.folder.value(loaded.ids["aab"], loaded.table.nodes).any()


def test_what_takes_too_much_memory_is_left_to_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = products(64)
    monkeypatch.setattr(fold, "MAXIMAL_BYTES", 3 * 64 * 64 * 8 - 1)
    with pytest.raises(TypingError, match="too large to fold"):
        loaded.folder.value(loaded.ids["ab"], loaded.table.nodes)


def standardised(*shape: int) -> Loaded:
    """Weights divided by their own deviation, as networks write them that standardise their convolutions."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.standard_normal(shape).astype(np.float32),
        "g": rng.uniform(0.5, 2, shape[1]).astype(np.float32),
        "b": np.zeros(shape[1], np.float32),
        "v": np.ones(shape[1], np.float32),
    }
    outputs = ["y", "mean", "variance"]
    normal = helper.make_node("BatchNormalization", ["w", "g", "b", "b", "v"], outputs, training_mode=1)
    graph = helper.make_graph(
        [normal, helper.make_node("Add", ["x", "y"], ["r"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_a_mean_within_a_variance_counts_once() -> None:
    loaded = standardised(1, 16, 2304)
    found = loaded.folder.value(loaded.ids["y"], loaded.table.nodes)
    w = np.asarray(loaded.folder.source(loaded.ids["w"]), np.float64)
    g = np.asarray(loaded.folder.source(loaded.ids["g"]), np.float64)
    deviation = np.sqrt(w.var(axis=(0, 2), keepdims=True) + np.float64(np.float32(1e-5)))
    expected = (w - w.mean(axis=(0, 2), keepdims=True)) / deviation * g[None, :, None]
    np.testing.assert_allclose(found, expected.astype(np.float32), rtol=1e-6, atol=1e-6)


def test_a_reduction_that_is_too_long_is_left_to_the_runtime() -> None:
    loaded = standardised(1, 1, fold.MAXIMAL_STEPS)
    with pytest.raises(TypingError, match="takes too long to fold"):
        loaded.folder.value(loaded.ids["y"], loaded.table.nodes)


def test_what_depends_on_the_index_around_it_counts_each_time() -> None:
    x = TensorType("float32", (4, 6))
    i = tuple(s.size for s in element_variables(2))
    reading = Operand(0, x)
    dependent = total(5, lambda k: total(7, lambda m: reading[(k, m)]))
    apart = total(5, lambda k: add(reading[(k, i[1])], total(7, lambda m: reading[(i[0], m)])))
    assert [n for n, _ in steps.loops(dependent)[0]] == [35]
    assert sorted(n for n, _ in steps.loops(apart)[0]) == [5, 7]


# Of float16 the bits are written: a third, and 3.
LEFT = [
    ("double c = {2049.0000001}", "h = Cast<to = 10>(c) y = Cast<to = 7>(h)"),
    ("float16 c = {13653}, float16 d = {16896}", "h = Mul(c, d) y = Cast<to = 7>(h)"),
    ("float c = {300.0}", "y = Cast<to = 2>(c)"),
    ("float c = {-1.0}", "y = Cast<to = 12>(c)"),
]


@pytest.mark.parametrize(("constants", "steps"), LEFT)
def test_whole_numbers_that_onnx_runtime_decides_are_left_to_it(constants: str, steps: str) -> None:
    dtype = {"<to = 2>": "uint8", "<to = 12>": "uint32"}.get(steps[steps.rindex("<") : steps.rindex("(")], "int64")
    loaded = load(model(f"agraph () => ({dtype} y) <{constants}> {{ {steps} }}"))
    with pytest.raises(TypingError, match="left to ONNX Runtime"):
        loaded.folder.held(loaded.ids["y"], loaded.table.nodes)


@pytest.mark.parametrize(
    ("constants", "steps", "expected"),
    [
        ("float c = {255.9}", "y = Cast<to = 2>(c)", 255),
        ("float c = {2049.0}", "h = Cast<to = 10>(c) k = Cast<to = 7>(h) y = Cast<to = 2>(k)", 0),
        ("int64 c = {300}", "y = Cast<to = 2>(c)", 44),
    ],
)
def test_whole_numbers_that_are_determined_are_folded(constants: str, steps: str, expected: int) -> None:
    loaded = load(model(f"agraph () => (uint8 y) <{constants}> {{ {steps} }}"))
    assert loaded.folder.held(loaded.ids["y"], loaded.table.nodes) == expected


def test_a_sum_with_a_large_number_rounds_as_in_float32() -> None:
    proto = model(
        """agraph (float[4] x) => (float[4] y) {
        k = Constant<value_floats = [0.3, 1.2, 2.4, 3.7]>() m = Constant<value_float = 12582912.0>()
        a = Add(k, m) b = Sub(a, m) y = Mul(x, b) }"""
    )
    loaded = load(proto)
    assert loaded.folder.value(loaded.ids["b"], loaded.table.nodes).tolist() == [0, 1, 2, 4]


def test_powers_of_integers_beyond_float64_are_left_alone() -> None:
    proto = model(
        """agraph (int64[2] x) => (int64[2] y) {
        k = Constant<value_ints = [94906267, 3]>() two = Constant<value_int = 2>() p = Pow(k, two) y = Add(x, p) }"""
    )
    loaded = load(proto)
    with pytest.raises(TypingError, match="left to ONNX Runtime"):
        loaded.folder.value(loaded.ids["p"], loaded.table.nodes)


def test_both_zeros_are_told_apart() -> None:
    proto = model(
        """agraph (float[4] x) => (float[4] y, float[4] z) {
        n = Constant<value_ints = [4]>()
        a = ConstantOfShape<value = float[1] {-0.0}>(n) b = ConstantOfShape<value = float[1] {0.0}>(n)
        y = Mul(x, a) z = Mul(x, b) }"""
    )
    loaded = load(proto)
    assert isinstance(loaded.table.nodes[loaded.ids["a"]].operator, Opaque)
    assert isinstance(loaded.table.nodes[loaded.ids["b"]].operator, Fill)

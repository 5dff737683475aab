"""No rewrite makes a node that ONNX Runtime has no kernel for, or that ONNX does not allow at the model's opset."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

import taso_py
from taso_py.graph.types import TensorType
from taso_py.onnx_io.kernels import computable
from taso_py.onnx_io.load import load
from taso_py.ops import OPERATORS
from taso_py.ops.operator import Given, Writing
from tests.helpers.graphs import model, rewriter, view_of

MEAN = "agraph (T[1,2,3,4] x) => (T[1,2,1,1] y) { a = Neg(x) b = ReduceMean<axes = [2,3]>(a) y = Neg(b) }"
GATE = "agraph (T[1,2,4,4] x, T[1,2,1,1] s) => (T[1,2,4,4] y) { a = Mul(x, s) y = Add(a, x) }"


@pytest.mark.parametrize(
    ("text", "dtype"), [(MEAN, "double"), (GATE, "double"), (GATE, "int64"), (GATE, "int16"), (GATE, "float")]
)
def test_what_is_rewritten_loads(text: str, dtype: str) -> None:
    proto = model(text.replace("T[", f"{dtype}["))
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    array = np.arange(32).astype({"float": "float32", "double": "float64"}.get(dtype, dtype))
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    feeds = {name: array[: int(np.prod(shape))].reshape(shape) for name, shape in shapes.items()}
    one, other = (
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for m in (proto, result.model)
    )
    np.testing.assert_allclose(other, one, rtol=1e-6)


@pytest.mark.parametrize(("channels", "expected"), [(2, 1), (0, 0)])
def test_nothing_is_pooled_that_has_no_elements(channels: int, expected: int) -> None:
    """The kernels refuse it when they run."""
    moves, canonical = rewriter(None, "gate-by-pooled-resize")
    view = view_of(load(model(GATE.replace("T[1,2", f"float[1,{channels}"))), canonical)
    assert len(list(moves.all_matches(view))) == expected


PADS = "pads=[0, 0, 1, 1, 0, 0, 1, 1]"
RELU = "agraph (float[2,3,1,1] x) => (float[2,3,1,1] y) { y = Relu(x) }"
POOLED = """agraph (float[1,2,4,4] x) => (float[1,2,N,N] y)
    <int64[8] p = {0,0,1,1,0,0,1,1}> { a = Pad(x, p) b = Relu(a) y = MaxPool<kernel_shape = [3,3]>(b) }"""


@pytest.mark.parametrize(
    ("text", "rule", "expected"),
    [
        (RELU, f"Relu(x) => MaxPool(Pad(x, {PADS}), kernel_shape=[2, 2], strides=[2, 2]) for x[m, n, 1, 1]", 0),
        (
            RELU,
            f"Relu(x) => MaxPool(Pad(x, {PADS}, value=-1.0), kernel_shape=[2, 2], strides=[2, 2]) for x[m, n, 1, 1]",
            1,
        ),
        (RELU, f"Relu(x) => GlobalMaxPool(Pad(x, {PADS})) for x[m, n, 1, 1]", 1),
        (RELU, "Relu(x) => MaxPool(Pad(x, pads=[0, 1, 0, 0, 0, -1, 0, 0]), kernel_shape=[1, 1])", 1),
        (POOLED, "Relu(x) => x", 0),
    ],
)
def test_nothing_is_padded_where_that_would_be_fused_wrongly(text: str, rule: str, expected: int) -> None:
    moves, canonical = rewriter(f"rule made: {rule}")
    view = view_of(load(model(text)), canonical)
    assert len(list(moves.all_matches(view))) == expected


KERNELS = (2, 2, 3, 3)
SUMS = "a = Conv(x, k, b) d = Conv(x, l) e = Add(a, c) y = Add(e, d)"
BESIDE = f"agraph (float[1,2,4,4] x, float[2] b) => (RESULTS) {{ {SUMS} }}"
WITHIN = f"""agraph (bool q, float[1,2,4,4] x, float[2] b, float[1,2,2,2] o) => (float[1,2,2,2] z, float[1,2,2,2] w)
    {{ z, w = If(q) <then_branch = t () => (RESULTS) {{ {SUMS} }},
                     else_branch = s () => (float[1,2,2,2] n, float[1,2,2,2] m) {{ n = Neg(o) m = Abs(o) }}> }}"""


@pytest.mark.parametrize("text", [BESIDE, WITHIN])
@pytest.mark.parametrize(("result", "expected"), [("e", 1), ("a", 0)])
def test_no_sum_takes_a_convolution_that_is_a_result(text: str, result: str, expected: int) -> None:
    moves, canonical = rewriter("rule made: Add(Add(x, z), y) => Add(Add(x, y), z) when constant(z)")
    proto = model(
        text.replace("RESULTS", f"float[1,2,2,2] y, float[1,2,2,2] {result}"), k=KERNELS, l=KERNELS, c=(2, 1, 1)
    )
    assert len(list(moves.all_matches(view_of(load(proto), canonical)))) == expected


@pytest.mark.parametrize(("result", "expected"), [("n", 0), ("m", 1)])
def test_nor_one_that_becomes_a_result(result: str, expected: int) -> None:
    nodes = "a = Conv(x, k, b) n = Relu(a) d = Conv(x, l) m = Relu(n) y = Max(m, d)"
    moves, canonical = rewriter("rule made: Relu(u), Max(Relu(Relu(u)), v) => u, Add(u, v)")
    text = f"agraph (float[1,2,4,4] x, float[2] b) => (float[1,2,2,2] {result}, float[1,2,2,2] y) {{ {nodes} }}"
    view = view_of(load(model(text, k=KERNELS, l=KERNELS)), canonical)
    assert len(list(moves.all_matches(view))) == expected


@pytest.mark.parametrize(
    ("operator", "opset", "dtype", "allowed"),
    [
        ("Resize", 17, "float32", True),
        ("Resize", 17, "int32", True),
        ("Resize", 17, "int64", False),
        ("Relu", 14, "int32", True),
        ("Relu", 13, "int32", False),
        ("Sum", 13, "int32", False),
        ("Max", 13, "int8", True),
        ("GlobalAveragePool", 17, "float64", False),
    ],
)
def test_types_are_those_of_the_opset_and_of_the_kernels(operator: str, opset: int, dtype: str, allowed: bool) -> None:
    assert operator in OPERATORS
    types = [TensorType(dtype, (1, 2, 4, 4))] * 2
    operands = (Given(0), Given(1)) if operator in ("Sum", "Max") else (Given(0),)
    assert computable(Writing(operator, operands, {}), opset, types) is allowed

"""Models that tell how a provider computes.

In fp32 their results differ from the exact ones by rounding alone, about 1e-6 of the largest; with operands rounded to
TF32 or bfloat16 by 5e-4 and more, and float16 overflows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from taso_py.arrays import Array
from taso_py.backend.protocol import Feeds, ModelRef

FP32_ERROR = 2e-5
"""Largest |y - y'| over largest |y| that counts as fp32: 256 terms in the worst order reach 256·2^-24 = 1.5e-5."""
_DEPTH, _WIDTH, _ROWS = 256, 64, 32
_CHANNELS, _SIDE, _WINDOW = 16, 12, 3
_LARGE = 2.0**10
"""Of both factors: their products, about 2^20, are beyond float16."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A model, its inputs, and by output the exact values in float64."""

    model: ModelRef
    feeds: Feeds
    exact: Mapping[str, Array]


def small_probe() -> Probe:
    """y = x @ w for x[2, 4]: what every provider of tensors can run."""
    return _product(2, 4)


def busy_probe() -> Probe:
    """A product that is worth several threads."""
    return _product(256, 512)


def _product(rows: int, width: int) -> Probe:
    w, x = np.eye(width, dtype=np.float32), np.ones((rows, width), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [_value("x", x.shape)], [_value("y", x.shape)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    return Probe(ModelRef("probe", _serialized(graph)), {"x": x}, {"y": x.astype(np.float64)})


def resizable_probe() -> ModelRef:
    """y = 2·x for x[n, 4]."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "sizes", [_value("x", ["n", 4])], [_value("y", ["n", 4])],
        [numpy_helper.from_array(2 * np.eye(4, dtype=np.float32), "w")],
    )  # fmt: skip
    return ModelRef("probe", _serialized(graph))


def precision_probe(seed: int = 0) -> Probe:
    """Products of matrices with constants and without, a convolution, a Gemm, and a product beyond float16.

    Each node is called as its output.

    Every factor is 2^e·(1 + 2^-12), which float32 holds exactly and TF32, bfloat16 and float16 round down to 2^e, so
    that errors have one direction and no sum hides them: each product is off by 2·2^-12 = 4.9e-4 there.
    """
    draw = np.random.default_rng(seed)
    a, b, w = (_factors(draw, *shape) for shape in ((_ROWS, _DEPTH), (_DEPTH, _WIDTH), (_DEPTH, _WIDTH)))
    x, k = _factors(draw, 1, _CHANNELS, _SIDE, _SIDE), _factors(draw, _CHANNELS, _CHANNELS, _WINDOW, _WINDOW)
    far, c = np.float32(_LARGE) * a, _factors(draw, _WIDTH)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["a", "b"], ["product"], "product"),
            helper.make_node("MatMul", ["a", "w"], ["weighted"], "weighted"),
            helper.make_node("MatMul", ["far", "v"], ["large"], "large"),
            helper.make_node("Conv", ["x", "k"], ["convolved"], "convolved"),
            helper.make_node("Gemm", ["a", "w", "c"], ["affine"], "affine"),
        ],
        "precision",
        [_value("a", a.shape), _value("b", b.shape), _value("far", far.shape), _value("x", x.shape)],
        [_value(name, None) for name in ("product", "weighted", "large", "convolved", "affine")],
        [
            numpy_helper.from_array(one, name)
            for name, one in (("w", w), ("v", np.float32(_LARGE) * w), ("k", k), ("c", c))
        ],
    )
    double = np.float64
    exact = {
        "product": a.astype(double) @ b.astype(double),
        "weighted": a.astype(double) @ w.astype(double),
        "large": far.astype(double) @ (_LARGE * w.astype(double)),
        "convolved": _convolved(x.astype(double), k.astype(double)),
        "affine": a.astype(double) @ w.astype(double) + c.astype(double),
    }
    return Probe(ModelRef("precision probe", _serialized(graph)), {"a": a, "b": b, "far": far, "x": x}, exact)


def worst_error(exact: Array, found: Array) -> float:
    """Largest |y - y'| over largest |y|; infinite where a value is NaN or infinite, or the shapes differ."""
    if exact.shape != found.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(exact - found).max() / np.abs(exact).max())


def _factors(draw: np.random.Generator, *shape: int) -> Array:
    # All positive: where a sum cancels, the rounding of fp32 itself is large against the result.
    powers = draw.integers(-1, 2, size=shape).astype(np.float32)
    return np.asarray(np.exp2(powers) * np.float32(1 + 2.0**-12), np.float32)


def _convolved(x: Array, k: Array) -> Array:
    """out[n,o,y,x] = Σ_{c,r,s} x[n,c,y+r,x+s]·k[o,c,r,s]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (_WINDOW, _WINDOW), (2, 3))
    return np.asarray(np.einsum("ncyxrs,ocrs->noyx", windows, k))


def _value(name: str, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _serialized(graph: onnx.GraphProto) -> bytes:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())

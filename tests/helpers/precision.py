"""Small networks with samples, for the tests of error budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE, CLASSES = 12, 12, 5


def classifier(layers: int = 3, *, wild: int | None = None) -> onnx.ModelProto:
    """Conv and Relu, ``layers`` times, then a Gemm: x[batch, 3, 12, 12] -> y[batch, 5].

    ``wild``: the weights of this layer differ by powers of ten within a channel, so that 8 bits do not hold them.
    """
    random = np.random.default_rng(7)
    nodes, weights, value, inputs = [], [], "x", 3
    for k in range(layers):
        w = random.standard_normal((CHANNELS, inputs, 3, 3)).astype(np.float32) * np.float32((2 / (9 * inputs)) ** 0.5)
        if k == wild:
            w *= np.float32(10) ** random.integers(-4, 3, w.shape).astype(np.float32)
        weights += [_tensor(f"w{k}", w), _tensor(f"b{k}", random.standard_normal(CHANNELS) / 10)]
        nodes.append(helper.make_node("Conv", [value, f"w{k}", f"b{k}"], [f"c{k}"], f"conv{k}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"], f"relu{k}"))
        value, inputs = f"r{k}", CHANNELS
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["pooled"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"))
    weights += [_tensor("v", random.standard_normal((CHANNELS, CLASSES))), _tensor("u", np.ones(CLASSES))]
    nodes.append(helper.make_node("Gemm", ["flat", "v", "u"], ["y"], "head"))
    shape = ["batch", 3, SIDE, SIDE]
    graph = helper.make_graph(nodes, "classifier", [_value("x", shape)], [_value("y", ["batch", CLASSES])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="author", value="somebody")
    return model


def elementwise(element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A network without a layer that could be made 8-bit: y = tanh(x + 1)."""
    one = helper.make_tensor("one", element, [1], [1.0])
    nodes = [helper.make_node("Add", ["x", "one"], ["s"]), helper.make_node("Tanh", ["s"], ["y"])]
    values = [helper.make_tensor_value_info(name, element, ["n", 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "elementwise", values[:1], values[1:], [one])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def half() -> onnx.ModelProto:
    """A product in float16."""
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float16), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, ["n", d]) for n, d in (("x", 6), ("y", 4))]
    graph = helper.make_graph([node], "half", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(count: int, *shape: int, seed: int = 3, dtype: Any = np.float32) -> Any:
    """``count`` normal samples of classifier's input, or of another shape."""
    return np.random.default_rng(seed).standard_normal((count, *(shape or (3, SIDE, SIDE)))).astype(dtype)


def saved(path: Path, **arrays: Any) -> Path:
    """An .npz file."""
    np.savez(path, **arrays)
    return path


def _tensor(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)


def _value(name: str, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

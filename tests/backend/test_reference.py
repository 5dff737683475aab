"""The float64 evaluation computes what ONNX Runtime computes, at every version of an operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from taso_py.backend.reference import evaluate
from tests.helpers.graphs import model

_FORMS = {
    "BatchNormalization": "(float[2,3,4] x) => (float[2,3,4] y) { y = BatchNormalization<epsilon=0.5>(x, a, b, c, d) }",
    "Softmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=1>(x) }",
    "LogSoftmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis=-2>(x) }",
    "Hardmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis=1>(x) }",
    "LRN": "(float[2,7,4,5] x) => (float[2,7,4,5] y) { y = LRN<size=5, alpha=0.7, bias=2.0, beta=0.6>(x) }",
    "LpNormalization": "(float[2,3,4] x) => (float[2,3,4] y) { y = LpNormalization<p=1, axis=1>(x) }",
    "Conv": "(float[2,3,8] x) => (float[2,5,6] y) { y = Conv(x, w) }",
    "InstanceNormalization": "(float[2,3,8] x) => (float[2,3,8] y) { y = InstanceNormalization(x, a, b) }",
}
_DEFAULTS = {
    "BatchNormalization": "(float[2,3,4] x) => (float[2,3,4] y) { y = BatchNormalization(x, a, b, c, d) }",
    "Softmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }",
    "Hardmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax(x) }",
    "LRN": "(float[2,7,4,5] x) => (float[2,7,4,5] y) { y = LRN<size=3>(x) }",
    "LpNormalization": "(float[2,3,4] x) => (float[2,3,4] y) { y = LpNormalization(x) }",
}


def _of(text: str, opset: int) -> onnx.ModelProto:
    """The model, with the weights that its text reads; variances are positive."""
    weights = {"a": (3,), "b": (3,), "c": (3,), "d": (3,), "w": (5, 3, 3)}
    proto = model(f"g {text}", opset, 0, **{name: shape for name, shape in weights.items() if f", {name}" in text})
    for tensor in proto.graph.initializer:
        if tensor.name == "d":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([0.5, 1, 2], np.float32), "d"))
    return proto


def _theirs(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _feed(proto: onnx.ModelProto) -> np.ndarray:
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13, 14, 18])
@pytest.mark.parametrize("name", [*_FORMS, *map("{} as it is".format, _DEFAULTS)])
def test_every_version_means_what_it_means_to_onnx_runtime(name: str, opset: int) -> None:
    proto = _of(_FORMS[name] if name in _FORMS else _DEFAULTS[name.split()[0]], opset)
    x = _feed(proto)
    np.testing.assert_allclose(
        evaluate(proto.SerializeToString(), {"x": x})["y"], _theirs(proto, x), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("opset", [9, 14])
def test_errors_of_rounding_are_small(opset: int) -> None:
    proto = _of(_FORMS["BatchNormalization"], opset)
    x = _feed(proto)
    exact, noisy = (evaluate(proto.SerializeToString(), {"x": x}, noise)["y"] for noise in (None, 3))
    assert 0 < np.abs(noisy - exact).max() < 1e-5


def test_what_lies_in_functions_and_branches() -> None:
    body = [helper.make_node("Softmax", ["v"], ["s"], axis=1)]
    function = helper.make_function("own", "Probabilities", ["v"], ["s"], body, [helper.make_opsetid("", 11)])
    nodes = [helper.make_node("Probabilities", ["x"], ["p"], domain="own")]
    nodes.append(helper.make_node("Softmax", ["p"], ["o"], axis=1))
    inner = helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, (2, 3, 4))])
    graph = helper.make_graph(
        [helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3, 4))],
        [helper.make_tensor("yes", TensorProto.BOOL, (), [True])],
    )
    imports = [helper.make_opsetid("", 11), helper.make_opsetid("own", 1)]
    proto = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    x = _feed(proto)
    np.testing.assert_allclose(evaluate(proto.SerializeToString(), {"x": x})["y"], _theirs(proto, x), rtol=1e-5)

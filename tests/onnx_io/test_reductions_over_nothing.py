"""Reductions that are told to do nothing without axes: ONNX Runtime still does what comes before a sum."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from taso_py.graph.table import Opaque
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model

X = np.array([-2.0, 0.5, 3.0], np.float32)


@pytest.mark.parametrize("axes", ["", ", none"])
@pytest.mark.parametrize(
    "operator", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"]
)
def test_what_is_read_as_nothing_does_nothing(operator: str, axes: str) -> None:
    none = "<int64[0] none = {}>" if axes else ""
    node = f"y = {operator}<noop_with_empty_axes = 1>(x{axes})"
    proto = model(f"agraph (float[3] x) => (float[3] y) {none} {{ {node} }}", opset=18)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": X})
    unknown = any(isinstance(node.operator, Opaque) for node in load(proto).table.nodes.values())
    assert unknown == (not np.array_equal(found, X))


def test_with_axes_it_is_an_ordinary_reduction() -> None:
    node = "y = ReduceL2<noop_with_empty_axes = 1, keepdims = 0>(x, all)"
    proto = model(f"agraph (float[3] x) => (float y) <int64[1] all = {{0}}> {{ {node} }}", opset=18)
    assert not any(isinstance(node.operator, Opaque) for node in load(proto).table.nodes.values())

"""The same network in float16: what a converter makes of it that keeps nothing in float32."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with every float32 input, output, weight, constant and cast in float16."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _halve_graph(made.graph)
    return made


def _halve_graph(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for border in (*graph.input, *graph.output):
        if border.type.tensor_type.elem_type == TensorProto.FLOAT:
            border.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in graph.initializer:
        _halve(tensor)
    for attribute in (a for node in graph.node for a in node.attribute):
        if attribute.type == AttributeProto.GRAPH:
            _halve_graph(attribute.g)
        elif attribute.type == AttributeProto.TENSOR:
            _halve(attribute.t)
        elif attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.FLOAT16


def _halve(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        half = numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))

"""A float64 evaluation of a model by the onnx package, independent of ONNX Runtime.

The model is rewritten first: every float32 and float16 constant, type and cast becomes float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from taso_py.backend.protocol import Feeds, Outputs
from taso_py.errors import ModelError

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)
# Integer attributes that name an element type of a tensor the node makes.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


def evaluate(model: Any, feeds: Feeds) -> Outputs:
    """Outputs by name, float64 where the model says float32 or float16; ModelError when the evaluator cannot do it."""
    if isinstance(model, str):
        proto = onnx.load(Path(model), format="protobuf")
    else:
        proto = onnx.ModelProto.FromString(bytes(model))
    try:
        widen(proto)
        evaluator = ReferenceEvaluator(proto)
        with np.errstate(all="ignore"):
            results = evaluator.run(None, {name: _widen_feed(value) for name, value in feeds.items()})
    except Exception as error:  # the evaluator raises whatever its numpy code meets
        text = " ".join(str(error).split())[:200]
        raise ModelError(f"{type(error).__name__}: {text}") from error
    return dict(zip((value.name for value in proto.graph.output), results, strict=True))


def widen(model: onnx.ModelProto) -> None:
    """Replace float32 and float16 by float64 in every constant, declared type and cast of the model, in place."""
    del model.graph.value_info[:]
    for graph in _graphs(model.graph):
        for value in [*graph.input, *graph.output]:
            _widen_type(value.type)
        for tensor in graph.initializer:
            _widen_tensor(tensor)
        _widen_nodes(graph.node)
    for function in model.functions:
        _widen_nodes(function.node)
        for node in function.node:
            for graph in _subgraphs(node):
                for inner in _graphs(graph):
                    _widen_nodes(inner.node)


def _widen_nodes(nodes: Any) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.name in _TYPE_ATTRIBUTES and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                array = np.array(onnx.helper.get_attribute_value(attribute), dtype=np.float64)
                attribute.Clear()
                attribute.name, attribute.type = "value", AttributeProto.TENSOR
                attribute.t.CopyFrom(numpy_helper.from_array(array))


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _NARROW:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widen_type(declared: onnx.TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in _NARROW:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)


def _widen_feed(value: Any) -> Any:
    if isinstance(value, list):
        return [_widen_feed(item) for item in value]
    narrow = isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float16)
    return value.astype(np.float64) if narrow else value


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _graphs(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs

"""The nodes of a graph, whatever is written more than once in it."""

from __future__ import annotations

import math

import onnx
import onnx_ir

from taso_py.check.facts import RANDOM
from taso_py.onnx_io.structure import constant_tensor

_WRITTEN_AGAIN = 8
"""Most elements of constants that may be written once for all that have the same content."""


def with_one_name(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes, but for Identity of weights and Constants with a few elements: what reads these reads the content.

    And but for those that compute what one before them does, which is not so of what draws random numbers.
    """
    names = dict[str, str]()
    weights = {t.name: t.name for t in graph.initializer}
    found, first = list[onnx.NodeProto](), dict[bytes, onnx.NodeProto]()
    for node in graph.node:
        constant = constant_tensor(onnx_ir.from_proto(node)) if node.op_type == "Constant" else None
        tensor = None if constant is None else onnx_ir.to_proto(constant)
        if tensor is not None:
            weights[node.output[0]] = _content(tensor) if _few(tensor) else node.output[0]
        if node.op_type == "Identity" and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
        elif tensor is None or not _few(tensor):
            one = onnx.NodeProto()
            one.CopyFrom(node)
            one.input[:] = [weights.get(i, names.get(i, i)) for i in node.input]
            same = one if node.op_type in RANDOM else first.setdefault(_computed(one), one)
            names.update(zip(node.output, same.output, strict=True))
            found += [one] if same is one else []
    return found


def _computed(node: onnx.NodeProto) -> bytes:
    """What a node computes, whatever it and its values are called."""
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    bare.output[:] = ["" if not name else "_" for name in node.output]
    return bare.SerializeToString(deterministic=True)


def _few(tensor: onnx.TensorProto) -> bool:
    return math.prod(tensor.dims) <= _WRITTEN_AGAIN


def _content(tensor: onnx.TensorProto) -> str:
    array = onnx.numpy_helper.to_array(tensor)
    return f"{tensor.data_type} {array.shape} {array.tolist()!r} {array.tobytes().hex()}"

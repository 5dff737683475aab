"""Types of opaque nodes' outputs, as ONNX's own shape inference derives them from the graph's inputs."""

from __future__ import annotations

import onnx

from taso_py.onnx_io.carry import skeleton

_GRAPH_ATTRIBUTES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def inferred_types(proto: onnx.ModelProto, order: list[int]) -> dict[str, onnx.TypeProto]:
    """Types by value name; ``order`` is a topological order of the nodes.

    Nothing that the file states about intermediate or output shapes takes part: exporters get it wrong.
    """
    bare = skeleton(proto)
    nodes = [bare.graph.node[k] for k in order]
    reordered = onnx.GraphProto()
    reordered.node.extend(nodes)
    bare.graph.ClearField("node")
    bare.graph.node.extend(reordered.node)
    _forget_stated(bare.graph)
    try:
        result = onnx.shape_inference.infer_shapes(bare, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    return {info.name: info.type for info in (*result.graph.value_info, *result.graph.output)}


def _forget_stated(graph: onnx.GraphProto) -> None:
    graph.ClearField("value_info")
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type in _GRAPH_ATTRIBUTES:
                for inner in (attribute.g, *attribute.graphs):
                    _forget_stated(inner)

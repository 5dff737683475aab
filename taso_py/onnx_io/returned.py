"""An onnx-ir model as a proto, with the unnamed outputs that onnx-ir leaves out behind the last named one.

A call of a function of the model has as many outputs as the function, or ONNX Runtime refuses the model.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir


def whole_proto(model: ir.Model) -> onnx.ModelProto:
    """What `onnx_ir.to_proto` gives, with all outputs of each node."""
    proto: onnx.ModelProto = ir.to_proto(model)
    _complete(model.graph, proto.graph.node)
    for function, written in zip(model.functions.values(), proto.functions, strict=True):
        _complete(function, written.node)
    return proto


def _complete(nodes: Iterable[ir.Node], written: Iterable[onnx.NodeProto]) -> None:
    pairs = list(zip(nodes, written, strict=True))
    while pairs:
        node, proto = pairs.pop()
        proto.output.extend([""] * (len(node.outputs) - len(proto.output)))
        for name, attribute in node.attributes.items():
            if attribute.is_ref() or attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                continue
            (field,) = (a for a in proto.attribute if a.name == name)
            inner = [attribute.value] if attribute.type is ir.AttributeType.GRAPH else attribute.value
            graphs = [field.g] if attribute.type is ir.AttributeType.GRAPH else field.graphs
            for graph, body in zip(inner, graphs, strict=True):
                pairs.extend(zip(graph, body.node, strict=True))

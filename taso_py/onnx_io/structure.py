"""The shape of an ONNX graph: order of its nodes, values that subgraphs capture, names for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.errors import ModelError
from taso_py.ops.operator import NEWEST_OPSET


def topological_order(nodes: list[ir.Node]) -> list[int]:
    """Indices of the nodes, each after what it reads; the order of the file when that is one."""
    producer = {name_of(v): k for k, node in enumerate(nodes) for v in node.outputs}
    needed: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        names = [name_of(v) for v in node.inputs if v is not None] + list(captured_names(node))
        needed[k] = [producer[n] for n in names if n and n in producer]
    if all(j < k for k, js in needed.items() for j in js):
        return list(range(len(nodes)))
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise ModelError(
            f"the graph has a cycle through node {label_of(nodes[error.args[1][0]])}: export the model again"
        ) from None


def conforms(node: ir.Node, opset: int) -> bool:
    """Whether a node of the standard domain has the inputs and attributes that ONNX asks for at this opset.

    What does not conform is for ONNX Runtime to judge: plug-ins may call theirs as later opsets do.  Nor does
    anything of an opset that our operators do not know.
    """
    schema = _schema(node.op_type, opset)
    if schema is None or not schema.min_input <= len(node.inputs) <= schema.max_input:
        return False
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        return False
    for formal, value in zip(schema.inputs, node.inputs, strict=False):
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Single and not (value and value.name):
            return False
    if any(a.required and name not in node.attributes for name, a in schema.attributes.items()):
        return False
    return all(_attribute_conforms(a, schema) for a in node.attributes.values()) and _splits_as_it_says(node)


def _splits_as_it_says(node: ir.Node) -> bool:
    # Not asked by the schema, but onnx's shape inference aborts the process when it does not hold.
    return node.op_type != "Split" or node.attributes.get_int("num_outputs", len(node.outputs)) == len(node.outputs)


def conforms_throughout(node: ir.Node, opset: int) -> bool:
    """Whether a node is standard and conforms, and so does all in its subgraphs."""
    if node.domain or not conforms(node, opset):
        return False
    return all(conforms_throughout(inner, opset) for graph in bodies(node) for inner in graph)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that a node has as attributes."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


@lru_cache(maxsize=1024)
def _schema(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    known = 0 < opset <= NEWEST_OPSET and onnx.defs.has(op_type, opset, "")
    return onnx.defs.get_schema(op_type, opset, "") if known else None


def _attribute_conforms(attribute: ir.Attr, schema: onnx.defs.OpSchema) -> bool:
    formal = schema.attributes.get(attribute.name)
    if formal is None or attribute.is_ref():
        return False
    if formal.type.name != attribute.type.name:  # type: ignore[attr-defined]  # onnx's stub lacks the enum's members
        return False
    values = attribute.value if isinstance(attribute.value, tuple | list) else (attribute.value,)
    # onnx-ir leaves bytes only where a text is not UTF-8.
    return not any(isinstance(v, bytes) for v in values)


_CONSTANTS: Mapping[str, tuple[ir.AttributeType, type[np.generic]]] = {
    "value_float": (ir.AttributeType.FLOAT, np.float32),
    "value_floats": (ir.AttributeType.FLOATS, np.float32),
    "value_int": (ir.AttributeType.INT, np.int64),
    "value_ints": (ir.AttributeType.INTS, np.int64),
}


def constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    """The tensor of a Constant node; None where the node is none, or says it in another way."""
    if node.op_type != "Constant" or node.domain:
        return None
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value" and attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor()
        kind, dtype = _CONSTANTS.get(name, (None, np.float32))
        if attribute.type == kind:
            return ir.tensor(np.array(attribute.value, dtype=dtype))
    return None


def captured_names(node: ir.Node) -> tuple[str, ...]:
    """Names of outer values that the node's subgraphs read, or return."""
    found: dict[str, None] = {}
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            found.update(dict.fromkeys(_free_names(attribute.as_graph())))
        elif attribute.type == ir.AttributeType.GRAPHS:
            for graph in attribute.as_graphs():
                found.update(dict.fromkeys(_free_names(graph)))
    return tuple(found)


def _free_names(graph: ir.Graph) -> Iterator[str]:
    own = {name_of(v) for v in graph.inputs} | set(graph.initializers)
    own |= {name_of(v) for node in graph for v in node.outputs}
    for node in graph:
        read = [name_of(v) for v in node.inputs if v is not None]
        yield from (n for n in (*read, *captured_names(node)) if n and n not in own)
    yield from (name_of(v) for v in graph.outputs if name_of(v) not in own)


def has_graphs(node: ir.Node) -> bool:
    """Whether the node has subgraphs."""
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(a.type in kinds for a in node.attributes.values())


def name_of(value: ir.Value) -> str:
    """The value's name, empty for an absent output."""
    return value.name or ""


def label_of(node: ir.Node) -> str:
    """How messages call a node."""
    if node.name:
        return f"{node.name!r} ({node.op_type})"
    return f"{node.op_type} of {name_of(node.outputs[0])!r}" if node.outputs else f"{node.op_type} without outputs"

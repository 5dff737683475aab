"""A model some of whose nodes are calls of functions, which get their attributes or have defaults of them."""

from __future__ import annotations

import random

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto

DOMAIN = "own"
SHARE = 0.5
"""Of the nodes that may become calls."""


def with_functions(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy with functions around nodes that have no graphs of their own and no operand or result left out."""
    made, chance = onnx.ModelProto(), random.Random(seed)
    made.CopyFrom(model)
    for number, node in enumerate(made.graph.node):
        if _is_plain(node) and chance.random() < SHARE:
            function, call = _wrapped(node, f"F{number}", chance)
            function.opset_import.extend(model.opset_import)
            made.functions.append(function)
            node.CopyFrom(call)
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    made.ir_version = max(made.ir_version, 10)  # where functions have defaults
    return made


def _is_plain(node: NodeProto) -> bool:
    graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
    return not graphs and all(node.input) and all(node.output)


def _wrapped(node: NodeProto, name: str, chance: random.Random) -> tuple[FunctionProto, NodeProto]:
    """The function whose body the node is, and the call of it."""
    operands = list(dict.fromkeys(node.input))
    names = {operand: f"i{k}" for k, operand in enumerate(operands)}
    body, call = NodeProto(), NodeProto()
    body.CopyFrom(node)
    call.CopyFrom(node)
    function = FunctionProto(domain=DOMAIN, name=name)
    function.input.extend(names.values())
    function.output.extend(f"o{k}" for k in range(len(node.output)))
    body.input[:], body.output[:] = [names[operand] for operand in node.input], list(function.output)
    call.op_type, call.domain, call.input[:] = name, DOMAIN, operands
    body.ClearField("attribute")
    call.ClearField("attribute")
    for attribute in node.attribute:
        given = AttributeProto()
        given.CopyFrom(attribute)
        given.name = f"p_{attribute.name}"
        body.attribute.add(name=attribute.name, type=attribute.type, ref_attr_name=given.name)
        _state(given, function, call, chance)
    function.node.append(body)
    return function, call


def _state(given: AttributeProto, function: FunctionProto, call: NodeProto, chance: random.Random) -> None:
    """The value as the function's default, as the call's, or as the call's against another default."""
    kind = chance.random()
    if kind < 0.5:
        function.attribute_proto.append(given)
        return
    call.attribute.append(given)
    if kind < 0.75:
        function.attribute.append(given.name)
        return
    default = AttributeProto()
    default.CopyFrom(given)
    if default.type == AttributeProto.FLOAT:
        default.f += 1.0
    function.attribute_proto.append(default)

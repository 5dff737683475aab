"""Types of opaque nodes' outputs, as ONNX's own shape inference derives them from the graph's inputs.

It runs in a process of its own: there are models of which it dies, and some of which it does not end.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from taso_py.onnx_io.carry import skeleton
from taso_py.onnx_io.child import CHILD
from taso_py.onnx_io.doubts import UNRANKED, Facts, doubted, miscounted
from taso_py.onnx_io.onnx_types import without_sizes
from taso_py.onnx_io.read import DEFAULT_DOMAINS, overridable_names
from taso_py.onnx_io.structure import conforms_throughout
from taso_py.processes.isolated import NoAnswerError, answer

_LEAST_PATIENCE_S, _NODE_S, _PATIENCE_S = 6.0, 5e-4, 20.0
"""The longest that inference may take: so many seconds, more for each node, and at most so many.  Tens of thousands of
nodes take it a second, but there are single ones that it never ends with."""
_PATIENT_TURNS = 3
"""How often inference begins again so that no size is lost that may yet turn out to be known."""
_GRAPH_ATTRIBUTES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def inferred_types(
    proto: onnx.ModelProto, model: ir.Model, order: Sequence[int], opset: int, *, freeze: bool = False
) -> dict[str, onnx.TypeProto]:
    """Types by value name; ``order`` is a topological order of the nodes of ``model``, which is ``proto``'s.

    Nothing that the file states about intermediate or output shapes takes part: exporters get it wrong.  Nor does what
    an initializer holds that callers may override, unless ``freeze``.  Where inference fails, nothing is known.
    """
    bare = skeleton(proto)
    chosen = _nodes_fit_for_inference(model, opset)
    kept = onnx.GraphProto()
    kept.node.extend(bare.graph.node[k] for k in order if k in chosen)
    bare.graph.ClearField("node")
    bare.graph.node.extend(kept.node)
    return _believed(bare, freeze=freeze)


def _believed(bare: onnx.ModelProto, *, freeze: bool) -> dict[str, onnx.TypeProto]:
    """What is inferred, less the sizes that ONNX Runtime may not give, and all that was inferred from those.

    What is doubted becomes an input of unknown sizes, until nothing new is.  Where nodes stand in their order, the
    types of a node that is not doubted then follow from true ones.  What holds other numbers than the inference takes
    it to hold becomes an input as well, of its own sizes.
    """
    free: dict[str, onnx.TypeProto] = {}
    turns = 0
    while True:
        turns += 1
        found = {**_inferred(bare, freeze=freeze), **free}
        inputs = {info.name: info.type for info in bare.graph.input}
        facts = Facts({**found, **inputs}, _constants(bare.graph))
        nodes = [node for node in bare.graph.node if not found.keys().isdisjoint(node.output)]
        wrong, other = _doubts(nodes, facts, patient=turns <= _PATIENT_TURNS)
        doubts = wrong + other
        if not doubts:
            return found
        names = list(dict.fromkeys(name for node in doubts for name in node.output if name in found))
        free.update((name, found[name]) for name in names)
        given = ((name, node) for node in wrong for name in node.output if name in found)
        free.update((n, without_sizes(found[n], ranked=node.op_type not in UNRANKED)) for n, node in given)
        bare.graph.input.extend(onnx.ValueInfoProto(name=name, type=free[name]) for name in names)
        kept = [node for node in bare.graph.node if free.keys().isdisjoint(node.output)]
        bare.graph.ClearField("node")
        bare.graph.node.extend(kept)


def _doubts(
    nodes: Sequence[onnx.NodeProto], facts: Facts, *, patient: bool
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Nodes whose sizes are doubted, and others whose numbers are.

    The sizes of a node behind one in doubt are in doubt as well: it waits for the next time, unless it has none to
    lose, or nobody is ``patient``.
    """
    wrong, miscounting = list[onnx.NodeProto](), list[onnx.NodeProto]()
    behind = set[str]()
    for node in nodes:
        late = not behind.isdisjoint(node.input)
        if doubted(node, facts):
            wrong.append(node)
        elif miscounted(node, facts):
            if not late:
                miscounting.append(node)
            elif not patient or facts.dims(node.output[0]) == []:
                wrong.append(node)
        elif not late:
            continue
        behind.update(node.output)
    return wrong, miscounting


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output and len(node.attribute) == 1:
            (attribute,) = node.attribute
            if attribute.name == "value":
                found[node.output[0]] = attribute.t
            elif attribute.name == "value_ints":
                found[node.output[0]] = numpy_helper.from_array(np.array(attribute.ints, np.int64))
    return found


def types_of_all(proto: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Types by value name of a model whose nodes stand in their order; nothing where inference fails."""
    return _inferred(skeleton(proto), freeze=False)


def _inferred(bare: onnx.ModelProto, *, freeze: bool) -> dict[str, onnx.TypeProto]:
    if any(function.domain in DEFAULT_DOMAINS for function in bare.functions):
        return {}  # a call of it is taken for the operator of that name
    _forget_defaults(bare, freeze)
    _forget_stated(bare.graph)
    _forget_negative(bare.graph)
    try:
        given = bare.SerializeToString()
        seconds = min(_PATIENCE_S, _LEAST_PATIENCE_S + _NODE_S * len(bare.graph.node))
        result = onnx.load_model_from_string(answer(CHILD, "infer", given=given, seconds=seconds))
    except (NoAnswerError, ValueError):  # ValueError: more than protobuf's 2 GiB
        return {}
    return {info.name: info.type for info in (*result.graph.value_info, *result.graph.output)}


def _nodes_fit_for_inference(model: ir.Model, opset: int) -> set[int]:
    # onnx's inference dies of nodes that lack an input (a segmentation fault, not an exception).
    callable_ = _callable(model, opset)
    return {
        k
        for k, node in enumerate(model.graph)
        if conforms_throughout(node, opset) or (node.domain, node.op_type) in callable_
    }


def _callable(model: ir.Model, opset: int) -> set[tuple[str, str]]:
    """Functions all of whose nodes conform, or call such functions."""
    others: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for function in model.functions.values():
        own = function.opset_imports.get("", opset)
        found = others.setdefault((function.domain, function.name), [])
        found += [(node.domain, node.op_type) for node in function if not conforms_throughout(node, own)]
    callable_: set[tuple[str, str]] = set()
    try:
        order = list(TopologicalSorter(others).static_order())
    except CycleError:  # it is refused elsewhere, and says so
        return callable_
    for key in order:
        if key in others and callable_.issuperset(others[key]):
            callable_.add(key)
    return callable_


def _forget_defaults(bare: onnx.ModelProto, freeze: bool) -> None:
    """Initializers that callers may override: onnx's inference takes each for a constant."""
    overridable = overridable_names(bare, freeze=freeze)
    fixed = [tensor for tensor in bare.graph.initializer if tensor.name not in overridable]
    bare.graph.ClearField("initializer")
    bare.graph.initializer.extend(fixed)


def _forget_negative(graph: onnx.GraphProto) -> None:
    """Sizes below 0 of inputs: ONNX Runtime takes them for unknown, and onnx's inference dies of some.

    Those of the elements of a sequence as well: each element may have its own, and nobody asks.
    """
    for value in graph.input:
        if not value.type.HasField("tensor_type"):
            value.type.CopyFrom(without_sizes(value.type))
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


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
                    for value in inner.input:  # what is handed to it need not be as it says
                        if value.type.HasField("tensor_type"):
                            value.type.tensor_type.ClearField("shape")

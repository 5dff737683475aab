"""What an exported model must have in common with its original, checked field by field on every export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.onnx_io.branches import has_branches, lifted, without_sources
from taso_py.onnx_io.carry import LARGE_TENSOR_ELEMENTS, carry, difference, skeleton
from taso_py.onnx_io.ours import free_keys, metadata_of
from taso_py.onnx_io.read import DEFAULT_DOMAINS, content
from taso_py.onnx_io.returned import whole_proto


def check_contract(
    original: onnx.ModelProto, exported: ir.Model | onnx.ModelProto, *, allow_contrib: bool = False
) -> list[str]:
    """One line per violation; an empty list means that the contract holds.

    Inputs, outputs, opset imports, IR version, functions, documentation and metadata are the original's; a
    node with name, operator, inputs and outputs of an original one has all of it; initializers that a caller
    may override or that nothing used are still there; the graph is well formed.
    """
    model = carry(exported, None) if isinstance(exported, onnx.ModelProto) else exported
    before, after = skeleton(original), bare_proto(model)
    if not has_branches(before):  # those of ``original`` are lifted, if it had any
        after = lifted(after).proto
        for graph in (before.graph, after.graph):
            without_sources(graph)
    return [
        *_frame_violations(before, after),
        *_node_violations(before.graph, after.graph, allow_contrib=allow_contrib),
        *_initializer_violations(original, model),
        *_form_violations(before.graph, after.graph),
    ]


def bare_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a proto in which no large initializer of the main graph carries its data."""
    with _large_weights_aside(model):
        return whole_proto(model)


@contextmanager
def _large_weights_aside(model: ir.Model) -> Iterator[None]:
    values = [v for v in model.graph.initializers.values() if v.const_value is not None]
    tensors = [v.const_value for v in values]
    try:
        for value in values:
            tensor = value.const_value
            if tensor is not None and tensor.size > LARGE_TENSOR_ELEMENTS:
                shape = ir.Shape(tensor.shape.numpy())
                value.const_value = ir.ExternalTensor(
                    "elsewhere", None, None, tensor.dtype, shape=shape, name=value.name or ""
                )
        yield
    finally:
        for value, tensor in zip(values, tensors, strict=True):
            value.const_value = tensor


def _frame_violations(before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[str]:
    """Everything but nodes, initializers, what is said of values that may be gone, and metadata of ours."""
    one, other = onnx.ModelProto(), onnx.ModelProto()
    one.CopyFrom(before)
    other.CopyFrom(after)
    ours = free_keys(metadata_of(before))
    for model in (one, other):
        for prop in [p for p in model.metadata_props if p.key in ours]:
            model.metadata_props.remove(prop)
        for name in ("node", "initializer", "value_info", "quantization_annotation"):
            model.graph.ClearField(name)
    changed = difference(one, other)
    if changed is not None:
        yield f"{changed} is not what it was"
    # onnx-ir cannot help describing an initializer that is a graph output.
    stated = {info.name: info for info in (*before.graph.output, *before.graph.value_info)}
    inside = tuple(f"{one.domain}::{one.name}/" for one in before.functions)
    for info in after.graph.value_info:
        if inside and info.name.startswith(inside):
            continue  # of a function's value: so onnx-ir writes it before IR 10
        if info.name not in stated or difference(stated[info.name], info) is not None:
            yield f"value_info of {info.name!r} was not in the original"


def _node_violations(before: onnx.GraphProto, after: onnx.GraphProto, *, allow_contrib: bool) -> Iterator[str]:
    # Several nodes without names may read the same, and give nothing.
    originals: dict[object, list[onnx.NodeProto]] = {}
    for node in before.node:
        originals.setdefault(_signature(node), []).append(node)
    domains = (*DEFAULT_DOMAINS, "com.microsoft") if allow_contrib else DEFAULT_DOMAINS
    calls = {(tuple(node.output), node.op_type, node.domain) for node in before.node}
    for node in after.node:
        found = originals.get(_signature(node))
        if found is not None:
            if all(difference(original, node) is not None for original in found):
                change = difference(found[0], node)
                yield f"node {node.name!r} ({node.op_type}) is an original one, yet its {change} changed"
        elif node.domain not in domains and (tuple(node.output), node.op_type, node.domain) not in calls:
            yield f"new node {node.name!r} uses the operator domain {node.domain!r}"


def _signature(node: onnx.NodeProto) -> tuple[str, str, str, tuple[str, ...], tuple[str, ...]]:
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    return node.name, domain, node.op_type, _named(node.input), _named(node.output)


def _named(names: object) -> tuple[str, ...]:
    found = [str(n) for n in names]  # type: ignore[attr-defined]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _initializer_violations(original: onnx.ModelProto, model: ir.Model) -> Iterator[str]:
    inputs = {info.name for info in original.graph.input}
    before = {tensor.name: ir.from_proto(tensor) for tensor in original.graph.initializer}
    after = {
        name: value for graph in (model.graph, *model.graph.subgraphs()) for name, value in graph.initializers.items()
    }
    used = _read_names(original.graph)
    for name, tensor in before.items():
        if name not in after:
            if name in inputs:
                yield f"overridable initializer {name!r} is gone"
            elif name not in used:
                yield f"initializer {name!r} is gone, though nothing used it before"
        elif not _same_tensor(tensor, after[name].const_value):
            yield f"initializer {name!r} holds another value"


def _read_names(graph: onnx.GraphProto) -> set[str]:
    found = {output.name for output in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _read_names(inner)
    return found


def _same_tensor(one: ir.TensorProtocol | None, other: ir.TensorProtocol | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape.numpy() != other.shape.numpy():
        return False
    if isinstance(one, ir.ExternalTensor) or isinstance(other, ir.ExternalTensor):
        return _place(one) == _place(other)
    if one.raw is other.raw:
        return True
    a, b = content(one), content(other)
    if a.dtype == object or a.dtype.kind in "SU":
        return bool(np.array_equal(a, b))
    return a.tobytes() == b.tobytes()


def _place(tensor: ir.TensorProtocol) -> tuple[str, int, int | None] | None:
    if not isinstance(tensor, ir.ExternalTensor):
        return None
    return str(tensor.location), tensor.offset or 0, tensor.length


def _form_violations(before: onnx.GraphProto, after: onnx.GraphProto) -> Iterator[str]:
    known = {info.name for info in after.input} | {tensor.name for tensor in after.initializer}
    sources = len(known)
    computed = [name for node in after.node for name in node.output if name]
    known.update(computed)
    if len(known) < sources + len(computed):
        twice = sorted(n for n, count in Counter(computed).items() if count > 1) or sorted(known)
        yield f"value {twice[0]!r} is computed twice"
    for node in after.node:
        yield from (f"{node.name!r} reads {n!r}, which is not there" for n in node.input if n and n not in known)
    yield from (f"output {o.name!r} is not computed" for o in after.output if o.name not in known)
    if _is_sorted(before) and not _is_sorted(after):
        yield "a node stands before one that it reads"


def _is_sorted(graph: onnx.GraphProto) -> bool:
    place = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
    return all(place.get(name, -1) < k for k, node in enumerate(graph.node) for name in _inner_reads(node))


def _inner_reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            yield from _read_names(inner)

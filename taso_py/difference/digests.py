"""What a node computes apart from its inputs, as a short digest: operator, attributes, subgraphs, bodies of functions.

What is equal under the definition of ONNX has equal digests: an attribute that is written with its default value
counts as left out, names inside of a subgraph count as places, and a tensor is its type, shape and elements,
wherever they are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.errors import ModelError
from taso_py.onnx_io.carry import UNREPRESENTED
from taso_py.onnx_io.onnx_types import dtype_name
from taso_py.onnx_io.read import UNREADABLE
from taso_py.onnx_io.structure import captured_names, name_of

_BYTES = 16
_SHOWN_ITEMS, _SHOWN_CHARACTERS = 8, 80


def _digest(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def tensor_digest(tensor: ir.TensorProtocol) -> bytes:
    """Of element type, shape and elements; ModelError where the elements cannot be read."""
    head = f"{tensor.dtype.name}{tuple(tensor.shape.numpy())}".encode()
    try:
        if tensor.dtype == ir.DataType.STRING:
            return _digest(head, *(bytes(text) for text in np.asarray(tensor.numpy()).ravel()))
        return _digest(head, tensor.tobytes())
    except UNREADABLE as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelError(f"tensor {tensor.name!r} cannot be read: {reason}; export the model again") from None


def tensor_text(tensor: ir.TensorProtocol) -> str:
    """Element type and shape: ``float32[64,3,7,7]``."""
    return f"{dtype_name(tensor.dtype)}[{','.join(map(str, tensor.shape.numpy()))}]"


@dataclass(slots=True)
class Digester:
    """Digests of the nodes of one model."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], ir.Function] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ir.Model) -> Digester:
        """For the nodes of ``model`` and of its subgraphs."""
        return cls(model.opset_imports, dict(model.functions))

    def node(self, node: ir.Node) -> bytes:
        """Of operator and attributes; values from outside that its subgraphs read are counted places."""
        places = {name: f"outer {k}" for k, name in enumerate(captured_names(node))}
        return self._node(node, places)

    def _node(self, node: ir.Node, places: Mapping[str, str]) -> bytes:
        defaults = _defaults(node.domain, node.op_type, self.opsets.get(node.domain, 0))
        stated = [
            _digest(name.encode(), self._attribute(attribute, places))
            for name, attribute in sorted(node.attributes.items())
            if attribute.is_ref() or name not in defaults or _plain(attribute.value) != defaults[name]
        ]
        head = "\0".join((node.domain, node.op_type, node.overload)).encode()
        return _digest(head, self._body(node), *stated)

    def _body(self, node: ir.Node) -> bytes:
        function = self.functions.get((node.domain, node.op_type, node.overload))
        return b"" if function is None else _of_function(function)

    def _attribute(self, attribute: ir.Attr, places: Mapping[str, str]) -> bytes:
        kind = attribute.type.name.encode()
        if attribute.is_ref():
            return _digest(kind, b"ref", (attribute.ref_attr_name or "").encode())
        match attribute.type:
            case ir.AttributeType.TENSOR:
                return tensor_digest(attribute.as_tensor())
            case ir.AttributeType.TENSORS:
                return _digest(kind, *map(tensor_digest, attribute.as_tensors()))
            case ir.AttributeType.GRAPH:
                return self._graph(attribute.as_graph(), places)
            case ir.AttributeType.GRAPHS:
                return _digest(kind, *(self._graph(graph, places) for graph in attribute.as_graphs()))
            case _:
                return _digest(kind, repr(_plain(attribute.value)).encode())

    def _graph(self, graph: ir.Graph, outer: Mapping[str, str]) -> bytes:
        """A subgraph: its depth is bounded, protobuf reads no message that is nested a hundred times."""
        places = dict(outer)
        places.update({name_of(value): f"input {k}" for k, value in enumerate(graph.inputs)})
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                places[name] = tensor_digest(value.const_value).hex()
        for k, node in enumerate(graph):
            places.update({name_of(v): f"node {k}.{port}" for port, v in enumerate(node.outputs)})
        parts = []
        for node in graph:
            inner = {name: places.get(name, name) for name in captured_names(node)}
            parts.append(self._node(node, inner) + _places(node.inputs, places))
        return _digest(str(len(graph.inputs)).encode(), *parts, _places(graph.outputs, places))


def _places(values: Iterable[ir.Value | None], places: Mapping[str, str]) -> bytes:
    names = ("" if value is None else name_of(value) for value in values)
    return "\0".join(places.get(name, name) for name in names).encode()


def _of_function(function: ir.Function) -> bytes:
    try:
        return _digest(ir.to_proto(function).SerializeToString(deterministic=True))
    except UNREPRESENTED as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelError(f"function {function.name!r} cannot be taken apart: {reason}; export it again") from None


@lru_cache(maxsize=1024)
def _defaults(domain: str, op_type: str, opset: int) -> Mapping[str, Any]:
    """The attributes of an operator that have a default value."""
    if not 0 < opset < 2**31 or not onnx.defs.has(op_type, opset, domain):
        return {}
    schema = onnx.defs.get_schema(op_type, opset, domain)
    stated = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    return {name: _plain(ir.serde.deserialize_attribute(value).value) for name, value in stated.items()}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value


def attribute_text(attribute: ir.Attr) -> str:
    """What an attribute holds, short enough to be read."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    match attribute.type:
        case ir.AttributeType.TENSOR:
            return tensor_text(attribute.as_tensor())
        case ir.AttributeType.TENSORS:
            return _listed([tensor_text(tensor) for tensor in attribute.as_tensors()])
        case ir.AttributeType.GRAPH:
            return f"graph of {len(attribute.as_graph())} nodes"
        case ir.AttributeType.GRAPHS:
            return _listed([f"graph of {len(graph)} nodes" for graph in attribute.as_graphs()])
    value = _plain(attribute.value)
    return _listed([_item(one) for one in value]) if isinstance(value, tuple) else _item(value)


def _item(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _listed(items: Sequence[str]) -> str:
    more = "" if len(items) <= _SHOWN_ITEMS else f",… {len(items)} in all"
    return f"[{','.join(items[:_SHOWN_ITEMS])}{more}]"

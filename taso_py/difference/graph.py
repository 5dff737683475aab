"""A graph as it is compared: nodes with digests, constants by content, and who makes and reads which value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from taso_py.difference.digests import Digester, attribute_text, tensor_digest, tensor_text
from taso_py.graph.types import NO_TYPE, TensorType
from taso_py.onnx_io.structure import captured_names, constant_tensor, name_of, topological_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One node: what it is called, what it computes of which values."""

    name: str
    operator: str
    """``domain::type``, without the domain for standard operators."""
    inputs: tuple[str, ...]
    """Names of values, empty for an operand that is left out."""
    captured: tuple[str, ...]
    """Values from outside that its subgraphs read."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, str]
    """As text, in the order of the file."""
    digest: bytes = field(repr=False)
    """Of operator and attributes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Inputs, and what its subgraphs read."""
        return self.inputs + self.captured


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The main graph of a model."""

    nodes: tuple[Operation, ...]
    """In a topological order; Constant nodes are constants."""
    constants: Mapping[str, bytes]
    """Initializers and the outputs of Constant nodes: name -> digest of the tensor."""
    constant_types: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    """Of values, where they are known."""
    operators: Mapping[str, int]
    """Operator -> how many nodes, Constant nodes included."""
    opsets: Mapping[str, int]
    parameters: int
    """Elements of all initializers."""
    parameter_bytes: int
    producers: Mapping[str, tuple[int, int]]
    """Value -> index of its node and position among the outputs of that."""
    readers: Mapping[str, tuple[int, ...]]
    """Value -> indices of the nodes that read it."""

    @classmethod
    def of(cls, model: ir.Model, types: Mapping[str, TensorType]) -> Graph:
        """The main graph of ``model``; ModelError where a tensor cannot be read or the nodes run in a circle."""
        found = list(model.graph)
        order = [found[k] for k in topological_order(found)]
        constants, constant_types = _constants(model, order)
        digester = Digester.of(model)
        nodes = tuple(_operation(node, digester) for node in order if constant_tensor(node) is None)
        tensors = [value.const_value for value in model.graph.initializers.values()]
        return cls(
            nodes=nodes,
            constants=constants,
            constant_types=constant_types,
            inputs=tuple(name_of(v) for v in model.graph.inputs if name_of(v) not in constants),
            outputs=tuple(name_of(v) for v in model.graph.outputs),
            types=types,
            operators=dict(Counter(_label(node) for node in order).most_common()),
            opsets={domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
            parameters=sum(math.prod(t.shape.numpy()) for t in tensors if t is not None),
            parameter_bytes=sum(t.nbytes for t in tensors if t is not None),
            producers=_producers(nodes),
            readers=_readers(nodes),
        )

    def type_text(self, value: str) -> str:
        """Element type and shape of a value, empty where nothing is known."""
        if value in self.constant_types:
            return self.constant_types[value]
        type_ = self.types.get(value, NO_TYPE)
        return str(type_) if type_.dtype else ""

    def producer(self, value: str) -> int | None:
        """The node that makes a value; None for inputs, constants and what nothing makes."""
        found = self.producers.get(value)
        return None if found is None else found[0]


def _constants(model: ir.Model, order: list[ir.Node]) -> tuple[dict[str, bytes], dict[str, str]]:
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    for node in order:
        if (tensor := constant_tensor(node)) is not None and node.outputs:
            tensors[name_of(node.outputs[0])] = tensor
    held = {name: tensor for name, tensor in tensors.items() if tensor is not None and name}
    digests = {name: tensor_digest(tensor) for name, tensor in held.items()}
    return digests, {name: tensor_text(tensor) for name, tensor in held.items()}


def _label(node: ir.Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _operation(node: ir.Node, digester: Digester) -> Operation:
    return Operation(
        name=node.name or "",
        operator=_label(node),
        inputs=_stated("" if v is None else name_of(v) for v in node.inputs),
        captured=captured_names(node),
        outputs=_stated(name_of(v) for v in node.outputs),
        attributes={name: attribute_text(a) for name, a in node.attributes.items()},
        digest=digester.node(node),
    )


def _stated(names: Iterable[str]) -> tuple[str, ...]:
    """Without absent ones at the end: to write them or to leave them out is the same."""
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def _producers(nodes: tuple[Operation, ...]) -> dict[str, tuple[int, int]]:
    return {v: (k, port) for k, node in enumerate(nodes) for port, v in enumerate(node.outputs) if v}


def _readers(nodes: tuple[Operation, ...]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for k, node in enumerate(nodes):
        for value in dict.fromkeys(node.reads):
            if value:
                found.setdefault(value, []).append(k)
    return {value: tuple(readers) for value, readers in found.items()}

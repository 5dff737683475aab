"""From an onnx-ir graph to the table: which node means which operator, and of what type every value is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.errors import ModelError, TypingError
from taso_py.graph.model import Node, Opaque, Values
from taso_py.graph.sizes import Size
from taso_py.graph.types import INTEGERS, TensorType
from taso_py.onnx_io.fold import Array, Folder
from taso_py.onnx_io.onnx_types import TRANSPARENT, Symbols, dtype_name
from taso_py.onnx_io.shapes import MAXIMAL_LENGTH, Vector, follow
from taso_py.ops import OPERATORS
from taso_py.ops.layout import Split
from taso_py.ops.operator import OnnxCall, Operator

# A constant that plays the role of an attribute is small; weights are not read in order to look at them.
_INTEGER_BYTES, _FLOAT_BYTES = 2**20, 2**12
_FIRST_OVERRIDABLE_IR = 4
_CONSTANT_SCALARS: Mapping[str, type[np.generic]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@dataclass(slots=True)
class Table:
    """The parts of a table while, and after, the nodes of a graph are read into it."""

    graph: ir.Graph
    opset: int
    functions: frozenset[tuple[str, str]]
    inferred: Callable[[], Mapping[str, onnx.TypeProto]]
    values: Values = field(default_factory=Values)
    nodes: dict[int, Node] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    tensors: dict[int, ir.TensorProtocol] = field(default_factory=dict)
    operands: dict[int, tuple[int, ...]] = field(default_factory=dict)
    captured: dict[int, tuple[int, ...]] = field(default_factory=dict)
    opaque: Counter[str] = field(default_factory=Counter)
    symbols: Symbols = field(default_factory=Symbols)
    folder: Folder = field(init=False)
    vectors: dict[int, Vector] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.folder = Folder(self.values, self.tensors)

    def read_sources(self, inputs: Mapping[str, onnx.TypeProto], *, ir_version: int, freeze: bool) -> None:
        """Graph inputs and initializers.

        An initializer that is also a graph input may be overridden by the caller and is no constant, unless
        ``freeze``; before IR version 4 every initializer had to be listed, and ONNX Runtime overrides none.
        """
        overridable = set() if freeze or ir_version < _FIRST_OVERRIDABLE_IR else set(inputs)
        for name, type_ in inputs.items():
            self.ids[name] = self.values.new(self.symbols.of_input(name, type_), name)
            if name not in self.graph.initializers or name in overridable:
                self.values.inputs.add(self.ids[name])
        for name, value in self.graph.initializers.items():
            if value.const_value is None:
                raise ModelError(f"initializer {name!r} holds no data: export the model again")
            if name not in overridable:
                self._fix(name, value.const_value)

    def _fix(self, name: str, tensor: ir.TensorProtocol) -> None:
        type_ = TensorType(dtype_name(tensor.dtype), tuple(tensor.shape.numpy()))
        if name not in self.ids:
            self.ids[name] = self.values.new(type_, name)
        fixed = self.ids[name]
        self.values.types[fixed] = type_
        self.values.fixed.add(fixed)
        self.values.constant.add(fixed)
        self.tensors[fixed] = tensor

    def read_nodes(self, order: list[int]) -> None:
        """All nodes of the graph, in a topological order of their indices."""
        nodes = list(self.graph)
        for node in nodes:
            self.used.update(i.name for i in node.inputs if i is not None and i.name)
            self.used.update(captured_names(node))
        self.used.update(v.name for v in self.graph.outputs if v.name)
        for index in order:
            self._read_node(index, nodes[index])

    def _read_node(self, index: int, node: ir.Node) -> None:
        standard = node.domain == "" and (node.domain, node.op_type) not in self.functions
        tensor = _constant_tensor(node) if standard and node.op_type == "Constant" else None
        if tensor is not None:
            self._fix(_name(node.outputs[0]), tensor)
            return
        inputs = tuple(self._id(v, node) for v in node.inputs)
        self.captured[index] = tuple(self.ids[n] for n in captured_names(node) if n in self.ids)
        call = self._call(node, inputs) if standard and not self.captured[index] else None
        if call is None or not self._read_operator(index, node, call, inputs):
            self._add_opaque(index, node, inputs)
        if call is not None and node.outputs and _name(node.outputs[0]):
            vector = follow(call)
            if vector is not None:
                self._learn(self.ids[_name(node.outputs[0])], vector)

    def _id(self, value: ir.Value | None, node: ir.Node) -> int | None:
        if value is None or not value.name:
            return None
        if value.name not in self.ids:
            raise ModelError(
                f"node {_label(node)} reads {value.name!r}, which nothing computes: export the model again"
            )
        return self.ids[value.name]

    def _call(self, node: ir.Node, inputs: tuple[int | None, ...]) -> OnnxCall | None:
        attributes: dict[str, Any] = {}
        for name, attribute in node.attributes.items():
            if attribute.is_ref() or attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                return None
            value = attribute.value
            attributes[name] = value.numpy() if attribute.type == ir.AttributeType.TENSOR else value
        types = self.values.types
        return OnnxCall(
            node.op_type,
            self.opset,
            attributes,
            tuple(None if i is None else types[i] for i in inputs),
            tuple(None if i is None else self._constant(i) for i in inputs),
            tuple(None if i is None else self._entries(i) for i in inputs),
            tuple(self.used[_name(v)] > 0 for v in node.outputs),
        )

    def _constant(self, value: int) -> Array | None:
        type_ = self.values.types[value]
        if value not in self.values.constant or type_.dtype not in TRANSPARENT or not _small(type_):
            return None
        return self.folder.value(value, self.nodes)

    def _entries(self, value: int) -> tuple[Size, ...] | None:
        if value in self.vectors:
            return self.vectors[value][0]
        type_ = self.values.types[value]
        if type_.shape is None or len(type_.shape) > 1 or type_.dtype not in INTEGERS | {"bool"}:
            return None
        array = self._constant(value)
        return (
            None if array is None or array.size > MAXIMAL_LENGTH else tuple(int(e) for e in array.reshape(-1))
        )

    def _read_operator(
        self, index: int, node: ir.Node, call: OnnxCall, inputs: tuple[int | None, ...]
    ) -> bool:
        class_ = OPERATORS.get(node.op_type)
        present = [t for t in call.inputs if t is not None]
        if class_ is None or any(t.shape is None or t.dtype not in TRANSPARENT for t in present):
            return False
        try:
            reading = class_.read(call)
            if reading is None:
                return False
            operands = tuple(inputs[k] for k in reading.operands)
            types = [self.values.types[i] for i in operands if i is not None]
            if not _allowed(reading.operator, types):
                return False
            ports = [op.normal(*types) for op in _ports(reading.operator, len(node.outputs))]
            results = [op.infer(*types) for op in ports]
        except TypingError:
            return False
        if any(r.dtype not in TRANSPARENT for r in results):
            return False
        self.operands[index] = reading.operands
        hidden = [i for k, i in enumerate(inputs) if i is not None and k not in reading.operands]
        for operator, result, value in zip(ports, results, node.outputs, strict=False):
            self._add(_name(value), Node(operator, operands, index), result, hidden)
        return True

    def _add(self, name: str, node: Node, type_: TensorType, hidden: list[int]) -> None:
        new = self.ids[name] = self.values.new(type_, name)
        self.nodes[new] = node
        sources = [*(i for i in node.inputs if i is not None), *hidden]
        if all(i in self.values.constant for i in sources) and all(isinstance(d, int) for d in type_.dims):
            self.values.constant.add(new)

    def _add_opaque(self, index: int, node: ir.Node, inputs: tuple[int | None, ...]) -> None:
        self.opaque[node.op_type] += 1
        self.operands[index] = tuple(range(len(inputs)))
        trusted = node.domain == "" and not self.captured[index] and not _has_graphs(node)
        for port, value in enumerate(node.outputs):
            if not _name(value):
                continue
            type_ = self.symbols.of_opaque(_name(value), self.inferred().get(_name(value)), trusted=trusted)
            new = self.ids[_name(value)] = self.values.new(type_, _name(value))
            operator = Opaque(node.op_type, node.domain, index, port)
            self.nodes[new] = Node(operator, (*inputs, *self.captured[index]), index)

    def outputs(self, names: Iterable[str]) -> tuple[int, ...]:
        """Ids of the graph outputs."""
        found = list(names)
        for name in found:
            if name not in self.ids:
                raise ModelError(f"graph output {name!r} is computed by nothing: export the model again")
        return tuple(self.ids[name] for name in found)

    def unused(self) -> tuple[int, ...]:
        """One id of each node none of whose outputs is used: as roots these keep such nodes in the table."""
        found: list[int] = []
        for node in self.graph:
            names = [_name(v) for v in node.outputs if _name(v) in self.ids]
            if names and not any(self.used[n] for n in names):
                found.append(self.ids[names[0]])
        return tuple(found)

    def _learn(self, value: int, vector: Vector) -> None:
        self.vectors[value] = vector
        if not isinstance(self.nodes[value].operator, Operator):
            entries, rank = vector
            known = self.values.types[value]
            self.values.types[value] = TensorType(known.dtype or "int64", (len(entries),) if rank else ())


def topological_order(nodes: list[ir.Node]) -> list[int]:
    """Indices of the nodes, each after what it reads; the order of the file when that is one."""
    producer = {_name(v): k for k, node in enumerate(nodes) for v in node.outputs}
    needed: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        names = [_name(v) for v in node.inputs if v is not None] + list(captured_names(node))
        needed[k] = [producer[n] for n in names if n and n in producer]
    if all(j < k for k, js in needed.items() for j in js):
        return list(range(len(nodes)))
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise ModelError(
            f"the graph has a cycle through node {_label(nodes[error.args[1][0]])}: export the model again"
        ) from None


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
    own = {_name(v) for v in graph.inputs} | set(graph.initializers)
    own |= {_name(v) for node in graph for v in node.outputs}
    for node in graph:
        read = [_name(v) for v in node.inputs if v is not None]
        yield from (n for n in (*read, *captured_names(node)) if n and n not in own)
    yield from (_name(v) for v in graph.outputs if _name(v) not in own)


def _has_graphs(node: ir.Node) -> bool:
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(a.type in kinds for a in node.attributes.values())


def _constant_tensor(node: ir.Node) -> ir.TensorProtocol | None:
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            return None
        if name == "value" and attribute.type == ir.AttributeType.TENSOR:
            return attribute.as_tensor()
        if name in _CONSTANT_SCALARS:
            return ir.tensor(np.array(attribute.value, dtype=_CONSTANT_SCALARS[name]))
    return None


def _ports(operator: Operator, outputs: int) -> list[Operator]:
    if not isinstance(operator, Split):
        return [operator]
    return [replace(operator, output=k) for k in range(outputs)]


def _allowed(operator: Operator, types: list[TensorType]) -> bool:
    return operator.dtypes is None or not types or types[0].dtype in operator.dtypes


def _small(type_: TensorType) -> bool:
    limit = _FLOAT_BYTES if type_.dtype.startswith("float") else _INTEGER_BYTES
    size = type_.elements
    return isinstance(size, int) and size * 8 <= limit


def _name(value: ir.Value) -> str:
    return value.name or ""


def _label(node: ir.Node) -> str:
    return f"{node.name!r} ({node.op_type})" if node.name else f"{node.op_type} of {_name(node.outputs[0])!r}"

"""From an onnx-ir graph to the table: which node means which operator, and of what type every value is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import ModelError, TypingError
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.table import Node, Opaque, Values
from taso_py.graph.types import INTEGERS, TensorType
from taso_py.onnx_io.branches import Scope
from taso_py.onnx_io.fold import Folder
from taso_py.onnx_io.onnx_types import TRANSPARENT, Symbols, by_first, dtype_name
from taso_py.onnx_io.read import content
from taso_py.onnx_io.shapes import MAXIMAL_LENGTH, Vector, follow
from taso_py.onnx_io.shells import one_of, sources
from taso_py.onnx_io.structure import captured_names, conforms, constant_tensor, has_graphs, label_of, name_of
from taso_py.ops import OPERATORS
from taso_py.ops.constants import Fill
from taso_py.ops.operator import OnnxCall, Operator, Reading

# A constant that plays the role of an attribute is small; weights are not read in order to look at them.
_INTEGER_BYTES, _FLOAT_BYTES = 2**20, 2**12
_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "Sign": np.sign,
}
"""Of small constants: sizes are computed by them, and they have no meaning as operators here."""
_FEW = 8
"""Elements of constants that are looked for again."""
_MOST_REPLACED = 64
"""Operands of a node of which some may get another name: for each one onnx-ir walks through all of them."""
_EXACT_INTEGERS = 2**53  # what a float holds


@dataclass(slots=True)
class TableReader:
    """The parts of a table while, and after, the nodes of a graph are read into it."""

    graph: ir.Graph
    opset: int
    functions: frozenset[tuple[str, str]]
    inferred: Callable[[], Mapping[str, onnx.TypeProto]]
    _: KW_ONLY
    scopes: Mapping[str, Scope] = field(default_factory=dict)
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
    pinned: set[str] = field(default_factory=set)
    """Names that are read by others than nodes of the graph with a few operands: no value may lose them."""
    first: dict[tuple[Operator, tuple[int | None, ...]], int] = field(default_factory=dict)
    """By operator and operands, the first value that is computed so."""
    numbers: dict[tuple[TensorType, bytes], int] = field(default_factory=dict)
    """By type and content, the first of the constants with a few elements that holds it."""
    small: dict[int, bool] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    """Constants that follow from sizes, not from weights."""

    def __post_init__(self) -> None:
        self.folder = Folder(self.values, self.tensors)
        for node in self.graph:
            self.used.update(i.name for i in node.inputs if i is not None and i.name)
            self.used.update(captured_names(node))
            self.pinned.update(captured_names(node))
            if len(node.inputs) > _MOST_REPLACED:
                self.pinned.update(i.name for i in node.inputs if i is not None and i.name)
        self.used.update(v.name for v in self.graph.outputs if v.name)
        self.pinned.update(v.name for v in self.graph.outputs if v.name)

    def read_sources(self, inputs: Mapping[str, onnx.TypeProto], overridable: Set[str]) -> None:
        """Graph inputs and initializers; one that callers may override is no constant."""
        self.symbols.reserve(inputs.values())
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
        type_ = _type_of(tensor)
        if name not in self.ids:
            self.ids[name] = self.values.new(type_, name)
        fixed = self.ids[name]
        self.values.types[fixed] = type_
        self.values.fixed.add(fixed)
        self.values.constant.add(fixed)
        self.tensors[fixed] = tensor

    def _read_constant(self, name: str, tensor: ir.TensorProtocol) -> None:
        """A Constant's value; that of one before with the same few elements, as exporters write one for each use.

        What bodies of nodes read, and what the model returns, keeps its own; so do weights, which users may change.
        """
        type_ = _type_of(tensor)
        held = (type_, content(tensor).tobytes()) if _few(type_) and name not in self.pinned else None
        if held is not None and held in self.numbers:
            self.ids[name] = self.numbers[held]
            return
        self._fix(name, tensor)
        if held is not None:
            self.numbers[held] = self.ids[name]

    def read_nodes(self, order: list[int]) -> None:
        """All nodes of the graph, in a topological order of their indices."""
        nodes = list(self.graph)
        for index in order:
            self._read_node(index, nodes[index])

    def _read_node(self, index: int, node: ir.Node) -> None:
        standard = node.domain == "" and (node.domain, node.op_type) not in self.functions
        tensor = constant_tensor(node) if standard else None
        if tensor is not None and node.outputs and name_of(node.outputs[0]):
            self._read_constant(name_of(node.outputs[0]), tensor)
            return
        inputs = tuple(self._id(v, node) for v in node.inputs)
        self.captured[index] = tuple(self.ids[n] for n in captured_names(node) if n in self.ids)
        weight = self._renamed(node, inputs) if standard else None
        if weight is not None:
            self.ids[name_of(node.outputs[0])] = weight
            return
        readable = standard and not has_graphs(node) and conforms(node, self.opset)
        call = self._call(node, inputs) if readable else None
        if call is None or _maps_elements(call) or not self._read_operator(index, node, call, inputs):
            self._add_opaque(index, node, inputs, call)
        name = name_of(node.outputs[0]) if len(node.outputs) == 1 else ""
        if call is not None and name and self.values.names[self.ids[name]] == name:
            vector = follow(call)
            if vector is not None:
                self._learn(self.ids[name], vector)
            self._settle(node, call, inputs, vector)

    def _renamed(self, node: ir.Node, inputs: tuple[int | None, ...]) -> int | None:
        """The weight that a node only gives another name, as PyTorch does for each further use of a shared layer.

        What bodies of nodes read, and what the model returns, keeps its own.
        """
        if node.op_type != "Identity" or not len(inputs) == len(node.outputs) == 1:
            return None
        if name_of(node.outputs[0]) in self.pinned:
            return None
        (weight,) = inputs
        computed = weight in self.nodes or weight in self.settled
        return weight if weight in self.values.fixed and not computed else None

    def _id(self, value: ir.Value | None, node: ir.Node) -> int | None:
        if value is None or not value.name:
            return None
        if value.name not in self.ids:
            raise ModelError(
                f"node {label_of(node)} reads {value.name!r}, which nothing computes: export the model again"
            )
        return self.ids[value.name]

    def _call(self, node: ir.Node, inputs: tuple[int | None, ...]) -> OnnxCall:
        attributes: dict[str, Any] = {}
        for name, attribute in node.attributes.items():
            value = attribute.value
            attributes[name] = content(value) if attribute.type == ir.AttributeType.TENSOR else value
        types = self.values.types
        return OnnxCall(
            node.op_type,
            self.opset,
            attributes,
            tuple(None if i is None else types[i] for i in inputs),
            constants=tuple(None if i is None else self._constant(i) for i in inputs),
            sizes=tuple(None if i is None else self._entries(i) for i in inputs),
            used_outputs=tuple(self.used[name_of(v)] > 0 for v in node.outputs),
        )

    def _constant(self, value: int) -> Array | None:
        try:
            return self.folder.held(value, self.nodes) if self._is_small(value) else None
        except TypingError:  # left for ONNX Runtime to compute
            return None

    def _is_small(self, value: int) -> bool:
        """Whether a value is constant and small, and so is all that it is computed from."""
        known = self.small.get(value)
        if known is None:
            type_ = self.values.types[value]
            known = value in self.values.constant and type_.dtype in TRANSPARENT and _small(type_)
            node = self.nodes.get(value) if known else None
            known = known and (node is None or all(self._is_small(i) for i in node.inputs if i is not None))
            self.small[value] = known
        return known

    def _entries(self, value: int) -> tuple[Size, ...] | None:
        if value in self.vectors:
            return self.vectors[value][0]
        type_ = self.values.types[value]
        if type_.shape is None or len(type_.shape) > 1 or type_.dtype not in INTEGERS | {"bool"}:
            return None
        array = self._constant(value)
        return None if array is None or array.size > MAXIMAL_LENGTH else tuple(int(e) for e in array.reshape(-1))

    def _read_operator(self, index: int, node: ir.Node, call: OnnxCall, inputs: tuple[int | None, ...]) -> bool:
        present = [t for t in call.inputs if t is not None]
        if any(t.shape is None or t.dtype not in TRANSPARENT for t in present):
            return False
        try:
            reading = _reading(call)
            if reading is None or _holds_negative_zero(reading.operator):
                return False
            operands = tuple(inputs[k] for k in reading.operands)
            types = [self.values.types[i] for i in operands if i is not None]
            if not _allowed(reading.operator, types):
                return False
            names = self._read_names(node) if reading.operator.several else {0: name_of(node.outputs[0])}
            ports = {name: reading.operator.at_port(k).normal(*types) for k, name in names.items()}
            results = {name: op.infer(*types) for name, op in ports.items()}
        # It does not fit its operands, or their sizes are too deep to be compared.
        except (TypingError, LookupError, ArithmeticError, ValueError, RecursionError):
            return False
        if any(r.dtype not in TRANSPARENT for r in results.values()):
            return False
        self.operands[index] = reading.operands
        if not self._is_repeated(ports, operands):
            for name, operator in ports.items():
                self._add(name, Node(operator, operands, index), results[name])
        return True

    def _is_repeated(self, ports: Mapping[str, Operator], operands: tuple[int | None, ...]) -> bool:
        """Whether a node before computes the same: its values then have these names as well.

        What bodies of nodes read, what the model returns and what nothing reads keeps a node of its own.
        """
        known = {name: self.first.get((operator, operands), -1) for name, operator in ports.items()}
        if any(value not in self.nodes or name in self.pinned or not self.used[name] for name, value in known.items()):
            return False
        if not all(self._is_within(name, value) for name, value in known.items()):
            return False
        self.ids.update(known)
        return True

    def _is_within(self, name: str, value: int) -> bool:
        """Whether a value is computed wherever that name's is: not in another branch alone."""
        outer = self.scopes.get(self.values.names[value], ())
        return self.scopes.get(name, ())[: len(outer)] == outer

    def _read_names(self, node: ir.Node) -> dict[int, str]:
        """Port -> name of the outputs that something uses; of all that have a name when nothing does."""
        names = {k: name_of(v) for k, v in enumerate(node.outputs) if name_of(v)}
        return {k: name for k, name in names.items() if self.used[name]} or names

    def _add(self, name: str, node: Node, type_: TensorType) -> None:
        new = self.ids[name] = self.values.new(type_, name)
        self.nodes[new] = node
        self.first.setdefault((node.operator, node.inputs), new)
        constant = all(i in self.values.constant for i in node.inputs if i is not None)
        if constant and all(isinstance(d, int) for d in type_.dims) and not _is_symbolic(node.operator):
            self.values.constant.add(new)

    def _add_opaque(self, index: int, node: ir.Node, inputs: tuple[int | None, ...], call: OnnxCall | None) -> None:
        self.opaque[node.op_type] += 1
        self.operands[index] = tuple(range(len(inputs)))
        trusted = node.domain == "" and not self.captured[index] and not has_graphs(node)
        for port, value in enumerate(node.outputs):
            if not name_of(value):
                continue
            type_ = self.symbols.of_opaque(name_of(value), self.inferred().get(name_of(value)), trusted=trusted)
            if trusted and port == 0 and call is not None:
                type_ = by_first(call, type_)
            if results := sources(node, port):
                type_ = one_of([self.values.types[self.ids[name]] for name in results], type_)
            new = self.ids[name_of(value)] = self.values.new(type_, name_of(value))
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
            names = [name_of(v) for v in node.outputs if name_of(v) in self.ids]
            if names and not any(self.used[n] for n in names):
                found.append(self.ids[names[0]])
        return tuple(found)

    def _learn(self, value: int, vector: Vector) -> None:
        self.vectors[value] = vector
        if not isinstance(self.nodes[value].operator, Operator):
            entries, rank = vector
            known = self.values.types[value]
            self.values.types[value] = TensorType(known.dtype or "int64", (len(entries),) if rank else ())

    def _settle(self, node: ir.Node, call: OnnxCall, inputs: tuple[int | None, ...], vector: Vector | None) -> None:
        """A value that sizes determine which the model fixes is a constant, bit for bit as ONNX Runtime has it.

        So is what is computed from it (the pads of a strided convolution, by way of floats), and what is padded has a
        size.  What is read of a value for its size alone does not keep it.
        """
        value = self.ids[name_of(node.outputs[0])]
        array: Array | None = None
        if vector is not None and value not in self.values.constant:
            array = _whole(vector, self.values.types[value].dtype)
        elif node.op_type in _ROUNDINGS and call.constants[0] is not None:
            array = np.asarray(_ROUNDINGS[node.op_type](call.constants[0]))
        elif value in self.values.constant and not self.settled.isdisjoint(inputs):
            array = self._constant(value)
        if array is None:
            return
        if isinstance(self.nodes.pop(value).operator, Opaque):
            self.opaque[node.op_type] -= 1
            self.opaque += Counter()  # what is counted no more is not there
        self.settled.add(value)
        self._fix(name_of(node.outputs[0]), ir.tensor(array))


def _whole(vector: Vector, dtype: str) -> Array | None:
    """A vector without a symbol as an array; None for one that the type does not hold: it wraps, to what ORT says."""
    entries = [e for e in vector[0] if isinstance(e, int)]
    if len(entries) < len(vector[0]) or dtype not in INTEGERS | {"bool"}:
        return None
    if dtype != "bool" and not all(np.iinfo(dtype).min <= e <= np.iinfo(dtype).max for e in entries):
        return None
    return np.array(entries, dtype).reshape((len(entries),) if vector[1] else ())


def _reading(call: OnnxCall) -> Reading | None:
    if call.op_type == "ConstantOfShape":
        return _fill(call)
    class_ = OPERATORS.get(call.op_type)
    return None if class_ is None else class_.read(call)


def _fill(call: OnnxCall) -> Reading | None:
    """ConstantOfShape as the `Fill` of a shape that is known."""
    value, shape = np.asarray(call.attributes.get("value", np.float32(0))), call.integers(0)
    if shape is None or value.size != 1 or value.dtype.name not in TRANSPARENT:
        return None
    number = value.reshape(-1)[0]
    if not isinstance(number, np.floating) and abs(int(number)) > _EXACT_INTEGERS:
        return None
    return Reading(Fill(float(number), shape, value.dtype.name), ())


def _is_symbolic(operator: Operator) -> bool:
    """Whether an attribute is a size that the model does not fix."""
    fields_ = [v if isinstance(v, tuple) else (v,) for v in operator.attributes().values()]
    return any(isinstance(v, Expression) for values in fields_ for v in values)


def _allowed(operator: Operator, types: list[TensorType]) -> bool:
    return operator.dtypes is None or not types or types[0].dtype in operator.dtypes


def _small(type_: TensorType) -> bool:
    limit = _FLOAT_BYTES if type_.dtype.startswith("float") else _INTEGER_BYTES
    size = type_.elements
    return isinstance(size, int) and size * 8 <= limit


def _type_of(tensor: ir.TensorProtocol) -> TensorType:
    return TensorType(dtype_name(tensor.dtype), tuple(tensor.shape.numpy()))


def _few(type_: TensorType) -> bool:
    return type_.dtype in TRANSPARENT and isinstance(type_.elements, int) and type_.elements <= _FEW


def _holds_negative_zero(operator: Operator) -> bool:
    """Whether an attribute is -0.0, which equals 0.0 wherever computations are told apart, and divides otherwise."""
    values = (getattr(operator, one.name) for one in fields(operator))
    return any(isinstance(value, float) and value == 0 and math.copysign(1, value) < 0 for value in values)


def _maps_elements(call: OnnxCall) -> bool:
    """Whether a reduction over no axes still does to each element what comes before its sum: ``|x|``, ``x * x``."""
    kept = call.attributes.get("noop_with_empty_axes", 0) and not (call.present(1) and call.integers(1))
    return bool(kept) and call.op_type in ("ReduceL1", "ReduceL2", "ReduceSumSquare")

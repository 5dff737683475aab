"""A roofline estimate: the larger of compute time and memory time, plus a fixed cost per operator.

It orders candidates; it never decides where a measurement can.  Work on constants costs nothing at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from taso_py.graph.sizes import Size, evaluate
from taso_py.graph.table import Node, Opaque, Table
from taso_py.graph.types import BYTES, TensorType
from taso_py.ops.numeric import operations
from taso_py.ops.operator import Operator

IN_PLACE = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Operators that ONNX Runtime executes without touching the data."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Assumed rates: operations and bytes per second, seconds per operator call."""

    operations: float = 1.0e11
    bytes: float = 1.0e10
    call: float = 4.0e-6


@dataclass(frozen=True, slots=True)
class Work:
    """Scalar operations and bytes moved by one node."""

    operations: float
    bytes: float


@dataclass(slots=True)
class Roofline:
    """Estimates for the nodes of one model, at concrete sizes of its symbols; memoised by operator and types."""

    sizes: Mapping[str, int]
    machine: Machine = field(default_factory=Machine)
    memo: dict[object, float] = field(default_factory=dict)

    def concrete(self, type_: TensorType) -> TensorType:
        """The type with symbols replaced; symbols without a value count as 1."""
        if type_.shape is None:
            return type_
        return TensorType(type_.dtype, tuple(self.size(d) for d in type_.shape))

    def size(self, size: Size) -> int:
        """The value of a size; symbols without a value count as 1."""
        value = evaluate(size, lambda s: self.sizes.get(s.name, 1))
        return value if isinstance(value, int) else 1

    def work(self, model: Table, value: int, node: Node) -> Work:
        """Operations and bytes of one node; zero for opaque nodes and for work on constants."""
        if value in model.values.constant or isinstance(node.operator, Opaque):
            return Work(0.0, 0.0)
        inputs = [i for i in node.inputs if i is not None]
        types = [self.concrete(model.type(i)) for i in inputs]
        result = self.concrete(model.type(value))
        if node.operator.onnx in IN_PLACE or not all(t.known for t in (*types, result)):
            return Work(0.0, 0.0)
        operator = _concrete_operator(node.operator, self)
        # What an operator computes for its first output it does not compute again for the others.
        count = operations(operator, types) if operator.port == 0 else 0.0
        return Work(count, float(sum(map(_bytes, (*types, result)))))

    def node(self, model: Table, value: int, node: Node) -> float:
        """Seconds for one node."""
        if value in model.values.constant or isinstance(node.operator, Opaque):
            return 0.0
        types = tuple(model.type(i) for i in node.inputs if i is not None)
        key = (node.operator, types)
        known = self.memo.get(key)
        if known is None:
            work = self.work(model, value, node)
            time = max(work.operations / self.machine.operations, work.bytes / self.machine.bytes)
            known = self.memo[key] = time + self._call(node.operator, work)
        return known

    def _call(self, operator: Operator, work: Work) -> float:
        if operator.port > 0:
            return 0.0  # all outputs of a node are one call
        return self.machine.call if work.bytes else self.machine.call / 4

    def total(self, model: Table) -> float:
        """Seconds for a table."""
        return sum(self.node(model, v, n) for v, n in model.order())

    def flops(self, model: Table) -> float:
        """Scalar operations of a table."""
        return sum(self.work(model, v, n).operations for v, n in model.order())

    def operations_difference(self, before: Table, after: Table) -> float:
        """Scalar operations that ``after`` does more than ``before``."""
        gone = sum(self.work(before, v, n).operations for v, n in before.nodes.items() if after.nodes.get(v) is not n)
        new = sum(self.work(after, v, n).operations for v, n in after.nodes.items() if before.nodes.get(v) is not n)
        return new - gone

    def difference(self, before: Table, after: Table) -> float:
        """Seconds that ``after`` takes more than ``before``."""
        gone = sum(self.node(before, v, n) for v, n in before.nodes.items() if after.nodes.get(v) is not n)
        new = sum(self.node(after, v, n) for v, n in after.nodes.items() if before.nodes.get(v) is not n)
        return new - gone


def _concrete_operator(operator: Operator, roofline: Roofline) -> Operator:
    changes = {}
    for f in fields(operator):
        value = getattr(operator, f.name)
        if isinstance(value, tuple) and any(not isinstance(v, int | float | str) for v in value):
            changes[f.name] = tuple(v if isinstance(v, float | str) else roofline.size(v) for v in value)
    return replace(operator, **changes) if changes else operator


def _bytes(type_: TensorType) -> int:
    elements = type_.elements
    return BYTES.get(type_.dtype, 4) * (elements if isinstance(elements, int) else 0)

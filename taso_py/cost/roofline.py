"""A roofline estimate: the larger of compute time and memory time, plus a fixed cost per operator.

It orders candidates; it never decides where a measurement can.  Work on constants costs nothing at run time, nor do the
steps of an activation that ONNX Runtime fuses.  A node whose sizes are not known costs a call: nothing is assumed of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from taso_py.cost.fusions import fused
from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.substitution import evaluate
from taso_py.graph.table import Node, Opaque, Table
from taso_py.graph.types import BYTES, TensorType
from taso_py.ops.numeric import operations
from taso_py.ops.operator import Operator

IN_PLACE = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Operators that ONNX Runtime executes without touching the data."""
_FEW_CALLS = 5
"""Calls that a step of a fused activation takes at least for its seconds to be left out."""


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
    known: bool = True
    """Whether all sizes are known; if not, both figures are 0."""


_NOTHING, _UNKNOWN = Work(0.0, 0.0), Work(0.0, 0.0, known=False)


@dataclass(slots=True)
class Roofline:
    """Estimates for the nodes of one model, at concrete sizes of its symbols; memoised by operator and types."""

    sizes: Mapping[str, int]
    machine: Machine = field(default_factory=Machine)
    memo: dict[object, float] = field(default_factory=dict)
    _works: dict[object, Work] = field(default_factory=dict)

    def concrete(self, type_: TensorType) -> TensorType | None:
        """The type with symbols replaced by their sizes; None where that leaves a size, or the rank, unknown."""
        if type_.shape is None:
            return None
        sizes = [self.size(d) for d in type_.shape]
        known = tuple(d for d in sizes if d is not None)
        return TensorType(type_.dtype, known) if len(known) == len(sizes) else None

    def size(self, size: Size) -> int | None:
        """The value of a size; None where it depends on a symbol without one, and where no tensor has it."""
        try:
            value = evaluate(size, lambda s: self.sizes.get(s.name, symbol(s.name)))
        except (ArithmeticError, TypingError):
            return None
        return value if isinstance(value, int) and value >= 0 else None

    def work(self, table: Table, value: int, node: Node) -> Work:
        """Operations and bytes of one node; zero for opaque nodes and for work on constants."""
        if value in table.values.constant or isinstance(node.operator, Opaque) or node.operator.onnx in IN_PLACE:
            return _NOTHING
        types = tuple(table.type(i) for i in node.inputs if i is not None)
        key = (node.operator, types, table.type(value))
        known = self._works.get(key)
        if known is None:
            known = self._works[key] = self._counted(*key)
        return known

    def _counted(self, symbolic: Operator, operands: Sequence[TensorType], computed: TensorType) -> Work:
        types = [self.concrete(t) for t in operands]
        result = self.concrete(computed)
        known = [t for t in types if t is not None]
        operator = _concrete_operator(symbolic, self)
        if result is None or operator is None or len(known) < len(types):
            return _UNKNOWN
        try:
            # What an operator computes for its first output it does not compute again for the others.
            count = operations(operator, known) if operator.port == 0 else 0.0
        except (ArithmeticError, TypingError):  # at these very sizes ONNX Runtime would refuse the node as well
            return _UNKNOWN
        except RecursionError:  # a meaning of a thousand operands, nested: such a node moves more than it computes
            count = 0.0
        # Of a table only the rows are read that are looked up.
        read = known if operator.positions is None else (result, *known[1:])
        return Work(count, float(sum(map(tensor_bytes, (*read, result)))))

    def node(self, table: Table, value: int, node: Node) -> float:
        """Seconds for one node."""
        if value in table.values.constant or isinstance(node.operator, Opaque):
            return 0.0
        types = tuple(table.type(i) for i in node.inputs if i is not None)
        key = (node.operator, types)
        known = self.memo.get(key)
        if known is None:
            work = self.work(table, value, node)
            time = max(work.operations / self.machine.operations, work.bytes / self.machine.bytes)
            known = self.memo[key] = time + self._call(node.operator, work)
        return known

    def _call(self, operator: Operator, work: Work) -> float:
        if operator.port > 0:
            return 0.0  # all outputs of a node are one call
        return self.machine.call if work.bytes or not work.known else self.machine.call / 4

    def total(self, table: Table) -> float:
        """Seconds for a table."""
        return sum(self.node(table, v, n) for v, n in table.order()) - self._saved(table)

    def _saved(self, table: Table) -> float:
        """Seconds of nodes that other kernels do the work of, where these are more than a few calls.

        Small activations beside each other are merged step by step, which gains calls, and each step but the last one
        breaks them all: no search would get past that.
        """
        seconds = (self.node(table, value, table.nodes[value]) for value in fused(table))
        return sum(s for s in seconds if s > _FEW_CALLS * self.machine.call)

    def flops(self, table: Table) -> float:
        """Scalar operations of a table."""
        return sum(self.work(table, v, n).operations for v, n in table.order())

    def operations_difference(self, before: Table, after: Table) -> float:
        """Scalar operations that ``after`` does more than ``before``."""
        gone = sum(self.work(before, v, n).operations for v, n in before.nodes.items() if after.nodes.get(v) is not n)
        new = sum(self.work(after, v, n).operations for v, n in after.nodes.items() if before.nodes.get(v) is not n)
        return new - gone

    def difference(self, before: Table, after: Table) -> float:
        """Seconds that ``after`` takes more than ``before``."""
        gone = sum(self.node(before, v, n) for v, n in before.nodes.items() if after.nodes.get(v) is not n)
        new = sum(self.node(after, v, n) for v, n in after.nodes.items() if before.nodes.get(v) is not n)
        return new - gone + self._saved(before) - self._saved(after)


def _concrete_operator(operator: Operator, roofline: Roofline) -> Operator | None:
    """The operator with the sizes among its attributes replaced; None where one of them is unknown."""
    changes = {}
    for f in fields(operator):
        value = getattr(operator, f.name)
        if isinstance(value, tuple) and any(not isinstance(v, int | float | str) for v in value):
            sizes = tuple(v if isinstance(v, int | float | str) else roofline.size(v) for v in value)
            if None in sizes:
                return None
            changes[f.name] = sizes
    return replace(operator, **changes) if changes else operator


def tensor_bytes(type_: TensorType) -> int:
    """Bytes of a tensor of this type; 0 where the rank or a size is not known."""
    elements = type_.elements if type_.known else 0
    return BYTES.get(type_.dtype, 4) * (elements if isinstance(elements, int) else 0)

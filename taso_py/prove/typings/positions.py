"""What a proof makes of indices that are computed at run time: positions of which only the range is known.

An index v of an axis of size n is read at v, or at v + n where it is negative; outside of that ONNX refuses to run.
So the position is one of 0 .. n - 1 for every place of the tensor of indices, and nothing else is known of it.  It is
the same wherever the same element names a position of an axis of the same size: both sides read `Image`s of it.

Indices may be moved, not computed: an element of their tensor is then an element of a variable, which the meanings of
the operators in between tell.  What is moved must be in range: each side needs that of all its tensors of indices,
whatever is read of the result later, and the right side may need nothing that the left side does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, TypeAlias

from taso_py.graph.sizes import Role, Size, Symbol, image
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Choose, Compare, Index, Number, Operand, Read, Scalar, choose, inside
from taso_py.ops.operator import Operator
from taso_py.ops.rows import Picking
from taso_py.prove.kernel.arithmetic import Guard, guard
from taso_py.prove.kernel.demands import Demand
from taso_py.prove.kernel.normal import Factor, Head, Term
from taso_py.prove.kernel.values import Leaf
from taso_py.prove.typings.shapes import Unsupported

_INDEX = "an index in range"
"""The kind of demand."""
_NOTHING = "no element"


@dataclass(frozen=True, slots=True)
class Ranges:
    """The demands that tensors of indices make on the elements of variables, of each side."""

    left: tuple[Demand, ...] = ()
    right: tuple[Demand, ...] = ()

    @staticmethod
    def of(sides: tuple[Mapping[int, Node], Mapping[int, Node]], values: Values, leaves: Mapping[int, Leaf]) -> Ranges:
        """Of both sides' nodes; that something stands at every place has to be shown of the left side, too."""
        left, right = (_in_range(nodes, values, leaves) for nodes in sides)
        nothing = [d for d in left if d.head.name == _NOTHING]
        return Ranges(tuple(left), (*nothing, *right))


@dataclass(frozen=True, slots=True)
class Source:
    """An element of a variable."""

    variable: str
    dims: tuple[Size, ...]
    index: Index


@dataclass(frozen=True, slots=True)
class Branch:
    """``then`` where all conditions hold, else ``otherwise``."""

    conditions: tuple[Compare, ...]
    then: Found
    otherwise: Found


Found: TypeAlias = Source | Branch | None
"""The element of a variable that an element of a moved tensor is; None where none is, which must not happen."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Tells for tensors that are moved variables which element stands where."""

    nodes: Mapping[int, Node]
    values: Values
    leaves: Mapping[int, Leaf]

    def element(self, value: int, index: Index) -> Found:
        """The element of a value at ``index``; `Unsupported` where it is computed."""
        leaf = self.leaves.get(value)
        if leaf is not None:
            dims = self.values.types[value].dims
            return Source(leaf.name, dims, tuple(0 if d == 1 else i for i, d in zip(index, dims, strict=True)))
        node = self.nodes[value]
        if node.operator.positions is not None:
            raise Unsupported("an index is looked up")
        inputs = [i for i in node.inputs if i is not None]
        views = [Operand(k, self.values.types[i]) for k, i in enumerate(inputs)]
        return self._scalar(node.operator.element(views, index), inputs)

    def _scalar(self, scalar: Scalar, inputs: Sequence[int]) -> Found:
        match scalar:
            case Read(operand, index):
                value = inputs[operand]
                there = self.element(value, index)
                return Branch(tuple(inside(index, self.values.types[value].dims)), there, None)
            case Choose(conditions, then, otherwise):
                return Branch(conditions, self._scalar(then, inputs), self._scalar(otherwise, inputs))
            case _:
                raise Unsupported("an index is computed")


@dataclass(frozen=True)
class Placed(Operator):
    """The reading of a table at positions of which only the range is known; its operand is the table.

    Two are equal where they look up by the same value ``at``.
    """

    onnx: ClassVar[str] = "placed"
    operator: Picking
    table: TensorType
    indices: TensorType
    at: int
    find: Callable[[Index], Found] = field(compare=False, repr=False)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        before, behind, at = self.operator.place(self.table, self.indices, index)
        rows = x.dims[self.operator.axis_of(self.table)]

        def read(found: Found) -> Scalar:
            match found:
                case Source():
                    return x[(*before, _position(found, rows), *behind)]
                case Branch(conditions, then, otherwise):
                    return choose(conditions, read(then), read(otherwise))
                case None:
                    return Number(0.0)

        return read(self.find(at))


def _position(source: Source, rows: Size) -> Size:
    """Which of the rows an element names: a function of its place, counted row-major."""
    flat: Size = 0
    for i, d in zip(source.index, source.dims, strict=True):
        flat = flat * d + i
    return 0 if rows == 1 else image(f"row named by {source.variable}", rows, flat)


def placed(nodes: Mapping[int, Node], values: Values, leaves: Mapping[int, Leaf]) -> dict[int, Node]:
    """The nodes, with every run-time index a position of which only the range is known."""
    moved = Moved(nodes, values, leaves)
    return {value: _placed(node, moved) for value, node in nodes.items()}


def _placed(node: Node, moved: Moved) -> Node:
    if not isinstance(node.operator, Picking):
        return node
    table, indices = (i for i in node.inputs if i is not None)
    types = moved.values.types
    operator = Placed(node.operator, types[table], types[indices], indices, lambda at: moved.element(indices, at))
    return Node(operator, (table,))


def _in_range(nodes: Mapping[int, Node], values: Values, leaves: Mapping[int, Leaf]) -> list[Demand]:
    """That every element of every tensor of indices is in range of the axis that it is an index of."""
    moved = Moved(nodes, values, leaves)
    found: list[Demand] = []
    for node in nodes.values():
        if not isinstance(node.operator, Picking):
            continue
        table, indices = (i for i in node.inputs if i is not None)
        ranges = [(Symbol(f"p{k}", Role.BOUND), d) for k, d in enumerate(values.types[indices].dims)]
        at = tuple(0 if d == 1 else name.size for name, d in ranges)
        rows = values.types[table].dims[node.operator.axis_of(values.types[table])]
        bound = tuple((name, d) for name, d in ranges if d != 1)
        ways = _ways(moved.element(indices, at), ())
        found += [_demand(source, rows, bound, guards) for guards, source in ways]
    return found


def _demand(
    source: Source | None, rows: Size, bound: tuple[tuple[Symbol, Size], ...], guards: Sequence[Guard]
) -> Demand:
    """The demand for one element; where there is none one that nothing meets: its guards must exclude each other."""
    name = _NOTHING if source is None else f"index in {source.variable}"
    factor = Factor(Head("function", name, (rows,)), () if source is None else source.index)
    return Demand(_INDEX, Term(Fraction(1), (factor,), bound, frozenset(guards)))


def _ways(found: Found, guards: tuple[Guard, ...]) -> Iterator[tuple[tuple[Guard, ...], Source | None]]:
    """The ways through the branches: their guards, and what stands at the end."""
    if not isinstance(found, Branch):
        yield guards, found
        return
    tests = [g for g in map(guard, found.conditions) if g.decided is not True]
    if not any(g.decided is False for g in tests):
        yield from _ways(found.then, (*guards, *tests))
    for k, g in enumerate(tests):
        yield from _ways(found.otherwise, (*guards, *tests[:k], g.negated))

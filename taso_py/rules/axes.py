"""Axes along which an operator, and with them both sides of a law, act position by position.

An axis is *parallel* where the result's element at position i reads the operands at position i of that axis only, or
reads them at the same place for every i.  If all operators of both sides of a law act so along an axis, then the law
holds for the whole tensors as soon as it holds for each slice: such axes need not be looked at, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from taso_py.graph.sizes import Size, element_variables, symbol, symbols
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Integer, Operand, Read, Reduce, Scalar, numbered_anew
from taso_py.ops.operator import Operator

Axis = tuple[int, int]
"""(value, axis)."""
Links = tuple[tuple[int | None, ...] | None, ...]
"""For each axis of a result None, or the axis of each operand that it runs along (None: of none)."""


@lru_cache(maxsize=1 << 16)
def parallel_axes(operator: Operator, types: tuple[TensorType, ...], result: TensorType) -> Links:
    """Which axes of an application's result are parallel to which axes of its operands, read off its meaning."""
    if operator.pointwise:
        return tuple(_aligned(b, 0, types, result) for b in range(result.rank))
    names = element_variables(result.rank)
    with numbered_anew():
        meaning = operator.element(tuple(Operand(k, t) for k, t in enumerate(types)), tuple(s.size for s in names))
    found = _Reads(types, dict(zip(names, result.dims, strict=True)))
    found.visit(meaning)
    links = tuple(found.link(name) for name in names)
    if operator.onnx == "MatMul" and min(t.rank for t in types) > 1:
        batch = range(result.rank - 2)
        return tuple(_aligned(b, 2, types, result) if b in batch else link for b, link in enumerate(links))
    return links


def _aligned(b: int, behind: int, types: Sequence[TensorType], result: TensorType) -> tuple[int | None, ...]:
    """NumPy's broadcasting aligns axes from the last one; an operand may have size 1 there."""
    places = [b - (result.rank - t.rank) for t in types]
    return tuple(a if 0 <= a < t.rank - behind else None for a, t in zip(places, types, strict=True))


@dataclass(slots=True)
class _Reads:
    """Where each index variable of a result is read, and whether it is used for anything else."""

    types: Sequence[TensorType]
    extents: Mapping[str, Size]
    spoilt: set[str] = field(default_factory=set)
    places: dict[str, dict[int, set[int]]] = field(default_factory=dict)
    indices: dict[tuple[int, int], set[Size]] = field(default_factory=dict)

    def visit(self, scalar: Scalar) -> None:
        match scalar:
            case Read(operand, index):
                for axis, i in enumerate(index):
                    self._read(operand, axis, i)
            case Integer(value):
                self.spoilt |= symbols(value)
            case Apply(_, arguments, _):
                for a in arguments:
                    self.visit(a)
            case Reduce(_, _, extent, body):
                self.spoilt |= symbols(extent)
                self.visit(body)
            case Choose(conditions, then, otherwise):
                for c in conditions:
                    self.spoilt |= symbols(c.left) | symbols(c.right)
                self.visit(then)
                self.visit(otherwise)
            case _:
                return

    def _read(self, operand: int, axis: int, index: Size) -> None:
        self.indices.setdefault((operand, axis), set()).add(index)
        for name in symbols(index):
            whole = index == symbol(name) and self.types[operand].dims[axis] == self.extents.get(name)
            if whole:
                self.places.setdefault(name, {}).setdefault(operand, set()).add(axis)
            else:
                self.spoilt.add(name)

    def link(self, name: str) -> tuple[int | None, ...] | None:
        """The axis of each operand that runs along a variable; None when it is not parallel."""
        if name in self.spoilt:
            return None
        found: list[int | None] = []
        for k in range(len(self.types)):
            axes = self.places.get(name, {}).get(k, set())
            if len(axes) > 1 or any(self.indices[k, a] != {symbol(name)} for a in axes):
                return None
            found.append(next(iter(axes), None))
        return tuple(found)


@dataclass(slots=True)
class Parallel:
    """Classes of axes that run along each other on both sides of a law; those that are parallel throughout drop out."""

    types: Callable[[int], TensorType]
    parent: dict[Axis, Axis] = field(default_factory=dict)
    kept: set[Axis] = field(default_factory=set)
    """Axes, by class, that some operator treats in another way."""
    members: dict[Axis, set[Axis]] = field(default_factory=dict)
    numbered: dict[int, dict[int, int]] = field(default_factory=dict)
    """By value the axes that matter, with their numbers among these."""

    @staticmethod
    def of(
        nodes: Iterable[tuple[int, Node]],
        outputs: Iterable[tuple[int, int]],
        types: Callable[[int], TensorType],
        alike: Iterable[tuple[Axis, Axis]] = (),
    ) -> Parallel:
        """The classes over the nodes of both sides; ``outputs`` pairs each output of the left with the right one.

        ``alike`` are axes of which the law says that they are one.
        """
        found = Parallel(types)
        kept: list[Axis] = []
        for value, node in nodes:
            kept += found._enter(value, node)
        for left, right in outputs:
            for b in range(types(left).rank):
                found._join((left, b), (right, b))
        for one, other in alike:
            found._join(one, other)
        found.kept = {found._root(axis) for axis in kept}
        for axis in list(found.parent):
            found.members.setdefault(found._root(axis), set()).add(axis)
        # Two axes of one value that run along each other are its diagonal.
        found.kept |= {root for root, all_ in found.members.items() if len({v for v, _ in all_}) < len(all_)}
        return found

    def _enter(self, value: int, node: Node) -> Iterator[Axis]:
        inputs = [i for i in node.inputs if i is not None]
        types = tuple(self.types(i) for i in inputs)
        links = parallel_axes(node.operator, types, self.types(value))
        for b, link in enumerate(links):
            if link is None:
                yield value, b
                continue
            self._root((value, b))
            for i, a in zip(inputs, link, strict=True):
                if a is not None:
                    self._join((value, b), (i, a))
        for k, i in enumerate(inputs):
            for a in range(types[k].rank):
                if not any(link is not None and link[k] == a for link in links):
                    yield i, a

    def _root(self, axis: Axis) -> Axis:
        parent = self.parent.setdefault(axis, axis)
        while parent != axis:
            axis, parent = parent, self.parent[parent]
        return axis

    def _join(self, one: Axis, other: Axis) -> None:
        self.parent[self._root(one)] = self._root(other)

    def keeps(self, value: int, axis: int) -> bool:
        """Whether an axis matters."""
        return self._root((value, axis)) in self.kept

    def places(self, value: int) -> Mapping[int, int]:
        """The axes of a value that matter, with their numbers among these."""
        if value not in self.numbered:
            kept = [a for a in range(self.types(value).rank) if self.keeps(value, a)]
            self.numbered[value] = {a: k for k, a in enumerate(kept)}
        return self.numbered[value]

    def dims(self, value: int, behind: int = 0) -> tuple[Size, ...]:
        """The sizes of the axes that matter, without so many of the last ones."""
        dims = self.types(value).dims
        return tuple(dims[a] for a in self.places(value) if a < len(dims) - behind)


@dataclass(slots=True)
class Everything(Parallel):
    """Every axis matters."""

    def keeps(self, value: int, axis: int) -> bool:
        return True

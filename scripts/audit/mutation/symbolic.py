"""Instances of laws with symbols for sizes, as general as the law's own conditions are decided to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from scripts.audit.mutation.express import Equation
from scripts.audit.mutation.sampling import BAD_DRAW
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.table import Values
from taso_py.graph.types import TensorType
from taso_py.rules.build import Builder
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule
from taso_py.rules.term import Axis, Block, Comparison, Condition, Membership, Predicate, Product, names_in
from taso_py.rules.unify import Binding

_ATTEMPTS = 200
_SIZES = frozenset({"shape", "starts", "ends", "split", "sizes", "size"})
"""Attributes that may hold symbols; any other value must be a number in a graph."""


def symbolic(law: Rule, random: np.random.Generator) -> Equation | None:
    """The law at random numbers of axes and attributes, its sizes symbols; None when that cannot be typed.

    Sizes that a condition or an attribute other than a shape or a cut names are numbers.
    """
    try:
        instance = draw(law, random, Values(), _ATTEMPTS)
        if instance is None:
            return None
        maker = _Maker(law, instance)
        shapes = maker.shapes()
        found = maker.built(shapes)
        for name, axis in _shuffled(maker.open_axes(shapes), random):
            freed = dict(shapes)
            dims = list(shapes[name])
            dims[axis] = symbol(f"{name}{axis}")
            freed[name] = tuple(dims)
            try:
                found, shapes = maker.built(freed), freed
            except BAD_DRAW:
                continue
        return found
    except BAD_DRAW:
        return None


def _shuffled(places: list[tuple[str, int]], random: np.random.Generator) -> Iterator[tuple[str, int]]:
    for k in random.permutation(len(places)):
        yield places[int(k)]


@dataclass(slots=True)
class _Maker:
    law: Rule
    instance: Instance
    names: dict[str, Size] = field(init=False)
    blocks: dict[str, tuple[Size, ...]] = field(init=False)

    def __post_init__(self) -> None:
        drawn, fixed = self.instance.binding, self._fixed()
        declared = {n for d in self.law.declarations for a in d.axes for n in _names(a)}
        self.names = {n: symbol(n) if n in declared - fixed else v for n, v in drawn.names.items()}
        self.blocks = {b: tuple(symbol(f"{b}{k}") for k in range(len(dims))) for b, dims in drawn.blocks.items()}

    def _fixed(self) -> set[str]:
        """Names that must be numbers."""
        found = {c.variable for c in self.law.choices}
        for c in self.law.conditions:
            if isinstance(c, Comparison):
                found |= names_in(c.left) | names_in(c.right)
            elif isinstance(c, Membership):
                found.add(c.variable)
        for side in (self.law.left, self.law.right):
            for application in side.applications():
                for name, expression in application.attributes:
                    if name not in _SIZES:
                        found |= names_in(expression)
        return found

    def shapes(self) -> dict[str, tuple[Size, ...]]:
        """Shapes by variable: declared ones as declared; else equal numbers become equal symbols, ones stay."""
        types = {n: self.instance.values.types[v].dims for n, v in self.instance.binding.tensors.items()}
        drawn = self.instance.binding.names
        known: dict[Size, Size] = {drawn[n]: s for n, s in self.names.items() if isinstance(drawn[n], int)}
        found: dict[str, tuple[Size, ...]] = {}
        for name, dims in types.items():
            axes = next((d.axes for d in self.law.declarations if d.variable == name), None)
            if axes is None:
                found[name] = tuple(d if d == 1 else known.setdefault(d, symbol(f"u{d}")) for d in dims)
            else:
                found[name] = self._declared(axes, dims)
        return found

    def _declared(self, axes: tuple[Axis, ...], dims: tuple[Size, ...]) -> tuple[Size, ...]:
        binding = Binding(names=dict(self.names), blocks=dict(self.blocks))
        found: list[Size] = []
        plain = sum(len(self.blocks[a.name]) if isinstance(a, Block) and not a.broadcast else 1 for a in axes)
        for axis in axes:
            match axis:
                case Block(name, True):
                    width = len(dims) - plain + 1
                    block = self.blocks[name][len(self.blocks[name]) - width :]
                    given = dims[len(found) : len(found) + width]
                    found.extend(1 if d == 1 else b for d, b in zip(given, block, strict=True))
                case Block(name, _):
                    found.extend(self.blocks[name])
                case Product(factors):
                    whole: Size = 1
                    for factor in factors:
                        whole = whole * binding.value(factor)
                    found.append(whole)
                case _:
                    found.append(binding.value(axis))
        return tuple(found)

    def open_axes(self, shapes: Mapping[str, tuple[Size, ...]]) -> list[tuple[str, int]]:
        """Axes of tensors without a declaration: they may turn out to be independent of each other."""
        declared = {d.variable for d in self.law.declarations}
        declared |= {v for c in self.law.conditions if isinstance(c, Predicate) for v in c.variables}
        return [(n, k) for n, dims in sorted(shapes.items()) if n not in declared for k in range(len(dims))]

    def built(self, shapes: Mapping[str, tuple[Size, ...]]) -> Equation:
        """Both sides at these shapes; raises when they are not typed, or not of equal types."""
        values = Values()
        binding = Binding(names=dict(self.names), blocks=dict(self.blocks))
        old = self.instance
        for name, dims in sorted(shapes.items()):
            dtype = old.values.types[old.binding.tensors[name]].dtype
            binding.tensors[name] = values.new(TensorType(dtype, dims))
        lefts, rights = (Builder(values, binding, side, "float32") for side in (self.law.left, self.law.right))
        left = tuple(lefts.output(t) for t in self.law.left.outputs)
        right = tuple(rights.output(t) for t in self.law.right.outputs)
        if any(values.types[a] != values.types[b] for a, b in zip(left, right, strict=True)):
            raise ValueError("types differ")
        if not all(binding.holds(c) for c in self.law.conditions if isinstance(c, Comparison)):
            raise ValueError("a condition is open")
        inputs = {v: n for n, v in binding.tensors.items()}
        return Equation(values, lefts.nodes | rights.nodes, inputs, left, right, _kept(self.law))


def _kept(law: Rule) -> tuple[Condition, ...]:
    """Conditions on values, on which the truth of the law depends; the shape says what is a number."""
    return tuple(c for c in law.conditions if isinstance(c, Predicate) and c.kind not in ("constant", "number"))


def _names(axis: Axis) -> set[str]:
    if isinstance(axis, Block):
        return set()
    if isinstance(axis, Product):
        return set().union(*map(names_in, axis.factors))
    return names_in(axis)

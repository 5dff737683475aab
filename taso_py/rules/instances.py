"""Random instances of a rule, for testing it: sizes, attributes, choices and values under which the left side is typed.

An instance is drawn from the rule's text alone.  Declared shapes come from drawn sizes; a variable without a
declaration gets a shape that its operator accepts.  What does not satisfy the rule is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.constants import Fill, represents
from taso_py.ops.operator import broadcast
from taso_py.rules.build import Builder, NotBuildable, NotNumber, number_type
from taso_py.rules.drawing import Drawing
from taso_py.rules.instance import DRAWN, LARGEST, PLAIN, Instance, Manner, Rejected, TooLarge, limited
from taso_py.rules.menus import Shape
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule
from taso_py.rules.term import Predicate, Scalar, Term, Variable
from taso_py.rules.unify import Unbound

_OPSET = 23
"""An opset at which every operator of the library can be written."""
_STEPS = 2**26
"""Most places of windows that are looked at to compute a node of an instance."""
_NO_DRAW = (Rejected, NotBuildable, TypingError, Unbound, TypeError, ValueError, LookupError, ArithmeticError)
"""A shape or attribute that cannot be read off what was drawn is a bad draw like any other."""


def draw(
    rule: Rule,
    random: np.random.Generator,
    values: Values,
    attempts: int = 3000,
    *,
    typed: bool = True,
    manner: Manner = PLAIN,
) -> Instance | None:
    """An instance of a directed rule over ``values``; None when no attempt gives one.

    An instance whose sides have different types is a counterexample of its own; it is drawn unless ``typed``.
    """
    for _ in range(attempts):
        try:
            drawing = Drawing(rule, random, typed, manner)
            drawing.draw()
            return _Realised(drawing, values).instance()
        except _NO_DRAW:
            continue
    return None


def oversized(rule: Rule, attempts: int = 20) -> bool:
    """Whether what the rule declares is so large that no instance is drawn of it."""
    for directed in rule.directions():
        random = np.random.default_rng(0)
        for _ in range(attempts):
            try:
                drawing = Drawing(directed, random)
                drawing.draw()
                _Realised(drawing, Values()).instance()
            except TooLarge:
                return True
            except _NO_DRAW:
                continue
    return False


@dataclass(slots=True)
class _Realised:
    """A draw turned into ids, nodes and arrays."""

    draw: Drawing
    values: Values
    feeds: dict[int, Array] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    literals: dict[Term, int] = field(default_factory=dict)

    def instance(self) -> Instance:
        rule, draw = self.draw.rule, self.draw
        sizes = [t.elements for t in (*draw.types.values(), *draw.literals.values())]
        if sum(n for n in sizes if isinstance(n, int)) > DRAWN:
            raise TooLarge
        predicates: dict[str, list[Predicate]] = {}
        for c in rule.conditions:
            if isinstance(c, Predicate):
                for v in c.variables:
                    predicates.setdefault(v, []).append(c)
        names = list(draw.types)
        free = [v for v in names if v not in predicates]
        running = {free[draw.random.integers(len(free))]} if free else set()
        for name in names:
            constant = name in predicates or (name not in running and draw.random.random() < 0.4)
            self._tensor(name, constant, predicates.get(name, []))
        for literal, type_ in draw.literals.items():
            if not represents(type_.dtype, literal.value):
                raise Rejected
            value = self._fresh(type_, np.full(type_.dims, literal.value), constant=True)
            self.literals[literal] = value
        return self._built()

    def _built(self) -> Instance:
        rule, draw = self.draw.rule, self.draw
        lefts = Builder(self.values, draw.binding, rule.left, draw.dtypes.result)
        lefts.done.update(self.literals)
        left = tuple(lefts.output(t) for t in rule.left.outputs)
        if any(v in self.values.constant for v in left) or self._enlarged(lefts):
            raise Rejected
        dtype = number_type(draw.binding, self.values.types.__getitem__, self.values.types[left[0]].dtype)
        rights = Builder(self.values, draw.binding, rule.right, dtype)
        right, refusal = self._right(rights)
        for value in (*self.feeds, *self.weights):
            limited(self.values.types[value], LARGEST)
        nodes = dict(sorted((lefts.nodes | ({} if refusal else rights.nodes)).items()))
        for value, node in nodes.items():
            self._require_few_steps(value, node)
        if left == right or not all(self._spellable(v, n) for v, n in nodes.items()):
            raise Rejected
        same = right and all(self.values.types[a] == self.values.types[b] for a, b in zip(left, right, strict=True))
        if draw.typed and not same:
            raise Rejected
        return Instance(
            rule, draw.binding, self.values, nodes, left, right,
            feeds=self.feeds, weights=self.weights, placed=lefts.placed(),
            placed_right={} if refusal else rights.placed(), refusal=refusal,
        )  # fmt: skip

    def _require_few_steps(self, value: int, node: Node) -> None:
        """`TooLarge` for what takes too much memory, or too many steps, to be computed."""
        elements = limited(self.values.types[value], LARGEST).elements
        window = getattr(node.operator, "kernel_shape", None) or ()
        if node.operator.onnx in ("Conv", "ConvTranspose"):
            window = self.values.types[node.inputs[1] or 0].dims[1:]
        if isinstance(elements, int) and elements * math.prod(window) > _STEPS:
            raise TooLarge(f"{node.operator} takes over {_STEPS} steps")

    def _right(self, builder: Builder) -> tuple[tuple[int, ...], str]:
        """The outputs of the right side; none, and why, when it cannot be built."""
        try:
            right = tuple(builder.output(t) for t in self.draw.rule.right.outputs)
        except NotNumber:
            raise
        except _NO_DRAW as error:
            if not self.draw.manner.unbuilt:
                raise
            return (), str(error) or type(error).__name__
        for value, node in builder.nodes.items():
            type_ = self.values.types[value]
            if any(isinstance(d, int) and d < 0 for d in type_.dims):
                why = f"{node.operator} has a negative size: {type_}"
            elif isinstance(node.operator, Fill) and not represents(type_.dtype, node.operator.value):
                why = f"{type_.dtype} has no {node.operator.value}"
            else:
                continue
            if not self.draw.manner.unbuilt:
                raise Rejected(why)
            return (), why
        return right, ""

    def _enlarged(self, lefts: Builder) -> bool:
        """Whether a literal or a number enlarges what it meets: the match refuses that, for the types then differ."""
        numbers = self.draw.rule.tensors_that_are("number")
        for term in self.draw.rule.left.applications():
            if not term.operator.pointwise:
                continue
            operands = [self.draw.rule.left.resolve(a) for a in term.arguments]
            small = [isinstance(t, Scalar) or (isinstance(t, Variable) and t.name in numbers) for t in operands]
            dims = [self.values.types[lefts.output(t)].dims for t in operands]
            others = [d for d, s in zip(dims, small, strict=True) if not s]
            if any(small) and others and broadcast(*others) != broadcast(*dims):
                return True
        return False

    def _spellable(self, value: int, node: Node) -> bool:
        """Constants are folded; all else must be a node that a graph can hold."""
        types = [self.values.types[i] for i in node.inputs if i is not None]
        return value in self.values.constant or node.operator.write(_OPSET, types) is not None

    def _tensor(self, name: str, constant: bool, predicates: Sequence[Predicate]) -> None:
        draw, type_ = self.draw, self.draw.types[name]
        shape: Shape = type_.dims
        array: npt.NDArray[Any] = draw.menus.array(draw.kinds.get(name, ""), shape, type_.dtype)
        if name in draw.rows:
            array = draw.menus.positions(shape, draw.rows[name])
        for p in predicates:
            array = draw.menus.passing(p, array)
        array = np.asarray(array).astype(type_.dtype)
        if any(not PREDICATES[p.kind].holds(array, *p.arguments) for p in predicates):
            raise Rejected
        draw.binding.tensors[name] = self._fresh(type_, array, constant)

    def _fresh(self, type_: TensorType, array: npt.ArrayLike, constant: bool) -> int:
        value = self.values.new(type_)
        shape: Shape = type_.dims
        (self.weights if constant else self.feeds)[value] = np.asarray(array, dtype=type_.dtype).reshape(shape)
        if constant:
            self.values.fixed.add(value)
            self.values.constant.add(value)
        else:
            self.values.inputs.add(value)
        return value


__all__ = ["PLAIN", "Instance", "Manner", "draw", "oversized"]

"""Random instances of a rule, for testing it: sizes, attributes, choices and values under which the left side is typed.

An instance is drawn from the rule's text alone.  Declared shapes come from drawn sizes; a variable without a
declaration gets a shape that its operator accepts.  What does not satisfy the rule is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from taso_py.errors import TypingError
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.constants import Fill, represents
from taso_py.ops.operator import Operator, broadcast, frozen
from taso_py.rules.build import Builder, NotBuildable, from_front
from taso_py.rules.element_types import ElementTypes
from taso_py.rules.instance import PLAIN, Instance, Manner, Rejected
from taso_py.rules.menus import NEED_AXES, Menus, Shape, array_kind
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Block,
    Comparison,
    Declaration,
    Listing,
    Membership,
    Name,
    Predicate,
    Product,
    Scalar,
    Term,
    Variable,
    names_in,
    ordered_names,
)
from taso_py.rules.unify import Binding, Unbound

Array = npt.NDArray[np.generic]

_FIRST = ("group", "transA", "transB", "blocksize")
"""Attributes that the shapes of operands depend on."""
_EARLY = (*_FIRST, "axis", "axes", "kernel_shape", "dilations", "strides", "starts", "indices_shape")
"""Attributes drawn before the others, which depend on them."""
_OPSET = 23
"""An opset at which every operator of the library can be written."""


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
            return _Draw(rule, random, typed, manner).instance(values)
        except _NO_DRAW:
            continue
    return None


@dataclass(slots=True)
class _Draw:
    rule: Rule
    random: np.random.Generator
    typed: bool = True
    manner: Manner = PLAIN
    binding: Binding = field(default_factory=Binding)
    menus: Menus = field(init=False)
    dtypes: ElementTypes = field(init=False)
    types: dict[str, TensorType] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    literals: dict[Scalar, TensorType] = field(default_factory=dict)
    done: dict[Term, TensorType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.menus = self.manner.menus(self.random)
        self.dtypes = self.manner.types(self.rule, self.random)

    def instance(self, values: Values) -> Instance:
        self._choices()
        for declaration in self.rule.declarations:
            if declaration.variable in self.rule.left.variables():
                self._declared(declaration)
        for c in self.rule.conditions:
            if isinstance(c, Predicate) and c.name == "number":
                self.types.update((v, self._tensor_type(v, self.menus.ones())) for v in c.variables)
        for term in self.rule.left.outputs:
            self._type(term)
        if not self.binding.settle() or self.binding.waiting or self.binding.shapes:
            raise Rejected
        self._conditions()
        return _Realised(self, values).instance()

    # ---- names and declared shapes ------------------------------------------------------------------------------

    def _choices(self) -> None:
        menus = [*self.rule.choices, *(c for c in self.rule.conditions if isinstance(c, Membership))]
        for member in menus:
            if not any(names_in(e) for e in member.menu):
                options = [self.binding.value(e) for e in member.menu]
                self.binding.names.setdefault(member.variable, options[self.random.integers(len(options))])

    def _declared(self, declaration: Declaration) -> None:
        dims: list[int] = []
        for axis in declaration.axes:
            dims.extend(self._axis(axis))
        self.types[declaration.variable] = self._tensor_type(declaration.variable, tuple(dims))

    def _tensor_type(self, name: str, shape: Shape) -> TensorType:
        return TensorType(self.dtypes.variable(name), shape)

    def _axis(self, axis: Axis) -> Shape:
        if isinstance(axis, Block):
            if axis.name not in self.binding.blocks:
                self.binding.blocks[axis.name] = self.menus.block()
            dims = self.binding.blocks[axis.name]
            return self.menus.narrowed(dims) if axis.broadcast else dims
        factors = axis.factors if isinstance(axis, Product) else (axis,)
        whole: Any = 1
        for factor in factors:
            for name in ordered_names(factor):
                self._size(name)
            whole = whole * self.binding.value(factor)
        if not isinstance(whole, int) or whole < 0:
            raise Rejected
        return (whole,)

    def _size(self, name: str) -> None:
        if name in self.binding.names:
            return
        for condition in self.rule.conditions:
            if isinstance(condition, Comparison) and condition.relation == "==":
                for this, other in ((condition.left, condition.right), (condition.right, condition.left)):
                    if this == Name(name) and names_in(other) <= self.binding.names.keys():
                        self.binding.names[name] = self.binding.value(other)
                        return
        self.binding.names[name] = self.menus.size()

    # ---- types of the left side, bottom up ------------------------------------------------------------------------

    def _type(self, term: Term) -> TensorType:
        term = self.rule.left.resolve(term)
        if isinstance(term, Variable):
            return self.types.setdefault(term.name, self._tensor_type(term.name, self.menus.common))
        if isinstance(term, Scalar):
            return self.literals.setdefault(term, self._literal_type(term, self.menus.narrowed(self.menus.common)))
        if term not in self.done:
            self.done[term] = self._application(term)
        return self.done[term]

    def _application(self, term: Application) -> TensorType:
        terms = [self.rule.left.resolve(a) for a in term.arguments]
        attributes = dict(term.attributes)
        for name in _FIRST:
            self._attribute(term, name, attributes, [])
        known: list[TensorType | None] = [
            self._type(t) if isinstance(t, Application) or self._placed(t) else None for t in terms
        ]
        for k, t in enumerate(terms):
            if known[k] is None and self._placed(t):
                known[k] = self._type(t)
            if known[k] is None:
                if any(known) and "axis" in attributes:
                    self._attribute(term, "axis", attributes, [x for x in known if x])
                known[k] = self._suggested(term, k, known, t)
            if isinstance(t, Variable) and (kind := array_kind(term.operator, k)):
                self.kinds.setdefault(t.name, kind)
        types = [t for t in known if t is not None]
        for name in sorted(attributes, key=lambda n: _EARLY.index(n) if n in _EARLY else len(_EARLY)):
            self._attribute(term, name, attributes, types)
        if term.operator.onnx in NEED_AXES and not all(t.rank for t in types):
            raise Rejected
        return self._operator(term, types).infer(*types)

    def _placed(self, term: Term) -> bool:
        return isinstance(term, Variable) and term.name in self.types

    def _suggested(self, term: Application, k: int, known: list[TensorType | None], t: Term) -> TensorType:
        given = {n: self.binding.value(e) for n, e in term.attributes if names_in(e) <= self.binding.names.keys()}
        shape = self.menus.operand(term.operator, k, [x.dims if x else None for x in known], given)
        if isinstance(t, Scalar):
            return self.literals.setdefault(t, self._literal_type(t, shape))
        assert isinstance(t, Variable), "an application is typed before its neighbours"
        self.types[t.name] = self._tensor_type(t.name, shape)
        return self.types[t.name]

    def _literal_type(self, literal: Scalar, shape: Shape) -> TensorType:
        return TensorType(self.dtypes.literal(literal), shape)

    def _attribute(
        self, term: Application, name: str, attributes: Mapping[str, AttributeExpression], types: Sequence[TensorType]
    ) -> None:
        expression = attributes.get(name)
        if expression is None or (not types and term.arguments and name not in _FIRST):
            return
        if isinstance(expression, Listing) and types:
            self._blocks_of(expression, types[0].dims)
        try:
            self.binding.value(expression)
        except Unbound:
            known = {n: self._value(e) for n, e in attributes.items()}
            shapes = [t.dims for t in types]
            actual = self._drawn(term, name, expression, shapes, known)
            if not self.binding.unify(expression, frozen(actual)) or not self.binding.settle():
                raise Rejected from None
            self._decided()

    def _blocks_of(self, shape: Listing, dims: Shape) -> None:
        """Blocks that only a new shape names: a regrouping of the elements that its other sizes leave."""
        unbound = [i for i in shape.items if isinstance(i, Block) and i.name not in self.binding.blocks]
        if len(unbound) == 1:
            others = Listing(tuple(i for i in shape.items if i != unbound[0]))
            for name in (n for n in ordered_names(others) if n not in self.binding.names):
                self.binding.names[name] = self.menus.divisor(math.prod(dims))
            taken = math.prod(self.binding.value(others))
            if taken == 0 or math.prod(dims) % taken:
                raise Rejected
            self.binding.blocks[unbound[0].name] = self.menus.grouped(math.prod(dims) // taken)

    def _value(self, expression: AttributeExpression) -> object:
        try:
            return self.binding.value(expression)
        except Unbound:
            return None

    def _drawn(
        self,
        term: Application,
        name: str,
        expression: AttributeExpression,
        shapes: Sequence[Shape],
        known: Mapping[str, object],
    ) -> object:
        if not isinstance(expression, Listing):
            return self.menus.attribute(term.operator, name, shapes, known, None)
        entries = [self._value(e) for e in expression.items if not isinstance(e, Block)]
        return self.menus.attribute(term.operator, name, shapes, known, entries)

    def _operator(self, term: Application, types: Sequence[TensorType]) -> Operator:
        """The term's operator in normal form; rejected when the normal form no longer matches the term."""
        values = {n: self.binding.value(e) for n, e in term.attributes}
        if "dtype" not in values and any(f.name == "dtype" for f in fields(term.operator)):
            values["dtype"] = self.dtypes.result
        normal = term.operator(**values).normal(*types)
        result = normal.infer(*types)
        for name, expression in term.attributes:
            at = term.operator.axis_fields.get(name)
            rank = 0 if at is None else (result if at < 0 else types[at]).rank
            if not self.binding.unify(from_front(expression, rank), getattr(normal, name)):
                raise Rejected
        return normal

    def _decided(self) -> None:
        """Gives up early on a draw that can no longer satisfy a condition."""
        for c in self.rule.conditions:
            known = isinstance(c, Comparison) and names_in(c.left) | names_in(c.right) <= self.binding.names.keys()
            if isinstance(c, Comparison) and known and not self.binding.holds(c):
                raise Rejected

    def _conditions(self) -> None:
        for c in self.rule.conditions:
            if isinstance(c, Comparison) and not self.binding.holds(c):
                raise Rejected
            if isinstance(c, Membership) and self.binding.names.get(c.variable) not in [
                self.binding.value(e) for e in c.menu
            ]:
                raise Rejected


@dataclass(slots=True)
class _Realised:
    """A draw turned into ids, nodes and arrays."""

    draw: _Draw
    values: Values
    feeds: dict[int, Array] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    literals: dict[Term, int] = field(default_factory=dict)

    def instance(self) -> Instance:
        rule, draw = self.draw.rule, self.draw
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
        rights = Builder(self.values, draw.binding, rule.right, self.values.types[left[0]].dtype)
        right, refusal = self._right(rights)
        nodes = dict(sorted((lefts.nodes | ({} if refusal else rights.nodes)).items()))
        if left == right or not all(self._spellable(v, n) for v, n in nodes.items()):
            raise Rejected
        same = right and all(self.values.types[a] == self.values.types[b] for a, b in zip(left, right, strict=True))
        if draw.typed and not same:
            raise Rejected
        placed = (lefts.placed(), {} if refusal else rights.placed())
        return Instance(rule, draw.binding, self.values, nodes, left, right, self.feeds, self.weights, *placed, refusal)

    def _right(self, builder: Builder) -> tuple[tuple[int, ...], str]:
        """The outputs of the right side; none, and why, when it cannot be built."""
        try:
            right = tuple(builder.output(t) for t in self.draw.rule.right.outputs)
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
        conditions = [c for c in self.draw.rule.conditions if isinstance(c, Predicate) and c.name == "number"]
        numbers = {v for c in conditions for v in c.variables}
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
        for p in predicates:
            array = draw.menus.passing(p, array)
        array = np.asarray(array).astype(type_.dtype)
        if any(not PREDICATES[p.name].holds(array, *p.arguments) for p in predicates):
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


__all__ = ["PLAIN", "Instance", "Manner", "draw"]

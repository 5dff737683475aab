"""The sizes, attributes, choices and types of a random instance, drawn from a rule's text alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops.operator import Operator, frozen
from taso_py.ops.rows import Picking
from taso_py.rules.build import from_front
from taso_py.rules.element_types import ElementTypes, sources
from taso_py.rules.instance import PLAIN, Manner, Rejected, limited
from taso_py.rules.menus import NEED_AXES, Menus, Shape, array_kind
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

_FIRST = ("group", "transA", "transB", "blocksize")
"""Attributes that the shapes of operands depend on."""
_EARLY = (*_FIRST, "axis", "axes", "kernel_shape", "dilations", "strides", "starts", "indices_shape")
"""Attributes drawn before the others, which depend on them."""


@dataclass(slots=True)
class Drawing:
    """Types, names and attributes of the left side of a directed rule, drawn term by term."""

    rule: Rule
    random: np.random.Generator
    typed: bool = True
    manner: Manner = PLAIN
    _: KW_ONLY
    binding: Binding = field(default_factory=Binding)
    menus: Menus = field(init=False)
    dtypes: ElementTypes = field(init=False)
    types: dict[str, TensorType] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    literals: dict[Scalar, TensorType] = field(default_factory=dict)
    done: dict[Term, TensorType] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """By variable that holds indices the size of the axis that they are indices of."""

    def __post_init__(self) -> None:
        self.menus = self.manner.menus(self.random)
        self.dtypes = self.manner.types(self.rule, self.random)

    def draw(self) -> None:
        """Draws everything once; raises one of many errors where what was drawn is no instance."""
        self._choices()
        for declaration in self.rule.declarations:
            if declaration.variable in self.rule.left.variables():
                self._declared(declaration)
        for c in self.rule.conditions:
            if isinstance(c, Predicate) and c.kind == "number":
                self.types.update((v, self._tensor_type(v, self.menus.ones())) for v in c.variables)
        for term in self.rule.left.outputs:
            self._type(term)
        if not self.binding.settle() or self.binding.waiting or self.binding.shapes:
            raise Rejected
        self._conditions()

    # ---- names and declared shapes ------------------------------------------------------------------------------

    def _choices(self) -> None:
        menus = [*self.rule.choices, *(c for c in self.rule.conditions if isinstance(c, Membership))]
        for member in menus:
            if not any(names_in(e) for e in member.menu):
                options = [self.binding.value(e) for e in member.menu]
                # What stands first is drawn most often: sizes are small, and steps of 64 rarely fit.
                place = int(len(options) * self.random.random() ** 3)
                self.binding.names.setdefault(member.variable, options[place])

    def _declared(self, declaration: Declaration) -> None:
        dims: list[int] = []
        for axis in declaration.axes:
            dims.extend(self._axis(axis))
        self.types[declaration.variable] = self._tensor_type(declaration.variable, tuple(dims))

    def _tensor_type(self, name: str, shape: Shape) -> TensorType:
        return limited(TensorType(self.dtypes.variable(name), shape))

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
        for other in _equal_to(self.rule).get(name, ()):
            if names_in(other) <= self.binding.names.keys():
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
        first, ordered = _in_order(term)
        for name in first:
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
        for name in ordered:
            self._attribute(term, name, attributes, types)
        if term.operator.onnx in NEED_AXES and not all(t.rank for t in types):
            raise Rejected
        operator, result = self._operator(term, types)
        if isinstance(operator, Picking):
            self._picked(term, types[0].dims[operator.axis_of(types[0])])
        return limited(result)

    def _picked(self, term: Application, rows: Size) -> None:
        """Notes of what size the axis is that variables are indices of, the least of several."""
        for variable in sources(self.rule.left, term.arguments[1]):
            known = self.rows.get(variable.name, rows)
            self.rows[variable.name] = min(r for r in (known, rows) if isinstance(r, int))

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
        return limited(TensorType(self.dtypes.literal(literal), shape))

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
            shapes = [t.dims for t in types]
            actual = self._drawn(term, name, expression, shapes, _Known(self.binding, attributes))
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
        entries = [_known(self.binding, e) for e in expression.items if not isinstance(e, Block)]
        return self.menus.attribute(term.operator, name, shapes, known, entries)

    def _operator(self, term: Application, types: Sequence[TensorType]) -> tuple[Operator, TensorType]:
        """The term's operator in normal form, and its result; rejected when that form no longer matches the term."""
        values = {n: self.binding.value(e) for n, e in term.attributes}
        if "dtype" not in values and "dtype" in term.operator.__dataclass_fields__:
            values["dtype"] = self.dtypes.result
        normal = term.operator(**values).normal(*types)
        result = normal.infer(*types)
        for name, expression in term.attributes:
            at = term.operator.axis_fields.get(name)
            rank = 0 if at is None else (result if at < 0 else types[at]).rank
            if not self.binding.unify(from_front(expression, rank), getattr(normal, name)):
                raise Rejected
        return normal, result

    def _decided(self) -> None:
        """Gives up early on a draw that can no longer satisfy a condition."""
        for c, names in _comparisons(self.rule):
            if names <= self.binding.names.keys() and not self.binding.holds(c):
                raise Rejected

    def _conditions(self) -> None:
        for c in self.rule.conditions:
            if isinstance(c, Comparison) and not self.binding.holds(c):
                raise Rejected
            if isinstance(c, Membership) and self.binding.names.get(c.variable) not in [
                self.binding.value(e) for e in c.menu
            ]:
                raise Rejected


@dataclass(frozen=True, slots=True)
class _Known(Mapping[str, object]):
    """The attributes of a term, None where they are not drawn yet; computed when asked for, which few are."""

    binding: Binding
    attributes: Mapping[str, AttributeExpression]

    def __getitem__(self, name: str) -> object:
        return _known(self.binding, self.attributes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)


def _known(binding: Binding, expression: AttributeExpression) -> object:
    try:
        return binding.value(expression)
    except Unbound:
        return None


@lru_cache(maxsize=4096)
def _comparisons(rule: Rule) -> tuple[tuple[Comparison, frozenset[str]], ...]:
    """The conditions that compare, each with the names in it."""
    found = (c for c in rule.conditions if isinstance(c, Comparison))
    return tuple((c, frozenset(names_in(c.left) | names_in(c.right))) for c in found)


@lru_cache(maxsize=4096)
def _equal_to(rule: Rule) -> dict[str, list[AttributeExpression]]:
    """What conditions say that names are equal to, in the order of the conditions."""
    found: dict[str, list[AttributeExpression]] = {}
    for c in rule.conditions:
        if isinstance(c, Comparison) and c.relation == "==":
            for this, other in ((c.left, c.right), (c.right, c.left)):
                if isinstance(this, Name):
                    found.setdefault(this.name, []).append(other)
    return found


@lru_cache(maxsize=16384)
def _in_order(term: Application) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes of a term that shapes of operands depend on; and all of them as they are drawn."""
    names = dict(term.attributes)
    ordered = sorted(names, key=lambda n: _EARLY.index(n) if n in _EARLY else len(_EARLY))
    return tuple(n for n in _FIRST if n in names), tuple(ordered)

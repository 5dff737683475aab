"""The elements of a graph of operators as normal forms, read off the operators' own meanings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from taso_py.graph.model import Node
from taso_py.graph.sizes import Expression, Size, floor_divide
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.prove.arithmetic import Context, Guard, TooManyTerms, Unprovable, between, guard, replaced
from taso_py.prove.facts import Functions, real
from taso_py.prove.maxima import LOWEST
from taso_py.prove.normal import (
    ZERO,
    Alternative,
    Factor,
    Head,
    Sum,
    Term,
    integer,
    number,
    scaled,
    tidied,
)
from taso_py.prove.simplify import UNROLLED, simplified


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor variable: its name, the factors of its product axes, and what is known of its values."""

    name: str
    digits: Mapping[int, tuple[Size, ...]] = field(default_factory=dict)
    value: Fraction | None = None
    """The number that all its elements are, where that is known."""


@dataclass(frozen=True, slots=True)
class Window:
    """The range of a maximum: bound variables and the guards under which they take part."""

    bound: tuple[tuple[str, Size], ...]
    guards: frozenset[Guard]
    context: Context
    checked: bool
    """Whether the operator is typed only where every window holds an element."""


@dataclass(slots=True)
class Elements:
    """Evaluates elements of values at symbolic indices; ``windows`` collects the ranges of maxima."""

    nodes: Mapping[int, Node]
    types: Mapping[int, TensorType]
    leaves: Mapping[int, Leaf]
    functions: Functions
    windows: list[Window] = field(default_factory=list)
    _checked: bool = False
    domains: dict[tuple[str, Head], list[Term]] = field(default_factory=dict)
    """What must be nonzero, positive or not negative: (which, head) -> the places where it is read.

    A place is a term of one factor, with the guards of its context, and all indices that it depends on bound.
    """

    def element(self, value: int, index: Sequence[Size], context: Context) -> Sum:
        """The element of a value at an index that is in range."""
        index = tuple(tidied(i, context) for i in index)
        leaf = self.leaves.get(value)
        if leaf is not None:
            return self._leaf(leaf, self.types[value], index, context)
        node = self.nodes[value]
        inputs = [i for i in node.inputs if i is not None]
        views = [Operand(k, self.types[i]) for k, i in enumerate(inputs)]
        meaning = node.operator.element(views, index)
        before, self._checked = self._checked, node.operator.onnx in ("MaxPool", "GlobalMaxPool")
        result = simplified(self._scalar(meaning, inputs, context), context)
        self._checked = before
        return result

    def _leaf(self, leaf: Leaf, type_: TensorType, index: tuple[Size, ...], context: Context) -> Sum:
        if leaf.value is not None:
            return number(leaf.value)
        places: list[Size] = []
        for axis, i in enumerate(index):
            digits = leaf.digits.get(axis)
            if type_.dims[axis] == 1:
                places.append(0)
            elif digits is None:
                places.append(i)
            else:
                places += _digits(i, digits, context)
        kind = "truth" if type_.dtype == "bool" else "tensor"
        return (Term(Fraction(1), (Factor(Head(kind, leaf.name), tuple(places)),)),)  # type: ignore[arg-type]

    def _scalar(self, expression: Scalar, inputs: Sequence[int], context: Context) -> Sum:
        match expression:
            case Number(value):
                return _constant(value)
            case Integer(value):
                return integer(tidied(value, context), context.bounds)
            case Read():
                guards, terms = self._read(expression, inputs, context)
                return tuple(t.guarded(guards) for t in terms)
            case Apply(function, arguments, attributes):
                return self._apply(function, arguments, attributes, inputs, context)
            case Choose(conditions, then, otherwise):
                return self._choose(conditions, then, otherwise, inputs, context)
            case Reduce("sum", variable, extent, body):
                try:
                    terms = self._scalar(body, inputs, context.and_((), {variable: extent}))
                except TooManyTerms:
                    if not isinstance(extent, int) or extent > UNROLLED:
                        raise
                    pieces = [_at(body, {variable: k}) for k in range(extent)]
                    return simplified(tuple(t for p in pieces for t in self._scalar(p, inputs, context)), context)
                bound = ((variable, extent),)
                return simplified(tuple(replace(t, bound=bound + t.bound) for t in terms), context)
            case Reduce():
                return self._maximum(expression, inputs, context)

    def _read(self, read: Read, inputs: Sequence[int], context: Context) -> tuple[tuple[Guard, ...], Sum]:
        """The guards that are not evident, and the element under them."""
        value = inputs[read.operand]
        index = tuple(tidied(i, context) for i in read.index)
        wanted = [g for i, d in zip(index, self.types[value].dims, strict=True) for g in between(i, d)]
        guards = tuple(context.reduced(g) for g in wanted if g.decided is not True and not context.evident(g))
        if any(g.decided is False for g in guards):
            return (), ZERO
        return guards, self.element(value, index, context.and_(guards))

    def _apply(
        self, function: str, arguments: Sequence[Scalar], attributes: Sequence[float | Size], inputs: Sequence[int],
        context: Context,
    ) -> Sum:  # fmt: skip
        sums = [simplified(self._scalar(a, inputs, context), context) for a in arguments]
        if function == "max" or function == "min":
            kept = [s for s in sums if s != _infinite(function)]
            if len(kept) < len(sums):
                return kept[0] if len(kept) == 1 else self.functions.apply(function, kept, attributes, context)
        result = self.functions.apply(function, sums, attributes, context)
        if function in ("div", "reciprocal"):
            for t in self.functions.reciprocal(sums[-1], context):
                self._must_be("nonzero", t, t.factors, context)
        elif function in ("sqrt", "log", "pow"):
            for t in result:
                self._must_be(function, t, [f for f in t.factors if f.head.name == function], context)
        return simplified(result, context)

    def _must_be(self, which: str, term: Term, factors: Iterable[Factor], context: Context) -> None:
        bound = (*context.bounds.items(), *term.bound)
        guards = term.guards.union(context.assumptions)
        for f in factors:
            self.domains.setdefault((which, f.head), []).append(Term(Fraction(1), (f,), bound, guards))

    def _choose(
        self, conditions: Sequence[Compare], then: Scalar, otherwise: Scalar, inputs: Sequence[int], context: Context
    ) -> Sum:
        guards = [context.reduced(Guard(tidied(g.value, context), g.kind)) for g in map(guard, conditions)]
        open_ = [g for g in guards if g.decided is not True and not context.evident(g)]
        found: list[Term] = []
        if not any(g.decided is False for g in open_):
            value = self._scalar(then, inputs, context.and_(open_))
            found += [t.guarded(open_) for t in value]
        if otherwise in (Number(0.0), Integer(0)):
            return tuple(found)
        for k, g in enumerate(open_):
            held = (*open_[:k], context.reduced(g.negated))
            if not any(h.decided is False for h in held):
                found += [t.guarded(held) for t in self._scalar(otherwise, inputs, context.and_(held))]
        return tuple(found)

    def _maximum(self, reduce: Reduce, inputs: Sequence[int], context: Context) -> Sum:
        bound: list[tuple[str, Size]] = []
        body: Scalar = reduce
        inner = context
        while isinstance(body, Reduce) and body.kind == "max":
            bound.append((body.variable, body.extent))
            inner = inner.and_((), {body.variable: body.extent})
            body = body.body
        guards: tuple[Guard, ...] = ()
        if isinstance(body, Read):
            guards, value = self._read(body, inputs, inner)
        else:
            value = self._scalar(body, inputs, inner)
        if any(e == 0 for _, e in bound):
            raise Unprovable("a maximum of nothing")
        self.windows.append(Window(tuple(bound), frozenset(guards), context, self._checked))
        terms = simplified(value, inner.and_(guards))
        family = Alternative(terms, tuple(bound), frozenset(guards))
        return simplified(self.functions.maximum([family], context), context)


def _at(expression: Scalar, values: Mapping[str, Size]) -> Scalar:
    """The expression with a variable of its own replaced."""
    match expression:
        case Number():
            return expression
        case Integer(value):
            return Integer(replaced(value, values))
        case Read(operand, index):
            return Read(operand, tuple(replaced(i, values) for i in index))
        case Apply(function, arguments, attributes):
            return Apply(function, tuple(_at(a, values) for a in arguments), attributes)
        case Choose(conditions, then, otherwise):
            tests = tuple(Compare(replaced(c.left, values), c.relation, replaced(c.right, values)) for c in conditions)
            return Choose(tests, _at(then, values), _at(otherwise, values))
        case Reduce(kind, variable, extent, body):
            return Reduce(kind, variable, replaced(extent, values), _at(body, values))


def _digits(index: Size, factors: Sequence[Size], context: Context) -> list[Size]:
    """The digits of a position on a product axis, row-major."""
    found: list[Size] = []
    for extent in reversed(factors[1:]):
        high = tidied(floor_divide(index, extent), context)
        found.append(tidied(index - high * extent, context))
        index = high
    return [index, *reversed(found)]


def _infinite(function: str) -> Sum:
    """What takes no part in a maximum or minimum."""
    return LOWEST if function == "max" else scaled(LOWEST, -1)


def _constant(value: object) -> Sum:
    """A number; a symbolic attribute is a polynomial in real parameters."""
    assert isinstance(value, int | float | Expression)
    if isinstance(value, float) and math.isinf(value):
        return _infinite("max" if value < 0 else "min")
    return real(value)


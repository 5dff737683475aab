"""The elements of a graph of operators as normal forms, read off the operators' own meanings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction

from taso_py.graph.sizes import Expression, Role, Size, Symbol, floor_divide
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.prove.kernel.arithmetic import Context, Guard, TooManyTerms, between, guard, replaced
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.demands import NOWHERE, Among, Chosen, Demand
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.forms import real
from taso_py.prove.kernel.maxima import LOWEST, unbounded
from taso_py.prove.kernel.normal import (
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
from taso_py.prove.kernel.simplify import UNROLLED, simplified
from taso_py.prove.kernel.squares import Signs


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor variable: its name, the factors of its product axes, and what is known of its values."""

    name: str
    digits: Mapping[int, tuple[Size, ...]] = field(default_factory=dict)
    value: Fraction | None = None
    """The number that all its elements are, where that is known."""


@dataclass(frozen=True, slots=True)
class MaximumRange:
    """The range of a maximum: bound variables and the guards under which they take part."""

    bound: tuple[tuple[Symbol, Size], ...]
    guards: frozenset[Guard]
    context: Context
    checked: bool
    """Whether the operator is typed only where every window holds an element."""


_PROPAGATING = frozenset({"add", "mul", "neg", "abs", "sqrt", "log", "leakyrelu", "prelu", "sin", "cos", "where"})
"""Functions that are no finite number where an operand is none; all others may hide an infinity, ..."""
_ARITHMETIC = _PROPAGATING | {
    "div", "reciprocal", "exp", "sigmoid", "tanh", "erf", "softplus", "elu", "selu", "softsign",
}  # fmt: skip
"""... and all but these what is no number at all, as the root of a negative number is: NaN^0 = 1^NaN = 1, too."""
_SELECTING = frozenset({"max", "min", "relu", "where"})
"""Functions that copy an operand."""


@dataclass(slots=True)
class Elements:
    """Evaluates elements of values at symbolic indices; ``windows`` collects the ranges of maxima."""

    nodes: Mapping[int, Node]
    types: Mapping[int, TensorType]
    leaves: Mapping[int, Leaf]
    functions: Functions
    _: KW_ONLY
    windows: list[MaximumRange] = field(default_factory=list)
    _checked: bool = False
    demands: list[Demand] = field(default_factory=list)
    _here: Among = NOWHERE
    """The element that is being evaluated."""

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
        before = self._checked, self._here
        self._checked, self._here = node.operator.onnx in ("MaxPool", "GlobalMaxPool"), Among(value, index)
        try:
            result = simplified(self._scalar(meaning, inputs, context), context)
        finally:
            self._checked, self._here = before
        if node.operator.may_read_more and (self._may_be_undefined(inputs, context) or self._has_infinite(value)):
            raise Unprovable(f"{node.operator.onnx} may read elements that are not defined")
        return result

    def _may_be_undefined(self, values: Sequence[int], context: Context) -> bool:
        """Whether any element of some values, whichever it is, demands something."""
        for value in values:
            dims = self.types[value].dims
            index = [Symbol(f"any{k}", Role.INDEX) for k in range(len(dims))]
            one = Elements(self.nodes, self.types, self.leaves, self.functions)
            one.element(value, [i.size for i in index], context.and_((), dict(zip(index, dims, strict=True))))
            if one.demands:
                return True
        return False

    def _has_infinite(self, value: int) -> bool:
        """Whether a constant that a value is computed from is infinite."""
        level, seen = [value], {value}
        while level:
            node = self.nodes.get(level.pop())
            if node is None:
                continue
            if any(isinstance(a, float) and math.isinf(a) for a in node.operator.attributes().values()):
                return True
            further = {i for i in node.inputs if i is not None} - seen
            seen |= further
            level += further
        return False

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
            case Read(operand, _):
                known = len(self.demands)
                guards, terms = self._read(expression, inputs, context)
                if operand in self.nodes[self._here.value].operator.may_skip:
                    self._may_hide(known)
                return tuple(t.guarded(guards) for t in terms)
            case Apply(function, arguments, attributes):
                return self._apply(function, arguments, attributes, inputs, context)
            case Choose(conditions, then, otherwise):
                return self._choose(conditions, then, otherwise, inputs, context)
            case Reduce("sum", variable, extent, body):
                return self._sum(variable, extent, body, inputs, context)
            case Reduce():
                return self._maximum(expression, inputs, context)

    def _sum(self, variable: Symbol, extent: Size, body: Scalar, inputs: Sequence[int], context: Context) -> Sum:
        bound: tuple[tuple[Symbol, Size], ...] = ((variable, extent),)
        known = len(self.demands), len(self.windows)
        try:
            terms = self._scalar(body, inputs, context.and_((), {variable: extent}))
        except TooManyTerms:
            if not isinstance(extent, int) or extent > UNROLLED:
                raise
            # What the attempt asked for was not yet said to be asked on its path alone.
            del self.demands[known[0] :], self.windows[known[1] :]
            pieces = [_at(body, {variable: k}) for k in range(extent)]
            terms, bound = tuple(t for p in pieces for t in self._scalar(p, inputs, context)), ()
        if unbounded(terms):
            raise Unprovable("an infinite constant is computed with")
        return simplified(tuple(replace(t, bound=bound + t.bound) for t in terms), context)

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
        sums = self._arguments(function, arguments, inputs, context)
        infinite = any(isinstance(a, float) and not math.isfinite(a) for a in attributes)
        if infinite or (function not in _SELECTING and any(map(unbounded, sums))):
            raise Unprovable("an infinite constant is computed with")
        if function == "max" or function == "min":
            kept = [s for s in sums if s != _infinite(function)]
            if len(kept) < len(sums):
                return kept[0] if len(kept) == 1 else self.functions.apply(function, kept, attributes, context)
        result = self.functions.apply(function, sums, attributes, context)
        known = len(self.demands)
        if function in ("div", "reciprocal"):
            # What the divisor itself divides by is never 0 there: 1/(1/y) demands nothing but what 1/y does.
            for term, factor in self.functions.divisors(sums[-1], context):
                self._must_be("nonzero", term, [factor], context)
        elif function in ("sqrt", "log", "pow"):
            for t in result:
                self._must_be(function, t, [f for f in t.factors if f.head.computes(function)], context)
        if Signs(self.functions, context).meet(function, arguments):
            self.demands[known:] = [replace(d, evident=True) for d in self.demands[known:]]
        return simplified(result, context)

    def _arguments(
        self, function: str, arguments: Sequence[Scalar], inputs: Sequence[int], context: Context
    ) -> list[Sum]:
        """The operands; what the second and third of a Where demand, they demand only where they are chosen."""
        sums: list[Sum] = []
        for k, argument in enumerate(arguments):
            known = len(self.demands)
            sums.append(simplified(self._scalar(argument, inputs, context), context))
            if function == "where":
                if k:
                    self._only_where(known, Chosen(sums[0], k == 1))
                else:
                    self._may_hide(known)
            elif function == "prelu" and k:
                self._may_hide(known)  # where x >= 0 its slope is not looked at
            elif function not in _PROPAGATING and not (function == "div" and k == 0):
                self._may_hide(known, keeping="sqrt" if function in _ARITHMETIC else "")
                if function in ("div", "reciprocal"):
                    self._may_vanish(known, sums[-1])
        return sums

    def _may_vanish(self, known: int, divisor: Sum) -> None:
        """1/(a/b) is 0 where b is 0, as b/a is: of the divisors that a product is divided by."""
        below = {(f.head, f.index) for t in divisor for f in t.factors if len(divisor) == 1 and f.power < 0}
        for k in range(known, len(self.demands)):
            (factor,) = self.demands[k].place.factors
            if self.demands[k].which == "nonzero" and (factor.head, factor.index) in below:
                self.demands[k] = replace(self.demands[k], vanishing=True)

    def _only_where(self, known: int, selected: Chosen) -> None:
        """Demands from number ``known`` on hold where they are selected only."""
        for k in range(known, len(self.demands)):
            self.demands[k] = replace(self.demands[k], path=self.demands[k].path | {selected})

    def _may_hide(self, known: int, keeping: str = "") -> None:
        """The element that is being evaluated may be finite without the demands from number ``known`` on.

        Not without those of the kind ``keeping``.
        """
        for k in range(known, len(self.demands)):
            demand = self.demands[k]
            if demand.which != keeping:
                self.demands[k] = replace(demand, hidden=demand.hidden | {self._here})

    def certain(self, typing: Context) -> frozenset[tuple[str, Head, tuple[Size, ...]]]:
        """What is demanded of every element whatever is selected: kind, head and place of each demand under no sum.

        Under no guard but what ``typing`` assumes: where some element lies beside what is demanded, nothing is.
        """
        bare = (d for d in self.demands if not d.path and not d.hidden and not d.place.bound)
        base = frozenset(typing.assumptions)
        plain = (d for d in bare if d.place.guards <= base)
        return frozenset((d.which, d.head, d.place.factors[0].index) for d in plain)

    def _must_be(self, which: str, term: Term, factors: Iterable[Factor], context: Context) -> None:
        inner = tuple((b, e) for b, e in context.bounds.items() if b.role is not Role.INDEX)
        guards = term.guards.union(context.assumptions)
        for f in factors:
            place = Term(Fraction(1), (f,), (*inner, *term.bound), guards)
            self.demands.append(Demand(which, place))

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
        bound: list[tuple[Symbol, Size]] = []
        body: Scalar = reduce
        inner = context
        while isinstance(body, Reduce) and body.kind == "max":
            bound.append((body.variable, body.extent))
            inner = inner.and_((), {body.variable: body.extent})
            body = body.body
        guards: tuple[Guard, ...] = ()
        known = len(self.demands)
        if isinstance(body, Read):
            guards, value = self._read(body, inputs, inner)
        else:
            value = self._scalar(body, inputs, inner)
        self._may_hide(known)
        if any(e == 0 for _, e in bound):
            raise Unprovable("a maximum of nothing")
        self.windows.append(MaximumRange(tuple(bound), frozenset(guards), context, self._checked))
        terms = simplified(value, inner.and_(guards))
        family = Alternative(terms, tuple(bound), frozenset(guards))
        return simplified(self.functions.maximum([family], context), context)


def _at(expression: Scalar, values: Mapping[Symbol, Size]) -> Scalar:
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
    assert isinstance(value, (int, float, Expression))
    if isinstance(value, float) and math.isnan(value):
        raise Unprovable("a constant that is no number")
    if isinstance(value, float) and math.isinf(value):
        return _infinite("max" if value < 0 else "min")
    return real(value)

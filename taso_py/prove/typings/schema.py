"""The typings of a rule: every way in which its left side can be typed, with symbols for sizes and attributes.

A typing fixes what is not a size: numbers of axes, which axes are broadcast, permutations, flags.  Sizes, windows,
steps and real attributes stay symbols, so finitely many typings stand for all instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import deciding
from taso_py.graph.sizes import Size, as_symbol, product
from taso_py.graph.table import Node, Values
from taso_py.graph.types import FLOATS, HALVES, INTEGERS, TensorType
from taso_py.ops.algebra import Algebra, algebra
from taso_py.ops.comparison import Cast
from taso_py.ops.constants import as_held
from taso_py.prove.kernel.arithmetic import Context, Guard
from taso_py.prove.kernel.reals import Real
from taso_py.prove.kernel.values import Leaf
from taso_py.prove.typings.attributes import FIRST, Attributes
from taso_py.prove.typings.choices import NothingToChoose, explored
from taso_py.prove.typings.positions import Ranges, placed
from taso_py.prove.typings.reach import kinds_of
from taso_py.prove.typings.shapes import RANKS, Excluded, Refine, Shapes, Undetermined, Unsupported
from taso_py.prove.typings.site import Site
from taso_py.rules.alpha import names_of
from taso_py.rules.build import Builder, NotBuildable, NotNumber
from taso_py.rules.coverage import Typing
from taso_py.rules.element_types import HELD, plain_type, typed
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Block,
    Listing,
    Quantity,
    Scalar,
    Term,
    Variable,
)
from taso_py.rules.unify import Unbound

_Wanted: TypeAlias = Callable[[str], tuple[Size, ...]]
MOST = 6000
"""Most typings of one rule."""
_MISTYPED = (TypingError, NotBuildable, Unbound, NothingToChoose, LookupError, TypeError, ValueError, ZeroDivisionError)
_EARLY = (
    *FIRST, "axis", "axes", "kernel_shape", "dilations", "strides", "starts", "steps", "ends", "indices",
    "indices_shape",
)  # fmt: skip
"""Attributes that others depend on, in the order in which they are found."""


@dataclass(frozen=True, slots=True)
class Case:
    """One typing: both sides' nodes over one table of values, the variables, and what is assumed."""

    values: Values
    nodes: Mapping[int, Node]
    left: tuple[int, ...]
    right: tuple[int, ...]
    leaves: Mapping[int, Leaf]
    context: Context
    _: KW_ONLY
    nonnegative: frozenset[str]
    positive: frozenset[str]
    nonzero: frozenset[str]
    reals: tuple[Real, ...] = ()
    patterns: tuple[str, ...] = ()
    """What a match has in common with it: without the axes that are parallel throughout, and with all."""
    kinds: frozenset[Algebra] = frozenset()
    """What its operators compute."""
    named: frozenset[str] = frozenset()
    """Sizes and attributes that the law names."""
    required: tuple[tuple[str, Size], ...] = ()
    """What must be >= 0 for the right side to be defined: sizes, what room windows have, indices from both ends."""
    ranges: Ranges = field(default_factory=Ranges)
    """Which elements of variables must be indices in range."""

    @property
    def rank(self) -> int:
        """The most axes of any value."""
        return max((self.values.types[v].rank for v in [*self.nodes, *self.leaves]), default=0)


@dataclass(frozen=True, slots=True)
class Untyped:
    """A combination of choices for which a side is not typed, and why."""

    why: str
    side: str
    definite: bool = True
    """Whether no instance is typed so; otherwise sizes may coincide in an instance that this leaves out."""


def _definite(error: Exception, shapes: Shapes) -> bool:
    """Whether an error stems from numbers of axes or from a condition, which no choice of sizes mends.

    Where all sizes are concrete, what is not typed has no type, unless an attribute is open.
    """
    if isinstance(error, NotBuildable) and error.__cause__ is not None:
        return isinstance(error.__cause__, Exception) and _definite(error.__cause__, shapes)
    if isinstance(error, (RankError, Excluded, NothingToChoose)):
        return True
    concrete = shapes.limit is not None and not shapes.signed
    return concrete and isinstance(error, TypingError) and not isinstance(error, Undetermined)


def typings(
    rule: Rule, limit: int | None = None, site: Site | None = None, *, wide: bool = False
) -> Iterator[Case | Untyped]:
    """Every typing of a directed rule; with a limit, every one with concrete sizes up to it, with a site, those there.

    ``wide`` ones have one axis more than the others, wherever the rule leaves the number open.
    """
    for count, case in enumerate(explored(lambda choices: _typing(rule, Shapes(choices, limit, site, wide)))):
        if count >= MOST:
            raise Unsupported("too many typings")
        yield case


def _typing(rule: Rule, shapes: Shapes) -> Case | Untyped:
    typing, site = _Typing(rule, shapes, dtype=plain_type(rule)), shapes.site
    if site is not None:
        typing.dtype = site.dtype
        typing.binding.names.update(site.names)
    with deciding(typing.decide):
        try:
            typing.left()
        except _MISTYPED as error:
            return Untyped(f"{type(error).__name__}: {error}", "left", definite=_definite(error, typing.shapes))
        return typing.case()


@dataclass(slots=True)
class _Typing(Attributes):
    """One run through the left side, then both sides as nodes."""

    def left(self) -> None:
        self._menus()
        self._equations()
        for declaration in self.rule.declarations:
            if declaration.variable in self.rule.left.variables():
                self._declared(declaration)
        for term in self.rule.left.outputs:
            self._type(term)
        if not self.binding.settle() or self.binding.waiting or self.binding.shapes:
            raise Undetermined("the declarations leave something open")
        for c in self.rule.conditions:
            self._condition(c)
        if self.shapes.site is not None and not all(map(self._as_there, self.types)):
            raise Excluded("another typing than the site's")
        self.shapes.assumptions += [Guard(d - 1, ">=") for d in self.binding.divisors]
        if not self.context.possible(()) or any(r.decided is False for r in self.reals):
            raise Excluded("the conditions exclude it")

    def _as_there(self, name: str) -> bool:
        """Whether a variable's type is one of which the site's is an instance."""
        there = self.shapes.site.ones[name] if self.shapes.site is not None else ()
        dims = self.types[name].dims
        if name in self.rule.tensors_that_are("number"):
            return True
        return len(dims) == len(there) and all(one or d != 1 for d, one in zip(dims, there, strict=True))

    # ---- types of the left side, bottom up -------------------------------------------------------------------------

    def _type(self, term: Term, wanted: _Wanted | None = None) -> TensorType:
        """The type of a term; ``wanted`` gives the shape of a variable that nothing else determines."""
        term = self.rule.left.resolve(term)
        if isinstance(term, Variable):
            if term.name not in self.types:
                shape = wanted(term.name) if wanted and not self._settled(term) else self._free(term.name)
                self.types[term.name] = self._tensor(term.name, shape)
            return self.types[term.name]
        if isinstance(term, Scalar):
            return TensorType(self.dtype, ())
        while term not in self.done:
            try:
                self.done[term] = self._application(term, wanted)
            except Refine as refine:
                self._replace(refine.values)
        return self.done[term]

    def _free(self, name: str) -> tuple[Size, ...]:
        if name in self.rule.tensors_that_are("number"):
            return () if self.shapes.site is None else (1,) * len(self.shapes.site.ones[name])
        if self._pointwise_only():
            return self.shapes.choices.pick(((), (1,), (self._column(),)))
        return self.shapes.sizes(name, self.shapes.rank(name, RANKS))

    def _application(self, term: Application, wanted: _Wanted | None) -> TensorType:
        terms = [self.rule.left.resolve(a) for a in term.arguments]
        attributes = dict(term.attributes)
        for name in FIRST:
            self._attribute(term, name, attributes, [])
        for k in self._order(term, terms):
            self._type(terms[k], lambda name, k=k: self._suggested(term, k, name, terms, attributes, wanted))  # type: ignore[misc]
        types = [self._type(t) for t in terms]
        if term.operator.onnx in ("Concat", "Gemm"):
            for name in ("axis", "transA", "transB"):
                self._attribute(term, name, attributes, types)
        self._unified(term, types)
        for name in sorted(attributes, key=lambda n: _EARLY.index(n) if n in _EARLY else len(_EARLY)):
            self._attribute(term, name, attributes, types)
        self._cuts(term, attributes, types)
        self._positive(attributes)
        self._squeezed(term, attributes, types)
        operator = self._operator(term, types)
        result = operator.infer(*types)
        self.shapes.assumptions += [Guard(size, ">=") for size in (*operator.nonnegative(*types), *result.dims)]
        return result

    def _order(self, term: Application, terms: Sequence[Term]) -> list[int]:
        """Operands in the order of typing: what is settled, then applications, weights before what they act on."""
        rank = {k: 0 if self._settled(t) else 1 if isinstance(t, Application) else 2 for k, t in enumerate(terms)}
        last = {0} if term.operator.onnx in ("LayerNormalization", "RMSNormalization") else set[int]()
        return sorted(range(len(terms)), key=lambda k: (rank[k] - 3 * (k in last), k))

    def _settled(self, t: Term) -> bool:
        if isinstance(t, Variable):
            return t.name in self.types or t.name in self.rule.tensors_that_are("number") or self._pointwise_only()
        return isinstance(t, Scalar)

    def _suggested(
        self, term: Application, k: int, name: str, terms: Sequence[Term],
        attributes: Mapping[str, AttributeExpression], wanted: _Wanted | None,
    ) -> tuple[Size, ...]:  # fmt: skip
        """The shape of the variable ``name``, operand ``k`` of ``term``."""
        known = [self._now(t) for t in terms]
        wide = [t for t, other in zip(known, terms, strict=True) if t and not self._small(other)]
        if term.operator.pointwise and not wide and wanted is not None:
            return wanted(name)
        if term.operator.onnx == "Concat" and wide and "axis" in attributes:
            self._attribute(term, "axis", attributes, wide)
        given = {n: v for n, e in attributes.items() if (v := self._value(e)) is not None}
        shapes = [t.dims if t and not self._small(o) else None for t, o in zip(known, terms, strict=True)]
        rank = _stated_rank(term)
        if rank is not None:
            return self.shapes.sizes(name, rank)
        return self.shapes.operand(term.operator, k, name, shapes, given)

    def _now(self, t: Term) -> TensorType | None:
        """A term's type as far as it is known."""
        if isinstance(t, Variable):
            return self.types.get(t.name)
        return self.done.get(t) if isinstance(t, Application) else None

    def _small(self, t: Term) -> bool:
        """Whether a term is one number."""
        return isinstance(t, Scalar) or (isinstance(t, Variable) and t.name in self.rule.tensors_that_are("number"))

    # ---- both sides ------------------------------------------------------------------------------------------------

    def case(self) -> Case | Untyped:
        values = Values()
        for name, type_ in sorted(self.types.items()):
            self.binding.tensors[name] = values.new(type_)
        builders = [Builder(values, self.binding, side, self.dtype) for side in (self.rule.left, self.rule.right)]
        outputs: list[tuple[int, ...]] = []
        for side, builder in zip((self.rule.left, self.rule.right), builders, strict=True):
            self.binding.divisors.clear()
            try:
                outputs.append(tuple(builder.output(t) for t in side.outputs))
            except _MISTYPED as error:
                which = "right" if side is self.rule.right else "left"
                # A number that the type of this proof does not hold may be one of another type.
                return Untyped(f"{type(error).__name__}: {error}", which, definite=not isinstance(error, NotNumber))
        nodes = {**builders[0].nodes, **builders[1].nodes}
        needs = [*self._divided(), *required(builders[1].nodes, values)]
        leaves = {self.binding.tensors[n]: self._leaf(n) for n in self.types}
        names = {p: self.rule.tensors_that_are(p) for p in ("nonnegative", "positive", "nonzero")}
        if typed(self.rule) and any(map(partial(_wraps, values), nodes.values())):
            raise Unsupported("integers are computed with beside a cast: they wrap at other sizes")
        computing = _computing(values, nodes) if typed(self.rule) else frozenset()
        if len(computing) > 1 or computing & HALVES:
            raise Unsupported(f"computed in {' and '.join(sorted(computing))} beside a cast: one rounds more")
        if _assumed(builders[1].nodes, values) - _assumed(builders[0].nodes, values):
            raise Unsupported("a dilated, padded window of the right side may step over its whole axis")
        patterns = self._signatures(builders, tuple(zip(*outputs, strict=True)))
        sides = builders[0].nodes, builders[1].nodes
        return Case(
            values, placed(nodes, values, leaves), outputs[0], outputs[1], leaves, self.context,
            nonnegative=names["nonnegative"] | self._natural_reals(), positive=names["positive"],
            nonzero=names["nonzero"], reals=tuple(self.reals), patterns=patterns, kinds=kinds_of(nodes, values),
            named=frozenset(names_of(self.rule).sizes), required=tuple(dict.fromkeys(needs)),
            ranges=Ranges.of(sides, values, leaves),
        )  # fmt: skip

    def _divided(self) -> Iterator[tuple[str, Size]]:
        """Sizes by which the right side's attributes divide, by ``//`` and ``%`` or for what a -1 in a shape leaves."""
        yield from (("//", d - 1) for d in self.binding.divisors)
        for term in self.rule.right.applications():
            shape = self._value(dict(term.attributes).get("shape", Quantity(0)))
            if term.operator.onnx == "Reshape" and isinstance(shape, tuple) and -1 in shape:
                yield "Reshape", product(s for s in shape if s != -1) - 1

    def _signatures(self, sides: Sequence[Builder], outputs: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
        left, right = (b.placed() for b in sides)
        types = sides[0].values.types.__getitem__
        typing = Typing(self.rule, left, right, self.binding.tensors, outputs, types, blocks=self.binding.block_ranks())
        return tuple(dict.fromkeys((typing.signature(), typing.signature(whole=True))))

    def _natural_reals(self) -> frozenset[str]:
        """Real attributes that a condition makes non-negative."""
        return frozenset(str(r.value) for r in self.reals if r.kind in (">", ">=") and as_symbol(r.value) is not None)

    def _leaf(self, name: str) -> Leaf:
        dims = self.types[name].dims
        digits = {axis: d for (n, axis), d in self.digits.items() if n == name}
        for axis, d in enumerate(dims):
            if axis not in digits and d in self.shapes.products:
                digits[axis] = self.shapes.products[d]
        return Leaf(name, digits, self._truth(name))

    def _truth(self, name: str) -> Fraction | None:
        """The value of a constant that is all true or all false; of a number that says nothing."""
        told = [p for p in ("true", "false") if name in self.rule.tensors_that_are(p)]
        if told and self.types[name].dtype != "bool":
            raise Unsupported(f"{told[0]}({name}): {name} holds numbers, not truth values")
        return Fraction(told[0] == "true") if told else None


def _wraps(values: Values, node: Node) -> bool:
    """Whether integers are computed with."""
    types = tuple(values.types[i] for i in node.inputs if i is not None)
    return algebra(node.operator, types) != "move" and any(t.dtype in INTEGERS for t in types)


def _computing(values: Values, nodes: Mapping[int, Node]) -> frozenset[str]:
    """The floating types that are computed in, or that hold numbers which one of them rounds."""
    found = set[str]()
    for value, node in nodes.items():
        types = tuple(values.types[i] for i in node.inputs if i is not None)
        numbers = [v for name, v in node.operator.attributes().items() if name in HELD and v is not None]
        rounded = any(not isinstance(v, (int, float)) or _is_rounded(v) for v in numbers)
        if not isinstance(node.operator, Cast) and (algebra(node.operator, types) != "move" or rounded):
            found |= {t.dtype for t in (*types, values.types[value])} & FLOATS
    return frozenset(found)


def _is_rounded(number: float) -> bool:
    """Whether some floating type does not have a number."""
    return math.isfinite(number) and any(as_held(t, number) != number for t in FLOATS)


def _assumed(nodes: Mapping[int, Node], values: Values) -> frozenset[Hashable]:
    """What typing the nodes takes for granted."""
    types = ([values.types[i] for i in node.inputs if i is not None] for node in nodes.values())
    return frozenset[Hashable]().union(
        *(node.operator.assumed(*t) for node, t in zip(nodes.values(), types, strict=True))
    )


def required(nodes: Mapping[int, Node], values: Values) -> Iterator[tuple[str, Size]]:
    """What must be >= 0 for nodes to be defined, each with the operator that needs it."""
    for value, node in nodes.items():
        types = [values.types[i] for i in node.inputs if i is not None]
        for size in (*node.operator.nonnegative(*types), *values.types[value].dims):
            yield node.operator.onnx, size


def _stated_rank(term: Application) -> int | None:
    """The number of axes of the operand, where a list of the term's tells."""
    for name, expression in term.attributes:
        if isinstance(expression, Listing) and not any(isinstance(i, Block) for i in expression.items):
            if name in ("perm", "scales"):
                return len(expression.items)
            if name == "pads" and term.operator.onnx == "Pad":
                return len(expression.items) // 2
    return None

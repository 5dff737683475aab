"""The typings of a rule: every way in which its left side can be typed, with symbols for sizes and attributes.

A typing fixes what is not a size: numbers of axes, which axes are broadcast, permutations, flags.  Sizes, windows,
steps and real attributes stay symbols, so finitely many typings stand for all instances.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from taso_py.errors import TypingError
from taso_py.graph.model import Node, Values
from taso_py.graph.sizes import Size, deciding
from taso_py.graph.types import TensorType
from taso_py.ops.gather import Gather
from taso_py.ops.operator import Operator
from taso_py.ops.pool import AveragePool, MaxPool
from taso_py.prove.arithmetic import Context, Guard
from taso_py.prove.attributes import FIRST, Attributes
from taso_py.prove.choices import Choices, explored
from taso_py.prove.declared import is_symbol
from taso_py.prove.reals import Real
from taso_py.prove.shapes import RANKS, Refine, Shapes, Unsupported
from taso_py.prove.values import Leaf
from taso_py.rules.build import Builder, NotBuildable
from taso_py.rules.coverage import pattern
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Block,
    Listing,
    Predicate,
    Scalar,
    Term,
    Variable,
)
from taso_py.rules.unify import Unbound

_Wanted: TypeAlias = Callable[[str], tuple[Size, ...]]
MOST = 6000
"""Most typings of one rule."""
_NEVER = re.compile(
    r"condition does not hold|conditions exclude|\branks?\b|spatial axes|differ in length|\[\] has no definition"
)
_OPEN = re.compile(r"is open|cannot be made equal|~")
_MISTYPED = (TypingError, NotBuildable, Unbound, LookupError, TypeError, ValueError, ZeroDivisionError)
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
    nonnegative: frozenset[str]
    positive: frozenset[str]
    reals: tuple[Real, ...] = ()
    pattern: str = ""

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


def _definite(error: Exception, limit: int | None) -> bool:
    """Whether an error stems from numbers of axes or from a condition, which no choice of sizes mends.

    Where all sizes are concrete, what is not typed has no type, unless an attribute is open.
    """
    if isinstance(error, TypingError):
        known = limit is not None and not _OPEN.search(str(error))
        return known or bool(_NEVER.search(str(error)))
    return isinstance(error, LookupError)


def typings(rule: Rule, limit: int | None = None) -> Iterator[Case | Untyped]:
    """Every typing of a directed rule; with a limit, every one with concrete sizes up to it."""
    for count, case in enumerate(explored(lambda choices: _typing(rule, choices, limit))):
        if count >= MOST:
            raise Unsupported("too many typings")
        yield case


def _typing(rule: Rule, choices: Choices, limit: int | None) -> Case | Untyped:
    typing = _Typing(rule, Shapes(choices, limit))
    with deciding(typing.decide):
        try:
            typing.left()
        except _MISTYPED as error:
            return Untyped(f"{type(error).__name__}: {error}", "left", definite=_definite(error, limit))
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
            raise TypingError("the declarations leave something open")
        for c in self.rule.conditions:
            self._condition(c)
        if not self.context.possible(()) or any(r.decided is False for r in self.reals):
            raise TypingError("the conditions exclude it")

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
            return TensorType("float32", ())
        while term not in self.done:
            try:
                self.done[term] = self._application(term, wanted)
            except Refine as refine:
                self._replace(refine.values)
        return self.done[term]

    def _free(self, name: str) -> tuple[Size, ...]:
        if name in self._numbers():
            return ()
        if self._pointwise_only():
            return self.shapes.choices.pick(((), (1,), (self._column(),)))
        return self.shapes.sizes(name, self.shapes.choices.pick(RANKS))

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
        self._squeezed(term, attributes, types)
        operator = self._operator(term, types)
        result = operator.infer(*types)
        self.shapes.assumptions += requirements(operator, types)
        return result

    def _order(self, term: Application, terms: Sequence[Term]) -> list[int]:
        """Operands in the order of typing: what is settled, then applications, weights before what they act on."""
        rank = {k: 0 if self._settled(t) else 1 if isinstance(t, Application) else 2 for k, t in enumerate(terms)}
        last = {0} if term.operator.onnx in ("LayerNormalization", "RMSNormalization") else set[int]()
        return sorted(range(len(terms)), key=lambda k: (rank[k] - 3 * (k in last), k))

    def _settled(self, t: Term) -> bool:
        if isinstance(t, Variable):
            return t.name in self.types or t.name in self._numbers() or self._pointwise_only()
        return isinstance(t, Scalar)

    def _numbers(self) -> set[str]:
        return {v for c in self.rule.conditions if isinstance(c, Predicate) and c.name == "number" for v in c.variables}

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
        return isinstance(t, Scalar) or (isinstance(t, Variable) and t.name in self._numbers())

    # ---- both sides ------------------------------------------------------------------------------------------------

    def case(self) -> Case | Untyped:
        values = Values()
        for name, type_ in sorted(self.types.items()):
            self.binding.tensors[name] = values.new(type_)
        builders = [Builder(values, self.binding, side, "float32") for side in (self.rule.left, self.rule.right)]
        outputs: list[tuple[int, ...]] = []
        for side, builder in zip((self.rule.left, self.rule.right), builders, strict=True):
            try:
                outputs.append(tuple(builder.output(t) for t in side.outputs))
            except _MISTYPED as error:
                which = "right" if side is self.rule.right else "left"
                return Untyped(f"{type(error).__name__}: {error}", which)
        nodes = {**builders[0].nodes, **builders[1].nodes}
        for node in builders[1].nodes.values():
            # A right side that is not typed is not built.
            types = [values.types[i] for i in node.inputs if i is not None]
            self.shapes.assumptions += requirements(node.operator, types)
        leaves = {self.binding.tensors[n]: self._leaf(n) for n in self.types}
        names = {p: self._named(p) for p in ("nonnegative", "positive")}
        return Case(
            values, nodes, outputs[0], outputs[1], leaves, self.context,
            names["nonnegative"] | self._natural_reals(), names["positive"], tuple(self.reals),
            self._pattern(builders[0]),
        )  # fmt: skip

    def _pattern(self, left: Builder) -> str:
        placed = {t: (v, left.nodes.get(v)) for t, v in left.done.items()}
        for t in self.rule.left.applications():
            placed.setdefault(t, placed[self.rule.left.resolve(t)])
        return pattern(self.rule, placed, left.values.types.__getitem__)

    def _natural_reals(self) -> frozenset[str]:
        """Real attributes that a condition makes non-negative."""
        return frozenset(str(r.value) for r in self.reals if r.kind in (">", ">=") and is_symbol(r.value))

    def _named(self, predicate: str) -> frozenset[str]:
        found = (c.variables for c in self.rule.conditions if isinstance(c, Predicate) and c.name == predicate)
        return frozenset(v for variables in found for v in variables)

    def _leaf(self, name: str) -> Leaf:
        dims = self.types[name].dims
        digits = {axis: d for (n, axis), d in self.digits.items() if n == name}
        for axis, d in enumerate(dims):
            if axis not in digits and d in self.shapes.products:
                digits[axis] = self.shapes.products[d]
        value = Fraction(1) if name in self._named("true") else Fraction(0) if name in self._named("false") else None
        return Leaf(name, digits, value)


def requirements(operator: Operator, types: Sequence[TensorType]) -> list[Guard]:
    """What the sizes of an application on the left satisfy, or it would not be typed."""
    if isinstance(operator, Gather):
        dim = types[0].dims[operator.axis]
        places: tuple[Size, ...] = operator.indices
        return [Guard(dim - 1 - i, ">=") for i in places if not isinstance(i, int)]
    windows = getattr(operator, "windows", None)
    if windows is None:
        return []
    pool = isinstance(operator, MaxPool | AveragePool)
    spans = windows() if pool else windows(types[1])
    if operator.onnx == "ConvTranspose":
        return []
    found: list[Guard] = []
    for window, dim in zip(spans, types[0].dims[2:], strict=True):
        found.append(Guard(dim + window.begin + window.end - window.extent, ">="))
        if pool:
            found.append(Guard(dim - 1, ">="))
            found += [Guard(window.kernel - 1 - pad, ">=") for pad in (window.begin, window.end)]
    return found


def _stated_rank(term: Application) -> int | None:
    """The number of axes of the operand, where a list of the term's tells."""
    for name, expression in term.attributes:
        if isinstance(expression, Listing) and not any(isinstance(i, Block) for i in expression.items):
            if name == "perm":
                return len(expression.items)
            if name == "pads" and term.operator.onnx == "Pad":
                return len(expression.items) // 2
    return None

"""Which typings a proof covers: a match is rewritten only where it is an instance of one that was proved.

A typing's *signature* has, for each application of both sides, its operands' numbers of axes, its flags and axes,
and along which axes operands are repeated.  Axes that are parallel throughout (`taso_py.rules.axes`) are left out,
so that a proof with few axes stands for any number of these; everything else must be the same number for number.
Nothing is left out for a rule that computes with axes: it says more about them than slices of tensors do.
Of the axes that are left it says what they are: an operator's rows or its batch, entries of a declared shape.
A literal or a ``number(c)`` never enlarges what it meets, no step of a Slice is negative, and nothing that is summed or
regrouped has a size of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache

from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.operator import Operator, broadcast
from taso_py.ops.slicing import Slice
from taso_py.rules.alpha import names_of
from taso_py.rules.axes import Everything, Parallel
from taso_py.rules.element_types import asked, copied, index_terms, indexing, typed
from taso_py.rules.roles import listed_cuts, parts, repeated, roles, shape_of, shared, stretched
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Listing,
    Membership,
    Name,
    Product,
    Quantity,
    Rank,
    Scalar,
    Side,
    Term,
    Variable,
    names_in,
)

_MOVES = frozenset({
    "Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators to which axes without elements are like any other."""
FLAGS = (
    "keepdims", "transA", "transB", "count_include_pad", "flatten", "approximate", "mode", "output", "batch_dims",
)  # fmt: skip
AXES = ("axis", "axes", "perm")
_NO_SIZES = frozenset({*FLAGS, *AXES, "to"})
LISTS = ("indices", "indices_shape")
"""Lists of positions, which proofs look at one by one."""
_ELEMENTWISE = frozenset({"plus"})
"""Functions of lists that treat each entry alike."""

DEFINED = ("by definition",)
"""The typings of a law that states an operator's own definition, as those of variable arity do: all."""

Placed = Mapping[Term, tuple[int, Node | None]]
"""Where the terms of a side are: ids, and nodes of applications."""


@dataclass(frozen=True, slots=True)
class Typing:
    """Both sides of a directed rule as nodes over one table of types."""

    rule: Rule
    left: Placed
    right: Placed
    tensors: Mapping[str, int]
    """The tensor variables."""
    outputs: tuple[tuple[int, int], ...]
    """Each output of the left side with that of the right side."""
    type_of: Callable[[int], TensorType]
    _: KW_ONLY
    blocks: Mapping[str, int]
    """How many axes the blocks have."""
    _applied: list[tuple[Side, Application, int, Node]] = field(default_factory=list, init=False, compare=False)

    def applications(self) -> Sequence[tuple[Side, Application, int, Node]]:
        """Every application with the side it stands on, its value and its node."""
        if not self._applied:
            self._applied.extend(self._applications())
        return self._applied

    def _applications(self) -> Iterator[tuple[Side, Application, int, Node]]:
        for side, placed in ((self.rule.left, self.left), (self.rule.right, self.right)):
            for term in dict.fromkeys(side.applications()):
                value, node = placed.get(term, (-1, None))  # a local name that nothing uses is not built
                if node is not None:
                    yield side, term, value, Node(node.operator, self._operands(side, placed, term))

    def _operands(self, side: Side, placed: Placed, term: Application) -> tuple[int, ...]:
        """The ids of a term's operands: in a graph a variable may also stand for a copy of the constant that it is."""
        terms = map(side.resolve, term.arguments)
        return tuple(self.tensors[t.name] if isinstance(t, Variable) else placed[t][0] for t in terms)

    def parallel(self) -> Parallel:
        """The axes that need not be looked at."""
        if axes_matter(self.rule):
            return Everything(self.type_of)
        placed = self.applications()
        shapes = [(d.axes, self.tensors[d.variable]) for d in self.rule.declarations if d.variable in self.tensors]
        shapes += [(shape, value) for _, term, value, _ in placed if (shape := shape_of(term)) is not None]
        alike = shared(self.blocks, [(axes, value, self.type_of(value).rank) for axes, value in shapes])
        return Parallel.of([(value, node) for _, _, value, node in placed], self.outputs, self.type_of, alike)

    def within(self, limit: int) -> bool:
        """Whether no size, and no entry of an attribute that is no axis, is above a number."""
        values = [*self.tensors.values(), *(value for _, _, value, _ in self.applications())]
        sizes: list[object] = [d for v in values for d in self.type_of(v).dims]
        for _, _, _, node in self.applications():
            given = node.operator.attributes()
            sizes += [e for n, v in given.items() if n not in _NO_SIZES for e in _whole_entries(v)]
        return all(isinstance(n, int) and abs(n) <= limit for n in sizes)

    def of_types(self, types: Collection[str] | None) -> bool:
        """Whether all numbers are of these element types; truths are of type bool, indices are of their own.

        The signature of a law whose meaning depends on types holds them itself.
        """
        if types is None or typed(self.rule):
            return True
        truths, places = asked(self.rule), indexing(self.rule)
        for name, value in self.tensors.items():
            dtype = self.type_of(value).dtype
            if dtype not in types and name not in places and not (dtype == "bool" and name in truths):
                return False
        for side, term, value, _ in self.applications():
            dtype = self.type_of(value).dtype
            if (
                dtype not in types
                and term not in index_terms(side)
                and not (dtype == "bool" and self._true(side, term))
            ):
                return False
        return True

    def _true(self, side: Side, term: Term) -> bool:
        """Whether a term is a truth: compared, or chosen and moved from truths."""
        term = side.resolve(term)
        if isinstance(term, Variable):
            return term.name in asked(self.rule)
        if not isinstance(term, Application):
            return False
        return not copied(term) or all(self._true(side, t) for t in copied(term))

    def signature(self, *, whole: bool = False) -> str:
        """What a match and a proved typing must have in common; ``whole``: with the axes that are parallel, too."""
        axes, numbers = Everything(self.type_of) if whole else self.parallel(), self.rule.tensors_that_are("number")
        words = ["<" if self.rule.backwards else ">"]
        stated, declared = typed(self.rule), {d.variable: d.axes for d in self.rule.declarations}
        if axes_matter(self.rule):
            words += ["*" + ".".join(str(self.blocks.get(b, "-")) for b in names_of(self.rule).blocks)]
        for name in names_of(self.rule).tensors:
            value = self.tensors[name]
            ones = "" if name in numbers else "".join("1" if d == 1 else "d" for d in axes.dims(value))
            shape = () if name in numbers else declared.get(name, ())
            of = parts(shape, self.type_of(value).rank, axes.places(value), self.blocks)
            words.append((ones or "-") + of + (f":{self.type_of(value).dtype}" if stated else ""))
        for side, term, value, node in self.applications():
            first, *others = _words(side, term, value, node, axes, numbers)
            words += [first + self._roles(term, value, node, axes), *others]
        return " ".join(words)

    def _roles(self, term: Application, value: int, node: Node, axes: Parallel) -> str:
        """What the axes of operands and result are to an operator; their element types, where these matter.

        A literal may be of another type than all tensors.
        """
        values = [i for i in (*node.inputs, value) if i is not None]
        found = roles(term, node, [self.type_of(v).rank for v in values], self.blocks)
        kept = ("".join(r[a] for a in axes.places(v) if r) for v, r in zip(values, found, strict=bool(found)))
        types = (self.type_of(v).dtype for v in values)
        return ("|" + ".".join(kept).replace(" ", "").lstrip(".") if found else "") + (
            ":" + ".".join(types) if typed(self.rule) else ""
        )


def _whole_entries(value: object) -> Iterator[object]:
    """The numbers of an attribute that are no real ones."""
    for entry in value if isinstance(value, tuple) else (value,):
        if not isinstance(entry, (float, str, bool, type(None))):
            yield entry


def _words(
    side: Side, term: Application, value: int, node: Node, axes: Parallel, numbers: Collection[str]
) -> Iterator[str]:
    inputs = [i for i in node.inputs if i is not None]
    small = [_is_small(side, a, numbers) and term.operator.pointwise for a in term.arguments]
    operands, result = [axes.dims(i) for i in inputs], axes.dims(value)
    ranks = ["n" if s else str(len(d)) for d, s in zip(operands, small, strict=True)]
    given, told = node.operator.attributes(), listed_cuts(term)
    flags = [f"{n}={given[n]}" for n in FLAGS if n in given]
    flags += [f"{n}={v}" for n, v in given.items() if isinstance(v, float) and math.isinf(v)]
    flags += [f"{n}={given[n]}".replace(" ", "") for n, e in term.attributes if n in LISTS and isinstance(e, Name)]
    yield f"r{'.'.join([*ranks, str(len(result))])}|{';'.join(flags)}|{';'.join(_axes(value, node, axes, told))}"
    if term.operator.pointwise and len(inputs) > 1:
        yield _marks(operands, result, small)
    marks = stretched(node, value, axes)
    if marks:
        yield "b" + ",".join(marks)
    if isinstance(node.operator, Slice) and any(at_least(s, 1) is not True for s in node.operator.steps):
        yield "backwards"
    if not may_be_empty(term.operator) and any(d == 0 for dims in (result, *operands) for d in dims):
        yield "empty"


def may_be_empty(operator: Operator | type[Operator]) -> bool:
    """Whether a match may have a size of 0 in its operands or result."""
    return operator.pointwise or operator.onnx in _MOVES


def _axes(value: int, node: Node, axes: Parallel, told: bool) -> Iterator[str]:
    """The attributes that name axes, these numbered among the axes that matter; ``told``: with a mark for others."""
    inputs = [i for i in node.inputs if i is not None]
    for name in AXES:
        given = getattr(node.operator, name, None)
        if given is None or not inputs:
            continue
        at = node.operator.axis_fields.get(name, 0)
        places = axes.places(value if at < 0 else inputs[at])
        if name == "perm":
            given = [p for b, p in enumerate(given) if axes.keeps(value, b)]
        if isinstance(given, int):
            # The axes before it count: `axis` may also say where the last axes begin.
            yield f"{name}={sum(a < given for a in places)}{'' if given in places else '-'}"
        else:
            absent = ["-"] if told else []
            yield f"{name}={','.join(word for a in given for word in ([str(places[a])] if a in places else absent))}"


def _is_small(side: Side, argument: Term, numbers: Collection[str]) -> bool:
    term = side.resolve(argument)
    return isinstance(term, Scalar) or (isinstance(term, Variable) and term.name in numbers)


def _marks(operands: Sequence[tuple[Size, ...]], result: tuple[Size, ...], small: Sequence[bool]) -> str:
    """One mark per operand: ``-`` for a number, ``+`` for one that enlarges what it meets."""
    others = [d for d, s in zip(operands, small, strict=True) if not s]
    try:
        enlarged = bool(others) and broadcast(*others) != result
    except TypingError:
        enlarged = True
    number = "+" if enlarged else "-"
    return ",".join(number if s else repeated(d, result) for d, s in zip(operands, small, strict=True))


# ---- rules that compute with axes ----------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def axes_matter(rule: Rule) -> bool:
    """Whether sizes or conditions of a rule depend on which or how many axes there are, or on entries by place."""
    axes = {n for side in (rule.left, rule.right) for e in _axis_attributes(side) for n in names_in(e)}
    others = [e for side in (rule.left, rule.right) for e in _other_attributes(side)]
    if any(
        _lists_block(a, n, e) for side in (rule.left, rule.right) for a in side.applications() for n, e in a.attributes
    ):
        return True
    others += [e for d in rule.declarations for axis in d.axes for e in _sizes(axis)]
    for c in (*rule.conditions, *rule.choices):
        if isinstance(c, Membership):
            others += [] if c.variable in axes else list(c.menu)
        elif isinstance(c, Comparison):
            about_axes = names_in(c.left) | names_in(c.right) <= axes and not _ranks(c.left) and not _ranks(c.right)
            others += [] if about_axes else [c.right, *_entries(c)]
    return any(names_in(e) & axes or _ranks(e) or _by_place(e) for e in others)


@lru_cache(maxsize=8192)
def arithmetic_on_axes(rule: Rule) -> bool:
    """Whether a rule computes with axes or orders of axes, so that few axes do not stand for many.

    Places of axes as they are, ``rank(s)`` with a number added, and an order used three times at most are none: an
    equation between orders in which each stands three times at most and that holds for three axes holds for all.
    """
    if axes_matter(rule):
        return True
    axes = {n for side in (rule.left, rule.right) for e in _axis_attributes(side) for n in names_in(e)}
    for c in rule.conditions:
        if isinstance(c, Comparison) and (names_in(c.left) | names_in(c.right)) & axes and not _identity(c):
            return True
    plain = all(_plain(e) for side in (rule.left, rule.right) for e in _axis_attributes(side))
    return not plain or any(_uses(rule.left, name) + _uses(rule.right, name) > 3 for name in axes)


def _lists_block(term: Application, name: str, expression: AttributeExpression) -> bool:
    """Whether an attribute lists a block's sizes otherwise than as a shape of axes."""
    blocks = any(isinstance(p, Listing) and any(isinstance(i, Block) for i in p.items) for p in _parts(expression))
    return blocks and not (name == "shape" and shape_of(term) is not None)


def _sizes(axis: Axis) -> Sequence[AttributeExpression]:
    return () if isinstance(axis, Block) else axis.factors if isinstance(axis, Product) else (axis,)


def _entries(c: Comparison) -> Sequence[AttributeExpression]:
    """What a comparison bounds; ``least(p) >= c`` bounds each entry alike."""
    least = isinstance(c.left, Call) and c.left.function == "least" and c.relation in (">=", ">")
    return c.left.arguments if least and isinstance(c.left, Call) else (c.left,)


def _identity(c: Comparison) -> bool:
    """p == sort(p): the order that changes nothing."""
    return c.relation == "==" and c.right == Call("sort", (c.left,))


def _plain(expression: AttributeExpression) -> bool:
    match expression:
        case Binary("+" | "-", Rank(), Quantity()):
            return True
        case Binary():
            return False
        case Call(function, arguments):
            return function in ("at", "compose", "inverse") and all(map(_plain, arguments))
        case Listing(items):
            return all(isinstance(i, Block) or _plain(i) for i in items)
        case _:
            return True


def _uses(side: Side, name: str) -> int:
    """The most often that one path from an output to a variable uses a name for axes or an order."""

    def deepest(term: Term) -> int:
        term = side.resolve(term)
        if not isinstance(term, Application):
            return 0
        own = sum(p == Name(name) for field, e in term.attributes if field in AXES for p in _parts(e))
        return own + max(map(deepest, term.arguments), default=0)

    return max(map(deepest, side.outputs), default=0)


def _axis_attributes(side: Side) -> Iterator[AttributeExpression]:
    return (e for a in side.applications() for n, e in a.attributes if n in AXES)


def _other_attributes(side: Side) -> Iterator[AttributeExpression]:
    return (e for a in side.applications() for n, e in a.attributes if n not in AXES)


def _parts(expression: AttributeExpression) -> Iterator[AttributeExpression]:
    yield expression
    match expression:
        case Binary(_, left, right):
            yield from (p for e in (left, right) for p in _parts(e))
        case Call(_, arguments):
            yield from (p for e in arguments for p in _parts(e))
        case Listing(items):
            yield from (p for e in items if not isinstance(e, Block) for p in _parts(e))


def _ranks(expression: AttributeExpression) -> bool:
    return any(isinstance(p, Rank) for p in _parts(expression))


def _by_place(expression: AttributeExpression) -> bool:
    """Whether entries of a list are told apart by their place."""
    scalars = ("max", "min", "neg")
    return any(isinstance(p, Call) and p.function not in _ELEMENTWISE.union(scalars) for p in _parts(expression))


# ---- comparing -----------------------------------------------------------------------------------------------------


def covered(patterns: Iterable[str] | None, found: str) -> bool:
    """Whether proved typings cover a signature; without a proof nothing is covered.

    An axis of size 1 is an instance of any size; of size 1 on both sides, of a repeated axis and of an equal one.
    """
    if patterns == DEFINED:
        return True
    return patterns is not None and (found in patterns or instance_of(found, patterns))


def instance_of(found: str, patterns: Iterable[str]) -> bool:
    """Whether a signature is an instance of one of ``patterns``."""
    words = found.split()
    return any(len(k) == len(words) and all(map(_alike, words, k)) for k in map(str.split, patterns))


def _alike(found: str, known: str) -> bool:
    if found == known:
        return True
    if len(found) != len(known) or found[0] == "r" or known[0] == "r":
        return False
    return all(f == k or (f == "?" and k in "=1") or (f == "1" and k == "d") for f, k in zip(found, known, strict=True))

"""All instances of a directed rule over the menus: every way to choose, tried one after the other.

An instance is made by a straight piece of code that *picks* wherever something is open; running it again with the
next picks gives the next instance.  The order follows the rule's text, never its names.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from taso_py.errors import TypingError
from taso_py.graph.table import Node, Values
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.algebra import algebra
from taso_py.ops.comparison import And, Cast, Not, Or, Where
from taso_py.ops.comparison import Relational as ComparingOperator
from taso_py.ops.operator import Operator
from taso_py.ops.space import DepthToSpace, SpaceToDepth
from taso_py.prove.expansion.canonical import LeafFacts
from taso_py.prove.expansion.menus import DTYPES, POOLED, Asked, SmallMenus, operand, regrouped
from taso_py.rules.build import Builder, NotBuildable, from_front
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Comparison,
    Declaration,
    Listing,
    Membership,
    Name,
    Predicate,
    Product,
    Quantity,
    Rank,
    Scalar,
    Side,
    Term,
    Variable,
    names_in,
)
from taso_py.rules.unify import Binding, Unbound

T = TypeVar("T")

_FIRST = ("group", "transA", "transB", "blocksize")
"""Attributes on which the shapes of operands depend."""
_ORDER = (*_FIRST, "axis", "axes", "kernel_shape", "dilations", "strides", "starts", "indices_shape", "split")
_LARGEST_LITERAL = 8
"""Sizes up to this one that a condition names are tried too."""
_MATCHING_DTYPE = "float32"
_NEAR = 20
"""Runs in order that are tried after one that was drawn gives no instance."""


class NoInstance(Exception):
    """These picks give no instance of the rule."""


@dataclass(slots=True)
class Picks:
    """The picks of one run: given ones first, then the first option each, or one drawn from the front."""

    given: list[int] = field(default_factory=list)
    draw: random.Random | None = None
    made: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; `NoInstance` when there is none."""
        if len(options) < 2:
            if not options:
                raise NoInstance
            return options[0]
        at = len(self.made)
        if at < len(self.given):
            chosen = self.given[at]
        elif self.draw is not None:
            chosen = int(len(options) * self.draw.random() ** 1.5)
        else:
            chosen = 0
        self.made.append(chosen)
        self.counts.append(len(options))
        return options[chosen]

    def following(self) -> list[int] | None:
        """The picks of the next run; None after the last one."""
        made = list(self.made)
        while made:
            if made[-1] + 1 < self.counts[len(made) - 1]:
                made[-1] += 1
                return made
            made.pop()
        return None


@dataclass(frozen=True, slots=True)
class SmallInstance:
    """One instance: both sides over ``nodes``; ``right`` is None where the right side cannot be built."""

    rule: Rule
    binding: Binding
    values: Values
    nodes: dict[int, Node]
    left: tuple[int, ...]
    right: tuple[int, ...] | None
    mistyped: str
    leaves: dict[int, tuple[str, LeafFacts]]
    literals: dict[int, float]

    @property
    def elements(self) -> int:
        """Elements of all tensors of both sides."""
        return sum(map(_count, self.values.types.values()))

    @property
    def outputs(self) -> int:
        """Elements of the outputs."""
        return sum(_count(self.values.types[v]) for v in self.left)

    def __str__(self) -> str:
        shapes = [f"{name}: {self.values.types[v]}" for v, (name, _) in self.leaves.items()]
        shapes += [f"{number:g}: {self.values.types[v]}" for v, number in self.literals.items()]
        names = [f"{k}={v}" for k, v in self.binding.names.items()]
        names += [f"*{k}={v}" for k, v in self.binding.blocks.items()]
        return "; ".join(filter(None, (", ".join(shapes), ", ".join(names))))


def _count(type_: TensorType) -> int:
    return math.prod(d for d in type_.dims if isinstance(d, int))


@dataclass(slots=True)
class Enumeration:
    """The instances of a rule over menus, and how many runs it took; ``whole`` when there are no more."""

    rule: Rule
    menus: SmallMenus
    runs: int = 0
    whole: bool = False
    text: _Text = field(init=False)

    def __post_init__(self) -> None:
        self.text = _Text(
            tuple(_in_order(self.rule.left)), frozenset(self.rule.left.variables()), _element_types(self.rule),
            {name: _asked(self.rule, name) for name in self.rule.left.variables()}, _windowed(self.rule),
        )  # fmt: skip

    def every(self, most_runs: int) -> Iterator[SmallInstance]:
        """All instances in order, until ``most_runs`` runs were made."""
        given: list[int] | None = []
        while given is not None and self.runs < most_runs:
            picks = Picks(given)
            instance = self._run(picks)
            given = picks.following()
            if instance is not None:
                yield instance
        self.whole = given is None

    def drawn(self, most_runs: int) -> Iterator[SmallInstance]:
        """Different instances by picks that are drawn, until ``most_runs`` runs were made."""
        draw = random.Random(0)  # noqa: S311
        seen: set[tuple[int, ...]] = set()
        last = self.runs + most_runs
        while self.runs < last:
            picks = Picks(draw=draw)
            instance = self._run(picks)
            for _ in range(_NEAR):
                # What was drawn is no instance: the next one in order, with all that follows drawn anew.
                given = picks.following() if instance is None and self.runs < last else None
                if given is None:
                    break
                picks = Picks(given, draw)
                instance = self._run(picks)
            key = tuple(picks.made)
            if instance is not None and key not in seen:
                seen.add(key)
                yield instance

    def _run(self, picks: Picks) -> SmallInstance | None:
        self.runs += 1
        try:
            return _Making(self.rule, self.menus, picks, self.text).instance()
        except (NoInstance, NotBuildable, TypingError, Unbound):
            # The left side or a condition has no meaning for these picks: no match could have bound them.
            return None


@dataclass(frozen=True, slots=True)
class _Text:
    """What is read off the rule once: the left side's applications and variables, element types, predicates."""

    applications: tuple[Application, ...]
    variables: frozenset[str]
    element_types: dict[str, Sequence[str]]
    asked: dict[str, frozenset[str]]
    windowed: dict[str, tuple[int, ...]]
    """Blocks that windows slide over: the numbers of axes that make images of one or two spatial ones."""


def _windowed(rule: Rule) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for a in _in_order(rule.left):
        if a.operator.onnx in POOLED:
            operands = {t.name for t in map(rule.left.resolve, a.arguments[:2]) if isinstance(t, Variable)}
            for d in rule.declarations:
                blocks = [x.name for x in d.axes if isinstance(x, Block)]
                if d.variable in operands and len(blocks) == 1:
                    plain = len(d.axes) - 1
                    found[blocks[0]] = tuple(r - plain for r in (3, 4, 5) if r >= plain)
    return found


def _asked(rule: Rule, name: str) -> frozenset[str]:
    return frozenset(c.name for c in rule.conditions if isinstance(c, Predicate) and name in c.variables)


@dataclass(slots=True)
class _Making:
    rule: Rule
    menus: SmallMenus
    picks: Picks
    text: _Text
    values: Values = field(default_factory=Values)
    binding: Binding = field(default_factory=Binding)
    leaves: dict[int, tuple[str, LeafFacts]] = field(default_factory=dict)
    literals: dict[int, float] = field(default_factory=dict)
    left: Builder = field(init=False)

    def __post_init__(self) -> None:
        self.left = Builder(self.values, self.binding, self.rule.left, _MATCHING_DTYPE)

    def instance(self) -> SmallInstance:
        self._choices()
        self._first()
        for declaration in self.rule.declarations:
            if declaration.variable in self.text.variables:
                self._declared(declaration)
        left = tuple(self._term(t) for t in self.rule.left.outputs)
        if not self.binding.settle() or self.binding.waiting or self.binding.shapes:
            raise NoInstance
        self._conditions(final=True)
        self.left.dtype = self.values.types[left[0]].dtype
        return self._both(left)

    def _both(self, left: tuple[int, ...]) -> SmallInstance:
        nodes = self.left.nodes
        right: tuple[int, ...] | None = None
        mistyped = ""
        builder = Builder(self.values, self.binding, self.rule.right, self.left.dtype)
        try:
            right = tuple(builder.output(t) for t in self.rule.right.outputs)
        except NotBuildable as error:
            mistyped = f"the right side cannot be built: {error}"
        nodes = {**nodes, **builder.nodes}
        if right is not None:
            mistyped = self._mistyped(left, right)
        self._element_types(nodes)
        return SmallInstance(
            self.rule, self.binding, self.values, nodes, left, right, mistyped, self.leaves, self.literals
        )

    def _mistyped(self, left: Sequence[int], right: Sequence[int]) -> str:
        for a, b in zip(left, right, strict=True):
            one, other = self.values.types[a], self.values.types[b]
            if one != other:
                return f"the left side is {one}, the right side {other}"
        negative = [n for n in self.values.types.values() if any(isinstance(d, int) and d < 0 for d in n.dims)]
        return f"a tensor of shape {negative[0]}" if negative else ""

    def _element_types(self, nodes: dict[int, Node]) -> None:
        """What a match demands: moves hold for any element type, rings for numbers, the rest for floats."""
        kinds = {
            algebra(n.operator, tuple(self.values.types[i] for i in n.inputs if i is not None)) for n in nodes.values()
        }
        if kinds <= {"move"}:
            return
        allowed = {"bool"} | (FLOATS if "real" in kinds else FLOATS | INTEGERS)
        held = (*self.leaves, *self.left.nodes)
        if any(self.values.types[v].dtype not in allowed for v in held):
            raise NoInstance

    # ---- names and declared shapes ---------------------------------------------------------------------------------

    def _choices(self) -> None:
        for member in (*self.rule.choices, *(c for c in self.rule.conditions if isinstance(c, Membership))):
            if not any(names_in(e) for e in member.menu) and member.variable not in self.binding.names:
                self.binding.names[member.variable] = self.picks.pick([self.binding.value(e) for e in member.menu])

    def _first(self) -> None:
        """Attributes on which shapes depend, where a name alone stands for them."""
        for application in self.text.applications:
            for name, expression in application.attributes:
                if name in _FIRST and isinstance(expression, Name) and expression.name not in self.binding.names:
                    self.binding.names[expression.name] = self.picks.pick(self.menus.scalar(name))

    def _declared(self, declaration: Declaration) -> None:
        dims: list[int] = []
        for axis in declaration.axes:
            dims.extend(self._axis(axis))
            self._conditions(final=False)
        self._leaf(declaration.variable, tuple(dims))

    def _axis(self, axis: Axis) -> tuple[int, ...]:
        if isinstance(axis, Block):
            if axis.name not in self.binding.blocks:
                spatial = self.text.windowed.get(axis.name)
                shapes = self.menus.block() if spatial is None else self.menus.shapes(spatial)
                self.binding.blocks[axis.name] = self.picks.pick(shapes)
            dims: tuple[Any, ...] = self.binding.blocks[axis.name]
            return self.picks.pick(_narrowed(dims)) if axis.broadcast else dims
        whole: Any = 1
        for factor in axis.factors if isinstance(axis, Product) else (axis,):
            for name in _names(factor):
                self._size(name)
            whole = whole * self.binding.value(factor)
        if not isinstance(whole, int) or whole < 0:
            raise NoInstance
        return (whole,)

    def _size(self, name: str) -> None:
        if name in self.binding.names:
            return
        pinned = self._pinned(name)
        self.binding.names[name] = self.picks.pick(self._sizes(name)) if pinned is None else pinned

    def _pinned(self, name: str) -> Any:
        """The value that a condition name == expression gives."""
        for c in self.rule.conditions:
            if isinstance(c, Comparison) and c.relation == "==":
                for this, other in ((c.left, c.right), (c.right, c.left)):
                    value = self._value(other) if this == Name(name) else None
                    if value is not None:
                        return value
        return None

    def _sizes(self, name: str) -> Sequence[int]:
        """The menu of a size, with multiples and larger numbers where a condition asks for them."""
        found = list(self.menus.sizes())
        for c in self.rule.conditions:
            if not isinstance(c, Comparison) or name not in names_in(c.left) | names_in(c.right):
                continue
            if isinstance(c.left, Binary) and c.left.operation == "%" and c.left.left == Name(name):
                step = self._value(c.left.right)
                found += [step * n for n in self.menus.sizes()] if isinstance(step, int) and step > 0 else []
            literals = [e.value for e in (c.left, c.right) if isinstance(e, Quantity) and isinstance(e.value, int)]
            found += [v + d for v in literals for d in (0, 1) if self.menus.size < v + d <= _LARGEST_LITERAL]
        return list(dict.fromkeys(found))

    def _value(self, expression: AttributeExpression) -> Any:
        try:
            return self.binding.value(expression)
        except (Unbound, TypeError, ZeroDivisionError):
            return None

    def _leaf(self, name: str, shape: tuple[int, ...]) -> int:
        asked = self.text.asked[name]
        if "number" in asked and math.prod(shape) != 1:
            raise NoInstance
        dtype = self.picks.pick(self.text.element_types[name])
        value = self.binding.tensors[name] = self.values.new(TensorType(dtype, shape))
        self.leaves[value] = (name, LeafFacts(dtype, asked))
        return value

    # ---- the left side, bottom up ----------------------------------------------------------------------------------

    def _term(self, term: Term) -> int:
        term = self.rule.left.resolve(term)
        if isinstance(term, Variable):
            known = self.binding.tensors.get(term.name)
            return self._leaf(term.name, self.picks.pick(self.menus.tensor())) if known is None else known
        if term not in self.left.done:
            if isinstance(term, Scalar):
                self._literal(term, self.picks.pick([(), (1,)]), _MATCHING_DTYPE)
            else:
                self._application(term)
        return self.left.done[term]

    def _literal(self, term: Scalar, shape: tuple[int, ...], dtype: str) -> int:
        value = self.left.done[term] = self.values.new(TensorType(dtype, shape))
        self.literals[value] = term.value
        return value

    def _application(self, term: Application) -> None:
        terms = [self.rule.left.resolve(a) for a in term.arguments]
        known: list[int | None] = [self._term(t) if self._placed(t) else None for t in terms]
        for k, t in enumerate(terms):
            if known[k] is None:
                # The same variable may stand in another operand, which has been placed by now.
                known[k] = self._term(t) if self._placed(t) else self._open(term, k, known, t)
        types = [self.values.types[v] for v in known if v is not None]
        for name, expression in sorted(term.attributes, key=_turn):
            self._attribute(term, name, expression, types)
        value = self.left.output(term)
        self._normal(term, value, types)
        self._conditions(final=False)

    def _placed(self, term: Term) -> bool:
        if isinstance(term, Application):
            return True
        return (isinstance(term, Variable) and term.name in self.binding.tensors) or term in self.left.done

    def _open(self, term: Application, place: int, known: Sequence[int | None], t: Term) -> int:
        """A shape for an operand that nothing has fixed yet."""
        types = [None if v is None else self.values.types[v] for v in known]
        shapes: list[Any] = [None if x is None else x.dims for x in types]
        options: Sequence[Any]
        if isinstance(t, Scalar):
            beside = [x for x in types if x is not None]
            options = list(dict.fromkeys([(), *(x.dims for x in beside)]))
            dtype = beside[0].dtype if beside and term.operator.pointwise else _MATCHING_DTYPE
            return self._literal(t, self.picks.pick(options), dtype)
        assert isinstance(t, Variable)
        given = {n: v for n, e in term.attributes if (v := self._value(e)) is not None}
        rank = _stated_rank(term) if place == 0 else None
        options = (
            operand(self.menus, term.operator, place, shapes, given, self._blocksizes(term.operator))
            if rank is None
            else self.menus.shapes((rank,))
        )
        return self._leaf(t.name, self.picks.pick(options))

    def _blocksizes(self, operator: type[Operator]) -> tuple[int, int]:
        """The products of the block sizes of the left side: of DepthToSpace and of SpaceToDepth."""
        found = {DepthToSpace: 1, SpaceToDepth: 1}
        if operator in found:
            for a in self.text.applications:
                size = self._value(dict(a.attributes).get("blocksize", Quantity(1)))
                if a.operator in found and isinstance(size, int):
                    found[a.operator] *= size
        return found[DepthToSpace], found[SpaceToDepth]

    def _attribute(
        self, term: Application, name: str, expression: AttributeExpression, types: Sequence[TensorType]
    ) -> None:
        if self._is_bound(expression):
            return
        given = {n: self._value(e) for n, e in term.attributes}
        shapes: Any = [t.dims for t in types]
        asked = Asked(term.operator, name, shapes, given)
        if isinstance(expression, Name):
            options = self._wanted(expression.name) or self.menus.attribute(asked)
            self.binding.names[expression.name] = self.picks.pick(options)
        elif isinstance(expression, Listing):
            self._listing(asked, expression)
        else:
            self._inside(expression, lambda: self.menus.scalar(name) if name not in ("axis",) else range(asked.rank))

    def _wanted(self, name: str) -> Sequence[Any]:
        """What a condition says that the name is."""
        pinned = self._pinned(name)
        return [] if pinned is None else [pinned]

    def _listing(self, asked: Asked, listing: Listing) -> None:
        count = len(listing.items)
        for place, item in enumerate(listing.items):
            if isinstance(item, Block):
                if item.name not in self.binding.blocks:
                    self.binding.blocks[item.name] = self.picks.pick(self._block_shapes(asked, listing))
                continue
            entry = Asked(asked.operator, asked.name, asked.shapes, asked.known, place, count)
            self._inside(item, lambda entry=entry: self.menus.entry(entry))

    def _block_shapes(self, asked: Asked, listing: Listing) -> Sequence[tuple[int, ...]]:
        elements = math.prod(asked.shapes[0]) if asked.shapes else 0
        if asked.operator.onnx != "Reshape" or not elements:
            return self.menus.block()
        factors = [d for d in range(1, elements + 1) if elements % d == 0]
        return [s for d in factors for s in regrouped(d, self.menus.blocks)]

    def _inside(self, expression: AttributeExpression, options: Any) -> None:
        """Picks the open names of an expression that is not a name alone."""
        for block in _ranks(expression):
            if block not in self.binding.blocks and block not in self.binding.ranks:
                self.binding.ranks[block] = self.picks.pick(range(self.menus.blocks + 1))
        for name in _names(expression):
            if name not in self.binding.names:
                self.binding.names[name] = self.picks.pick(self._wanted(name) or list(options()))

    def _is_bound(self, expression: AttributeExpression) -> bool:
        try:
            self.binding.value(expression)
        except Unbound:
            return False
        return True

    def _normal(self, term: Application, value: int, types: Sequence[TensorType]) -> None:
        """Rejects attributes that no operator in a graph has: those are in normal form."""
        operator = self.left.nodes[value].operator
        for name, expression in term.attributes:
            at = term.operator.axis_fields.get(name)
            rank = 0 if at is None else (self.values.types[value] if at < 0 else types[at]).rank
            if not self.binding.unify(from_front(expression, rank), getattr(operator, name)):
                raise NoInstance
        allowed = operator.dtypes
        if allowed is not None and types and types[0].dtype not in allowed:
            raise NoInstance

    def _conditions(self, *, final: bool) -> None:
        """Rejects what a condition excludes; in between only conditions whose names are all known."""
        for c in self.rule.conditions:
            if isinstance(c, Comparison) and (final or self._decidable(c)) and not self.binding.holds(c):
                raise NoInstance
            if final and isinstance(c, Membership) and not self._listed(c):
                raise NoInstance

    def _decidable(self, c: Comparison) -> bool:
        return (
            not (_ranks(c.left) or _ranks(c.right))
            and names_in(c.left) | names_in(c.right) <= self.binding.names.keys()
        )

    def _listed(self, c: Membership) -> bool:
        return self.binding.names.get(c.variable) in [self.binding.value(e) for e in c.menu]


# ---- the rule's text -----------------------------------------------------------------------------------------------


def _turn(attribute: tuple[str, AttributeExpression]) -> int:
    return _ORDER.index(attribute[0]) if attribute[0] in _ORDER else len(_ORDER)


def _names(expression: AttributeExpression) -> list[str]:
    """Names in the order of the text."""
    match expression:
        case Name(name):
            return [name]
        case Binary(_, left, right):
            return [*_names(left), *_names(right)]
        case Listing(items):
            return [n for i in items if not isinstance(i, Block) for n in _names(i)]
        case Quantity() | Rank():
            return []
        case _:
            return [n for a in expression.arguments for n in _names(a)]


def _stated_rank(term: Application) -> int | None:
    """The number of axes of the operand, where the length of a list tells."""
    for name, expression in term.attributes:
        if isinstance(expression, Listing) and not any(isinstance(i, Block) for i in expression.items):
            if name == "perm":
                return len(expression.items)
            if name == "pads" and term.operator.onnx == "Pad":
                return len(expression.items) // 2
    return None


def _ranks(expression: AttributeExpression) -> list[str]:
    match expression:
        case Rank(block):
            return [block]
        case Binary(_, left, right):
            return [*_ranks(left), *_ranks(right)]
        case Listing(items):
            return [n for i in items if not isinstance(i, Block) for n in _ranks(i)]
        case Quantity() | Name():
            return []
        case _:
            return [n for a in expression.arguments for n in _ranks(a)]


def _in_order(side: Side) -> list[Application]:
    """All applications in the order of the text."""
    found: list[Application] = []

    def visit(term: Term) -> None:
        if isinstance(term, Application):
            found.append(term)
            for a in term.arguments:
                visit(a)

    for term in (*(t for _, t in side.lets), *side.outputs):
        visit(term)
    return found


def _element_types(rule: Rule) -> dict[str, Sequence[str]]:
    """By tensor variable the element types that are tried."""
    truths: set[str] = set()
    casts = False
    for side in (rule.left, rule.right):
        for a in _in_order(side):
            asked = a.arguments[:1] if a.operator is Where else a.arguments if a.operator in (And, Or, Not) else ()
            truths |= {v for t in asked for v in _sources(side, t)}
            casts = casts or (side is rule.left and a.operator is Cast)
    numbers = DTYPES if casts else (_MATCHING_DTYPE,)
    return {v: ("bool",) if v in truths else numbers for v in rule.left.variables()}


def _sources(side: Side, term: Term) -> set[str]:
    """Variables whose elements a truth value is chosen from."""
    term = side.resolve(term)
    if isinstance(term, Variable):
        return {term.name}
    if isinstance(term, Scalar) or issubclass(term.operator, ComparingOperator | Cast):
        return set()
    chosen = term.arguments[1:] if term.operator is Where else term.arguments
    return set().union(*(_sources(side, a) for a in chosen))


def _narrowed(dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes that broadcast to ``dims`` without enlarging it."""
    found: list[tuple[int, ...]] = [tuple(dims)]
    for start in range(len(dims) + 1):
        rows: list[tuple[int, ...]] = [()]
        for d in dims[start:]:
            rows = [(*row, n) for row in rows for n in dict.fromkeys((d, 1))]
        found += rows
    return list(dict.fromkeys(found))

"""The making of one instance: names, declared shapes, then the left side bottom up, then the right one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from taso_py.graph.table import Node, Values
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.algebra import algebra
from taso_py.ops.operator import Operator
from taso_py.ops.space import DepthToSpace, SpaceToDepth
from taso_py.prove.expansion.canonical import LeafFacts
from taso_py.prove.expansion.instance import SmallInstance
from taso_py.prove.expansion.menus import Asked, SmallMenus, operand, regrouped
from taso_py.prove.expansion.picks import NoInstance, Picks
from taso_py.prove.expansion.rule_text import FIRST, MATCHING_DTYPE, RuleText, ranks_of, stated_rank, turn
from taso_py.rules.build import Builder, NotBuildable, NotNumber, from_front
from taso_py.rules.element_types import index_terms, indexing
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
    Product,
    Quantity,
    Scalar,
    Term,
    Variable,
    names_in,
    ordered_names,
)
from taso_py.rules.unify import Binding, Unbound

_LARGEST_LITERAL = 8
"""Sizes up to this one that a condition names are tried too."""


@dataclass(slots=True)
class Making:
    rule: Rule
    menus: SmallMenus
    picks: Picks
    text: RuleText
    _: KW_ONLY
    values: Values = field(default_factory=Values)
    binding: Binding = field(default_factory=Binding)
    leaves: dict[int, tuple[str, LeafFacts]] = field(default_factory=dict)
    literals: dict[int, float] = field(default_factory=dict)
    left: Builder = field(init=False)

    def __post_init__(self) -> None:
        self.left = Builder(self.values, self.binding, self.rule.left, MATCHING_DTYPE)

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
        except NotNumber:
            raise
        except NotBuildable as error:
            mistyped = f"the right side cannot be built: {error}"
        nodes = {**nodes, **builder.nodes}
        if right is not None:
            mistyped = self._mistyped(left, right)
        self._element_types(nodes)
        self._rows()
        return SmallInstance(
            rule=self.rule,
            binding=self.binding,
            values=self.values,
            nodes=nodes,
            left=left,
            right=right,
            mistyped=mistyped,
            leaves=self.leaves,
            literals=self.literals,
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
        indices = index_terms(self.rule.left)
        moved = {v for t, v in self.left.done.items() if t in indices}
        moved |= {v for v, (name, _) in self.leaves.items() if name in indexing(self.rule)}
        held = {*self.leaves, *self.left.nodes} - moved
        if any(self.values.types[v].dtype not in allowed for v in held):
            raise NoInstance

    def _rows(self) -> None:
        """Rejects empty rows that are looked up: ONNX would refuse indices out of range although no element tells.

        No claim includes them.
        """
        for value, node in self.left.nodes.items():
            ids = [value, *(i for i in node.inputs if i is not None)]
            if node.operator.positions is not None and any(0 in self.values.types[v].dims for v in ids):
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
                if name in FIRST and isinstance(expression, Name) and expression.name not in self.binding.names:
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
            for name in ordered_names(factor):
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
                self._literal(term, self.picks.pick([(), (1,)]), MATCHING_DTYPE)
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
        for name, expression in sorted(term.attributes, key=turn):
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
            dtype = beside[0].dtype if beside and term.operator.pointwise else MATCHING_DTYPE
            return self._literal(t, self.picks.pick(options), dtype)
        assert isinstance(t, Variable)
        given = {n: v for n, e in term.attributes if (v := self._value(e)) is not None}
        rank = stated_rank(term) if place == 0 else None
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
            entry = Asked(asked.operator, asked.attribute, asked.shapes, asked.known, place, count)
            self._inside(item, lambda entry=entry: self.menus.entry(entry))

    def _block_shapes(self, asked: Asked, listing: Listing) -> Sequence[tuple[int, ...]]:
        elements = math.prod(asked.shapes[0]) if asked.shapes else 0
        if asked.operator.onnx != "Reshape" or not elements:
            return self.menus.block()
        factors = [d for d in range(1, elements + 1) if elements % d == 0]
        return [s for d in factors for s in regrouped(d, self.menus.blocks)]

    def _inside(self, expression: AttributeExpression, options: Any) -> None:
        """Picks the open names of an expression that is not a name alone."""
        for block in ranks_of(expression):
            if block not in self.binding.blocks and block not in self.binding.ranks:
                self.binding.ranks[block] = self.picks.pick(range(self.menus.blocks + 1))
        for name in ordered_names(expression):
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
            not (ranks_of(c.left) or ranks_of(c.right))
            and names_in(c.left) | names_in(c.right) <= self.binding.names.keys()
        )

    def _listed(self, c: Membership) -> bool:
        return self.binding.names.get(c.variable) in [self.binding.value(e) for e in c.menu]


def _narrowed(dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes that broadcast to ``dims`` without enlarging it."""
    found: list[tuple[int, ...]] = [tuple(dims)]
    for start in range(len(dims) + 1):
        rows: list[tuple[int, ...]] = [()]
        for d in dims[start:]:
            rows = [(*row, n) for row in rows for n in dict.fromkeys((d, 1))]
        found += rows
    return list(dict.fromkeys(found))

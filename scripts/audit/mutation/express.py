"""A pair of graphs as a law of the rule language: terms with shared parts named, shapes declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from taso_py.graph.sizes import Atom, Floor, Monomial, Size, Symbol
from taso_py.graph.table import Node, Values
from taso_py.ops.constants import Eye, Fill
from taso_py.ops.operator import Operator
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Binary,
    Condition,
    Declaration,
    Listing,
    Name,
    Quantity,
    Scalar,
    Side,
    Term,
    Variable,
)


class NotExpressible(Exception):
    """A graph that the rule language cannot say."""


@dataclass(frozen=True, slots=True)
class Equation:
    """Two lists of values over one table of nodes, equal by construction; ``inputs`` are named."""

    values: Values
    nodes: Mapping[int, Node]
    inputs: Mapping[int, str]
    left: tuple[int, ...]
    right: tuple[int, ...]
    conditions: tuple[Condition, ...] = ()

    def rule(self, name: str) -> Rule:
        """The equation as a law; raises `NotExpressible`."""
        left, right = (_Side(self).side(ids) for ids in (self.left, self.right))
        used = left.variables() | right.variables()
        declarations = tuple(
            Declaration(n, tuple(expression(d) for d in self.values.types[v].dims))
            for v, n in self.inputs.items()
            if n in used
        )
        return Rule(name, left, right, "=>", declarations, self.conditions)

    def ancestors(self, ids: Iterable[int]) -> set[int]:
        """``ids`` and all that they depend on."""
        seen: set[int] = set()
        stack = list(ids)
        while stack:
            value = stack.pop()
            if value not in seen:
                seen.add(value)
                if value in self.nodes and value not in self.inputs:
                    stack.extend(i for i in self.nodes[value].inputs if i is not None)
        return seen


@dataclass(slots=True)
class _Side:
    equation: Equation
    lets: dict[str, Term] = field(default_factory=dict)
    done: dict[int, Term] = field(default_factory=dict)

    def side(self, ids: Sequence[int]) -> Side:
        nodes = self.equation.nodes
        reached = self.equation.ancestors(ids)
        uses = Counter(i for v in reached if v in nodes for i in set(nodes[v].inputs))
        uses.update(ids)
        outputs = tuple(self._term(v, uses) for v in ids)
        return Side(tuple(self.lets.items()), outputs)

    def _term(self, value: int, uses: Mapping[int | None, int]) -> Term:
        if value not in self.done:
            term = self._made(value, uses)
            if isinstance(term, Application) and uses[value] > 1:
                name = f"z{len(self.lets)}"
                self.lets[name] = term
                term = Variable(name)
            self.done[value] = term
        return self.done[value]

    def _made(self, value: int, uses: Mapping[int | None, int]) -> Term:
        if value in self.equation.inputs:
            return Variable(self.equation.inputs[value])
        node = self.equation.nodes[value]
        operator = node.operator
        if isinstance(operator, Fill) and operator.shape == () and operator.value >= 0:
            return Scalar(float(operator.value))
        arguments = tuple(self._term(i, uses) for i in node.inputs if i is not None)
        return Application(type(operator), arguments, _attributes(operator))


def _attributes(operator: Operator) -> tuple[tuple[str, AttributeExpression], ...]:
    """Attributes that differ from ONNX's defaults; the element type of constants goes without saying."""
    found = []
    for f in fields(operator):
        value = getattr(operator, f.name)
        if value == f.default or (isinstance(operator, Eye | Fill) and f.name == "dtype"):
            continue
        assert f.default is not MISSING
        found.append((f.name, _value(value)))
    return tuple(found)


def _value(value: Any) -> AttributeExpression:
    if isinstance(value, tuple):
        return Listing(tuple(map(_value, value)))
    return Quantity(value) if isinstance(value, str | float) else expression(value)


def expression(size: Size) -> AttributeExpression:
    """A size as an attribute expression."""
    if isinstance(size, int):
        return Quantity(size)
    whole: AttributeExpression | None = None
    for monomial, coefficient in sorted(size.terms, key=lambda term: term[1] < 0):
        part = _product(monomial, abs(coefficient))
        if whole is None:
            whole = part if coefficient > 0 else Binary("-", Quantity(0), part)
        else:
            whole = Binary("+" if coefficient > 0 else "-", whole, part)
    assert whole is not None
    return whole


def _product(monomial: Monomial, coefficient: int) -> AttributeExpression:
    factors = [_atom(a) for a in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, Quantity(coefficient))
    whole = factors[0]
    for factor in factors[1:]:
        whole = Binary("*", whole, factor)
    return whole


def _atom(atom: Atom) -> AttributeExpression:
    match atom:
        case Symbol(name):
            return Name(name)
        case Floor(numerator, denominator):
            return Binary("//", expression(numerator), expression(denominator))
        case _:
            raise NotExpressible(f"an entry of a table: {atom}")

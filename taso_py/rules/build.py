"""Building a rule's terms under a substitution, by the operators' ordinary constructors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from taso_py.errors import TypingError
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.constants import Fill, represents
from taso_py.ops.operator import Operator
from taso_py.rules.element_types import DEFAULT
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Binary,
    Block,
    Call,
    Listing,
    Quantity,
    Scalar,
    Side,
    Term,
    Variable,
)
from taso_py.rules.unify import Binding, Unbound


def number_type(binding: Binding, type_of: Callable[[int], TensorType], otherwise: str) -> str:
    """Element type of the literals of a rule: that of its number tensors; what it gives may be truth values."""
    types = (type_of(v).dtype for v in binding.tensors.values())
    return next((t for t in types if t != "bool"), otherwise)


class NotBuildable(Exception):
    """A side cannot be built under this substitution: a name is unbound or an operator refuses its operands."""


@dataclass(slots=True)
class Builder:
    """Interns the nodes of a side; ``nodes`` collects what was built, by id."""

    values: Values
    binding: Binding
    side: Side
    dtype: str
    nodes: dict[int, Node] = field(default_factory=dict)
    done: dict[Term, int] = field(default_factory=dict)

    def placed(self) -> dict[Term, tuple[int, Node | None]]:
        """The terms that were built, local names looked through: their ids, and the nodes of applications."""
        found = {t: (v, self.nodes.get(v)) for t, v in self.done.items()}
        return found | {t: found[r] for t in self.side.applications() if (r := self.side.resolve(t)) in found}

    def output(self, term: Term) -> int:
        """The id of a term's value."""
        term = self.side.resolve(term)
        if term not in self.done:
            self.done[term] = self._build(term)
        return self.done[term]

    def _build(self, term: Term) -> int:
        match term:
            case Variable(name):
                return self.binding.tensors[name]
            case Scalar(value):
                return self._node(Fill(value=value, shape=(), dtype=self.dtype), ())
            case Application(_, arguments, _):
                inputs = tuple(self.output(a) for a in arguments)
                types = tuple(self.values.types[i] for i in inputs)
                return self._node(operator_of(term, types, self.binding, self.dtype), inputs)

    def _node(self, operator: Operator, inputs: tuple[int, ...]) -> int:
        types = tuple(self.values.types[i] for i in inputs)
        try:
            result = operator.infer(*types)
        except TypingError as error:
            raise NotBuildable(str(error)) from error
        node = Node(operator, inputs)
        value = self.values.intern(node, result)
        self.nodes[value] = node
        return value


def operator_of(term: Application, types: tuple[TensorType, ...], binding: Binding, dtype: str) -> Operator:
    """The term's operator with its attributes evaluated, in normal form for the operand types."""
    try:
        attributes: dict[str, Any] = {name: _attribute(e, binding) for name, e in term.attributes}
    except (Unbound, TypeError, ZeroDivisionError, OverflowError) as error:
        raise NotBuildable(str(error)) from error
    if "dtype" not in attributes and "dtype" in {f.name for f in fields(term.operator)}:
        attributes["dtype"] = dtype
    try:
        return term.operator(**attributes).normal(*types)
    except TypingError as error:
        raise NotBuildable(str(error)) from error


def _attribute(expression: AttributeExpression, binding: Binding) -> Any:
    """An attribute's value; one that is computed may be rounded, but not to what the rule says other things of."""
    exact = binding.exact(expression) if isinstance(expression, Binary | Call) else None
    if isinstance(exact, Fraction) and not represents(DEFAULT, exact):
        raise TypeError(f"{float(exact)} is no number of {DEFAULT}")
    return binding.value(expression)


def mentioned(term: Application) -> Mapping[str, AttributeExpression]:
    """Attributes that the term mentions."""
    return dict(term.attributes)


def from_front(expression: AttributeExpression, rank: int) -> AttributeExpression:
    """Literal negative axes counted from the front."""
    if isinstance(expression, Quantity) and isinstance(expression.value, int) and expression.value < 0:
        return Quantity(expression.value + rank)
    if isinstance(expression, Listing):
        return Listing(tuple(i if isinstance(i, Block) else from_front(i, rank) for i in expression.items))
    return expression

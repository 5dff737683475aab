"""Building a rule's terms under a substitution, by the operators' ordinary constructors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least, proving
from taso_py.graph.sizes import Expression as SizeExpression
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.constants import Fill, passes
from taso_py.ops.operator import Operator, field_types
from taso_py.rules.element_types import DEFAULT, HELD
from taso_py.rules.rounding import Constants, NotHeld
from taso_py.rules.signs import is_real
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Binary,
    Block,
    Call,
    Listing,
    Name,
    Quantity,
    Scalar,
    Side,
    Term,
    Variable,
)
from taso_py.rules.unify import Binding, Unbound

_WIDE = {"exponent": "float64"}
"""Real attributes that ONNX does not hold in float32: Pow's exponent is a tensor."""
_BOTH = ("extrapolation_value",)
"""Elements of the result that ONNX holds in float32 all the same."""
_POSITIONS = ("starts", "ends", "indices", "shape")
"""Attributes in which a negative number counts from the end, or stands for what is left."""


def number_type(binding: Binding, type_of: Callable[[int], TensorType], otherwise: str) -> str:
    """Element type of the literals of a rule: that of its number tensors; what it gives may be truth values."""
    types = (type_of(v).dtype for v in binding.tensors.values())
    return next((t for t in types if t != "bool"), otherwise)


class NotBuildable(Exception):
    """A side cannot be built under this substitution: a name is unbound or an operator refuses its operands."""


class NotNumber(NotBuildable):
    """A number that is computed is none of the element type: no match is taken there, and the law says nothing."""


@dataclass(slots=True)
class Builder:
    """Interns the nodes of a side; ``nodes`` collects what was built, by id."""

    values: Values
    binding: Binding
    side: Side
    dtype: str
    nodes: dict[int, Node] = field(default_factory=dict)
    done: dict[Term, int] = field(default_factory=dict)
    constants: Constants = field(init=False, default_factory=Constants)

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
        if isinstance(term, Variable):
            return self.binding.tensors[term.name]
        if isinstance(term, Scalar):
            return self._node(Fill(value=term.value, shape=(), dtype=self.dtype), ())
        inputs = tuple(map(self.output, term.arguments))
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
        if not proving():
            self._require_held(value, node, types)
        self.nodes[value] = node
        return value

    def _require_held(self, value: int, node: Node, types: Sequence[TensorType]) -> None:
        try:
            self.constants.add(value, node, types, self.values.types[value])
        except NotHeld as error:
            raise NotNumber(str(error)) from error


def operator_of(term: Application, types: tuple[TensorType, ...], binding: Binding, dtype: str) -> Operator:
    """The term's operator with its attributes evaluated, in normal form for the operand types."""
    try:
        given = dict(term.attributes).get("dtype")
        made = types[0].dtype if types else dtype if given is None else str(binding.value(given))
        among = (dtype, *(t.dtype for t in types), made)
        attributes: dict[str, Any] = {name: _attribute(term, name, e, binding, among) for name, e in term.attributes}
    except NotHeld as error:
        raise NotNumber(str(error)) from error
    except (Unbound, TypeError, ZeroDivisionError, OverflowError) as error:
        raise NotBuildable(str(error)) from error
    if any(_has_fraction(v) for name, v in attributes.items() if not is_real(term.operator, name)):
        raise NotBuildable("a real number where an integer is asked for")
    if _from_end(term, attributes, binding):
        raise NotBuildable("a position that is computed counts from the end")
    if "dtype" not in attributes and "dtype" in field_types(term.operator):
        attributes["dtype"] = dtype
    try:
        return term.operator(**attributes).normal(*types)
    except TypingError as error:
        raise NotBuildable(str(error)) from error


def _has_fraction(value: Any) -> bool:
    return any(isinstance(v, float) for v in (value if isinstance(value, tuple) else (value,)))


def _from_end(term: Application, attributes: Mapping[str, Any], binding: Binding) -> bool:
    """Whether a position that is not written as a number is negative, which proofs do not take for one from the end.

    A cut backwards ends before the first element: at -1 - n.
    """
    steps = attributes.get("steps", ())
    for name, expression in term.attributes:
        for k, item in enumerate(expression.items if name in _POSITIONS and isinstance(expression, Listing) else ()):
            backwards = name == "ends" and k < len(steps) and isinstance(steps[k], int) and steps[k] < 0
            value = binding.value(item) if isinstance(item, (Name, Binary, Call)) and not backwards else 0
            if isinstance(value, (int, SizeExpression)) and at_least(-1 - value, 0) is True:
                return True
    return False


def _attribute(
    term: Application, name: str, expression: AttributeExpression, binding: Binding, types: Sequence[str]
) -> Any:
    """An attribute's value; a number that is named or computed may be rounded, but not beyond what literals may be.

    A number of a wider type may not be rounded at all: ``types`` are those of the instance, the result's last.
    """
    value = binding.value(expression)
    if is_real(term.operator, name) and not isinstance(expression, Quantity):
        exact = binding.exact(expression)
        held = {types[-1]} if name in HELD else {_WIDE.get(name, DEFAULT)}
        held |= {DEFAULT} if name in _BOTH else set()
        for number in exact if isinstance(exact, tuple) else (exact,):
            if isinstance(number, (int, float, Fraction)) and not all(passes(t, number, types) for t in held):
                raise NotHeld(f"{float(number)} is no number of {' and '.join(sorted(held))}")
            if isinstance(number, SizeExpression) and not proving():
                raise TypeError(f"{number} is not known")
    return value


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

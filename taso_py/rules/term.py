"""Rules as data: terms, attribute expressions, shape declarations and conditions, all immutable.

A rule reads ``left => right for declarations when conditions choose choices``.  Its terms are applications of
operators to variables; attributes, dimensions and conditions are arithmetic over the rule's integer variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from taso_py.ops.operator import Operator

# ---- attribute expressions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """A literal number or string."""

    value: int | float | str


@dataclass(frozen=True, slots=True)
class Name:
    """A rule variable: a size, or a whole attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Rank:
    """``#s``: the number of axes of the block s."""

    block: str


@dataclass(frozen=True, slots=True)
class Binary:
    """left (+ - * / // %) right."""

    operation: Literal["+", "-", "*", "/", "//", "%"]
    left: AttributeExpression
    right: AttributeExpression


@dataclass(frozen=True, slots=True)
class Call:
    """max(a, b), min(a, b), neg(a), sum(p), or a function of `taso_py.rules.functions`."""

    function: str
    arguments: tuple[AttributeExpression, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """[a, b, ...]; a block ``*s`` among the items stands for its sizes."""

    items: tuple[AttributeExpression | Block, ...]


AttributeExpression: TypeAlias = Quantity | Name | Rank | Binary | Call | Listing


# ---- terms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor variable, or a name bound by ``let``."""

    name: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A literal number as a tensor: on the left any constant all of whose elements equal it, on the right a scalar."""

    value: float


@dataclass(frozen=True, slots=True)
class Application:
    """operator(arguments..., attributes...); attributes not mentioned have ONNX's defaults."""

    operator: type[Operator]
    arguments: tuple[Term, ...]
    attributes: tuple[tuple[str, AttributeExpression], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Terms are keys of dictionaries all over; hashing one anew would walk it whole every time.
        object.__setattr__(self, "_hash", hash((self.operator, self.arguments, self.attributes)))

    def __hash__(self) -> int:
        return self._hash


Term: TypeAlias = Variable | Scalar | Application


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a rule: local names, then one term per output."""

    lets: tuple[tuple[str, Term], ...]
    outputs: tuple[Term, ...]

    def resolve(self, term: Term) -> Term:
        """A term with local names replaced by what they stand for, at the top."""
        names = self.names if self.lets else {}
        while isinstance(term, Variable) and term.name in names:
            term = names[term.name]
        return term

    @property
    def names(self) -> dict[str, Term]:
        """Local names."""
        return dict(self.lets)

    def applications(self) -> Iterator[Application]:
        """Every application, local names included."""
        stack: list[Term] = [*self.outputs, *(t for _, t in self.lets)]
        while stack:
            term = stack.pop()
            if isinstance(term, Application):
                yield term
                stack.extend(term.arguments)

    def variables(self) -> frozenset[str]:
        """Tensor variables (local names excluded)."""
        return _variables(self)


@lru_cache(maxsize=4096)
def _variables(side: Side) -> frozenset[str]:
    stack: list[Term] = [*side.outputs, *(t for _, t in side.lets)]
    found: set[str] = set()
    while stack:
        term = stack.pop()
        if isinstance(term, Variable):
            found.add(term.name)
        elif isinstance(term, Application):
            stack.extend(term.arguments)
    return frozenset(found - set(side.names))


# ---- declarations and conditions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """``*s``: any number of axes; ``~s``: axes that broadcast to the block s."""

    name: str
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """``(g c)``: one axis that is the row-major product of factors."""

    factors: tuple[AttributeExpression, ...]


Axis: TypeAlias = Block | Product | AttributeExpression


@dataclass(frozen=True, slots=True)
class Declaration:
    """``x[axes...]``: the shape of a tensor variable."""

    variable: str
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """left relation right."""

    left: AttributeExpression
    relation: Literal["==", "!=", "<", "<=", ">", ">="]
    right: AttributeExpression


@dataclass(frozen=True, slots=True)
class Membership:
    """variable in [menu...]."""

    variable: str
    menu: tuple[AttributeExpression, ...]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on tensor variables' types or constant values, such as ``positive(v)`` or ``constant(w)``."""

    kind: str
    """A word of `taso_py.rules.predicates`."""
    variables: tuple[str, ...]
    arguments: tuple[float, ...] = ()


Condition: TypeAlias = Comparison | Membership | Predicate


@lru_cache(maxsize=1 << 14)
def names_in(expression: AttributeExpression) -> frozenset[str]:
    """Variables of an attribute expression."""
    return frozenset(ordered_names(expression))


@lru_cache(maxsize=1 << 14)
def ordered_names(expression: AttributeExpression) -> tuple[str, ...]:
    """Variables of an attribute expression in the order in which they first stand there."""
    match expression:
        case Name(name):
            return (name,)
        case Binary(_, left, right):
            parts: list[AttributeExpression] = [left, right]
        case Call(_, arguments):
            parts = list(arguments)
        case Listing(items):
            parts = [i for i in items if not isinstance(i, Block)]
        case _:
            return ()
    return tuple(dict.fromkeys(name for part in parts for name in ordered_names(part)))

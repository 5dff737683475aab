"""What is read off a rule's text once, before its instances are made.  The order follows the text, never its names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taso_py.ops.comparison import And, Cast, Not, Or, Where
from taso_py.ops.comparison import Relational as ComparingOperator
from taso_py.prove.expansion.menus import DTYPES, POOLED
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Binary,
    Block,
    Listing,
    Name,
    Predicate,
    Quantity,
    Rank,
    Scalar,
    Side,
    Term,
    Variable,
)

FIRST = ("group", "transA", "transB", "blocksize")
"""Attributes on which the shapes of operands depend."""
_ORDER = (*FIRST, "axis", "axes", "kernel_shape", "dilations", "strides", "starts", "indices_shape", "split")
MATCHING_DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class RuleText:
    """What is read off the rule once: the left side's applications and variables, element types, predicates."""

    applications: tuple[Application, ...]
    variables: frozenset[str]
    element_types: dict[str, Sequence[str]]
    asked: dict[str, frozenset[str]]
    windowed: dict[str, tuple[int, ...]]
    """Blocks that windows slide over: the numbers of axes that make images of one or two spatial ones."""

    @staticmethod
    def of(rule: Rule) -> RuleText:
        """Of a directed rule."""
        variables = rule.left.variables()
        return RuleText(
            tuple(_in_order(rule.left)), frozenset(variables), _element_types(rule),
            {name: _asked(rule, name) for name in variables}, _windowed(rule),
        )  # fmt: skip


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
    return frozenset(c.kind for c in rule.conditions if isinstance(c, Predicate) and name in c.variables)


def turn(attribute: tuple[str, AttributeExpression]) -> int:
    return _ORDER.index(attribute[0]) if attribute[0] in _ORDER else len(_ORDER)


def stated_rank(term: Application) -> int | None:
    """The number of axes of the operand, where the length of a list tells."""
    for name, expression in term.attributes:
        if isinstance(expression, Listing) and not any(isinstance(i, Block) for i in expression.items):
            if name == "perm":
                return len(expression.items)
            if name == "pads" and term.operator.onnx == "Pad":
                return len(expression.items) // 2
    return None


def ranks_of(expression: AttributeExpression) -> list[str]:
    match expression:
        case Rank(block):
            return [block]
        case Binary(_, left, right):
            return [*ranks_of(left), *ranks_of(right)]
        case Listing(items):
            return [n for i in items if not isinstance(i, Block) for n in ranks_of(i)]
        case Quantity() | Name():
            return []
        case _:
            return [n for a in expression.arguments for n in ranks_of(a)]


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
    indices: set[str] = set()
    casts = False
    for side in (rule.left, rule.right):
        for a in _in_order(side):
            asked = a.arguments[:1] if a.operator is Where else a.arguments if a.operator in (And, Or, Not) else ()
            truths |= {v for t in asked for v in _sources(side, t)}
            if a.operator.positions is not None:
                indices |= _sources(side, a.arguments[a.operator.positions])
            casts = casts or (side is rule.left and a.operator is Cast)
    numbers = DTYPES if casts else (MATCHING_DTYPE,)
    given: dict[str, Sequence[str]] = {**dict.fromkeys(indices, ("int64",)), **dict.fromkeys(truths, ("bool",))}
    return {v: given.get(v, numbers) for v in rule.left.variables()}


def _sources(side: Side, term: Term) -> set[str]:
    """Variables whose elements a truth value, or an index, is chosen from."""
    term = side.resolve(term)
    if isinstance(term, Variable):
        return {term.name}
    if isinstance(term, Scalar) or issubclass(term.operator, ComparingOperator | Cast):
        return set()
    chosen = term.arguments[1:] if term.operator is Where else term.arguments
    if term.operator.positions is not None:
        chosen = term.arguments[:1]
    return set().union(*(_sources(side, a) for a in chosen))

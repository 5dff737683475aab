"""Laws about other numbers of axes: blocks added, dropped and fixed, axes off the menu, axes and ranks as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scripts.audit.mutation.scope import FLOATS, every_name, walk
from taso_py.ops import OPERATORS
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Declaration,
    Listing,
    Name,
    Quantity,
    Rank,
    Side,
    Term,
)

_AXES = ("axis", "axes", "perm")
_FIXED = (1, 4)
"""How many named axes stand for a block."""
_OFF_MENU = (3, 4, 5)
_ORDERS = ((1, 2, 3, 4, 0), (0, 2, 1), (3, 0, 1, 2), (1, 0, 3, 2, 5, 4))
_FEW = 3
"""Axes or ranks on which a polynomial vanishes: more than a proof by cases looks at by chance."""


def axis_variants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """(kind of change, rule) for every other number of axes, and every use of an axis as a number."""
    for made in _blocks(rule):
        yield "block", made
    for made in _off_menu(rule):
        yield "axis-off-menu", made
    for made in _as_numbers(rule):
        yield "axis-as-number", made


# ---- blocks --------------------------------------------------------------------------------------------------------


def _blocks(rule: Rule) -> Iterator[Rule]:
    names = every_name(rule)
    fresh = next(n for n in (f"z{k}" for k in range(1000)) if n not in names)
    for places in (range(len(rule.declarations)), *((k,) for k in range(len(rule.declarations)))):
        if places:
            yield replace(rule, declarations=tuple(
                replace(d, axes=(Block(fresh), *d.axes)) if k in places else d for k, d in enumerate(rule.declarations)
            ))  # fmt: skip
    known = {a.name for d in rule.declarations for a in d.axes if isinstance(a, Block)}
    for block in sorted(known - _counted_blocks(rule)):
        for width in (0, *_FIXED):
            yield _widened(rule, block, tuple(Name(f"{fresh}_{k}") for k in range(width)))
        yield _widened(rule, block, (Block(block), Name(fresh)))
        yield _widened(rule, block, (Block(fresh), Block(block)))


def _counted_blocks(rule: Rule) -> set[str]:
    expressions = [e for side in (rule.left, rule.right) for a in side.applications() for _, e in a.attributes]
    return {p.block for e in expressions for p in walk(e) if isinstance(p, Rank)}


def _widened(rule: Rule, block: str, axes: tuple[Block | Name, ...]) -> Rule:
    """The rule with other axes in the place of a block; what broadcasts to the block stays as it is."""

    def declared(d: Declaration) -> Declaration:
        found: list[Axis] = []
        for a in d.axes:
            found.extend(axes if a == Block(block) else (a,))
        return replace(d, axes=tuple(found))

    def listed(_: str, expression: AttributeExpression) -> AttributeExpression:
        if not isinstance(expression, Listing):
            return expression
        items: list[AttributeExpression | Block] = []
        for i in expression.items:
            items.extend(axes if i == Block(block) else (i,))
        return Listing(tuple(items))

    left, right = (_mapped(side, listed) for side in (rule.left, rule.right))
    return replace(rule, left=left, right=right, declarations=tuple(map(declared, rule.declarations)))


# ---- axes ----------------------------------------------------------------------------------------------------------


def _off_menu(rule: Rule) -> Iterator[Rule]:
    """A named axis or order of the right side, or of both sides, that is one which a network seldom has."""
    for name, attribute in _axis_names(rule):
        values = (
            [Listing(tuple(map(Quantity, order))) for order in _ORDERS]
            if attribute == "perm"
            else [Quantity(k) if attribute == "axis" else Listing((Quantity(k),)) for k in _OFF_MENU]
        )
        for value in values:
            changed = _put_for(name, value)
            yield replace(rule, right=_mapped(rule.right, changed))
            yield replace(rule, left=_mapped(rule.left, changed), right=_mapped(rule.right, changed))


def _put_for(name: str, value: AttributeExpression) -> Callable[[str, AttributeExpression], AttributeExpression]:
    def changed(attribute: str, expression: AttributeExpression) -> AttributeExpression:
        return value if attribute in _AXES and expression == Name(name) else expression

    return changed


def _axis_names(rule: Rule) -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for application in rule.left.applications():
        for attribute, expression in application.attributes:
            if attribute in _AXES and isinstance(expression, Name):
                found[expression.name, attribute] = None
    return list(found)


def _as_numbers(rule: Rule) -> Iterator[Rule]:
    """A number that is what it was for the first few axes or ranks, and another one beyond them."""
    blocks = sorted({a.name for d in rule.declarations for a in d.axes if isinstance(a, Block) and not a.broadcast})
    counts: list[AttributeExpression] = [Name(n) for n, attribute in _axis_names(rule) if attribute == "axis"]
    for count in (*counts, *map(Rank, blocks)):
        for first in (0, 1):
            off = _vanishing(count, first)
            attributes = (("value", Binary("+", Quantity(1.0), off)), ("shape", Listing(())))
            number = Application(OPERATORS["Fill"], (), attributes)
            outputs = tuple(Application(OPERATORS["Mul"], (t, number)) for t in rule.right.outputs)
            yield replace(rule, right=replace(rule.right, outputs=outputs))
            yield from _shifted(rule, off)


def _shifted(rule: Rule, by: AttributeExpression) -> Iterator[Rule]:
    """The rule with ``by`` added to the real attributes of the right side."""

    def changed(at: str, e: AttributeExpression) -> AttributeExpression:
        return Binary("+", e, by) if at in FLOATS else e

    right = _mapped(rule.right, changed)
    if right != rule.right:
        yield replace(rule, right=right)


def _vanishing(count: AttributeExpression, first: int) -> AttributeExpression:
    """A product that is 0 for ``first`` and the `_FEW` - 1 numbers after it."""
    whole: AttributeExpression = count if first == 0 else Binary("-", count, Quantity(first))
    for k in range(first + 1, first + _FEW):
        whole = Binary("*", whole, Binary("-", count, Quantity(k)))
    return whole


# ---- attributes ----------------------------------------------------------------------------------------------------


def _mapped(side: Side, change: Callable[[str, AttributeExpression], AttributeExpression]) -> Side:
    """The side with every attribute changed."""

    def mapped(term: Term) -> Term:
        if not isinstance(term, Application):
            return term
        attributes = tuple((n, change(n, e)) for n, e in term.attributes)
        return replace(term, arguments=tuple(map(mapped, term.arguments)), attributes=attributes)

    lets = tuple((name, mapped(term)) for name, term in side.lets)
    return replace(side, lets=lets, outputs=tuple(map(mapped, side.outputs)))

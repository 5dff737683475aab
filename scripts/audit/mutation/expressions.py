"""Wrong attributes: every small change of an attribute expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from scripts.audit.mutation.scope import FAMILY, FLAGS, FLOATS, LISTS, Scope
from taso_py.rules.term import AttributeExpression, Binary, Block, Call, Listing, Name, Quantity, Rank

Operation: TypeAlias = Literal["+", "-", "*", "/", "//", "%"]

_MODES: Mapping[str, str] = {
    "DCR": "CRD", "CRD": "DCR", "asymmetric": "half_pixel", "half_pixel": "asymmetric", "floor": "ceil",
    "round_prefer_floor": "floor", "none": "tanh", "tanh": "none", "nearest": "linear", "constant": "edge",
}  # fmt: skip
_OPERATIONS: Mapping[Operation, Sequence[Operation]] = {
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "//": ("*",), "%": ("//",),
}  # fmt: skip
_MOST_NAMES = 3
"""How many other names are put in the place of one."""


def attribute_variants(
    name: str, expression: AttributeExpression, scope: Scope
) -> Iterator[tuple[str, AttributeExpression | None]]:
    """(kind of change, new value) for the attribute ``name``; None stands for leaving it to its default."""
    kind = FAMILY.get(name, "mode")
    yield kind, None
    if name in FLAGS:
        yield kind, _flipped(expression)
    elif name in LISTS:
        yield from ((kind, e) for e in _lists(name, expression, scope))
    elif name in FLOATS:
        yield from ((kind, e) for e in _floats(expression, scope))
    elif kind == "mode":
        if isinstance(expression, Quantity) and isinstance(expression.value, str):
            yield kind, Quantity(_MODES.get(expression.value, expression.value))
        yield from ((kind, Name(other)) for other in _others(expression, scope.others))
    else:
        yield from ((kind, e) for e in integers(expression, scope))


def shifted(expression: AttributeExpression, by: int) -> AttributeExpression:
    """expression + by."""
    if isinstance(expression, Quantity) and isinstance(expression.value, int):
        return Quantity(expression.value + by)
    return Binary("+" if by > 0 else "-", expression, Quantity(abs(by)))


def integers(expression: AttributeExpression, scope: Scope) -> Iterator[AttributeExpression]:
    """Other integers than ``expression``: one more, one less, and what `parts` gives."""
    if isinstance(expression, Listing | Quantity) and not isinstance(getattr(expression, "value", None), int):
        return
    yield shifted(expression, 1)
    yield shifted(expression, -1)
    yield from parts(expression, scope)


def parts(expression: AttributeExpression, scope: Scope) -> Iterator[AttributeExpression]:
    """Another name for a name, an operand of an operation, another operation."""
    match expression:
        case Name():
            yield from map(Name, _others(expression, scope.sizes))
        case Binary(operation, left, right):
            yield left
            yield right
            yield from (Binary(other, left, right) for other in _OPERATIONS[operation])
            if operation in ("-", "/", "//", "%"):
                yield Binary(operation, right, left)
            yield from (Binary(operation, e, right) for e in _inner(left, scope))
            yield from (Binary(operation, left, e) for e in _inner(right, scope))
        case Call():
            yield from _calls(expression)
        case Rank():
            yield Quantity(0)


def _inner(expression: AttributeExpression, scope: Scope) -> Iterator[AttributeExpression]:
    if isinstance(expression, Quantity) and isinstance(expression.value, int):
        yield shifted(expression, 1)
    elif not isinstance(expression, Quantity):
        yield from parts(expression, scope)


def _calls(call: Call) -> Iterator[AttributeExpression]:
    yield from call.arguments if call.function != "at" else call.arguments[1:]
    if call.function in ("max", "min"):
        yield replace(call, function="min" if call.function == "max" else "max")
    if len(call.arguments) == 2 and call.function in ("compose", "plus") and call.arguments[0] != call.arguments[1]:
        yield replace(call, arguments=call.arguments[::-1])
    if call.function == "at":
        table, index = call.arguments
        yield Call("at", (Call("inverse", (table,)), index))
    for k, argument in enumerate(call.arguments):
        if isinstance(argument, Call | Binary):
            for changed in _calls(argument) if isinstance(argument, Call) else (argument.left, argument.right):
                yield replace(call, arguments=(*call.arguments[:k], changed, *call.arguments[k + 1 :]))


def _flipped(expression: AttributeExpression) -> AttributeExpression:
    if isinstance(expression, Quantity) and isinstance(expression.value, int):
        return Quantity(1 - expression.value)
    return Binary("-", Quantity(1), expression)


def _others(expression: AttributeExpression, names: Mapping[str, None]) -> list[str]:
    own = expression.name if isinstance(expression, Name) else ""
    found = list(names)
    at = found.index(own) + 1 if own in found else 0
    return [n for n in (*found[at:], *found[:at]) if n != own][:_MOST_NAMES]


def _lists(name: str, expression: AttributeExpression, scope: Scope) -> Iterator[AttributeExpression]:
    match expression:
        case Listing(items):
            yield from _entries(name, items, scope)
        case Name():
            yield from map(Name, _others(expression, scope.lists))
            if name == "perm":
                yield Call("inverse", (expression,))
            if FAMILY[name] in ("pad", "stride", "dilation", "window"):
                yield Call("plus", (expression, expression))
        case Call():
            yield from _calls(expression)
            if name == "perm":
                yield Call("inverse", (expression,))


def _entries(name: str, items: Sequence[AttributeExpression | Block], scope: Scope) -> Iterator[AttributeExpression]:
    """One entry changed, neighbours swapped, the two pads of an axis swapped."""
    half = len(items) // 2
    pairs = [(k, k + 1) for k in range(len(items) - 1)]
    if FAMILY[name] == "pad" and half > 1:
        pairs += [(k, k + half) for k in range(half)]
    for j, k in pairs:
        if items[j] != items[k]:
            swapped = list(items)
            swapped[j], swapped[k] = swapped[k], swapped[j]
            yield Listing(tuple(swapped))
    for k, item in enumerate(items):
        if not isinstance(item, Block) and not (name == "shape" and item == Quantity(-1)):
            yield from (Listing((*items[:k], e, *items[k + 1 :])) for e in integers(item, scope))


def _floats(expression: AttributeExpression, scope: Scope) -> Iterator[AttributeExpression]:
    match expression:
        case Quantity(value) if isinstance(value, int | float):
            finite = abs(value) != float("inf")
            near = (value + 1.0, -float(value), value / 2) if finite else (-float(value), 2.0)
            yield from map(Quantity, dict.fromkeys((0.0, 1.0, *near)))
        case Name():
            yield from map(Name, _others(expression, scope.floats))
            yield Binary("+", expression, Quantity(1.0))
            yield Binary("*", expression, Quantity(2.0))
            yield Quantity(0.0)
            yield Quantity(1.0)
        case Binary() | Call():
            yield Binary("+", expression, Quantity(1.0))
            yield from parts(expression, Scope(sizes=scope.floats))

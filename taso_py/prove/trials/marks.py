"""The numbers that a rule mentions: its functions may bend or break near them."""

from __future__ import annotations

from collections.abc import Iterator

from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, AttributeExpression, Binary, Call, Comparison, Quantity, Scalar, Side

_LARGEST = 1e30


def marks(rule: Rule) -> tuple[float, ...]:
    """The numbers that a rule mentions."""
    found: dict[float, None] = {}
    for side in (rule.left, rule.right):
        for number in _numbers(side):
            found[number] = None
    for condition in rule.conditions:
        if isinstance(condition, Comparison):
            found.update(dict.fromkeys((*_in(condition.left), *_in(condition.right))))
    return tuple(float(number) for number in found if -_LARGEST < number < _LARGEST)


def _numbers(side: Side) -> Iterator[float]:
    for output in side.outputs:
        if isinstance(output, Scalar):
            yield output.value
    for application in side.applications():
        yield from (a.value for a in application.arguments if isinstance(a, Scalar))
        yield from _attribute_numbers(application)


def _attribute_numbers(application: Application) -> Iterator[float]:
    for _, expression in application.attributes:
        yield from _in(expression)


def _in(expression: AttributeExpression) -> Iterator[float]:
    match expression:
        case Quantity(value) if isinstance(value, (int, float)):
            yield value
        case Binary(_, left, right):
            yield from _in(left)
            yield from _in(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from _in(argument)

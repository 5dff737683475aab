"""Binding a rule's integer variables, attributes and axis blocks to what stands in a graph.

Equations such as ``2*g == 64`` are solved when all but one name is known; the others wait.  A product is never
factorised: a factor is bound from an attribute or another shape, and the last one by exact division.
"""

from __future__ import annotations

import math
import operator as python_operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Expression, Size, product, symbol, symbols
from taso_py.rules.functions import FUNCTIONS
from taso_py.rules.term import (
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Listing,
    Name,
    Product,
    Quantity,
    Rank,
    names_in,
)

Value = Any
"""A size, a float, a string, or a tuple of these; while it is computed a fraction in place of a finite float."""
_PLAIN = (float, Fraction, str, tuple)
"""What is not a size."""

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": python_operator.add,
    "-": python_operator.sub,
    "*": python_operator.mul,
    "/": python_operator.truediv,
    "//": python_operator.floordiv,
    "%": python_operator.mod,
}


_RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": python_operator.eq,
    "!=": python_operator.ne,
    "<": python_operator.lt,
    "<=": python_operator.le,
    ">": python_operator.gt,
    ">=": python_operator.ge,
}


class Unbound(Exception):
    """An expression uses a name that nothing has bound yet."""


@dataclass(slots=True)
class Binding:
    """A substitution: tensor variables to value ids, names to sizes or attributes, blocks to dimensions."""

    tensors: dict[str, int] = field(default_factory=dict)
    names: dict[str, Value] = field(default_factory=dict)
    blocks: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    waiting: list[tuple[AttributeExpression, Value]] = field(default_factory=list)
    shapes: list[tuple[tuple[Axis, ...], tuple[Size, ...]]] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)
    """Numbers of axes of blocks, known from an axis attribute before the block itself is."""

    def copy(self) -> Binding:
        """An independent copy."""
        return Binding(
            dict(self.tensors),
            dict(self.names),
            dict(self.blocks),
            list(self.waiting),
            list(self.shapes),
            dict(self.ranks),
        )

    def value(self, expression: AttributeExpression) -> Value:
        """The expression's value, a real one rounded once; raises `Unbound`."""
        found = self.exact(expression)
        return found if type(found) is int else _rounded(found)

    def exact(self, expression: AttributeExpression) -> Value:
        """The expression's value as proofs have it, real numbers as fractions; raises `Unbound`."""
        # The innermost step of every draw, match and proof: class patterns take three times as long.
        if isinstance(expression, Quantity):
            return _exact(expression.value)
        if isinstance(expression, Name):
            if expression.name not in self.names:
                raise Unbound(expression.name)
            return _exact(self.names[expression.name])
        if isinstance(expression, Listing):
            return tuple(v for i in expression.items for v in self._entries(i))
        if isinstance(expression, Binary):
            return self.operate(expression.operation, self.exact(expression.left), self.exact(expression.right))
        if isinstance(expression, Call):
            return _call(expression.function, [self.exact(a) for a in expression.arguments])
        rank = self._rank(expression.block)
        if rank is None:
            raise Unbound(expression.block)
        return rank

    def operate(self, operation: str, left: Value, right: Value) -> Value:
        """left (+ - * / // %) right."""
        return _arithmetic(operation, left, right)

    def _entries(self, item: AttributeExpression | Block) -> tuple[Value, ...]:
        if not isinstance(item, Block):
            return (self.exact(item),)
        if item.name not in self.blocks:
            raise Unbound(item.name)
        return self.blocks[item.name]

    def block_ranks(self) -> dict[str, int]:
        """The numbers of axes of blocks, as far as they are known."""
        return self.ranks | {name: len(dims) for name, dims in self.blocks.items()}

    def _rank(self, block: str) -> int | None:
        return len(self.blocks[block]) if block in self.blocks else self.ranks.get(block)

    def unify(self, expression: AttributeExpression, actual: Value) -> bool:
        """Makes ``expression == actual`` true or puts it off; False when it cannot be true."""
        if isinstance(expression, Name):
            return _same(self.names.setdefault(expression.name, actual), actual)
        if isinstance(expression, Listing):
            return isinstance(actual, tuple) and self.unify_shape(expression.items, actual)
        if isinstance(expression, Rank):
            rank = self._rank(expression.block)
            if rank is None and isinstance(actual, int):
                rank = self.ranks[expression.block] = actual
            return rank is not None and rank == actual
        return self._equation(expression, actual)

    def _equation(self, expression: AttributeExpression, actual: Value) -> bool:
        try:
            return _same(self.value(expression), actual)
        except Unbound:
            pass
        except (TypeError, ZeroDivisionError):
            return False
        solved = self._solve(expression, actual)
        if solved is None:
            self.waiting.append((expression, actual))
            return True
        return solved

    def _solve(self, expression: AttributeExpression, actual: Value) -> bool | None:
        """Binds the only unknown of a linear equation; None when there are several."""
        unknown = [n for n in names_in(expression) if n not in self.names]
        if len(unknown) != 1 or isinstance(actual, (float, str, tuple)):
            return None
        marker = symbol("?" + unknown[0])
        self.names[unknown[0]] = marker
        try:
            whole = self.value(expression)
        except (Unbound, TypeError):
            del self.names[unknown[0]]
            return None
        del self.names[unknown[0]]
        root = _linear_root(whole - actual, marker)
        if root is None:
            return False
        self.names[unknown[0]] = root
        return True

    def unify_shape(self, axes: tuple[Axis, ...], dims: tuple[Size, ...]) -> bool:
        """Makes a declared shape equal to ``dims`` or puts it off."""
        blocks = [a for a in axes if isinstance(a, Block)]
        free = [b for b in blocks if b.broadcast or self._rank(b.name) is None]
        plain = len(axes) - len(blocks)
        known = sum(self._rank(b.name) or 0 for b in blocks if b not in free)
        if not free:
            return known + plain == len(dims) and self._axes(axes, dims)
        if len(free) == 1 and not (free[0].broadcast and free[0].name not in self.blocks):
            extra = len(dims) - plain - known
            return extra >= 0 and self._axes(axes, dims, extra)
        self.shapes.append((axes, dims))
        return True

    def _axes(self, axes: Sequence[Axis], dims: tuple[Size, ...], extra: int = 0) -> bool:
        at = 0
        for axis in axes:
            if isinstance(axis, Block):
                bound = self.blocks.get(axis.name)
                if axis.broadcast:
                    if bound is None or not _broadcasts(dims[at : at + extra], bound):
                        return False
                    at += extra
                    continue
                rank = self._rank(axis.name)
                width = extra if rank is None else rank
                if self.blocks.setdefault(axis.name, dims[at : at + width]) != dims[at : at + width]:
                    return False
                at += width
                continue
            if not self._one_axis(axis, dims[at]):
                return False
            at += 1
        return at == len(dims)

    def _one_axis(self, axis: AttributeExpression | Product, dim: Size) -> bool:
        if isinstance(axis, Product):
            whole: AttributeExpression = axis.factors[0]
            for factor in axis.factors[1:]:
                whole = Binary("*", whole, factor)
            return self.unify(whole, dim)
        return self.unify(axis, dim)

    def settle(self) -> bool:
        """Works off what was put off; False on a contradiction. Anything that is left stays in the lists."""
        progress = True
        while progress and (self.waiting or self.shapes):
            before = len(self.names), len(self.blocks), len(self.waiting), len(self.shapes)
            waiting, self.waiting = self.waiting, []
            shapes, self.shapes = self.shapes, []
            if not all(self.unify(e, a) for e, a in waiting):
                return False
            if not all(self.unify_shape(x, d) for x, d in shapes):
                return False
            progress = before != (len(self.names), len(self.blocks), len(self.waiting), len(self.shapes))
        return True

    def holds(self, condition: Comparison) -> bool:
        """Whether a comparison is *decided true*."""
        try:
            left, right = self.exact(condition.left), self.exact(condition.right)
        except (Unbound, TypeError, ZeroDivisionError):
            return False
        return decide(left, condition.relation, right) is True


def decide(left: Value, relation: str, right: Value) -> bool | None:
    """The truth of a comparison; None when symbols leave it open."""
    if isinstance(left, int) and isinstance(right, int):
        return bool(_RELATIONS[relation](left, right))
    if isinstance(left, _PLAIN) or isinstance(right, _PLAIN):
        if relation in ("==", "!="):
            return bool(left == right) == (relation == "==")
        if isinstance(left, (str, tuple, Expression)) or isinstance(right, (str, tuple, Expression)):
            return None
        return bool(_RELATIONS[relation](left, right))
    match relation:
        case "==":
            return True if left == right else None if symbols(left) | symbols(right) else False
        case "!=":
            return _distinct(left, right)
        case ">=":
            return at_least(left, right)
        case "<=":
            return at_least(right, left)
        case ">":
            return at_least(left, right + 1)
        case _:
            return at_least(right, left + 1)


def _distinct(left: Size, right: Size) -> bool | None:
    if left == right:
        return False
    if isinstance(left - right, int):
        return True
    return True if at_least(left, right + 1) or at_least(right, left + 1) else None


def _exact(value: Value) -> Value:
    """A finite float as the fraction that it is."""
    return Fraction(value) if isinstance(value, float) and math.isfinite(value) else value


def _rounded(value: Value) -> Value:
    """Fractions as the floats next to them, in lists, too."""
    if isinstance(value, (int, Expression, float, str)):  # most are; what is no Fraction takes long to tell
        return value
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _same(a: Value, b: Value) -> bool:
    return (bool(a == b) and isinstance(a, float) == isinstance(b, float)) or (
        isinstance(a, (int, float)) and isinstance(b, (int, float)) and a == b
    )


def _arithmetic(operation: str, left: Any, right: Any) -> Any:
    if operation in ("//", "%") and isinstance(right, (int, Expression)) and at_least(right, 1) is False:
        raise ZeroDivisionError(f"{left} {operation} {right}: what sizes are divided by is positive")
    if operation == "/" and isinstance(left, int) and isinstance(right, int):
        return Fraction(left, right)
    if operation != "+" and any(isinstance(v, (str, tuple)) for v in (left, right)):
        # To Python a list times a number is a list that is so many times as long.
        raise TypeError(f"{operation} of {left} and {right}: no list and no text is a number")
    real = any(not isinstance(v, (int, Expression, str, tuple)) for v in (left, right))
    if real and any(isinstance(v, Expression) for v in (left, right)):
        raise Unbound(f"{left} {operation} {right}: an unknown size and a fraction")
    return _ARITHMETIC[operation](left, right)


def _call(function: str, values: list[Any]) -> Any:
    if function == "neg":
        return -values[0]
    if function == "sum":
        total: Size = 0
        for value in values[0]:
            total = total + value
        return total
    if function in FUNCTIONS:
        return FUNCTIONS[function](*map(_rounded, values))
    left, right = values
    bigger = decide(left, ">=", right)
    if bigger is None:
        raise Unbound(f"{function} of {left} and {right}")
    return left if bigger == (function == "max") else right


def _linear_root(difference: Size, marker: Expression) -> Size | None:
    """The u with ``difference == 0``, where difference = slope * u + rest and the division is exact."""
    if isinstance(difference, int):
        return None
    (name,) = symbols(marker)
    slope: Size = 0
    rest: Size = 0
    for monomial, coefficient in difference.terms:
        piece = Expression(((monomial, coefficient),)) if monomial else coefficient
        holders = [a for a in monomial if name in symbols(Expression((((a,), 1),)))]
        if not holders:
            rest = rest + piece
        elif len(holders) == 1 and str(holders[0]) == name:
            left = list(monomial)
            left.remove(holders[0])
            slope = slope + (Expression(((tuple(left), coefficient),)) if left else coefficient)
        else:
            return None
    if slope == 0 or (isinstance(slope, int) and isinstance(rest, int) and rest % slope):
        return None
    if isinstance(slope, int) and slope < 0:
        slope, rest = -slope, -rest
    root = -rest // slope
    return root if root * slope == -rest else None


def _broadcasts(dims: tuple[Size, ...], block: tuple[Size, ...]) -> bool:
    """Whether ``dims`` broadcast to exactly ``block``: not longer, each 1 or equal."""
    if len(dims) > len(block):
        return False
    return all(d in (1, b) for d, b in zip(reversed(dims), reversed(block), strict=False))


__all__ = ["Binding", "Unbound", "decide", "product"]

"""Equations between sizes: what both sides have in common is left out of them."""

from __future__ import annotations

from taso_py.graph.sizes import Expression, Floor, Size, floor_divide, symbol, symbols


def without_common_factors(one: Size, other: Size) -> tuple[Size, Size]:
    """Two sizes divided by the sizes that both are multiples of: none of those is 0."""
    for name in sorted(symbols(one) & symbols(other)):
        factor = symbol(name)
        while multiple(one, factor) and multiple(other, factor):
            one, other = floor_divide(one, factor), floor_divide(other, factor)
    return one, other


def numerators(one: Size, other: Size) -> tuple[Size, Size]:
    """What is divided, where both sizes are the same but for what one division divides; else the sizes."""
    mine, theirs = _division(one), _division(other)
    if mine is None or theirs is None or mine[1:] != theirs[1:]:
        return one, other
    return mine[0], theirs[0]


def _division(size: Size) -> tuple[Size, Size, Size] | None:
    """The numerator, the denominator, and the rest of a size that is one division and something else."""
    if isinstance(size, int):
        return None
    floors = [m[0] for m, c in size.terms if c == 1 and len(m) == 1 and isinstance(m[0], Floor)]
    if len(floors) != 1:
        return None
    return floors[0].numerator, floors[0].denominator, size - Expression((((floors[0],), 1),))


def single(size: Size) -> str | None:
    """The name of a size that is one symbol."""
    if isinstance(size, int) or len(size.terms) != 1:
        return None
    (monomial, coefficient), *_ = size.terms
    return str(monomial[0]) if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str) else None


def multiple(size: Size, group: Size) -> bool:
    """Whether a size is divided by another without a rest."""
    return floor_divide(size, group) * group == size

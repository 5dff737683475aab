"""Quotients of sizes: exact where one size is a multiple of another, and never another number."""

from __future__ import annotations

import random

import pytest

from taso_py.graph.sizes import Size, floor_divide, symbol, symbols
from taso_py.graph.substitution import substitute

A, B, C = symbol("a"), symbol("b"), symbol("c")


@pytest.mark.parametrize(
    ("size", "by", "quotient"),
    [
        (C + 1, C + 1, 1),
        (A * C + A, C + 1, A),
        (A * C + A + B * C + B, C + 1, A + B),
        (2 * A * B + 2 * A + 6 * B + 6, A + 3, 2 * B + 2),
        (A * A + 2 * A + 1, A + 1, A + 1),
        (0, A + 1, 0),
    ],
)
def test_a_multiple_is_divided(size: Size, by: Size, quotient: Size) -> None:
    assert floor_divide(size, by) == quotient


@pytest.mark.parametrize("size", [A + 1, A * C + C])
def test_by_zero_is_no_number(size: Size) -> None:
    """An attribute that is 0 where it may not be reaches it before the law is found to have no instance."""
    found = floor_divide(size, 0)
    assert not isinstance(found, int)
    assert symbols(found) == symbols(size)


def drawn(generator: random.Random, terms: int) -> Size:
    """A polynomial of degree 2 at most, with coefficients from -2 to 3."""
    found: Size = 0
    for _ in range(terms):
        monomial = generator.choice([1, A, B, C, A * B, B * C, A * A])
        found = found + generator.randint(-2, 3) * monomial
    return found


def test_what_is_divided_is_the_floor_at_all_values() -> None:
    generator = random.Random(0)
    exact = 0
    for _ in range(400):
        by, quotient, rest = drawn(generator, 3), drawn(generator, 3), drawn(generator, generator.choice([0, 0, 1]))
        size = by * quotient + rest
        found = None if by == 0 else floor_divide(size, by)
        exact += found == quotient
        for _ in range(10):
            values: dict[str, Size] = {name: generator.randint(0, 9) for name in "abc"}
            divisor = substitute(by, values)
            if isinstance(divisor, int) and divisor >= 1 and found is not None:
                whole = substitute(size, values)
                assert isinstance(whole, int)
                assert substitute(found, values) == whole // divisor
    assert exact > 200

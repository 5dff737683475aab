"""What a sum in normal form shows of itself: a factor that all terms share, a sign, a root, one function's value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from taso_py.graph.sizes import Expression, Role, Size, Symbol, symbols
from taso_py.prove.kernel.arithmetic import Guard, ordered
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.maxima import constant_of, divided, factor_names, instance
from taso_py.prove.kernel.normal import MOST_POWER, ONE, Factor, Head, Sum, Term, integer, number, powers


def only_of(value: Sum, function: str) -> Sum | None:
    """What the function is of, of which a value is nothing else; else None."""
    if len(value) != 1 or value[0].coefficient != 1 or len(value[0].factors) != 1 or value[0].bound or value[0].guards:
        return None
    (f,) = value[0].factors
    return instance(f)[0] if f.head.computes(function) and f.power == 1 else None


def has_no_root(value: Sum) -> bool:
    """Whether a value is a quadratic polynomial of one factor that is never 0."""
    if any(t.bound or t.guards or len(t.factors) > 1 for t in value):
        return False
    factors = [f for t in value for f in t.factors]
    coefficients = {t.factors[0].power if t.factors else 0: t.coefficient for t in value}
    if len({(f.head, f.index) for f in factors}) != 1 or not coefficients.keys() <= {0, 1, 2}:
        return False
    a, b, c = (coefficients.get(power, 0) for power in (2, 1, 0))
    return len(coefficients) == len(value) and b * b < 4 * a * c


def ends_of(t: Term) -> Iterator[list[Guard]]:
    """When a term has its first, and when its last element."""
    for last in (False, True):
        end: dict[Symbol, Size] = {b: e - 1 if last else 0 for b, e in t.bound}
        yield [*(Guard(e - 1, ">=") for _, e in t.bound), *(g.map(end) for g in ordered(t.guards))]


def count_of(value: Sum) -> Size | None:
    """A sum of products of integers as one."""
    total: Size = 0
    for t in value:
        if t.coefficient.denominator != 1 or t.bound or t.guards:
            return None
        product: Size = int(t.coefficient)
        for f in t.factors:
            if f.head.kind != "size" or f.power < 0 or any(s.role is Role.REAL for s in symbols(f.head.size)):
                return None
            for _ in range(f.power):
                product = product * f.head.size
        total = total + product
    return total


def root_of(value: Sum) -> Fraction | None:
    """The root of a constant that is a square of a fraction."""
    square = constant_of(value)
    if square is None or square < 0:
        return None
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root * root == square else None


def real(value: float | Size) -> Sum:
    """A real attribute: a number, or a polynomial in real parameters."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Unprovable("an infinite constant is computed with")
    return integer(value, ()) if isinstance(value, Expression) else number(Fraction(value))


def whole_power(exponent: Fraction) -> int:
    """The exponent where it is an integer that a product may be raised to; else 0.

    A law may hold any literal: exp(-1e30) as a power of exp(1) would be a product of 1e30 factors.
    """
    return int(exponent) if exponent.denominator == 1 and abs(exponent) <= MOST_POWER else 0


def is_negative(value: Sum) -> bool:
    """Whether the canonical representative of ±value is -value."""
    return bool(value) and min(value, key=_unsigned).coefficient < 0


def _unsigned(t: Term) -> str:
    return str(replace(t, coefficient=abs(t.coefficient)))


def extracted(terms: Sum) -> tuple[Term, Sum]:
    """(common, rest) with terms = common · rest; common has the factors that depend on no bound variable."""
    first = min(terms, key=_unsigned)
    if len(terms) == 1 and not first.bound and not first.guards:
        return first, ONE
    shared: dict[tuple[Head, tuple[Size, ...]], int] = {}
    for k, t in enumerate(terms):
        own = {b for b, _ in t.bound}
        powers_of = {(f.head, f.index): f.power for f in t.factors if not factor_names(f) & own}
        shared = {key: _least_power(p, powers_of.get(key, 0)) for key, p in shared.items()} if k else powers_of
    kept = tuple(Factor(h, i, p) for (h, i), p in shared.items() if p)
    common = Term(first.coefficient, powers(kept))
    return common, tuple(divided(t, kept, first.coefficient) for t in terms)


def _least_power(a: int, b: int) -> int:
    if a > 0 and b > 0:
        return min(a, b)
    return max(a, b) if a < 0 and b < 0 else 0

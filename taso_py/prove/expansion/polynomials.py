"""Polynomials with rational coefficients over atoms, whose exponents may be negative or fractional.

A polynomial is an immutable set of (monomial, coefficient); a monomial is a sorted tuple of (atom, exponent).  The
relations between atoms (a truth value is its own square, ...) are applied by `Ring.product`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

Rational: TypeAlias = int | Fraction
Monomial: TypeAlias = tuple[tuple[int, Rational], ...]
Polynomial: TypeAlias = frozenset[tuple[Monomial, Rational]]

ZERO: Polynomial = frozenset()
ONE: Polynomial = frozenset({((), 1)})
MOST_TERMS = 1000
"""Larger polynomials are given up."""
MOST_WORK = 20_000
"""Products of terms in one comparison; one that needs more is given up."""


class TooLarge(Exception):
    """A polynomial outgrew what is looked at."""


def tidy(value: Rational) -> Rational:
    """Whole numbers as int, which are quicker."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def constant(value: Rational) -> Polynomial:
    """The constant polynomial."""
    return frozenset({((), tidy(value))}) if value else ZERO


def value_of(p: Polynomial) -> Rational | None:
    """The value of a constant polynomial."""
    if not p:
        return 0
    if len(p) == 1:
        ((monomial, coefficient),) = p
        return None if monomial else coefficient
    return None


def gathered(terms: Iterable[tuple[Monomial, Rational]]) -> Polynomial:
    """The sum of terms."""
    total: dict[Monomial, Rational] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    if len(total) > MOST_TERMS:
        raise TooLarge
    return frozenset((m, tidy(c)) for m, c in total.items() if c)


def plus(*summands: Polynomial) -> Polynomial:
    """The sum."""
    if len(summands) == 1:
        return summands[0]
    return gathered(t for p in summands for t in p)


def times(factor: Rational, p: Polynomial) -> Polynomial:
    """The multiple by a number."""
    return p if factor == 1 else frozenset((m, tidy(factor * c)) for m, c in p) if factor else ZERO


def minus(p: Polynomial, q: Polynomial) -> Polynomial:
    """The difference."""
    return plus(p, times(-1, q))


def leading(p: Polynomial) -> tuple[Monomial, Rational]:
    """The first term in an order that sums of atoms agree on."""
    return max(p, key=_order)


def _order(term: tuple[Monomial, Rational]) -> tuple[int, Monomial]:
    return len(term[0]), term[0]


def content(p: Polynomial) -> Rational:
    """The positive number whose quotient has whole coefficients without a common divisor."""
    above = math.gcd(*(abs(Fraction(c).numerator) for _, c in p))
    below = math.lcm(*(Fraction(c).denominator for _, c in p))
    return tidy(Fraction(above, below))


def atoms_of(p: Polynomial) -> Iterator[tuple[int, Rational]]:
    """All (atom, exponent) of all terms."""
    for monomial, _ in p:
        yield from monomial


@dataclass(slots=True)
class Ring:
    """Products under relations: ``relations[atom](exponent)`` is what the power is replaced by, None to keep it."""

    relations: dict[int, Callable[[Rational], Polynomial | None]] = field(default_factory=dict)
    work: int = 0

    def product(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """p · q."""
        if p == ONE or not q:
            return q
        if q == ONE or not p:
            return p
        return self._multiplied(p, q)

    def settled(self, p: Polynomial) -> Polynomial:
        """The same polynomial with the relations applied."""
        return self._multiplied(p, ONE)

    def _multiplied(self, p: Polynomial, q: Polynomial) -> Polynomial:
        self.work += len(p) * len(q)
        if len(p) * len(q) > 16 * MOST_TERMS or self.work > MOST_WORK:
            raise TooLarge
        plain: list[tuple[Monomial, Rational]] = []
        reduced: list[Polynomial] = []
        for m, c in p:
            for n, d in q:
                joined = _joined(m, n)
                other = self._reduced(joined)
                if other is None:
                    plain.append((joined, c * d))
                else:
                    reduced.append(times(c * d, other))
        return plus(gathered(plain), *reduced) if reduced else gathered(plain)

    def products(self, factors: Iterable[Polynomial]) -> Polynomial:
        """The product of several."""
        total = ONE
        for factor in factors:
            total = self.product(total, factor)
        return total

    def _reduced(self, monomial: Monomial) -> Polynomial | None:
        for atom, exponent in monomial:
            relation = self.relations.get(atom)
            other = None if relation is None else relation(exponent)
            if other is not None:
                rest = frozenset({(tuple(f for f in monomial if f[0] != atom), 1)})
                return self._multiplied(rest, other)
        return None


def _joined(m: Monomial, n: Monomial) -> Monomial:
    if not m:
        return n
    if not n:
        return m
    total = dict(m)
    for atom, exponent in n:
        total[atom] = tidy(total.get(atom, 0) + exponent)
    return tuple(sorted((a, e) for a, e in total.items() if e))

"""Atoms of the canonical polynomials: leaves, function values, roots; their signs, and what a path assumes of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from taso_py.prove.expansion.polynomials import (
    ONE,
    ZERO,
    Monomial,
    Polynomial,
    Rational,
    Ring,
    TooLarge,
    atoms_of,
    constant,
    content,
    leading,
    minus,
    plus,
    tidy,
    times,
    value_of,
)

_MOST_POWER = 12
UNKNOWN, NON_NEGATIVE, POSITIVE = 0, 1, 2


class Undefined(Exception):
    """The element has no value: a division by zero, a root or a logarithm of a negative number."""


class Unsettled(Exception):
    """A truth value decides what is computed: it is to be tried both ways."""

    def __init__(self, atom: int) -> None:
        super().__init__(atom)
        self.atom = atom


@dataclass(frozen=True, slots=True)
class Atom:
    """What an atom stands for; its sign, and whether it is 0 or 1, non-zero, or not finite."""

    kind: str
    key: Hashable
    sign: int = UNKNOWN
    boolean: bool = False
    nonzero: bool = False
    wild: bool = False


@dataclass(slots=True)
class Atoms:
    """All atoms of one comparison, and the truth values that the present path assumes."""

    ring: Ring = field(default_factory=Ring)
    all: list[Atom] = field(default_factory=list)
    known: dict[tuple[str, Hashable], int] = field(default_factory=dict)
    path: dict[int, int] = field(default_factory=dict)
    wild: bool = False

    # ---- making atoms ----------------------------------------------------------------------------------------------

    def atom(self, kind: str, key: Hashable, **flags: bool | int) -> int:
        """The number of the atom of that description."""
        number = self.known.get((kind, key))
        if number is None:
            number = self.known[kind, key] = len(self.all)
            self.all.append(Atom(kind, key, **flags))  # type: ignore[arg-type]
            if flags.get("boolean"):
                self.ring.relations[number] = lambda e: None if e == 1 else self.power_of(number, 1)
            self.wild = self.wild or bool(flags.get("wild"))
        return number

    @staticmethod
    def power_of(atom: int, exponent: Rational) -> Polynomial:
        """atom ^ exponent, as it stands."""
        return frozenset({(((atom, exponent),), 1)})

    def value(self, kind: str, key: Hashable, **flags: bool | int) -> Polynomial:
        """The atom of that description as a polynomial; a truth value that the path assumes is a number."""
        number = self.atom(kind, key, **flags)
        return constant(self.path[number]) if number in self.path else self.power_of(number, 1)

    def is_wild(self, p: Polynomial) -> bool:
        """Whether something infinite takes part."""
        return self.wild and any(self.all[a].wild for a, _ in atoms_of(p))

    # ---- signs -----------------------------------------------------------------------------------------------------

    def _sign(self, atom: int, exponent: Rational) -> int:
        """The sign of a power, negative where it is negative: -2 < 0, -1 <= 0, 0 unknown, 1 >= 0, 2 > 0."""
        info = self.all[atom]
        sign = info.sign
        if self.path:
            one = self.power_of(atom, 1)
            sign = max(sign, self._assumed(one)) or -self._assumed(times(-1, one))
        whole = isinstance(exponent, int)
        if not whole or exponent % 2 == 0:
            sure = abs(sign) == POSITIVE or exponent < 0 or (whole and info.nonzero)
            return POSITIVE if sure else NON_NEGATIVE
        return sign if exponent > 0 else POSITIVE * ((sign > 0) - (sign < 0))

    def _signed(self, monomial: Monomial) -> int:
        total = POSITIVE
        for atom, exponent in monomial:
            sign = self._sign(atom, exponent)
            total = min(abs(total), abs(sign)) * (1 if total * sign > 0 else -1)
        return total

    def monomial_sign(self, monomial: Monomial) -> int:
        """POSITIVE, NON_NEGATIVE or UNKNOWN."""
        return max(self._signed(monomial), UNKNOWN)

    def sign(self, p: Polynomial) -> int:
        """What is known of the sign: by the signs of the terms, or by what the path assumes."""
        if not p:
            return NON_NEGATIVE
        signs = [self._signed(m) * (1 if c > 0 else -1) for m, c in p]
        if min(signs) >= NON_NEGATIVE:
            return max(signs)
        return self._assumed(p)

    def _assumed(self, p: Polynomial) -> int:
        """What the path says: p > 0, or not -p > 0."""
        if not self.path:
            return UNKNOWN
        scale = content(p)
        scaled = times(Fraction(1) / scale, p)
        if self.path.get(self.known.get(("positive", scaled), -1)) == 1:
            return POSITIVE
        if self.path.get(self.known.get(("positive", times(-1, scaled)), -1)) == 0:
            return NON_NEGATIVE
        return UNKNOWN

    def consistent(self) -> bool:
        """Whether no sign that the path assumes is contradicted by the others."""
        whole = self.path
        try:
            for number, value in whole.items():
                info = self.all[number]
                if info.kind == "positive" and isinstance(info.key, frozenset):
                    self.path = {k: v for k, v in whole.items() if k != number}
                    never, always = self.sign(times(-1, info.key)) >= NON_NEGATIVE, self.sign(info.key) == POSITIVE
                    if (value and never) or (not value and always):
                        return False
        finally:
            self.path = whole
        return True

    def positive(self, p: Polynomial) -> Polynomial:
        """1 where p > 0, else 0."""
        value = value_of(p)
        if value is not None:
            return ONE if value > 0 else ZERO
        if self.sign(p) == POSITIVE:
            return ONE
        if self.sign(times(-1, p)) >= NON_NEGATIVE:
            return ZERO
        scaled = times(Fraction(1) / content(p), p)
        return self._truth("positive", scaled)

    def zero(self, p: Polynomial) -> Polynomial:
        """1 where p = 0, else 0."""
        value = value_of(p)
        if value is not None:
            return ONE if value == 0 else ZERO
        if POSITIVE in (self.sign(p), self.sign(times(-1, p))):
            return ZERO
        scaled = times(Fraction(1) / (content(p) * (1 if leading(p)[1] > 0 else -1)), p)
        return self._truth("zero", scaled)

    def _truth(self, kind: str, p: Polynomial) -> Polynomial:
        decided = self._decided(kind, p)
        return self.value(kind, p, boolean=True, sign=NON_NEGATIVE) if decided is None else decided

    def _decided(self, kind: str, p: Polynomial) -> Polynomial | None:
        """Of p > 0, -p > 0 and p = 0 exactly one holds: what the path says of two may fix the third one."""
        if not self.path:
            return None
        above, below = ("positive", p), ("positive", times(-1, p))
        lead = 1 if leading(p)[1] > 0 else -1
        three = {above, below, ("zero", times(lead, p))}
        others = [self.path.get(self.known.get(k, -1)) for k in three - {(kind, p)}]
        return ZERO if 1 in others else ONE if others == [0, 0] else None

    # ---- powers ----------------------------------------------------------------------------------------------------

    def power(self, p: Polynomial, exponent: Rational) -> Polynomial:
        """p ^ exponent, where it is defined."""
        exponent = tidy(exponent)
        if isinstance(exponent, int) and exponent >= 0:
            if exponent > _MOST_POWER:
                raise TooLarge
            return self.ring.products([p] * exponent)
        if not p:
            if exponent < 0:
                raise Undefined
            return ZERO
        value = value_of(p)
        if value is not None:
            return self._number_power(value, exponent)
        scale, common, rest = self.factored(p, exponent)
        factors = [self._number_power(scale, exponent), common]
        if rest != ONE:
            factors.append(self._root(rest, exponent))
        return self.ring.products(factors)

    def _number_power(self, value: Rational, exponent: Rational) -> Polynomial:
        if isinstance(exponent, int):
            if abs(exponent) > _MOST_POWER:
                raise TooLarge
            return constant(Fraction(value) ** exponent)
        if value < 0:
            raise Undefined
        exact = Fraction(math.isqrt(Fraction(value).numerator), math.isqrt(Fraction(value).denominator))
        if Fraction(exponent).denominator == 2 and exact**2 == value:
            return constant(exact ** Fraction(exponent).numerator)
        return self._root(constant(value), exponent)

    def factored(self, p: Polynomial, exponent: Rational) -> tuple[Rational, Polynomial, Polynomial]:
        """(c, m ^ exponent, r) with p = c·m·r: the factors that all terms share and that may be raised one by one."""
        scale = content(p)
        if isinstance(exponent, int) and leading(p)[1] < 0:
            scale = -scale
        shared = self._shared(p)
        common: list[Polynomial] = []
        taken: list[tuple[int, Rational]] = []
        for atom, least in shared.items():
            raised = self._raised(atom, least, exponent)
            if raised is not None:
                common.append(raised)
                taken.append((atom, -least))
        inverse: Polynomial = frozenset({(tuple(sorted(taken)), tidy(Fraction(1) / scale))})
        rest = _divided(p, inverse)
        return scale, self.ring.products(self.ring.settled(c) for c in common), rest

    def _shared(self, p: Polynomial) -> dict[int, Rational]:
        """Atoms that are in every term, with their least exponents; one that is somewhere divided by, with that."""
        rows = [dict(m) for m, _ in p]
        every = {a for row in rows for a in row}
        least = {a: min(row.get(a, 0) for row in rows) for a in every}
        return {a: e for a, e in sorted(least.items()) if e != 0 and not self.all[a].boolean}

    def _raised(self, atom: int, least: Rational, exponent: Rational) -> Polynomial | None:
        """(atom ^ least) ^ exponent; None where a sign forbids to raise it by itself."""
        total = tidy(Fraction(least) * exponent)
        if isinstance(exponent, int) or self._sign(atom, 1) > 0:
            return self.power_of(atom, total)
        if isinstance(total, int) and isinstance(least, int) and least % 2 == 0:
            return self.power(self.absolute(self.power_of(atom, 1)), total)
        return None

    def _root(self, p: Polynomial, exponent: Rational) -> Polynomial:
        number = self.atom("root", p, sign=self.sign_for_good(p))
        self.ring.relations[number] = lambda e: self._whole_part(number, p, e)
        return self.ring.settled(self.power_of(number, exponent))

    def sign_for_good(self, p: Polynomial) -> int:
        """The sign whatever the path assumes: atoms outlive the path."""
        path, self.path = self.path, {}
        try:
            return self.sign(p)
        finally:
            self.path = path

    def _whole_part(self, number: int, p: Polynomial, exponent: Rational) -> Polynomial | None:
        whole = math.floor(exponent)
        if whole < 1:
            return None
        left = tidy(exponent - whole)
        raised = self.power(p, whole)
        return self.ring.product(self.power_of(number, left), raised) if left else raised

    # ---- maxima ----------------------------------------------------------------------------------------------------

    def maximum(self, polynomials: Iterable[Polynomial]) -> Polynomial:
        """The largest of them: with what they share taken out, maxima inside written out, smaller ones left out."""
        from taso_py.prove.expansion.maxima import maximum

        return maximum(self, polynomials)

    def absolute(self, p: Polynomial) -> Polynomial:
        """|p| = 2·max(p, 0) - p."""
        return minus(times(2, self.maximum([p, ZERO])), p)


def _divided(p: Polynomial, factor: Polynomial) -> Polynomial:
    """p times a monomial that only takes away what every term has: no relation can apply."""
    ((monomial, coefficient),) = factor
    take = dict(monomial)
    found = []
    for m, c in p:
        row = dict(m)
        for a, e in take.items():
            row[a] = tidy(row.get(a, 0) + e)
        found.append((tuple(sorted((a, e) for a, e in row.items() if e)), tidy(c * coefficient)))
    return plus(frozenset(found))

"""Sizes and guards as linear Z3 terms.

A monomial of several symbols is one unknown to Z3, so every question is linear; products of known facts that speak
of such monomials are added.  That can only lose proofs, never make one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import z3

from taso_py.graph.sizes import (
    Atom,
    Entry,
    Expression,
    Floor,
    Image,
    Monomial,
    Size,
    Symbol,
)
from taso_py.prove.kernel.arithmetic import Context, Guard, between, ordered
from taso_py.prove.kernel.attempt import Attempt, current

_MOST_PRODUCTS = 400


class Encoder:
    """Sizes as linear Z3 terms; nonlinear monomials, floors and table entries are unknowns with facts."""

    def __init__(self, context: Context) -> None:
        self.known = context
        self._terms = _Terms(current())
        self.monomials: dict[Monomial, None] = {}
        self.side: list[z3.BoolRef] = []
        self.nonnegative: dict[Size, None] = {}

    def context(self) -> list[z3.BoolRef]:
        """The assumptions."""
        found = [self.assumed(g) for g in self.known.assumptions]
        for index, extent in self.known.bounds.items():
            found += [self.guard(g) for g in between(index.size, extent)]
        return found

    def assumed(self, g: Guard) -> z3.BoolRef:
        """A guard that holds, so that products with it may be used."""
        if g.kind == ">=":
            self.nonnegative.setdefault(g.value)
        return self.guard(g)

    def guard(self, g: Guard) -> z3.BoolRef:
        """A guard."""
        self.size(g.value)
        return self._terms.guard(g)

    def all(self, guards: Iterable[Guard]) -> z3.BoolRef:
        """Whether all of the guards hold."""
        return self._terms.all(list(map(self.guard, guards)))

    def either(self, options: tuple[frozenset[Guard], ...]) -> z3.BoolRef:
        """Whether all guards of one of the options hold."""
        self._uses(_monomials(options))
        return self._terms.either(options)

    def size(self, size: Size) -> z3.ArithRef:
        """An integer expression."""
        if not isinstance(size, int):
            self._uses(m for m, _ in size.terms)
        return self._terms.linear(size)

    def _uses(self, monomials: Iterable[Monomial]) -> None:
        for monomial in monomials:
            if monomial and monomial not in self.monomials:
                self.monomials[monomial] = None
                for atom in monomial:
                    self._atom(atom)

    def _atom(self, atom: Atom) -> None:
        """What is known of an atom wherever it has a value.

        Only there: a term is read under its guards alone, and the question is about all places.
        """
        me = Expression((((atom,), 1),))
        match atom:
            case Floor(numerator, denominator):
                rest = numerator - me * denominator
                self._natural_where(Guard(denominator - 1, ">="), (rest, denominator - rest - 1))
            case Entry(table, index):
                here, at = self.size(me), self.size(index)
                beside = (at < 0, at >= len(table))
                self.side.append(z3.Or(*beside, *(z3.And(at == k, here == v) for k, v in enumerate(table))))
            case Image(_, extent, _):
                self._natural_where(Guard(extent - 1, ">="), (me, extent - me - 1))
            case Symbol():
                if atom in self.known.bounds:
                    low, high = between(me, self.known.bounds[atom])
                    self.nonnegative.setdefault(low.value)
                    self.nonnegative.setdefault(high.value)
                elif self.known.natural(atom):
                    self.nonnegative.setdefault(me)
                    self.side.append(self.size(me) >= 0)

    def _natural_where(self, defined: Guard, values: Iterable[Size]) -> None:
        """Values that are not negative where ``defined`` holds."""
        guards = [Guard(v, ">=") for v in values]
        if self.known.evident(defined):
            for g in guards:
                self.nonnegative.setdefault(g.value)
                self.side.append(self.guard(g))
        else:
            self.side.append(z3.Implies(self.guard(defined), self.all(guards)))

    def facts(self) -> list[z3.BoolRef]:
        """Definitions of the unknowns, and products of non-negative values over the monomials in use."""
        for _ in range(2):
            wide = [m for m in self.monomials if len(m) > 1]
            inside = sorted({a for m in wide for a in m}, key=str)
            linear = [e for e in self.nonnegative if _touches(e, inside)]
            before = len(self.side)
            atoms = [Expression((((a,), 1),)) for a in inside if self._natural(a)]
            pairs = itertools.chain(itertools.product(atoms, linear), itertools.combinations(linear, 2))
            products = (_product(a, b) for a, b in pairs)
            covered = (p for p in products if not isinstance(p, int) and self._covered(p))
            self.side += [self.guard(Guard(p, ">=")) for p in list(itertools.islice(covered, _MOST_PRODUCTS))]
            if len(self.side) == before:
                break
        return self.side

    def _natural(self, atom: Atom) -> bool:
        return isinstance(atom, Symbol) and self.known.natural(atom)

    def _covered(self, product: Expression) -> bool:
        """Whether some monomial of several symbols is in use and no more than one is new."""
        wide = [m for m, _ in product.terms if len(m) > 1]
        known = sum(m in self.monomials for m in wide)
        return known > 0 and len(wide) - known <= 1


@lru_cache(maxsize=1 << 16)
def _product(a: Size, b: Size) -> Size:
    """The same facts meet in one question after another."""
    return a * b


@dataclass(frozen=True, slots=True)
class _Terms:
    """Z3 terms in the context of one attempt, which remembers them."""

    attempt: Attempt

    def linear(self, size: Size) -> z3.ArithRef:
        """A polynomial with an unknown for every monomial."""
        return self._kept(("size", size), lambda: self._sum(size))

    def guard(self, g: Guard) -> z3.BoolRef:
        value = self.linear(g.value)
        makers = {">=": lambda: value >= 0, "==": lambda: value == 0, "!=": lambda: value != 0}
        return self._kept(g, makers[g.kind])

    def either(self, options: tuple[frozenset[Guard], ...]) -> z3.BoolRef:
        return z3.Or([self._way(option) for option in options], self.attempt.z3)

    def _way(self, option: frozenset[Guard]) -> z3.BoolRef:
        return self._kept(option, lambda: self.all([self.guard(g) for g in ordered(option)]))

    def all(self, truths: Sequence[z3.BoolRef]) -> z3.BoolRef:
        return z3.And(truths, self.attempt.z3)

    def _sum(self, size: Size) -> z3.ArithRef:
        if isinstance(size, int):
            return z3.IntVal(size, self.attempt.z3)
        return z3.Sum([c * self._unknown(m) if m else z3.IntVal(c, self.attempt.z3) for m, c in size.terms])

    def _unknown(self, monomial: Monomial) -> z3.ArithRef:
        return self._kept(monomial, lambda: z3.Int("*".join(map(str, monomial)), self.attempt.z3))

    def _kept(self, key: object, make: Callable[[], Any]) -> Any:
        terms = self.attempt.terms
        if key not in terms:
            terms[key] = make()
        return terms[key]


@lru_cache(maxsize=1 << 10)
def _monomials(options: tuple[frozenset[Guard], ...]) -> tuple[Monomial, ...]:
    """What the options speak of, in the order of their text."""
    values = (g.value for option in options for g in ordered(option))
    return tuple(dict.fromkeys(m for value in values if not isinstance(value, int) for m, _ in value.terms))


def _touches(expression: Size, atoms: Container[Atom]) -> bool:
    if isinstance(expression, int):
        return False
    return all(len(m) <= 2 for m, _ in expression.terms) and any(a in atoms for m, _ in expression.terms for a in m)

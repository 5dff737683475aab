"""The canonical form of a maximum of polynomials."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from taso_py.prove.expansion.polynomials import (
    ZERO,
    Monomial,
    Polynomial,
    Rational,
    TooLarge,
    content,
    gathered,
    minus,
    plus,
    tidy,
    times,
    value_of,
)

if TYPE_CHECKING:
    from taso_py.prove.expansion.atoms import Atoms

_MOST = 64
_ROUNDS = 8


def maximum(atoms: Atoms, polynomials: Iterable[Polynomial]) -> Polynomial:
    """max(p, q, ...) = shift + scale · max of a normal set."""
    found = list(dict.fromkeys(polynomials))
    shift: Polynomial = ZERO
    for _ in range(_ROUNDS):
        found = _largest(atoms, _written_out(atoms, found))
        low = _least(found)
        if low:
            shift = plus(shift, low)
            found = [minus(p, low) for p in found]
        elif not any(_inner(atoms, p) for p in found):
            break
    if len(found) == 1:
        return plus(shift, found[0])
    return plus(shift, _scaled(atoms, found))


def _written_out(atoms: Atoms, polynomials: list[Polynomial]) -> list[Polynomial]:
    """max(c·max(a, b) + r, s) = max(c·a + r, c·b + r, s) for c > 0."""
    done: dict[Polynomial, None] = {}
    waiting = list(reversed(polynomials))
    while waiting:
        p = waiting.pop()
        inner = _inner(atoms, p)
        if inner is None:
            done[p] = None
            continue
        term, atom = inner
        rest = frozenset(p - {term})
        factor: Polynomial = frozenset({(tuple(f for f in term[0] if f[0] != atom), term[1])})
        elements = atoms.all[atom].key
        assert isinstance(elements, frozenset)
        waiting += [plus(rest, atoms.ring.product(factor, e)) for e in elements]
        if len(waiting) + len(done) > _MOST:
            raise TooLarge
    return list(done)


def _inner(atoms: Atoms, p: Polynomial) -> tuple[tuple[Monomial, Rational], int] | None:
    """A term c·m with c >= 0 and m a maximum."""
    for monomial, coefficient in p:
        if coefficient > 0:
            for atom, exponent in monomial:
                rest = tuple(f for f in monomial if f[0] != atom)
                if exponent == 1 and atoms.all[atom].kind == "max" and atoms.monomial_sign(rest):
                    return (monomial, coefficient), atom
    return None


def _least(polynomials: list[Polynomial]) -> Polynomial:
    """By monomial the least coefficient, 0 where it is absent: what shifting all of them shifts alike."""
    rows = [dict(p) for p in polynomials]
    monomials = {m for row in rows for m in row}
    return gathered((m, min(row.get(m, 0) for row in rows)) for m in monomials)


def _largest(atoms: Atoms, polynomials: list[Polynomial]) -> list[Polynomial]:
    """Without those that another one is never below."""
    kept: list[Polynomial] = []
    for p in polynomials:
        if any(atoms.sign(minus(q, p)) for q in kept):
            continue
        kept = [q for q in kept if not atoms.sign(minus(p, q))]
        kept.append(p)
    return kept


def _scaled(atoms: Atoms, polynomials: list[Polynomial]) -> Polynomial:
    """A maximum with its positive factors in front: max(c·p, c·q) = c·max(p, q) for c >= 0."""
    terms = [t for p in polynomials for t in p]
    scale = content(frozenset((m, c) for m, c in terms))
    rows = [dict(m) for m, _ in terms]
    shared = {a: min(row.get(a, 0) for row in rows) for a in sorted({a for row in rows for a in row})}
    factor = tuple(sorted((a, e) for a, e in shared.items() if e and atoms.monomial_sign(((a, e),))))
    taken = dict(factor)
    found = []
    for p in polynomials:
        reduced = []
        for m, c in p:
            left = {**dict.fromkeys(taken, 0), **dict(m)}
            lowered = ((a, tidy(e - taken.get(a, 0))) for a, e in sorted(left.items()))
            reduced.append((tuple(f for f in lowered if f[1]), tidy(Fraction(c) / scale)))
        found.append(frozenset(reduced))
    elements = frozenset(found)
    sign = max(atoms.sign_for_good(p) for p in elements)
    number = atoms.atom("max", elements, sign=sign)
    if len(elements) == 2:
        first, second = elements
        atoms.ring.relations[number] = lambda e: _square(atoms, number, first, second, e)
    front: Polynomial = frozenset({(factor, scale)})
    value = value_of(front)
    whole = atoms.power_of(number, 1)
    return times(value, whole) if value is not None else atoms.ring.product(front, whole)


def _square(atoms: Atoms, number: int, p: Polynomial, q: Polynomial, exponent: Rational) -> Polynomial | None:
    """max(p, q) is one of the two: (m - p)·(m - q) = 0, so m² = (p + q)·m - p·q."""
    if not isinstance(exponent, int) or exponent < 2:
        return None
    ring = atoms.ring
    square = minus(ring.product(plus(p, q), atoms.power_of(number, 1)), ring.product(p, q))
    if exponent == 2:
        return square
    return ring.product(square, ring.settled(atoms.power_of(number, exponent - 2)))

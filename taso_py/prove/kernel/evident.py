"""Terms without what is evident of them: guards that hold, floors that are 0, and indices that an equation gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from taso_py.graph.sizes import Expression, Role, Size, Symbol, symbols
from taso_py.prove.kernel.arithmetic import Context, Guard, between, ordered, replaced
from taso_py.prove.kernel.attempt import Unprovable, current
from taso_py.prove.kernel.normal import Factor, Term, powers, tidied

REMEMBERED = 1 << 15
"""Most terms that an attempt remembers tidied: some 50 MB."""


def without_evident(term: Term, inner: Context) -> Term | None:
    """The term with evident guards dropped; None when it vanishes."""
    known: dict[object, Term | None] = current().tidied
    key = (term, inner.assumptions, inner.ranges)
    if key not in known:
        if len(known) >= REMEMBERED:
            known.clear()
        known[key] = _without_evident(term, inner)
    return known[key]


def _without_evident(term: Term, inner: Context) -> Term | None:
    guards: list[Guard] = []
    for g in ordered(term.guards):
        g = inner.reduced(Guard(tidied(g.value, inner), g.kind))
        if g.decided is False:
            return None
        if g.decided is None and not inner.evident(g):
            guards.append(g)
    held = set(guards)
    if any(g.negated in held for g in guards):
        return None
    guards = _pinned(guards, term.bound)
    same = _equal_places(guards)
    factors = tuple(
        Factor(f.head, tuple(tidied(replaced(i, same), inner) for i in f.index), f.power) for f in term.factors
    )
    coefficient, kept = term.coefficient, []
    for f in factors:
        if f.head.kind == "integer" and isinstance(f.index[0], int):
            if f.index[0] == 0 and f.power < 0:
                raise Unprovable("a division by zero")
            coefficient *= Fraction(f.index[0]) ** f.power
        else:
            kept.append(f)
    return Term(coefficient, powers(kept), term.bound, frozenset(guards)) if coefficient else None


def _equal_places(guards: Iterable[Guard]) -> dict[Symbol, Size]:
    """An index of the result that an equation gives in terms of others: factors are read at one place of both."""
    for g in guards:
        names = sorted(s for s in symbols(g.value) if s.role is Role.INDEX) if g.kind == "==" else []
        for name in reversed(names):
            value = solved(g.value, name)
            if value is not None:
                return {name: value}
    return {}


def _pinned(guards: Sequence[Guard], bound: Iterable[tuple[Symbol, Size]]) -> list[Guard]:
    """a >= 0 and -a >= 0 as a == 0; one of both may be an end of a bound variable's range."""
    values = {g.value for g in guards if g.kind == ">="}
    ends = {g.value for name, extent in bound for g in between(name.size, extent)}
    both = sorted((v for v in values if -v in values or -v in ends), key=str)
    kept = [g for g in guards if g.kind != ">=" or g.value not in both]
    return [*kept, *(Guard(v, "==") for v in both if -v not in values or str(v) <= str(-v))]


def linear(value: Size, name: Symbol) -> int | None:
    """The coefficient of ``name`` when the expression is ±name + rest and rest does not hold it; else None."""
    if isinstance(value, int) or name not in symbols(value):
        return None
    found: int | None = None
    for monomial, coefficient in value.terms:
        if monomial == (name,):
            found = coefficient
        elif any(name in symbols(Expression((((a,), 1),))) for a in monomial):
            return None
    return found if found in (1, -1) else None


def solved(value: Size, name: Symbol, target: Size = 0) -> Size | None:
    """The value of ``name`` that makes ``value == target``, when it is linear with coefficient ±1."""
    sign = linear(value, name)
    if sign is None:
        return None
    rest = value - sign * name.size
    return (target - rest) * sign

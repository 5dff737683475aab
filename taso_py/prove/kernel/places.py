"""Where a term's factors are read: its guards as linear integer constraints, which Z3 decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import z3

from taso_py.graph.sizes import Expression, Role, Size, Symbol, floor_divide, symbol, symbols
from taso_py.prove.kernel.arithmetic import CHECK, RESOURCES, Context, Guard, between, ordered, replaced
from taso_py.prove.kernel.attempt import Unprovable, current
from taso_py.prove.kernel.encoding import Encoder
from taso_py.prove.kernel.evident import linear, solved
from taso_py.prove.kernel.normal import Term, floors


@dataclass(frozen=True, slots=True)
class Place:
    """A term's guards once its factors are read at the canonical places ``v:0, v:1, ...``."""

    coefficient: Fraction
    guards: frozenset[Guard]
    bound: tuple[tuple[Symbol, Size], ...]


def located(t: Term, width: int, fixed: Sequence[int]) -> list[Place]:
    """The term's guards at the places ``v:k`` that it reads, its bound variables eliminated where that can be."""
    indices = [i for f in t.factors for i in f.index]
    bound = dict(t.bound)
    equations = [(symbol(str(k), Role.PLACE), indices[k]) for k in range(width) if k not in fixed]
    guards = set(t.guards)
    progress = True
    while progress and bound:
        progress = False
        for name, extent in list(bound.items()):
            value = next((v for target, e in equations if (v := solved(e, name, target)) is not None), None)
            if value is None:
                continue
            values = {name: value}
            del bound[name]
            guards = {g.map(values) for g in guards} | set(between(value, replaced(extent, values)))
            equations = [(target, replaced(e, values)) for target, e in equations]
            bound = {b: replaced(e, values) for b, e in bound.items()}
            progress = True
    guards |= {Guard(target - e, "==") for target, e in equations}
    kept = frozenset(g for g in guards if g.decided is not True)
    if any(g.decided is False for g in kept):
        return []
    return [Place(t.coefficient, kept, tuple(bound.items()))]


def solver_for(context: Context) -> tuple[Encoder, z3.Solver]:
    """A solver for one question under the context, and what writes sizes and guards for it."""
    attempt = current()
    attempt.step(CHECK)
    encoder = Encoder(context)
    solver = z3.Solver(ctx=attempt.z3)
    solver.set("rlimit", RESOURCES)
    solver.add(*encoder.context())
    return encoder, solver


def counted(place: Place, unit: int, encoder: Encoder) -> z3.ArithRef:
    if place.bound:
        raise Unprovable(f"a bound variable cannot be eliminated: {', '.join(b for b, _ in place.bound)}")
    whole = int(place.coefficient * unit)
    return z3.If(encoder.all(ordered(place.guards)), encoder.size(whole), encoder.size(0))


def covered(place: Place, others: Sequence[Place], context: Context) -> bool:
    """Whether wherever ``place`` reads, for any values of its bound variables, one of the others reads."""
    bounds = dict(place.bound)
    options = tuple(option for other in others for option in _options(other, bounds, context))
    if any(option <= place.guards for option in options):
        return True
    encoder, solver = solver_for(context.and_(place.guards, bounds))
    for premise, conclusion in (c for other in others for c in _cut_at(other)):
        solver.add(z3.Implies(encoder.guard(premise), encoder.guard(conclusion)))
    solver.add(z3.Not(encoder.either(options)), *encoder.facts())
    return bool(solver.check() == z3.unsat)


def _options(place: Place, bounds: Mapping[Symbol, Size], context: Context) -> Iterator[frozenset[Guard]]:
    """Guards that imply that the place is read: its variables eliminated, or replaced by values that could do."""
    guards, left = eliminated(place)
    if not left:
        yield guards
        return
    yield from _tried(guards, left)
    names = [b for b, _ in place.bound]
    for group in (tuple(bounds), *context.witnesses):
        if len(group) != len(names):
            continue
        values: Mapping[Symbol, Size] = {b: c.size for b, c in zip(names, group, strict=True)}
        ranges = [g for b, e in place.bound for g in between(values[b], e)]
        yield frozenset((*ranges, *(g.map(values) for g in place.guards)))


def _tried(guards: frozenset[Guard], left: Sequence[tuple[Symbol, Size]]) -> Iterator[frozenset[Guard]]:
    """The guards with each variable that is left at an end of its range, or where another bound puts it."""
    candidates = [[0, e - 1, *_bounds_of(b, guards)] for b, e in left]
    for values in itertools.islice(itertools.product(*candidates), 60):
        chosen: Mapping[Symbol, Size] = {b: v for (b, _), v in zip(left, values, strict=True)}
        yield frozenset(g.map(chosen) for g in guards)


def _cut_at(place: Place) -> Iterator[tuple[Guard, Guard]]:
    """Where floor(r / f) lies beside the end of its variable's range, so do the multiples by f >= 1."""
    guards, left = eliminated(place)
    for name, extent in left:
        for quotient in _bounds_of(name, guards):
            for atom in floors((quotient,)):
                for beside in (quotient - extent, extent - 1 - quotient, quotient, -quotient - 1):
                    yield Guard(beside, ">="), Guard(beside * atom.denominator, ">=")


def _bounds_of(name: Symbol, guards: frozenset[Guard]) -> list[Size]:
    """floor(r / f) for every guard r - f·name >= 0."""
    found: list[Size] = []
    for g in sorted(guards, key=str):
        if isinstance(g.value, int):
            continue
        own = [(m, c) for m, c in g.value.terms if name in m]
        if g.kind == ">=" and len(own) == 1 and own[0][1] == -1 and len(own[0][0]) == 2:
            (monomial, _) = own[0]
            factor = Expression(((tuple(a for a in monomial if a != name), 1),))
            found.append(floor_divide(g.value + factor * name.size, factor))
    return found


@lru_cache(maxsize=4096)
def eliminated(place: Place) -> tuple[frozenset[Guard], tuple[tuple[Symbol, Size], ...]]:
    """Guards without the bound variables of coefficient ±1, exactly (Fourier and Motzkin), and the variables left."""
    guards = set(place.guards)
    for name, extent in place.bound:
        guards |= set(between(name.size, extent))
    left: list[tuple[Symbol, Size]] = []
    for name, extent in place.bound:
        touching = [g for g in ordered(guards) if name in symbols(g.value)]
        values = [solved(g.value, name) for g in touching]
        if any(v is None for v in values) or any(g.kind == "!=" for g in touching):
            left.append((name, extent))
            continue
        pairs = [(g, v) for g, v in zip(touching, values, strict=True) if v is not None]
        lower = [v for g, v in pairs if g.kind == "==" or linear(g.value, name) == 1]
        upper = [v for g, v in pairs if g.kind == "==" or linear(g.value, name) == -1]
        guards -= set(touching)
        guards |= {Guard(u - low, ">=") for u in upper for low in lower}
    return frozenset(g for g in guards if g.decided is not True), tuple(left)

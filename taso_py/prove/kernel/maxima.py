"""Maxima of families of values: flattened, with common shifts, scales and rising functions taken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from taso_py.graph.sizes import Role, Size, Symbol, symbol, symbols
from taso_py.prove.kernel.arithmetic import Context, Guard, ordered, replaced
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.normal import (
    ONE,
    ZERO,
    Alternative,
    Factor,
    Head,
    Sum,
    Term,
    multiplied,
    powers,
    slots,
)
from taso_py.prove.kernel.simplify import UNROLLED, assuming, cases, outside, virtual

INFINITE = Head("size", "@inf", (symbol("inf", Role.REAL),))
LOWEST: Sum = (Term(Fraction(-1), (Factor(INFINITE),)),)
"""Minus infinity, which takes no part in a maximum of anything else and is copied, but never computed with."""
MONOTONE = frozenset({"sigmoid", "tanh", "exp", "softplus"})
Range: TypeAlias = tuple[tuple[tuple[Symbol, Size], ...], frozenset[Guard]]
"""Bound variables with their extents, and guards."""
_NEVER_NEGATIVE = frozenset({"exp", "sigmoid", "abs", "softplus", "sqrt"})


@dataclass(slots=True)
class Maxima:
    """Builds maxima; ``nonnegative`` and ``positive`` name tensors and parameters, ``used`` collects facts."""

    nonnegative: frozenset[str] = frozenset()
    positive: frozenset[str] = frozenset()
    nonzero: frozenset[Size] = frozenset()
    """Real attributes, and expressions of them, of which a condition says that they are not 0."""
    _: KW_ONLY
    nonzero_tensors: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    certain: frozenset[tuple[str, Head, tuple[Size, ...]]] = frozenset()
    """What the left side demands of itself whatever is selected: nonzero divisors, radicands that are not negative."""
    filled: tuple[Range, ...] = ()
    """Ranges that have an element wherever both sides are typed."""

    def apply(
        self, function: str, arguments: Sequence[Sum], attributes: Sequence[float | Size], context: Context
    ) -> Sum:
        """function(arguments...)."""
        raise NotImplementedError

    def never_negative(self, f: Factor) -> bool:
        """Whether a factor is known to be at least 0."""
        if f.head.kind == "size":
            return natural(f.head) or f.head.name in self.nonnegative
        if f.head.kind in ("truth", "count") or f.power % 2 == 0:
            return True
        if f.head.kind == "tensor":
            return f.head.name in self.nonnegative | self.positive
        if f.head.kind == "maximum":
            return any(not a.bound and not a.guards and not a.body for a in f.head.alternatives)
        if f.head.computes("sum"):
            return all(t.coefficient > 0 and all(map(self.never_negative, t.factors)) for t in f.head.arguments[0])
        return f.head.function in _NEVER_NEGATIVE

    def maximum(self, alternatives: Sequence[Alternative], context: Context) -> Sum:
        """The maximum of families of values."""
        common = _open_guard([a for a in alternatives if not a.bound])
        if common is not None:
            found: list[Term] = []
            for g in (common, common.negated):
                if context.possible((g,)):
                    inner = context.and_((g,))
                    known = [_assumed(a, g, inner) for a in alternatives if g.negated not in a.guards]
                    found += [t.guarded((g,)) for t in self.maximum(known, inner)]
            return tuple(found)
        families = [f for a in alternatives for f in self._families(a, context)]
        families = self._undominated(list(dict.fromkeys(families)), context)
        if not families:
            raise Unprovable("a maximum of nothing")
        if len(families) == 1 and not families[0].bound and not families[0].guards:
            return families[0].body
        risen = self._risen(families, context)
        if risen is not None:
            return risen
        shift, families = self._shifted(families)
        scale, families = self._common_scale(families)
        if len(families) == 1 and not families[0].bound and not families[0].guards:
            value: Sum = families[0].body
        else:
            if any(a.body != LOWEST and unbounded(a.body) for a in families):
                raise Unprovable("an infinite constant is computed with")
            head, index = virtual((), families, context)
            value = (Term(Fraction(1), (Factor(head, index),)),)
        return (*shift, *multiplied((scale,), value))

    def _families(self, a: Alternative, context: Context) -> list[Alternative]:
        """An alternative with its body's cases told apart, short ranges written out and maxima inside opened."""
        for name, extent in a.bound:
            if isinstance(extent, int) and extent <= UNROLLED:
                rest = replace(a, bound=tuple(b for b in a.bound if b[0] != name))
                pieces = [rest.map({name: k}) for k in range(extent)]
                kept = [p for p in pieces if not any(g.decided is False for g in p.guards)]
                return [f for p in kept for f in self._families(_undecided(p), context)]
        ranges = context.and_((), dict(a.bound))
        found: list[Alternative] = []
        for guards, (body,), within in cases((a.body,), ranges.and_(a.guards)):
            one = Alternative(
                body, a.bound, frozenset(g for g in ordered({*a.guards, *guards}) if not ranges.evident(g))
            )
            found += self._opened(one, within)
        return found

    def _opened(self, a: Alternative, context: Context) -> list[Alternative]:
        if len(a.body) != 1 or a.body[0].coefficient != 1 or a.body[0].bound or len(a.body[0].factors) != 1:
            return [a]
        (f,) = a.body[0].factors
        if f.head.kind != "maximum" or f.power != 1 or a.body[0].guards:
            return [a]
        self.used.add("maximum of maxima")
        return [Alternative(i.body, (*a.bound, *i.bound), a.guards | i.guards) for i in families_of(f)]

    def _undominated(self, families: list[Alternative], context: Context) -> list[Alternative]:
        """Without a 0 beside something that is never negative, and with the greatest of several constants.

        Without minus infinity where something else is surely there: in a window of padding alone nothing is.
        """
        others = [a for a in families if a.body != LOWEST]
        if others and len(others) < len(families) and not any(self._has_element(a, context) for a in others):
            others.append(Alternative(LOWEST))
        families = others
        plain = [a for a in families if not a.bound and not a.guards]
        constants = [a for a in plain if constant_of(a.body) is not None]
        if len(constants) > 1:
            greatest = max(constants, key=lambda a: constant_of(a.body) or Fraction(0))
            families = [a for a in families if a not in constants or a is greatest]
        if any(a.body and self.not_below(a.body) for a in plain) and Alternative(ZERO) in families:
            self.used.add("bounded below")
            families = [a for a in families if a != Alternative(ZERO)]
        return families

    def _has_element(self, a: Alternative, context: Context) -> bool:
        """Whether a range that is known to have an element, as one without guards has, lies within a family's."""
        return not a.guards or any(_within(bound, guards, a, context) for bound, guards in self.filled)

    def not_below(self, body: Sum) -> bool:
        """Whether no term of a sum can be negative."""
        return all(t.coefficient > 0 and all(map(self.never_negative, t.factors)) for t in body)

    def _risen(self, families: Sequence[Alternative], context: Context) -> Sum | None:
        """max f(a) = f(max a) when every family is the same rising function."""
        first = _single(families[0].body) if families else None
        if first is None or first.head.function not in MONOTONE or first.power != 1:
            return None
        inner = []
        for a in families:
            f = _single(a.body)
            if f is None or f.power != 1 or _function(f) != _function(first):
                return None
            inner.append(Alternative(instance(f)[0], a.bound, a.guards))
        self.used.add("rising function")
        return self.apply(first.head.function, [self.maximum(inner, context)], first.head.attributes, context)

    def _shifted(self, families: list[Alternative]) -> tuple[Sum, list[Alternative]]:
        """Terms that every family has and that depend on no bound variable."""
        common = set(families[0].body)
        for a in families:
            names = {b for b, _ in a.bound}
            common &= {t for t in a.body if not _names(t) & names and not t.guards}
        if not common:
            return ZERO, families
        self.used.add("shift of a maximum")
        rest = [replace(a, body=tuple(t for t in a.body if t not in common)) for a in families]
        return tuple(sorted(common, key=str)), rest

    def _common_scale(self, families: list[Alternative]) -> tuple[Term, list[Alternative]]:
        """A factor that is never negative, that all terms have and that depends on no bound variable."""
        bodies = [t for a in families for t in a.body]
        bound = {b for a in families for b, _ in a.bound}
        if not bodies:
            return ONE[0], families
        shared = set(bodies[0].factors)
        for t in bodies:
            shared &= set(t.factors)
        kept = [f for f in shared if not factor_names(f) & bound and self.never_negative(f) and not _own(f, bodies)]
        magnitude = _magnitude(bodies)
        if not kept and magnitude == 1:
            return ONE[0], families
        self.used.add("scale of a maximum")
        rest = [replace(a, body=tuple(divided(t, kept, magnitude) for t in a.body)) for a in families]
        return Term(magnitude, powers(kept)), rest


def unbounded(terms: Sum) -> bool:
    """Whether an infinity is among the terms, or a maximum that may be one."""
    return any(f.head == INFINITE or _may_be_lowest(f.head) for t in terms for f in t.factors)


def _may_be_lowest(head: Head) -> bool:
    return head.kind == "maximum" and any(a.body == LOWEST for a in head.alternatives)


def _within(bound: Sequence[tuple[Symbol, Size]], guards: Iterable[Guard], a: Alternative, context: Context) -> bool:
    if len(bound) != len(a.bound):
        return False
    values: dict[Symbol, Size] = {b: name.size for (b, _), (name, _) in zip(bound, a.bound, strict=True)}
    if tuple(replaced(e, values) for _, e in bound) != tuple(e for _, e in a.bound):
        return False
    inside = context.and_([g.map(values) for g in guards], dict(a.bound))
    return all(inside.implies(g) for g in ordered(a.guards))


def natural(head: Head) -> bool:
    """Whether a size is a plain symbol that is never negative; a floor or a table may be."""
    return any(head.size == s.size and s.natural for s in symbols(head.size))


def divided(t: Term, kept: Sequence[Factor], magnitude: Fraction) -> Term:
    left = powers([*t.factors, *(replace(f, power=-f.power) for f in kept)])
    return replace(t, factors=left, coefficient=t.coefficient / magnitude)


def _magnitude(bodies: Sequence[Term]) -> Fraction:
    sizes = {abs(t.coefficient) for t in bodies}
    return sizes.pop() if len(sizes) == 1 else Fraction(1)


def _own(f: Factor, bodies: Sequence[Term]) -> bool:
    return any(factor_names(f) & {b for b, _ in t.bound} for t in bodies)


def _open_guard(alternatives: Sequence[Alternative]) -> Guard | None:
    """A guard under which a body stands that mentions nothing of its own."""
    for a in alternatives:
        for g in sorted(a.guards, key=str):
            return g
        for t in a.body:
            for g in sorted(t.guards, key=str):
                if outside(t, g):
                    return g
    return None


def _assumed(a: Alternative, g: Guard, context: Context) -> Alternative:
    return replace(a, body=assuming(a.body, g, context), guards=a.guards - {g})


def _undecided(a: Alternative) -> Alternative:
    return replace(a, guards=frozenset(g for g in a.guards if g.decided is None))


def constant_of(body: Sum) -> Fraction | None:
    if not body:
        return Fraction(0)
    return body[0].coefficient if len(body) == 1 and body[0] == Term(body[0].coefficient) else None


def _single(body: Sum) -> Factor | None:
    if len(body) != 1 or body[0].coefficient != 1 or body[0].bound or body[0].guards or len(body[0].factors) != 1:
        return None
    return body[0].factors[0]


def _function(f: Factor) -> tuple[object, ...]:
    return f.head.kind, f.head.name, f.head.attributes


def factor_names(f: Factor) -> set[Symbol]:
    return set().union(*(symbols(i) for i in f.index))


def _names(t: Term) -> set[Symbol]:
    return set().union(*(symbols(s) for s in t.sizes()), *(symbols(e) for _, e in t.bound))


def instance(f: Factor) -> tuple[Sum, ...]:
    """The arguments of a function factor at its index."""
    values = dict(slots(f.index))
    return tuple(tuple(t.renamed().map(values) for t in s) for s in f.head.arguments)


def families_of(f: Factor) -> list[Alternative]:
    """The alternatives of a maximum factor at its index."""
    values = dict(slots(f.index))
    found = []
    for a in f.head.alternatives:
        other = a.renamed()
        body = tuple(t.renamed() for t in other.body)
        found.append(replace(other, body=body).map(values))
    return found

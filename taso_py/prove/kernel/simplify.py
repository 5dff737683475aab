"""Bringing sums into a canonical form: cases split, bound variables eliminated, parts from outside made slots."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from taso_py.graph.sizes import Expression, Role, Size, Symbol, symbols
from taso_py.prove.kernel.arithmetic import Context, Guard, TooManyTerms, ordered, replaced
from taso_py.prove.kernel.attempt import Unprovable, current
from taso_py.prove.kernel.evident import solved, without_evident
from taso_py.prove.kernel.normal import (
    ONE,
    Alternative,
    Factor,
    Head,
    Sum,
    Term,
    fresh,
    integer,
    masked,
    multiplied,
    number,
    slot,
    splitting,
    text,
)

UNROLLED = 16
"""Longest concrete range that is written out, and ..."""
TERMS = 4096
"""... the most terms that this may give."""
CASES = 64
"""Most cases that one function's arguments may fall into."""
Form = TypeVar("Form", Term, Alternative)


def simplified(terms: Sum, context: Context) -> Sum:
    """Guards decided where that is evident, ranges unrolled, equal terms added."""
    found: list[Term] = []
    for term in terms:
        found.extend(_simplified(term, context))
        if len(found) > TERMS:
            raise TooManyTerms("a sum has too many terms")
    return collected(found)


def collected(terms: Iterable[Term]) -> Sum:
    """Terms that differ in their coefficient only are one."""
    canonical = [named(term) for term in terms if term.coefficient]
    if len(canonical) < 2:
        return tuple(canonical)
    total: dict[tuple[Any, ...], Fraction] = {}
    for term in canonical:
        key = (term.factors, term.bound, term.guards)
        total[key] = total.get(key, Fraction(0)) + term.coefficient
    kept = [Term(c, *key) for key, c in total.items() if c]
    return tuple(sorted(kept, key=str))


def _simplified(term: Term, context: Context) -> list[Term]:
    current().step()
    inner = context.and_((), dict(term.bound)) if term.bound else context
    tidy = without_evident(term, inner)
    if tidy is None:
        return []
    term = tidy
    split = splitting(term.sizes(), dict(term.bound), inner.is_natural)
    if split is not None:
        return _simplified(split_range(term, *split), context)
    for name, extent in term.bound:
        if extent == 1:
            return _simplified(_without(term, name, 0), context)
        place = _placed(term, name)
        if place is not None:
            value, guards = place
            return _simplified(_without(term, name, value).guarded(guards), context)
        if isinstance(extent, int) and extent <= UNROLLED:
            pieces = [_without(term, name, k) for k in range(extent)]
            return [t for p in pieces for t in _simplified(p, context)]
    return _counted(term, inner)


def split_range(term: Term, name: Symbol, divisor: Size) -> Term:
    """The bound variable as quotient · divisor + remainder."""
    extent = dict(term.bound)[name]
    high, low = fresh(), fresh()
    values: dict[Symbol, Size] = {name: high.size * divisor + low.size}
    bound = [b for b in term.bound if b[0] != name]
    return replace(term.map(values), bound=(*bound, (high, extent // divisor), (low, divisor)))


def _without(term: Term, name: Symbol, value: Size) -> Term:
    bound = tuple(b for b in term.bound if b[0] != name)
    return replace(replace(term, bound=bound).map({name: value}), bound=bound)


def _placed(term: Term, name: Symbol) -> tuple[Size, tuple[Guard, ...]] | None:
    """A bound variable that an equation pins: its value, and the guards that its range becomes."""
    extent = dict(term.bound)[name]
    for g in ordered(term.guards):
        value = solved(g.value, name) if g.kind == "==" else None
        if value is not None:
            return value, (Guard(value, ">="), Guard(extent - value - 1, ">="))
    return None


def _counted(term: Term, inner: Context) -> list[Term]:
    """Bound variables that no factor reads: their number is a size, or a count of what the guards let through."""
    used = {n for f in term.factors for i in f.index for n in symbols(i)}
    used |= {n for _, e in term.bound for n in symbols(e)}
    idle = [(b, e) for b, e in term.bound if b not in used]
    if not idle:
        return [term]
    rest: Sum = (replace(term, bound=tuple(b for b in term.bound if b not in idle)),)
    names = {b for b, _ in idle}
    guards = frozenset(g for g in term.guards if symbols(g.value) & names)
    rest = (replace(rest[0], guards=term.guards - guards),)
    groups = _connected(idle, guards)
    for bound, own in groups:
        if own:
            head, index = virtual((), (Alternative(ONE, tuple(bound), own),), inner)
            rest = multiplied(rest, (Term(Fraction(1), (Factor(replace_kind(head, "count"), index),)),))
        else:
            for _, extent in bound:
                rest = multiplied(rest, integer(extent, inner.bounds))
    return list(rest)


def replace_kind(head: Head, kind: str) -> Head:
    """The head under another kind."""
    return Head(kind, kind, head.attributes, head.arguments, head.alternatives)  # type: ignore[arg-type]


def _connected(
    bound: Sequence[tuple[Symbol, Size]], guards: Iterable[Guard]
) -> list[tuple[list[tuple[Symbol, Size]], frozenset[Guard]]]:
    """Bound variables in groups that no guard connects."""
    groups: list[tuple[set[Symbol], set[Guard]]] = [({b}, set()) for b, _ in bound]
    for g in ordered(guards):
        touched = [group for group in groups if group[0] & symbols(g.value)]
        merged = (set().union(*(t[0] for t in touched)), {g}.union(*(t[1] for t in touched)))
        groups = [group for group in groups if group not in touched] + [merged]
    extents = dict(bound)
    return [([(b, extents[b]) for b in sorted(names)], frozenset(own)) for names, own in groups]


# ---- cases ---------------------------------------------------------------------------------------------------------


def cases(sums: Sequence[Sum], context: Context) -> Iterator[tuple[tuple[Guard, ...], tuple[Sum, ...], Context]]:
    """The ways in which guards that mention no term's own bound variables can fall: (guards, sums, context)."""
    budget = [CASES]
    yield from _cases(tuple(sums), context, (), budget)


def _cases(
    sums: tuple[Sum, ...], context: Context, so_far: tuple[Guard, ...], budget: list[int]
) -> Iterator[tuple[tuple[Guard, ...], tuple[Sum, ...], Context]]:
    open_ = next((g for s in sums for t in s for g in sorted(t.guards, key=str) if outside(t, g)), None)
    if open_ is None:
        budget[0] -= 1
        if budget[0] < 0:
            raise Unprovable("the guards fall into too many cases")
        yield so_far, tuple(simplified(s, context) for s in sums), context
        return
    for g in (open_, open_.negated):
        inner = context.and_((g,))
        if context.possible((g,)):
            known = () if not context.possible((g.negated,)) else (g,)
            yield from _cases(tuple(assuming(s, g, inner) for s in sums), inner, (*so_far, *known), budget)


def outside(term: Term, g: Guard) -> bool:
    """Whether a guard mentions none of the term's own bound variables."""
    return not symbols(g.value) & {b for b, _ in term.bound}


def assuming(terms: Sum, holds: Guard, context: Context) -> Sum:
    """The terms where ``holds`` does."""
    found = []
    for t in terms:
        if holds.negated in t.guards or any(outside(t, g) and not context.possible((g,)) for g in ordered(t.guards)):
            continue
        left = frozenset(g for g in ordered(t.guards) if g != holds and not (outside(t, g) and context.implies(g)))
        found.append(replace(t, guards=left))
    return tuple(found)


# ---- slots ---------------------------------------------------------------------------------------------------------


def virtual(
    arguments: Sequence[Sum], alternatives: Sequence[Alternative], context: Context, name: str = "",
    attributes: Sequence[Size | float] = (),
) -> tuple[Head, tuple[Size, ...]]:  # fmt: skip
    """A head of these sums or alternatives with what comes from outside made slots, and the slots' values."""
    slots = _Slots(context)
    ordered = [tuple(sorted(s, key=lambda t: _masked(t, ()))) for s in arguments]
    sums = tuple(tuple(slots.term(t, frozenset()) for t in s) for s in ordered)
    families = tuple(slots.alternative(a) for a in sorted(alternatives, key=lambda a: masked(str(a))))
    kind = "maximum" if alternatives else "function"
    head = Head(kind, name or kind, tuple(attributes), sums, families)  # type: ignore[arg-type]
    return head, tuple(slots.values)


def _masked(term: Term, bound: Collection[Symbol]) -> str:
    return masked(str(term)) if bound or term.bound else str(term)


class _Slots:
    def __init__(self, context: Context) -> None:
        self.indices = frozenset(context.bounds)
        self.values: list[Size] = []

    def _outer(self, value: Size, bound: frozenset[Symbol]) -> tuple[Size, Size, bool]:
        """(part without bound variables, the rest, whether the former mentions an index variable)."""
        if isinstance(value, int):
            return value, 0, False
        outer: Size = 0
        inner: Size = 0
        for monomial, coefficient in value.terms:
            piece: Size = Expression(((monomial, coefficient),)) if monomial else coefficient
            names = symbols(piece)
            if names & bound:
                if any(self._moves(n) for n in names - bound):
                    piece = self._inside(monomial, coefficient, bound)
                inner = inner + piece
            else:
                outer = outer + piece
        return outer, inner, any(self._moves(n) for n in symbols(outer))

    def _moves(self, symbol: Symbol) -> bool:
        return symbol in self.indices or symbol.role in (Role.BOUND, Role.SLOT)

    def _inside(self, monomial: tuple[object, ...], coefficient: int, bound: frozenset[Symbol]) -> Size:
        """A product of a bound variable and one from outside: the latter becomes a slot itself."""
        whole: Size = Expression(((monomial, coefficient),))  # type: ignore[arg-type]
        names = sorted(n for n in symbols(whole) - bound if self._moves(n))
        return replaced(whole, {n: self._slot(n.size) for n in names})

    def _slot(self, value: Size) -> Size:
        for k, known in enumerate(self.values):
            rest = value - known
            if not any(self._moves(n) for n in symbols(rest)):
                return slot(k).size + rest
            rest = value + known
            if not any(self._moves(n) for n in symbols(rest)):
                return rest - slot(k).size
        self.values.append(value)
        return slot(len(self.values) - 1).size

    def size(self, value: Size, bound: frozenset[Symbol]) -> Size:
        outer, inner, moves = self._outer(value, bound)
        return inner + self._slot(outer) if moves else value

    def term(self, term: Term, bound: frozenset[Symbol]) -> Term:
        inside = bound | {b for b, _ in term.bound}
        ordered = sorted(term.factors, key=lambda f: masked(str(f)))
        factors = [Factor(f.head, tuple(self.size(i, inside) for i in f.index), f.power) for f in ordered]
        guards = frozenset(Guard(self.size(g.value, inside), g.kind) for g in sorted(term.guards, key=_guard_key))
        extents = tuple((b, self.size(e, inside)) for b, e in term.bound)
        return named(Term(term.coefficient, tuple(factors), extents, guards))

    def alternative(self, a: Alternative) -> Alternative:
        bound = frozenset(b for b, _ in a.bound)
        body = tuple(self.term(t, bound) for t in sorted(a.body, key=lambda t: _masked(t, bound)))
        guards = frozenset(Guard(self.size(g.value, bound), g.kind) for g in sorted(a.guards, key=_guard_key))
        return named_alternative(Alternative(body, tuple((b, self.size(e, bound)) for b, e in a.bound), guards))


def _guard_key(g: Guard) -> str:
    return masked(str(g))


def named(term: Term) -> Term:
    """The term with its bound variables called _c0, _c1, ... in the order in which its factors read them."""
    if not term.bound:
        return term
    order = _order(dict(term.bound), [i for f in term.factors for i in f.index], term.guards)
    final = _numbered("c", len(order))
    if tuple(b for b, _ in term.bound) == tuple(order) == final:
        return replace(term, factors=tuple(sorted(term.factors, key=str)))
    moved = _renamed(replace(term, bound=()), order, final)
    extents = dict(term.bound)
    bound = tuple((new, extents[old]) for old, new in zip(order, final, strict=True))
    return replace(moved, bound=bound, factors=tuple(sorted(moved.factors, key=str)))


def named_alternative(a: Alternative) -> Alternative:
    """The alternative with its bound variables called _a0, _a1, ..."""
    if not a.bound:
        return a
    sizes = [s for t in a.body for f in t.factors for s in f.index]
    order = _order(dict(a.bound), sizes, a.guards)
    final = _numbered("a", len(order))
    extents = dict(a.bound)
    moved = _renamed(replace(a, bound=()), order, final)
    return replace(moved, bound=tuple((new, extents[old]) for old, new in zip(order, final, strict=True)))


def _numbered(kind: str, count: int) -> tuple[Symbol, ...]:
    return tuple(Symbol(f"{kind}{k}", Role.BOUND) for k in range(count))


def _renamed(form: Form, old: Sequence[Symbol], new: Sequence[Symbol]) -> Form:
    """A term or an alternative with variables renamed all at once: through names that nothing has."""
    between = _numbered("t", len(old))
    away = {b: t.size for b, t in zip(old, between, strict=True)}
    return form.map(away).map({t: b.size for t, b in zip(between, new, strict=True)})


def _order(bound: Mapping[Symbol, Size], sizes: Iterable[Size], guards: Iterable[Guard]) -> list[Symbol]:
    order: dict[Symbol, None] = {}
    for size in [*sizes, *(g.value for g in sorted(guards, key=_guard_key))]:
        if isinstance(size, int):
            continue
        for monomial, _ in size.terms:
            for atom in monomial:
                for name in sorted(symbols(Expression((((atom,), 1),)))):
                    if name in bound:
                        order.setdefault(name)
    for name in bound:
        order.setdefault(name)
    return list(order)


__all__ = ["cases", "collected", "number", "simplified", "text", "virtual"]

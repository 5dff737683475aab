"""Whether two sums in normal form are equal for all values of the tensors that they read.

Terms with the same factors are compared by their *multiplicity*: at every place where the factors can be read, how
often, with which coefficient, each side reads there.  Multiplicities are linear integer arithmetic, which Z3 decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

import z3

from taso_py.graph.sizes import Expression, Role, Size, Symbol, symbols
from taso_py.prove.kernel.arithmetic import Context
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.maxima import families_of, instance
from taso_py.prove.kernel.normal import Alternative, Factor, Head, Sum, Term, slot
from taso_py.prove.kernel.places import Place, counted, covered, located, solver_for
from taso_py.prove.kernel.reals import Real, Reals
from taso_py.prove.kernel.simplify import cases, collected, simplified, split_range, virtual

Shape: TypeAlias = tuple[tuple[Head, int], ...]
_DEPTH = 6
_PERMUTATIONS = 24


@dataclass(slots=True)
class Equality:
    """Compares sums; ``equal`` remembers pairs of heads that were proved equal."""

    functions: Functions
    conditions: tuple[Real, ...] = ()
    depth: int = 0
    memory: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def same(self, left: Sum, right: Sum, context: Context) -> bool:
        """Whether the sums are equal in every case into which their guards fall."""
        if left == right:
            return True
        return all(self._same(a, b, inner) for _, (a, b), inner in cases((left, right), context))

    def _same(self, left: Sum, right: Sum, context: Context) -> bool:
        difference = collected((*left, *(replace(t, coefficient=-t.coefficient) for t in right)))
        if not difference:
            return True
        difference = self._unified(difference, context)
        groups: dict[Shape, list[Term]] = {}
        for t in difference:
            groups.setdefault(_shape(t), []).append(t)
        failed = [t for shape, terms in groups.items() if not self._vanishing(shape, terms, context) for t in terms]
        return not failed or self._real(tuple(failed))

    def _vanishing(self, shape: Shape, terms: Sequence[Term], context: Context) -> bool:
        """`_vanishes`, trying ranges that are products as two ranges when it does not reach the goal."""
        try:
            if self._vanishes(shape, terms, context):
                return True
        except Unprovable:
            if not any(divisors(t, context) for t in terms):
                raise
        for variant in refined(terms, context):
            try:
                if self._vanishes(shape, simplified(tuple(variant), context), context):
                    return True
            except Unprovable:
                continue
        return False

    def _real(self, difference: Sum) -> bool:
        """Whether terms add up to 0 by what is known of maxima, moduli and roots."""
        return Reals(self.functions, self.conditions).same(difference, ())

    # ---- functions that are equal without being written alike ----------------------------------------------------

    def _unified(self, terms: Sum, context: Context) -> Sum:
        """Terms in which function factors that are proved equal are one."""
        if self.depth >= _DEPTH:
            return terms
        found = list(terms)
        for a, b in itertools.combinations(range(len(found)), 2):
            for f, g in self._candidates(found[a], found[b]):
                if self._equal_factors(f, g, found[a], found[b], context):
                    found[b] = _exchanged(found[b], g, f)
        return collected(found)

    def _candidates(self, s: Term, t: Term) -> Iterator[tuple[Factor, Factor]]:
        for f in s.factors:
            for g in t.factors:
                alike = _kind(f) == _kind(g) and (f.head, f.index) != (g.head, g.index)
                if alike and (f.head.arguments or f.head.alternatives):
                    yield f, g

    def _equal_factors(self, f: Factor, g: Factor, s: Term, t: Term, context: Context) -> bool:
        if _bound_in(f, s) or _bound_in(g, t):
            return self._equal_heads(f, g)
        key = (f, g, context.assumptions)
        if key not in self.memory:
            self.memory[key] = self._proved(f, g, context)
        return self.memory[key]

    def _equal_heads(self, f: Factor, g: Factor) -> bool:
        """Under sums a function is one virtual tensor: it must be the same at every place."""
        if f.head == g.head or len(f.index) != len(g.index):
            return False
        here = tuple(slot(k).size for k in range(len(f.index)))
        return self._proved(Factor(f.head, here), Factor(g.head, here), Context()) and f.index == g.index

    def _proved(self, f: Factor, g: Factor, context: Context) -> bool:
        inner = Equality(self.functions, self.conditions, self.depth + 1, self.memory)
        try:
            if f.head.kind in ("maximum", "count"):
                return inner.same_families(families_of(f), families_of(g), context, count=f.head.kind == "count")
            pairs = zip(instance(f), instance(g), strict=True)
            return all(inner.same(simplified(a, context), simplified(b, context), context) for a, b in pairs)
        except Unprovable:
            return False

    def same_families(
        self, left: Sequence[Alternative], right: Sequence[Alternative], context: Context, *, count: bool = False
    ) -> bool:
        """Whether two maxima have the same elements: every element of either side is one of the other."""
        if count and (len(left) != 1 or len(right) != 1):
            return False
        if not count:
            left, right = self._paired_off(left, right, context)
        names: dict[Shape, tuple[list[Term], list[Term]]] = {}
        for side, families in enumerate((left, right)):
            for a in families:
                term = _body_term(a)
                names.setdefault(_shape(term), ([], []))[side].append(term)
        return all(self._covers(shape, a, b, context, count=count) for shape, (a, b) in names.items())

    def _paired_off(
        self, left: Sequence[Alternative], right: Sequence[Alternative], context: Context
    ) -> tuple[list[Alternative], list[Alternative]]:
        """What is left of both sides without single values that have an equal one on the other side."""
        rest, others = [], list(right)
        for a in left:
            twin = next((b for b in others if self._single_values(a, b, context)), None)
            if twin is None:
                rest.append(a)
            else:
                others.remove(twin)
        return rest, others

    def _single_values(self, a: Alternative, b: Alternative, context: Context) -> bool:
        if any(x.bound or x.guards for x in (a, b)):
            return False
        try:
            return self.same(simplified(a.body, context), simplified(b.body, context), context)
        except Unprovable:
            return False

    def _covers(self, shape: Shape, left: list[Term], right: list[Term], context: Context, *, count: bool) -> bool:
        if count:
            return False
        width = _width([*left, *right])
        ordered = [[replace(t, factors=tuple(_ordered(t))) for t in side] for side in (left, right)]
        here, there = ([p for t in side for p in located(t, width, ())] for side in ordered)
        return all(covered(p, there, context) for p in here) and all(covered(p, here, context) for p in there)

    # ---- multiplicities ------------------------------------------------------------------------------------------

    def _vanishes(self, shape: Shape, terms: Sequence[Term], context: Context) -> bool:
        """Whether terms with the same factors cancel at every place."""
        if not terms:
            return True
        width = _width(terms)
        fixed = _fixed(terms, width)
        places: list[Place] = []
        orders = list(_symmetries(shape))
        for order in orders:
            for t in terms:
                moved = _reordered(t, order)
                places += located(moved, width, fixed if len(orders) == 1 else ())
        if not places:
            return True
        # Outside of what all places demand nothing is read at all.
        common = frozenset.intersection(*(p.guards for p in places))
        places = [replace(p, guards=p.guards - common) for p in places]
        encoder, solver = solver_for(context.and_(common))
        unit = math.lcm(*(p.coefficient.denominator for p in places))
        total = [counted(p, unit, encoder) for p in places]
        solver.add(z3.Sum(*total, encoder.size(0)) != 0, *encoder.facts())
        return bool(solver.check() == z3.unsat)


def _kind(f: Factor) -> tuple[object, ...]:
    return f.head.kind, f.head.name, f.head.attributes, f.power


def _bound_in(f: Factor, t: Term) -> bool:
    names = {b for b, _ in t.bound}
    return any(symbols(i) & names for i in f.index)


def _exchanged(t: Term, old: Factor, new: Factor) -> Term:
    factors = tuple(new if f == old else f for f in t.factors)
    return replace(t, factors=tuple(sorted(factors, key=lambda f: (str(f.head), list(map(str, f.index))))))


def _shape(t: Term) -> Shape:
    return tuple((f.head, f.power) for f in sorted(t.factors, key=lambda f: (str(f.head), f.power)))


def _ordered(t: Term) -> list[Factor]:
    return sorted(t.factors, key=lambda f: (str(f.head), f.power))


def _width(terms: Sequence[Term]) -> int:
    widths = {sum(len(f.index) for f in t.factors) for t in terms}
    if len(widths) != 1:
        raise Unprovable("one function is read at different numbers of places")
    return widths.pop()


def _indices(t: Term) -> list[Size]:
    return [i for f in _ordered(t) for i in f.index]


def _fixed(terms: Sequence[Term], width: int) -> tuple[int, ...]:
    """Slots that all terms read at one and the same place, which no bound variable moves."""
    found = []
    rows = [_indices(t) for t in terms]
    bound = {b for t in terms for b, _ in t.bound}
    for k in range(width):
        values = {row[k] for row in rows}
        if len(values) == 1 and not symbols(next(iter(values))) & bound:
            found.append(k)
    return tuple(found)


def _symmetries(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Orders of the factors that exchange equal heads with equal powers only."""
    blocks = [list(group) for _, group in itertools.groupby(range(len(shape)), key=lambda k: shape[k])]
    count = math.prod(math.factorial(len(b)) for b in blocks)
    if count > _PERMUTATIONS:
        raise Unprovable("a tensor is read too often in one product")
    for choice in itertools.product(*(itertools.permutations(b) for b in blocks)):
        yield tuple(k for block in choice for k in block)


def _reordered(t: Term, order: Sequence[int]) -> Term:
    factors = _ordered(t)
    return replace(t, factors=tuple(factors[k] for k in order))


def divisors(t: Term, context: Context) -> list[tuple[Symbol, Size]]:
    """Ranges that are products, with each factor that could be the length of a run."""
    found: list[tuple[Symbol, Size]] = []
    for name, extent in t.bound:
        if isinstance(extent, int) or len(extent.terms) != 1:
            continue
        atoms = extent.terms[0][0]
        if len(atoms) > 1:
            factors = (Expression((((a,), 1),)) for a in dict.fromkeys(atoms))
            found += [(name, factor) for factor in factors if context.is_natural(factor)]
    return found


def refined(terms: Sequence[Term], context: Context) -> Iterator[list[Term]]:
    """The terms with ranges that are products split into two, in the ways that the factors allow."""
    options = sorted({d for t in terms for _, d in divisors(t, context)}, key=str)
    for size in range(1, min(len(options), 3) + 1):
        for chosen in itertools.combinations(options, size):
            variant = list(terms)
            for d in chosen:
                variant = [_split_by(t, d, context) for t in variant]
            yield variant


def _split_by(t: Term, divisor: Size, context: Context) -> Term:
    for name, d in divisors(t, context):
        if d == divisor:
            t = split_range(t, name, divisor)
    return t


def _body_term(a: Alternative) -> Term:
    """An alternative as a term that reads its body once."""
    if len(a.body) == 1 and a.body[0].coefficient == 1 and not a.body[0].bound and not a.body[0].guards:
        return Term(Fraction(1), a.body[0].factors, a.bound, a.guards)
    bounds: dict[Symbol, Size] = {b: 0 for b, _ in a.bound}
    names = set().union(*(symbols(s) for t in a.body for s in t.sizes())) if a.body else set()
    context = Context((), {**bounds, **{s: 0 for s in names if s.role in (Role.BOUND, Role.SLOT, Role.INDEX)}})
    head, index = virtual((a.body,), (), context, "body")
    return Term(Fraction(1), (Factor(head, index),), a.bound, a.guards)

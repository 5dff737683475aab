"""Integer arithmetic under assumptions: what is known of sizes and indices, and Z3 behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import z3

from taso_py.graph.sizes import Expression, Floor, Image, Size, Symbol, floor_divide, symbols
from taso_py.graph.substitution import evaluate
from taso_py.ops.meaning import Compare
from taso_py.prove.kernel.attempt import Unprovable, current

Kind: TypeAlias = Literal[">=", "==", "!="]
RESOURCES = 1_000_000
"""Most of Z3's own units that one question in integers may take, so that no verdict depends on how busy the machine is.

The hardest question of the library takes 36,000 of them, of all laws that are shipped 75,000.  A second is worth from
0.4 million (hard cases over linear constraints) to 5 million (products of unknowns): the worst takes two seconds or so.
"""


@dataclass(frozen=True, slots=True)
class Guard:
    """value >= 0, value == 0 or value != 0."""

    value: Size
    kind: Kind
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Sets of guards are keys of what a proof remembers.
        object.__setattr__(self, "_hash", hash((self.value, self.kind)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Guard)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.value == other.value
        )

    @property
    def negated(self) -> Guard:
        """The opposite."""
        match self.kind:
            case ">=":
                return Guard(-self.value - 1, ">=")
            case "==":
                return Guard(self.value, "!=")
            case _:
                return Guard(self.value, "==")

    @property
    def decided(self) -> bool | None:
        """The truth of a guard without symbols."""
        if not isinstance(self.value, int):
            return None
        return {">=": self.value >= 0, "==": self.value == 0, "!=": self.value != 0}[self.kind]

    def map(self, values: Mapping[Symbol, Size]) -> Guard:
        """The guard with symbols replaced."""
        return Guard(replaced(self.value, values), self.kind)

    def __str__(self) -> str:
        return f"{self.value} {self.kind} 0"


def guard(compare: Compare) -> Guard:
    """A comparison as a guard."""
    match compare.relation:
        case "<":
            return Guard(compare.right - compare.left - 1, ">=")
        case "<=":
            return Guard(compare.right - compare.left, ">=")
        case _:
            return Guard(compare.left - compare.right, "==")


def replaced(size: Size, values: Mapping[Symbol, Size]) -> Size:
    """``size`` with symbols replaced."""
    if isinstance(size, int) or not (symbols(size) & values.keys()):
        return size
    return evaluate(size, lambda s: values.get(s, s.size))


def between(index: Size, extent: Size) -> tuple[Guard, Guard]:
    """0 <= index < extent."""
    return Guard(index, ">="), Guard(extent - index - 1, ">=")


class TooManyTerms(Unprovable):
    """A value that would be too long if it were written out."""


CHECK = 20
"""Steps that a question to Z3 counts for."""


def ordered(guards: Iterable[Guard]) -> list[Guard]:
    """Guards in the order of their text: what a proof does must not depend on the order of a set."""
    return sorted(guards, key=str) if isinstance(guards, (set, frozenset)) else list(guards)


@dataclass(frozen=True, slots=True)
class Witness:
    """Index variables with ``bounds`` of which some values satisfy the guards, wherever the conditions hold."""

    conditions: frozenset[Guard]
    guards: tuple[Guard, ...]
    bounds: tuple[tuple[Symbol, Size], ...]


@dataclass(slots=True)
class Context:
    """Guards that are taken to hold; ``bounds`` has the extents of index variables: 0 <= i < extent."""

    assumptions: tuple[Guard, ...] = ()
    bounds: dict[Symbol, Size] = field(default_factory=dict)
    witnesses: tuple[tuple[Symbol, ...], ...] = ()
    """Groups of index variables that were assumed to exist; their ranges are in ``bounds``."""
    waiting: tuple[Witness, ...] = ()
    """What exists where more is assumed."""
    _ranges: frozenset[tuple[Symbol, Size]] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def ranges(self) -> frozenset[tuple[Symbol, Size]]:
        """The bounds as a key."""
        if self._ranges is None:
            self._ranges = frozenset(self.bounds.items())
        return self._ranges

    def and_(self, guards: Iterable[Guard], bounds: Mapping[Symbol, Size] | None = None) -> Context:
        """The context with more assumptions."""
        more = tuple(g for g in ordered(guards) if g.decided is not True and g not in self.assumptions)
        if not more and not bounds:
            return self
        everything = {**self.bounds, **(bounds or {})}
        return _met(Context((*self.assumptions, *more), everything, self.witnesses, self.waiting))

    def with_witness(self, witness: Witness) -> Context:
        """The context in which something exists, at once or wherever its conditions hold."""
        return _met(replace(self, waiting=(*self.waiting, witness)))

    def implies(self, wanted: Guard) -> bool:
        """Whether ``wanted`` holds whenever the assumptions do."""
        known = wanted.decided
        if known is not None:
            return known or not self.possible(())
        if self.evident(wanted):
            return True
        return not self.possible((wanted.negated,))

    def evident(self, wanted: Guard) -> bool:
        """A sum of non-negative terms once indices count from whichever end makes the coefficients positive."""
        if wanted.decided is not None:
            return wanted.decided
        if wanted in self.assumptions:
            return True
        if isinstance(wanted.value, Expression) and any(isinstance(a, Image) for m, _ in wanted.value.terms for a in m):
            named, bounds = _named_images(wanted.value)
            return Context(self.assumptions, {**self.bounds, **bounds}).evident(Guard(named, wanted.kind))
        if wanted.kind == "!=":
            return self._positive(wanted.value, 1) or self._positive(-wanted.value, 1)
        return wanted.kind == ">=" and self._positive(wanted.value, 0)

    def reduced(self, g: Guard) -> Guard:
        """An equivalent guard without a floor or a digit that does not matter."""
        if g.kind != ">=" or isinstance(g.value, int):
            return g
        key = (g.value, self.ranges)
        reduced: dict[object, Guard] = current().reduced
        if key not in reduced:
            reduced[key] = self._reduced(g.value)
        return reduced[key]

    def _reduced(self, whole: Size) -> Guard:
        value = _without_floor(whole)
        for _ in range(3):
            shorter = self._without_digit(value)
            if shorter is None:
                break
            value = shorter
        return Guard(value, ">=")

    def _without_digit(self, value: Size) -> Size | None:
        """q·a + r >= 0 is a >= 0 where 0 <= r < q."""
        if isinstance(value, int):
            return None
        for q in sorted({a for m, _ in value.terms if len(m) > 1 for a in m if isinstance(a, Symbol)}):
            if not q.natural or q in self.bounds:
                continue
            divisor = q.size
            whole: Size = 0
            rest: Size = 0
            for monomial, coefficient in value.terms:
                piece: Size = Expression(((monomial, coefficient),)) if monomial else coefficient
                if q in monomial:
                    whole = whole + floor_divide(piece, divisor)
                else:
                    rest = rest + piece
            for shift in (0, 1):
                digit = rest + shift * divisor
                if self._positive(digit, 0) and self._positive(divisor - 1 - digit, 0):
                    return whole - shift
        return None

    def _positive(self, value: Size, least: int) -> bool:
        """A sum of non-negative terms, once indices count from the other end and remainders are bounded."""
        key = (value, least, self.ranges)
        positive = current().positive
        if key not in positive:
            positive[key] = self._is_positive(value, least)
        return positive[key]

    def _is_positive(self, value: Size, least: int) -> bool:
        turned = self._turned(value)
        if isinstance(turned, int):
            return turned >= least
        if self._plainly(turned, least):
            return True
        for form in (value, turned):
            exact = _without_floor(form) if least == 0 else form
            if exact != form and self._positive(exact, 0):
                return True
        return any(self._positive(rest, least) for rest in _without_remainder(turned))

    def _turned(self, value: Size) -> Size:
        for _ in range(6):
            turned = None if isinstance(value, int) else _turned(value, self.bounds)
            if turned is None:
                return value
            value = turned
        return value

    def _plainly(self, value: Expression, least: int) -> bool:
        constant = sum(c for m, c in value.terms if not m)
        plain = all(isinstance(a, Symbol) and self.natural(a) for m, _ in value.terms for a in m)
        return plain and constant >= least and all(c > 0 for m, c in value.terms if m)

    def natural(self, symbol: Symbol) -> bool:
        """Whether a symbol stands for a size or an index that is never negative."""
        return symbol in self.bounds or symbol.natural

    def is_natural(self, size: Size) -> bool:
        """Whether a size is surely not negative."""
        return self.implies(Guard(size, ">="))

    def possible(self, extra: Sequence[Guard]) -> bool:
        """Whether the assumptions and ``extra`` can hold at once; True when that is not known."""
        if any(g.decided is False for g in extra):
            return False
        relevant = self.about(extra)
        key = (frozenset(relevant.assumptions), relevant.ranges, frozenset(extra))
        possible = current().possible
        if key not in possible:
            possible[key] = relevant.consistent(extra)
        return possible[key]

    def about(self, guards: Sequence[Guard]) -> Context:
        """The part of the context that is connected to the symbols of ``guards``; all of it for none."""
        if not guards:
            return self
        reached = set().union(*(symbols(g.value) for g in guards))
        facts = [(g, symbols(g.value)) for g in self.assumptions]
        ranges = [(b, e, symbols(e) | {b}) for b, e in self.bounds.items()]
        before = -1
        while before != len(reached):
            before = len(reached)
            for names in [n for _, n in facts] + [n for _, _, n in ranges]:
                if names & reached:
                    reached |= names
        kept = tuple(g for g, names in facts if names & reached)
        bounds = {b: e for b, e, names in ranges if names & reached}
        return Context(kept, bounds, self.witnesses)

    def consistent(self, extra: Sequence[Guard]) -> bool:
        """`possible`, asked of Z3."""
        from taso_py.prove.kernel.encoding import Encoder

        attempt = current()
        attempt.step(CHECK)
        solver = z3.SimpleSolver(ctx=attempt.z3)
        solver.set("rlimit", RESOURCES)
        encoder = Encoder(self)
        solver.add(*encoder.context(), *map(encoder.assumed, extra))
        solver.add(*encoder.facts())
        return bool(solver.check() != z3.unsat)


def _met(context: Context) -> Context:
    """The context with the witnesses whose conditions hold."""
    for k, w in enumerate(context.waiting):
        if all(map(context.evident, w.conditions)):
            group = tuple(name for name, _ in w.bounds)
            rest = (*context.waiting[:k], *context.waiting[k + 1 :])
            found = replace(context, witnesses=(*context.witnesses, group), waiting=rest)
            return found.and_(w.guards, dict(w.bounds))
    return context


def _turned(value: Expression, bounds: Mapping[Symbol, Size]) -> Size | None:
    """``value`` with one index i that has a negative coefficient replaced by extent - 1 - i; None: there is none."""
    for monomial, coefficient in value.terms:
        if coefficient < 0:
            for atom in monomial:
                extent = bounds.get(atom) if isinstance(atom, Symbol) else None
                if extent is not None and isinstance(atom, Symbol):
                    return replaced(value, {atom: extent - 1 - atom.size})
    return None


def _named_images(value: Expression) -> tuple[Size, dict[Symbol, Size]]:
    """``value`` with values of unknown functions as index variables, and their extents."""
    bounds: dict[Symbol, Size] = {}
    total: Size = 0
    for monomial, coefficient in value.terms:
        product: Size = coefficient
        for atom in monomial:
            if isinstance(atom, Image):
                named = Symbol(str(atom))
                bounds[named] = atom.extent
                atom = named
            product = product * Expression((((atom,), 1),))
        total = total + product
    return total, bounds


def _without_floor(value: Size) -> Size:
    """floor(n / d) + r >= 0 is n + r·d >= 0, and r - floor(n / d) >= 0 is (r + 1)·d - n - 1 >= 0."""
    if isinstance(value, int):
        return value
    atoms = [(m[0], c) for m, c in value.terms if len(m) == 1 and isinstance(m[0], Floor)]
    nested = any(isinstance(a, Floor) for m, _ in value.terms if len(m) > 1 for a in m)
    if len(atoms) != 1 or nested or atoms[0][1] not in (1, -1):
        return value
    atom, sign = atoms[0]
    assert isinstance(atom, Floor)
    rest = value - sign * Expression((((atom,), 1),))
    if sign > 0:
        return atom.numerator + rest * atom.denominator
    return (rest + 1) * atom.denominator - atom.numerator - 1


def _without_remainder(value: Expression) -> list[Size]:
    """What ``value`` is at least, with one remainder n - d·floor(n / d) taken as 0, or as d - 1 if subtracted."""
    found: list[Size] = []
    atoms = {a for m, _ in value.terms for a in m if isinstance(a, Floor)}
    for atom in sorted(atoms, key=str):
        me = Expression((((atom,), 1),))
        for whole, extent in _remainders(atom, atoms):
            remainder = whole - extent * me
            for sign in (1, -1):
                rest = value - sign * remainder
                if not isinstance(rest, int) and any(atom in m for m, _ in rest.terms):
                    continue
                found.append(rest if sign > 0 else rest - (extent - 1))
    return found


def _remainders(atom: Floor, others: set[Floor]) -> Iterable[tuple[Size, Size]]:
    """(n, d) with floor(n / d) the atom: its own, and floor(p / (q·d)) = floor(floor(p / q) / d)."""
    yield atom.numerator, atom.denominator
    for other in sorted(others, key=str):
        if other != atom and other.numerator == atom.numerator:
            ratio = floor_divide(atom.denominator, other.denominator)
            if ratio * other.denominator == atom.denominator:
                yield Expression((((other,), 1),)), ratio

"""Normal forms of meanings: finite sums of guarded products under sums over index ranges.

A term is coefficient · Σ_{bound variables} [guards] · Π factor^power.  A factor is a head read at index expressions: a
tensor, a size, or a function or maximum of sums.  The sums inside a head are written in *slots* ``#0, #1, ...``: every
part of an index that comes from outside is a slot, so that a function is one virtual tensor wherever it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from taso_py.graph.sizes import (
    Atom,
    Entry,
    Expression,
    Floor,
    Role,
    Size,
    Symbol,
    entry,
    floor_divide,
    symbols,
)
from taso_py.prove.kernel.arithmetic import Context, Guard, TooManyTerms, ordered, replaced
from taso_py.prove.kernel.attempt import current

_NUMBERED = re.compile(r"_[a-z]*\d+")
"""How bound variables are written."""

MOST_POWER = 64
"""Highest power of a factor: what is above it would be a product of as many factors."""

HeadKind: TypeAlias = Literal["tensor", "truth", "size", "integer", "function", "maximum", "count"]


@dataclass(frozen=True, slots=True)
class Head:
    """What is read: a tensor by name, a size (its one attribute), or a function (name, attributes) of sums in slots."""

    kind: HeadKind
    name: str
    attributes: tuple[Size | float, ...] = ()
    arguments: tuple[Sum, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        key = (self.kind, self.name, self.attributes, self.arguments, self.alternatives)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    @property
    def function(self) -> str:
        """The function that a head of kind function computes; empty for a tensor or a size of whatever name."""
        return self.name if self.kind == "function" else ""

    def computes(self, function: str) -> bool:
        """Whether it is this function."""
        return self.function == function

    @property
    def size(self) -> Size:
        """The size that a head of kind size stands for."""
        (found,) = self.attributes
        assert isinstance(found, Expression)
        return found

    def __str__(self) -> str:
        if self.kind == "size":
            return self.name
        inner = [*map(str, self.attributes), *map(text, self.arguments), *map(str, self.alternatives)]
        return f"{self.name}({'; '.join(inner)})" if inner else self.name


@dataclass(frozen=True, slots=True)
class Factor:
    """head[index...] ** power."""

    head: Head
    index: tuple[Size, ...] = ()
    power: int = 1

    def map(self, values: Mapping[Symbol, Size]) -> Factor:
        """The factor with index symbols replaced."""
        return Factor(self.head, tuple(replaced(i, values) for i in self.index), self.power)

    def __str__(self) -> str:
        power = "" if self.power == 1 else f"^{self.power}"
        return f"{self.head}[{','.join(map(str, self.index))}]{power}"


@dataclass(frozen=True, slots=True)
class Term:
    """coefficient · Σ_{0 <= b < extent for each bound variable} [guards] · Π factors."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    bound: tuple[tuple[Symbol, Size], ...] = ()
    guards: frozenset[Guard] = frozenset()

    def map(self, values: Mapping[Symbol, Size]) -> Term:
        """The term with symbols replaced (not its bound variables)."""
        if not values:
            return self
        return Term(
            self.coefficient,
            tuple(f.map(values) for f in self.factors),
            tuple((b, replaced(e, values)) for b, e in self.bound),
            frozenset(g.map(values) for g in self.guards),
        )

    def guarded(self, guards: Iterable[Guard]) -> Term:
        """The term under more guards."""
        return replace(self, guards=self.guards | frozenset(g for g in guards if g.decided is not True))

    def renamed(self) -> Term:
        """The term with bound variables that nothing else uses."""
        if not self.bound:
            return self
        names = {b: fresh() for b, _ in self.bound}
        values = {b: name.size for b, name in names.items()}
        return replace(self.map(values), bound=tuple((names[b], replaced(e, values)) for b, e in self.bound))

    def sizes(self) -> Iterator[Size]:
        """Every integer expression in the term."""
        for f in self.factors:
            yield from f.index
        for g in ordered(self.guards):
            yield g.value

    def __str__(self) -> str:
        parts = [str(self.coefficient)]
        parts += [f"Σ{b}<{e}" for b, e in self.bound]
        parts += ["[" + " ∧ ".join(sorted(map(str, self.guards))) + "]"] if self.guards else []
        return "·".join([*parts, *map(str, self.factors)])


Sum: TypeAlias = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One family of elements of a maximum: body over the bound variables, where the guards hold."""

    body: Sum
    bound: tuple[tuple[Symbol, Size], ...] = ()
    guards: frozenset[Guard] = frozenset()

    def map(self, values: Mapping[Symbol, Size]) -> Alternative:
        """The alternative with symbols replaced."""
        return Alternative(
            tuple(t.map(values) for t in self.body),
            tuple((b, replaced(e, values)) for b, e in self.bound),
            frozenset(g.map(values) for g in self.guards),
        )

    def renamed(self) -> Alternative:
        """With bound variables that nothing else uses."""
        if not self.bound:
            return self
        names = {b: fresh() for b, _ in self.bound}
        other = self.map({b: name.size for b, name in names.items()})
        return replace(other, bound=tuple((names[b], e) for b, e in other.bound))

    def __str__(self) -> str:
        bound = "".join(f"{b}<{e} " for b, e in self.bound)
        return f"{bound}{sorted(map(str, self.guards))} {text(self.body)}"


def text(terms: Sum) -> str:
    """A sum in words."""
    return " + ".join(map(str, terms)) or "0"


def masked(text: str) -> str:
    """The text of a form whatever the numbers of its bound variables: an order that does not depend on them."""
    return _NUMBERED.sub("_", text)


def fresh() -> Symbol:
    """A new bound variable."""
    return Symbol(f"b{next(current().numbers)}", Role.BOUND)


# ---- arithmetic ----------------------------------------------------------------------------------------------------

ZERO: Sum = ()


def number(value: Fraction | int) -> Sum:
    """A constant."""
    return (Term(Fraction(value)),) if value else ZERO


ONE = number(1)


def factor(f: Factor) -> Sum:
    """A single factor."""
    return (Term(Fraction(1), (f,)),)


def scaled(terms: Sum, coefficient: Fraction | int) -> Sum:
    """coefficient · terms."""
    return tuple(replace(t, coefficient=t.coefficient * coefficient) for t in terms) if coefficient else ZERO


def multiplied(a: Sum, b: Sum) -> Sum:
    """a · b; powers of equal factors are added."""
    if len(a) * len(b) > 5000:
        raise TooManyTerms("a product has too many terms")
    found: list[Term] = []
    for s in a:
        for t in b:
            other = t.renamed() if s.bound and t.bound else t
            factors = powers((*s.factors, *other.factors))
            bound, guards = (*s.bound, *other.bound), s.guards | other.guards
            found += squared(Term(s.coefficient * other.coefficient, factors, bound, guards))
    return tuple(found)


def squared(term: Term) -> Sum:
    """The term with |a|² written as a·a, a sum or not."""
    square = next((f for f in term.factors if f.head.computes("abs") and f.power > 1 and f.power % 2 == 0), None)
    if square is None:
        return (term,)
    values = dict(slots(square.index))
    rest: Sum = (replace(term, factors=tuple(f for f in term.factors if f is not square)),)
    for _ in range(square.power):
        rest = multiplied(rest, tuple(t.renamed().map(values) for t in square.head.arguments[0]))
    return rest


def powers(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """Factors with the powers of equal ones added; a truth value is its own square."""
    total: dict[tuple[Head, tuple[Size, ...]], int] = {}
    for f in factors:
        key = (f.head, f.index)
        total[key] = total.get(key, 0) + f.power
    kept = []
    for (head, index), power in total.items():
        if power and head.kind == "truth":
            power = 1
        if abs(power) > MOST_POWER:
            raise TooManyTerms(f"{head} to the power of {power} is too high")
        if power:
            kept.append(Factor(head, index, power))
    return tuple(sorted(kept, key=lambda f: (f.head.kind, str(f.head), list(map(str, f.index)))))


def slot(place: int) -> Symbol:
    """What stands for a function's index at this place."""
    return Symbol(str(place), Role.SLOT)


def slots(index: Iterable[Size]) -> Iterator[tuple[Symbol, Size]]:
    """Slots with what they stand for."""
    return ((slot(k), value) for k, value in enumerate(index))


def integer(value: Size, variables: Iterable[Symbol]) -> Sum:
    """An integer expression as a value; ``variables`` are the index variables."""
    if isinstance(value, int):
        return number(value)
    indices = set(variables)
    found: list[Term] = []
    for monomial, coefficient in value.terms:
        factors = []
        for atom in monomial:
            me = Expression((((atom,), 1),))
            moving = symbols(me) & indices or any(s.role in (Role.BOUND, Role.SLOT) for s in symbols(me))
            factors.append(Factor(Head("integer", "int"), (me,)) if moving else Factor(Head("size", str(atom), (me,))))
        found.append(Term(Fraction(coefficient), powers(factors)))
    return tuple(found)


# ---- tidying -------------------------------------------------------------------------------------------------------


def tidied(size: Size, context: Context) -> Size:
    """``size`` with floors that are known to be 0 dropped and tables read at known places."""
    if isinstance(size, int) or not any(isinstance(a, (Floor, Entry)) for m, _ in size.terms for a in m):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        product: Size = coefficient
        for atom in monomial:
            product = product * _tidied_atom(atom, context)
        total = total + product
    return total


def _tidied_atom(atom: Atom, context: Context) -> Size:
    match atom:
        case Floor(numerator, denominator):
            n, d = tidied(numerator, context), tidied(denominator, context)
            quotient = floor_divide(n, d)
            if isinstance(quotient, int):
                return quotient
            rest = n - (whole := _without_floors(quotient)) * d
            low, high = Guard(rest, ">="), Guard(d - rest - 1, ">=")
            if context.evident(low) and context.evident(high):
                return whole
            return quotient
        case Entry(table, index):
            return entry(table, tidied(index, context))
        case _:
            return Expression((((atom,), 1),))


def _without_floors(size: Size) -> Size:
    """The part of a quotient that was divided exactly."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        if not any(isinstance(a, Floor) for a in monomial):
            total = total + (Expression(((monomial, coefficient),)) if monomial else coefficient)
    return total


def floors(sizes: Iterable[Size]) -> Iterator[Floor]:
    """Every floor in expressions, nested ones included."""
    for size in sizes:
        if isinstance(size, int):
            continue
        for monomial, _ in size.terms:
            for atom in monomial:
                if isinstance(atom, Floor):
                    yield atom
                    yield from floors((atom.numerator, atom.denominator))
                elif isinstance(atom, Entry):
                    yield from floors((atom.index,))


def splitting(
    sizes: Iterable[Size], bounds: Mapping[Symbol, Size], natural: Callable[[Size], bool]
) -> tuple[Symbol, Size] | None:
    """An index variable inside a floor whose extent is a multiple of the divisor: (variable, divisor).

    A divisor is the length of a run, so that it is ``natural``: -4 is -2 · 2, but 4 elements are not -2 runs of -2.
    """
    for atom in floors(sizes):
        if isinstance(atom.numerator, int):
            continue
        for monomial, coefficient in atom.numerator.terms:
            if len(monomial) != 1 or not isinstance(monomial[0], Symbol):
                continue
            name = monomial[0]
            if name not in bounds:
                continue
            for divisor in _divisors(atom.denominator, coefficient):
                extent = bounds[name]
                quotient = floor_divide(extent, divisor)
                runs = divisor != 1 and quotient != 1 and extent != divisor and quotient * divisor == extent
                if runs and natural(divisor):
                    return name, divisor
    return None


def _divisors(denominator: Size, coefficient: int) -> Iterator[Size]:
    if coefficient == 1:
        yield denominator
    if not isinstance(denominator, int) and len(denominator.terms) == 1:
        monomial, c = denominator.terms[0]
        if coefficient and c % coefficient == 0 and abs(coefficient) > 1:
            yield Expression(((monomial, c // abs(coefficient)),))
        for k in range(1, len(monomial)):
            yield Expression(((monomial[k:], 1),))
            yield Expression(((monomial[:k], 1),))

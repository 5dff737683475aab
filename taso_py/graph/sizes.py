"""Integer expressions: dimensions, indices and attribute values, concrete or symbolic.

A `Size` is a Python ``int`` or an `Expression`, a polynomial with integer coefficients over atoms.  An atom is
a `Symbol`, the floor of a quotient, or an entry of a constant table.  Expressions are kept in normal form, so two
polynomials are equal exactly when they compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, Union

Size: TypeAlias = Union[int, "Expression"]


class Symbol(str):
    """A named non-negative integer: a dimension, or an index variable.

    It is its name, because text hashes once and in C, and proofs hash symbols by the million.
    """

    __slots__ = ()
    __match_args__ = ("name",)

    @property
    def name(self) -> str:
        """The name as plain text."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(numerator / denominator), denominator >= 1."""

    numerator: Size
    denominator: Size

    def __str__(self) -> str:
        return f"({self.numerator})//({self.denominator})"


@dataclass(frozen=True, slots=True)
class Entry:
    """table[index], for 0 <= index < len(table); some number that is not known for any other index."""

    table: tuple[int, ...]
    index: Size

    def __str__(self) -> str:
        return f"{list(self.table)}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Image:
    """The value at ``index`` of a function of which only its name and its range, 0 <= value < extent, are known."""

    function: str
    extent: Size
    index: Size

    def __str__(self) -> str:
        return f"{self.function}<{self.extent}>({self.index})"


Atom: TypeAlias = Symbol | Floor | Entry | Image
Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]


class Expression:
    """A polynomial that is not a constant; build it with the arithmetic operators."""

    __slots__ = ("_hash", "_symbols", "_text", "terms")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._symbols: frozenset[str] | None = None
        self._text: str | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.terms == other.terms

    def __add__(self, other: Size) -> Size:
        return _summed(self.terms, _terms(other), 1)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Expression(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Size) -> Size:
        return _summed(self.terms, _terms(other), -1)

    def __rsub__(self, other: Size) -> Size:
        return _summed(_terms(other), self.terms, -1)

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            return Expression(tuple((m, other * c) for m, c in self.terms)) if other else 0
        return _from_terms((_joined(m, n), c * d) for m, c in self.terms for n, d in _terms(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return floor_divide(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - floor_divide(self, other) * other

    def __rmod__(self, other: Size) -> Size:
        return other - floor_divide(other, self) * self

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(_term_text(m, c, first=i == 0) for i, (m, c) in enumerate(self.terms))
        return self._text

    __repr__ = __str__

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols."""
        if self._symbols is None:
            self._symbols = frozenset(n for m, _ in self.terms for atom in m for n in _symbols_of(atom))
        return self._symbols


def symbol(name: str) -> Expression:
    """The size that is the symbol ``name``."""
    return Expression((((Symbol(name),), 1),))


def entry(table: Iterable[int], index: Size) -> Size:
    """table[index]; beside the table it has no value that is known."""
    values = tuple(table)
    return values[index] if isinstance(index, int) and 0 <= index < len(values) else _atom(Entry(values, index))


def image(function: str, extent: Size, index: Size) -> Size:
    """function(index), of which only its range is known."""
    return _atom(Image(function, extent, index))


@lru_cache(maxsize=65536)
def floor_divide(a: Size, b: Size) -> Size:
    """floor(a / b) for b >= 1, with every exact part pulled out: (q*b + r) // b = q + r // b."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    whole: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, coefficient in _terms(a):
        quotient = _divide_term(monomial, coefficient, b)
        if quotient is None:
            rest.append((monomial, coefficient))
        else:
            whole.append(quotient)
    remainder = _from_terms(rest)
    if remainder == 0:
        return _from_terms(whole)
    if isinstance(remainder, int) and isinstance(b, int):
        return _from_terms(whole) + remainder // b
    nested = _inner_floor(remainder)
    if nested is not None:
        inner, others = nested
        return _from_terms(whole) + floor_divide(inner.numerator + others * inner.denominator, b * inner.denominator)
    return _from_terms(whole) + _atom(Floor(remainder, b))


def _inner_floor(numerator: Size) -> tuple[Floor, Size] | None:
    """(floor(n / d), r) of a numerator floor(n / d) + r: floor((floor(n / d) + r) / b) = floor((n + r·d) / (d·b))."""
    if isinstance(numerator, int):
        return None
    floors = [(m[0], c) for m, c in numerator.terms if len(m) == 1 and isinstance(m[0], Floor)]
    others = [(m, c) for m, c in numerator.terms if not (len(m) == 1 and isinstance(m[0], Floor))]
    if len(floors) != 1 or floors[0][1] != 1 or any(isinstance(a, Floor) for m, _ in others for a in m):
        return None
    atom = floors[0][0]
    assert isinstance(atom, Floor)
    return atom, _from_terms(others)


def _divide_term(monomial: Monomial, coefficient: int, b: Size) -> tuple[Monomial, int] | None:
    divisor = _terms(b)
    if len(divisor) != 1:
        return None
    atoms, factor = divisor[0]
    left = list(monomial)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return (tuple(left), coefficient // factor) if coefficient % factor == 0 else None


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """``size`` with symbols replaced; symbols not in ``values`` stay."""
    return evaluate(size, lambda s: values.get(s.name, _atom(s)))


def evaluate(size: Size, value: Callable[[Symbol], Size]) -> Size:
    """``size`` with every symbol mapped by ``value``."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        product: Size = coefficient
        for atom in monomial:
            product = product * _evaluate_atom(atom, value)
        total = total + product
    return total


def _evaluate_atom(atom: Atom, value: Callable[[Symbol], Size]) -> Size:
    match atom:
        case Symbol():
            return value(atom)
        case Floor(numerator, denominator):
            return floor_divide(evaluate(numerator, value), evaluate(denominator, value))
        case Entry(table, index):
            return entry(table, evaluate(index, value))
        case Image(function, extent, index):
            return image(function, evaluate(extent, value), evaluate(index, value))


def symbols(size: Size) -> frozenset[str]:
    """Names of the symbols in ``size``."""
    return _NONE if isinstance(size, int) else size.symbols


_NONE: frozenset[str] = frozenset()


def _symbols_of(atom: Atom) -> Iterable[str]:
    match atom:
        case Symbol(name):
            return (name,)
        case Floor(numerator, denominator):
            return symbols(numerator) | symbols(denominator)
        case Entry(_, index):
            return symbols(index)
        case Image(_, extent, index):
            return symbols(extent) | symbols(index)


_DECIDE: ContextVar[Callable[[Size], bool | None] | None] = ContextVar("decide", default=None)


@contextmanager
def deciding(decide: Callable[[Size], bool | None]) -> Iterator[None]:
    """Within it `at_least` asks ``decide`` whether a difference is >= 0 where its form does not tell."""
    token = _DECIDE.set(decide)
    try:
        yield
    finally:
        _DECIDE.reset(token)


def assumed() -> bool:
    """Whether sizes stand for all sizes under assumptions, as in a proof."""
    return _DECIDE.get() is not None


def at_least(a: Size, b: Size) -> bool | None:
    """Whether a >= b for all non-negative symbol values; None when that cannot be told."""
    difference = a - b
    known = _form_tells(difference)
    decide = _DECIDE.get()
    return decide(difference) if known is None and decide is not None else known


def equal(a: Size, b: Size) -> bool:
    """Whether a == b for all symbol values, by form or, in a proof, by its assumptions."""
    return a == b or (assumed() and at_least(a, b) is True and at_least(b, a) is True)


def _form_tells(difference: Size) -> bool | None:
    if isinstance(difference, int):
        return difference >= 0
    constant = sum(c for m, c in difference.terms if not m)
    others = [c for m, c in difference.terms if m]
    if any(isinstance(atom, Entry | Image) for m, _ in difference.terms for atom in m):
        return None
    if assumed() and not all(a.name[:1].isalnum() for m, _ in difference.terms for a in m if isinstance(a, Symbol)):
        return None
    if all(c > 0 for c in others) and constant >= 0 and _floors_non_negative(difference):
        return True
    if all(c < 0 for c in others) and constant < 0 and _floors_non_negative(difference):
        return False
    return None


def _floors_non_negative(expression: Expression) -> bool:
    floors = [a for m, _ in expression.terms for a in m if isinstance(a, Floor)]
    return all(at_least(f.numerator, 0) for f in floors)


def product(sizes: Iterable[Size]) -> Size:
    """The product; 1 for no sizes."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def _atom(atom: Atom) -> Expression:
    return Expression((((atom,), 1),))


def _terms(size: Size) -> Terms:
    if isinstance(size, int):
        return (((), size),) if size else ()
    return size.terms


@lru_cache(maxsize=1 << 17)
def _joined(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(a + b, key=str))


def _summed(terms: Terms, others: Terms, sign: int) -> Size:
    """terms + sign·others, both in normal form."""
    total = dict(terms)
    before = len(total)
    for monomial, coefficient in others:
        total[monomial] = total.get(monomial, 0) + sign * coefficient
    return _normal(total, sort=len(total) > before)


def _from_terms(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    return _normal(total, sort=True)


def _normal(total: dict[Monomial, int], *, sort: bool) -> Size:
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1:
        return Expression((kept[0],)) if kept[0][0] else kept[0][1]
    if sort:
        kept.sort(key=_place)
    return Expression(tuple(kept))


def _place(term: tuple[Monomial, int]) -> tuple[int, str]:
    return _monomial_place(term[0])


@lru_cache(maxsize=1 << 17)
def _monomial_place(monomial: Monomial) -> tuple[int, str]:
    return -len(monomial), str(monomial)


def _term_text(monomial: Monomial, coefficient: int, *, first: bool) -> str:
    sign = "-" if coefficient < 0 else "" if first else "+"
    size = abs(coefficient)
    factors = [str(a) for a in monomial]
    if size != 1 or not factors:
        factors.insert(0, str(size))
    return sign + "*".join(factors)

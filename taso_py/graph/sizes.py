"""Integer expressions: dimensions, indices and attribute values, concrete or symbolic.

A `Size` is a Python ``int`` or an `Expression`, a polynomial with integer coefficients over atoms.  An atom is
a `Symbol`, the floor of a quotient, or an entry of a constant table.  Expressions are kept in normal form, so two
polynomials are equal exactly when they compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TypeAlias, Union

Size: TypeAlias = Union[int, "Expression"]


class Role(Enum):
    """What a symbol stands for; the value begins its text, so that symbols of different roles are different texts."""

    SIZE = ""
    """A dimension or another integer that is never negative.  Its name begins with a letter in a rule."""
    INDEX = "i:"
    """An index of the result."""
    BOUND = "_"
    """The variable of a sum, a maximum or an element."""
    SLOT = "#"
    """What a function is read at."""
    PLACE = "v:"
    """Where a term is read."""
    REAL = "@"
    """A real attribute."""
    INTEGER = "~"
    """An integer that may be negative."""


_NATURAL = frozenset({Role.SIZE, Role.INDEX})


class Symbol(str):
    """A named unknown: a dimension, an index variable, a parameter.

    It is its text, because text hashes once and in C, and proofs hash symbols by the million.
    """

    __slots__ = ("role",)
    __match_args__ = ("name",)
    role: Role

    def __new__(cls, name: str, role: Role = Role.SIZE) -> Symbol:
        self = str.__new__(cls, role.value + name)
        self.role = role
        return self

    def __reduce__(self) -> tuple[type[Symbol], tuple[str, Role]]:
        return Symbol, (self._label, self.role)

    @property
    def name(self) -> str:
        """The text, plain."""
        return str(self)

    @property
    def size(self) -> Expression:
        """The size that is this symbol."""
        return Expression((((self,), 1),))

    @property
    def natural(self) -> bool:
        """Whether it is never negative by its role."""
        return self.role in _NATURAL

    def followed_by(self, text: str) -> Symbol:
        """Another symbol of the same role."""
        return Symbol(self._label + text, self.role)

    @property
    def _label(self) -> str:
        return str(self)[len(self.role.value) :]


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(numerator / denominator), denominator >= 1."""

    numerator: Size
    denominator: Size
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Monomials are keys of dictionaries all over.
        object.__setattr__(self, "_hash", hash((self.numerator, self.denominator)))

    def __hash__(self) -> int:
        return self._hash

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
        self._symbols: frozenset[Symbol] | None = None
        self._text: str | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Most comparisons are of different polynomials, which their hashes tell without a walk through the terms.
        return self is other or (
            isinstance(other, Expression) and self._hash == other._hash and self.terms == other.terms
        )

    def __add__(self, other: Size) -> Size:
        return _summed(self.terms, _terms(other), 1) if other else self

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Expression(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Size) -> Size:
        return _summed(self.terms, _terms(other), -1) if other else self

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
    def symbols(self) -> frozenset[Symbol]:
        """The symbols in it."""
        if self._symbols is None:
            self._symbols = frozenset(n for m, _ in self.terms for atom in m for n in _symbols_of(atom))
        return self._symbols


def symbol(name: str, role: Role = Role.SIZE) -> Expression:
    """The size that is the symbol ``name``."""
    return Symbol(name, role).size


def as_symbol(size: Size) -> Symbol | None:
    """The symbol that a size is; None for every other size."""
    found = next(iter(symbols(size)), None)
    return found if found is not None and size == found.size else None


def element_variables(rank: int) -> tuple[Symbol, ...]:
    """Variables for the index of an element of a tensor with so many axes."""
    return tuple(Symbol(f"i{axis}", Role.BOUND) for axis in range(rank))


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
    exact = _exact_quotient(a, b)
    if exact is not None:
        return exact
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


def _exact_quotient(a: Size, b: Size) -> Size | None:
    """a / b where b has several terms and divides a as a polynomial; None elsewhere."""
    divisor = _terms(b)
    if len(divisor) < 2:
        return None
    leading = _from_terms([max(divisor, key=_rank)])
    quotient: Size = 0
    while a != 0:
        term = _divide_term(*max(_terms(a), key=_rank), leading)
        if term is None:
            return None
        quotient, a = quotient + _from_terms([term]), a - _from_terms([term]) * b
    return quotient


def _rank(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    """Higher degrees before lower ones; of one degree by the names of the atoms."""
    monomial, _ = term
    return len(monomial), tuple(map(str, monomial))


def symbols(size: Size) -> frozenset[Symbol]:
    """The symbols in ``size``."""
    return _NONE if isinstance(size, int) else size.symbols


_NONE: frozenset[Symbol] = frozenset()


def _symbols_of(atom: Atom) -> Iterable[Symbol]:
    match atom:
        case Symbol():
            return (atom,)
        case Floor(numerator, denominator):
            return symbols(numerator) | symbols(denominator)
        case Entry(_, index):
            return symbols(index)
        case Image(_, extent, index):
            return symbols(extent) | symbols(index)


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

"""Equations between sizes: what both sides have in common is left out of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from taso_py.graph.sizes import Expression, Floor, Size, floor_divide, symbol, symbols
from taso_py.graph.substitution import substitute

Dims: TypeAlias = tuple[Size, ...]

_MOST_RENAMED = 3
"""Most sizes that are renamed to make two forms equal."""


def without_common_factors(one: Size, other: Size) -> tuple[Size, Size]:
    """Two sizes divided by the sizes that both are multiples of: none of those is 0."""
    for name in sorted(symbols(one) & symbols(other)):
        factor = symbol(name)
        while multiple(one, factor) and multiple(other, factor):
            one, other = floor_divide(one, factor), floor_divide(other, factor)
    return one, other


def numerators(one: Size, other: Size) -> tuple[Size, Size]:
    """What is divided, where both sizes are the same but for what one division divides; else the sizes."""
    mine, theirs = _division(one), _division(other)
    if mine is None or theirs is None or mine[1:] != theirs[1:]:
        return one, other
    return mine[0], theirs[0]


def _division(size: Size) -> tuple[Size, Size, Size] | None:
    """The numerator, the denominator, and the rest of a size that is one division and something else."""
    if isinstance(size, int):
        return None
    floors = [m[0] for m, c in size.terms if c == 1 and len(m) == 1 and isinstance(m[0], Floor)]
    if len(floors) != 1:
        return None
    return floors[0].numerator, floors[0].denominator, size - Expression((((floors[0],), 1),))


def single(size: Size) -> str | None:
    """The name of a size that is one symbol."""
    if isinstance(size, int) or len(size.terms) != 1:
        return None
    (monomial, coefficient), *_ = size.terms
    return str(monomial[0]) if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str) else None


def multiple(size: Size, group: Size) -> bool:
    """Whether a size is divided by another without a rest."""
    return floor_divide(size, group) * group == size


class Unsized(Exception):
    """The law has no typing of this form."""


@dataclass(slots=True)
class Equations:
    """A substitution of sizes by sizes, and the concrete value that each had in the enumeration."""

    found: dict[str, Size] = field(default_factory=dict, init=False)
    values: dict[str, int] = field(default_factory=dict, init=False)
    attribute_of: dict[str, str] = field(default_factory=dict, init=False)
    """The attribute that each variable of an operator stands for; the others are sizes of axes."""

    def fresh(self, value: int) -> Size:
        """A new size that was ``value``."""
        name = f"d{len(self.values):03}"
        self.values[name] = value
        return symbol(name)

    def axis_sizes(self, names: Iterable[str]) -> list[str]:
        """Those that are sizes of axes and not attributes."""
        return sorted(n for n in names if n in self.values and n not in self.attribute_of)

    def resolved(self, size: Size) -> Size:
        """The size with everything that is known substituted."""
        while not isinstance(size, int) and symbols(size) & self.found.keys():
            size = substitute(size, self.found)
        return size

    def dims(self, dims: Sequence[Size]) -> Dims:
        """`resolved`, size by size."""
        return tuple(map(self.resolved, dims))

    def concrete(self, size: Size) -> int:
        """What the size was in the enumeration."""
        value = substitute(size, self.values)
        assert isinstance(value, int)
        return value

    def unify(self, one: Size, other: Size) -> None:
        """Makes two sizes equal; `Unsized` when that needs more than naming one by the other."""
        one, other = without_common_factors(self.resolved(one), self.resolved(other))
        if one == other:
            return
        for this, that in sorted(((one, other), (other, one)), key=lambda pair: single(pair[0]) or "", reverse=True):
            name = single(this)
            if name is None or not self.axis_sizes((name,)):
                continue
            if isinstance(that, int) or name not in symbols(that):
                self.found[name] = that
                return
        alike = self._renaming(one, other) or self._solution(*numerators(one, other)) or self._grouping(one, other)
        if alike is not None:
            self.found.update(alike)
            self.unify(one, other)
            return
        left, right = self._terms(one), self._terms(other)
        if len(left) != len(right) or len(left) < 2:
            raise Unsized(f"{one} and {other}")
        for a, b in zip(left, right, strict=True):
            self.unify(a, b)

    def _renaming(self, one: Size, other: Size) -> dict[str, Size] | None:
        """Names of the first size for names of the second that make them equal: two sizes of the same form."""
        own = symbols(one) - symbols(other), symbols(other) - symbols(one)
        mine, theirs = map(self.axis_sizes, own)
        if not theirs or len(theirs) > _MOST_RENAMED:
            return None
        for names in itertools.permutations(mine, len(theirs)):
            found: dict[str, Size] = {old: symbol(new) for old, new in zip(theirs, names, strict=True)}
            if substitute(other, found) == one:
                # The older name stays: `_terms` goes by the order of the names.
                return {max(pair): symbol(min(pair)) for pair in zip(theirs, names, strict=True)}
        return None

    def _solution(self, one: Size, other: Size) -> dict[str, Size] | None:
        """A size of the difference, which must be 0, in terms of the others: the greatest, as a sum of smaller ones."""
        difference = one - other
        if isinstance(difference, int):
            return None
        options: list[tuple[int, str, Size]] = []
        for monomial, coefficient in difference.terms:
            name = single(Expression(((monomial, 1),))) if monomial else None
            if name is None or not self.axis_sizes((name,)) or abs(coefficient) != 1:
                continue
            rest = (symbol(name) * coefficient - difference) * coefficient
            if name not in symbols(rest):
                options.append((self.values[name], name, rest))
        if not options:
            return None
        _, name, rest = max(options, key=lambda option: option[:2])
        return {name: rest}

    def _grouping(self, one: Size, other: Size) -> dict[str, Size] | None:
        """A number of groups in terms of another that divides it."""
        names = [sorted(n for n in symbols(s) if self.attribute_of.get(n) == "group") for s in (one, other)]
        for a, b in itertools.product(*names):
            for more, fewer in ((a, b), (b, a)):
                if more != fewer and self.values[more] % self.values[fewer] == 0:
                    return {more: symbol(fewer) * (self.values[more] // self.values[fewer])}
        return None

    def _terms(self, size: Size) -> list[Size]:
        """The summands in the order in which their sizes came up."""
        if isinstance(size, int):
            return [size]
        parts: list[Size] = [Expression(((m, c),)) if m else c for m, c in size.terms]
        return sorted(parts, key=lambda p: min(symbols(p), default=""))

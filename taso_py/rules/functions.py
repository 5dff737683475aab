"""Functions of attribute expressions: arithmetic on lists of integers such as permutations, pads and indices.

A function raises TypeError on what it is not defined for, which makes an expression undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Integers: TypeAlias = tuple[int, ...]
_LONGEST = 2**20
"""Entries of a list that is made of two numbers: a rule may name any."""


def _integers(value: Any) -> Integers:
    if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
        raise TypeError(f"{value} is no list of known integers")
    return value


def _entry(table: Any, index: Any) -> Any:
    if not isinstance(table, tuple) or not isinstance(index, int) or not 0 <= index < len(table):
        raise TypeError(f"{table} has no entry {index}")
    return table[index]


def _compose(p: Any, q: Any) -> Integers:
    return tuple(_entry(p, k) for k in _integers(q))


def _inverse(p: Any) -> Integers:
    places = _integers(p)
    if sorted(places) != list(range(len(places))):
        raise TypeError(f"{p} is no permutation")
    return tuple(places.index(k) for k in range(len(places)))


def _plus(p: Any, q: Any) -> tuple[Any, ...]:
    if not isinstance(p, tuple) or not isinstance(q, tuple) or len(p) != len(q):
        raise TypeError(f"{p} and {q} are no lists of equal length")
    return tuple(x + y for x, y in zip(p, q, strict=True))


def _least(p: Any) -> int:
    values = _integers(p)
    if not values:
        raise TypeError("an empty list has no least entry")
    return min(values)


def _run(first: Any, count: Any) -> Integers:
    if not isinstance(first, int) or not isinstance(count, int):
        raise TypeError(f"{first} and {count} are no known integers")
    if count > _LONGEST:
        raise TypeError(f"a list of {count} entries is too long: at most {_LONGEST} are made")
    return tuple(range(first, first + count))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "at": _entry,
    "compose": _compose,
    "inverse": _inverse,
    "least": _least,
    "plus": _plus,
    "run": _run,
    "sort": lambda p: tuple(sorted(_integers(p))),
}
"""at(p, k) = p[k]; compose(p, q)[k] = p[q[k]]; inverse(p)[p[k]] = k; plus(p, q)[k] = p[k] + q[k];
run(a, n) = (a, a + 1, ..., a + n - 1); sort(p) is p in rising order; least(p) its least entry."""

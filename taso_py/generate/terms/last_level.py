"""The last level, of which only fingerprints and numbers are kept: its applications in parts, and which are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from taso_py.arrays import Array
from taso_py.generate.terms.enumeration import Collision, Enumeration, Shard
from taso_py.graph.types import TensorType

_PIECE = 4_000_000
"""Fingerprints that are sorted at a time."""


@dataclass(frozen=True, slots=True)
class Collisions(Sequence[Collision]):
    """Pairs of equal terms as arrays."""

    value: Array
    """[n]: the known value, or -1 where an application stands for it."""
    known: Array
    found: Array
    """[n, 1 + operands]: template and operands of the applications, then -1."""

    def __len__(self) -> int:
        return len(self.value)

    @overload
    def __getitem__(self, at: int) -> Collision: ...

    @overload
    def __getitem__(self, at: slice) -> Collisions: ...

    def __getitem__(self, at: int | slice) -> Collision | Collisions:
        if isinstance(at, slice):
            return Collisions(self.value[at], self.known[at], self.found[at])
        value = int(self.value[at])
        return Collision(value if value >= 0 else _application(self.known[at]), _application(self.found[at]))


def _application(numbers: Array) -> tuple[int, tuple[int, ...]]:
    template, *operands = (n for n in numbers.tolist() if n >= 0)
    return template, tuple(operands)


def last_parts(table: Enumeration, most: int) -> list[Shard]:
    """The last level's applications up to renaming, in parts of at most `PART`."""
    return [part for shard in map(table.canonical, table.shards(most)) for part in shard.parts()]


def last_collisions(table: Enumeration, shards: Sequence[Shard], prints: Sequence[Array]) -> tuple[Collisions, int]:
    """Equal pairs among the last level's applications and with known values, and how many values are new.

    ``prints`` are the fingerprints of each shard.  The first of equal applications stands for the others.
    """
    kinds: dict[TensorType, int] = {}
    places = [kinds.setdefault(table.kernels(s)[-1].result, len(kinds)) for s in shards]
    salted = [p ^ _salt(k) for p, k in zip(prints, places, strict=True)]
    everything = np.concatenate(salted) if salted else np.zeros(0, np.uint64)
    lower = {p ^ int(_salt(kinds[t])): n for (t, p), n in table.index.items() if t in kinds}
    values = np.array([-1, *lower.values()], dtype=np.int32)
    of_values = np.array([0, *lower], dtype=np.uint64)
    order = np.argsort(of_values)
    values, of_values = values[order], of_values[order]

    found: list[tuple[Array, Array, Array]] = []
    fresh = 0
    pieces = 1 + len(everything) // _PIECE
    for piece in range(pieces):  # equal ones meet in one piece
        mine = np.flatnonzero(everything % np.uint64(pieces) == piece)
        unique, first, inverse = np.unique(everything[mine], return_index=True, return_inverse=True)
        at = np.minimum(np.searchsorted(of_values, unique), len(of_values) - 1)
        known = np.where(of_values[at] == unique, values[at], -1)
        fresh += int((known < 0).sum())
        equal = np.flatnonzero((known[inverse] >= 0) | (first[inverse] != np.arange(len(mine))))
        found.append((mine[equal], known[inverse[equal]], mine[first[inverse[equal]]]))
    place, value, one = (np.concatenate(x) for x in zip(*found, strict=True))
    order = np.argsort(place)
    return Collisions(value[order], _numbers(shards, one[order]), _numbers(shards, place[order])), fresh


def _numbers(shards: Sequence[Shard], places: Array) -> Array:
    """Template and operands [n, 1 + operands] of the applications at places of all shards together, then -1."""
    width = max((len(s.operands) for s in shards), default=0)
    result = np.full((len(places), 1 + width), -1, dtype=np.int32)
    starts = np.cumsum([0, *map(len, shards)])
    which = np.searchsorted(starts, places, side="right") - 1
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(len(shards) + 1))
    for shard, start, begin, end in zip(shards, starts, ends, ends[1:], strict=False):
        rows = order[begin:end]
        result[rows, 0] = shard.template
        for k, operand in enumerate(shard.operands):
            result[rows, 1 + k] = operand[places[rows] - start]
    return result


def _salt(kind: int) -> np.uint64:
    """Tells fingerprints of different types apart."""
    return np.uint64(0x9E3779B97F4A7C15 * (kind + 1) % 2**64)

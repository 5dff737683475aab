"""The representatives of classes of equal values, one by one and as columns of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Representative:
    """A class representative: a source (``template`` -1, ``arguments`` its number) or an application."""

    type: TensorType
    cost: int
    template: int
    arguments: tuple[int, ...]
    nodes: frozenset[int]
    """The applications in its graph, by value number, its own included."""
    sources: int
    """Bit set of the sources that it depends on."""
    weight: bool
    """Whether it is computed from weights and constants alone."""
    exact: bool
    """Whether its residues modulo both primes count."""
    row: int
    """Its place in the stack of its type."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Fields of values as arrays, one entry for each value."""

    sources: Array
    exact: Array
    row: Array

    @classmethod
    def of(cls, values: Sequence[Representative]) -> Columns:
        return cls(
            np.array([v.sources for v in values], np.int64),
            np.array([v.exact for v in values], bool),
            np.array([v.row for v in values], np.int64),
        )

    def extended(self, values: Sequence[Representative]) -> Columns:
        """With further values at the end."""
        more = Columns.of(values)
        pairs = [(self.sources, more.sources), (self.exact, more.exact), (self.row, more.row)]
        return Columns(*map(np.concatenate, pairs))

"""What a cost model answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table


@dataclass(frozen=True, slots=True)
class Part:
    """A region in which two tables differ: the ids on either side, and the seconds gained (negative) or lost."""

    ids: frozenset[int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds that a table takes more than another one, and where; ``parts`` is empty when nothing was measured."""

    seconds: float
    parts: tuple[Part, ...] = ()


def changed(before: Sequence[Part], after: Sequence[Part]) -> tuple[set[int], bool]:
    """Ids of regions that are slower than they were, and whether some region is faster."""
    lost: set[int] = set()
    won = False
    at = {i: number for number, part in enumerate(before) for i in part.ids}
    for part in after:
        old = [before[number] for number in sorted({at[i] for i in part.ids if i in at})]
        change = part.seconds - sum(p.seconds for p in old)
        if change > 0:
            lost |= part.ids.union(*(p.ids for p in old))
        won = won or change < 0
    return lost, won


class CostModel(Protocol):
    """Prices the step from one table to another."""

    def difference(self, before: Table, after: Table) -> Estimate | None:
        """Seconds gained (negative) or lost (positive); None when time ran out before that was known."""
        ...


@dataclass(slots=True)
class RooflineCost:
    """The roofline alone: reproducible, needs no ONNX Runtime."""

    roofline: Roofline

    def difference(self, before: Table, after: Table) -> Estimate:
        return Estimate(self.roofline.difference(before, after))


@dataclass(slots=True)
class FlopsCost:
    """Scalar operations instead of time, as seconds at the roofline's rate: for ``--objective flops``."""

    roofline: Roofline

    def difference(self, before: Table, after: Table) -> Estimate:
        operations = self.roofline.operations_difference(before, after)
        return Estimate(operations / self.roofline.machine.operations)

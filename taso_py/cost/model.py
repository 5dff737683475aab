"""What a cost model answers."""

from __future__ import annotations

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

"""Moves that a whole model was not seen to gain by, remembered from one run to the next beside the times of regions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from taso_py.backend.statistics import Interval
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
from taso_py.graph.table import Table


@dataclass(frozen=True, slots=True)
class Losses:
    """Pairs of whole models of which the second was no faster.  What gains is timed anew in every run."""

    cache: Cache
    environment: str
    """Everything a time depends on besides the models."""
    ort_version: str

    def least(self, before: Table, after: Table) -> float | None:
        """The low end of the ratio of the pair's times, second to first; None where it was not timed before."""
        key = self._key(before, after)
        found = self.cache.get_many([key]).get(key)
        return None if found is None else found.after - found.noise

    def add(self, before: Table, after: Table, ratio: Interval) -> None:
        """A pair of models of which the second takes ``ratio`` times as long as the first."""
        found = Measurement.now(1.0, ratio.median, ratio.median - ratio.low, 1, self.ort_version)
        self.cache.put_many({self._key(before, after): found})

    def _key(self, before: Table, after: Table) -> str:
        text = "|".join([_digest(before), _digest(after), self.environment])
        return hashlib.sha256(text.encode()).hexdigest()


def _digest(table: Table) -> str:
    """The same for alike tables, whatever the ids of their values and the elements of their constants."""
    known: dict[int | None, str] = {None: "-"}

    def operand(value: int | None) -> str:
        if value is not None and value not in known:
            constant = value in table.values.constant
            known[value] = f"{'constant' if constant else table.values.names.get(value, '')} {table.type(value)}"
        return known[value]

    for value, node in table.order():
        if value not in table.values.constant:
            text = f"{node.operator}({','.join(map(operand, node.inputs))})"
            known[value] = hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(",".join(map(operand, table.outputs)).encode()).hexdigest()

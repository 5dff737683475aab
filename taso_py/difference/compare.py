"""Two graphs side by side: everything that differs, as one record."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from taso_py.difference.graph import Graph
from taso_py.difference.matching import matched
from taso_py.difference.regions import Region, regions


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between two graphs.

    A node is the same in both where operator and attributes are equal and its operands correspond; the others lie in
    `regions`. Names of values that stay and the order in which nodes stand in a file are no difference.
    """

    before: Graph
    after: Graph
    regions: tuple[Region, ...]
    """In the order of `before`."""
    unchanged: int
    """Nodes that are the same in both; constants are not counted."""

    @property
    def same(self) -> bool:
        """Whether both compute the same nodes from the same inputs to the same outputs."""
        return not self.regions and self.interface_same

    @property
    def interface_same(self) -> bool:
        """Whether inputs and outputs have the same names, in the same order, and the same types."""
        return _typed(self.before) == _typed(self.after)

    @property
    def alike(self) -> tuple[tuple[Region, ...], ...]:
        """Regions that consist of the same operators in the same way are one group; the largest group first."""
        groups: dict[Hashable, list[Region]] = {}
        for region in self.regions:
            groups.setdefault(region.form, []).append(region)
        return tuple(sorted(map(tuple, groups.values()), key=len, reverse=True))

    @property
    def operators(self) -> Mapping[str, tuple[int, int]]:
        """Operator -> nodes before and after, those with another number first."""
        names = dict.fromkeys([*self.before.operators, *self.after.operators])
        counts = {name: (self.before.operators.get(name, 0), self.after.operators.get(name, 0)) for name in names}
        return dict(sorted(counts.items(), key=lambda item: item[1][0] == item[1][1]))


def compare(before: Graph, after: Graph, *, ignore_names: bool = False) -> Difference:
    """Compare two graphs in near-linear time.

    ``ignore_names``: values of one name need not be one value; for tools that number values anew.
    """
    matching = matched(before, after, ignore_names)
    return Difference(before=before, after=after, regions=regions(matching), unchanged=len(matching.partner))


def _typed(graph: Graph) -> tuple[tuple[tuple[str, str], ...], ...]:
    return tuple(tuple((name, graph.type_text(name)) for name in names) for names in (graph.inputs, graph.outputs))

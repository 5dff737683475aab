"""An instance of a rule, and how instances are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.table import Node, Table, Values
from taso_py.graph.types import TensorType
from taso_py.rules.element_types import ElementTypes, ordinary_types
from taso_py.rules.menus import Menus
from taso_py.rules.rule import Rule
from taso_py.rules.term import Term
from taso_py.rules.unify import Binding


@dataclass(frozen=True, slots=True)
class Instance:
    """The outputs of both sides over ``nodes``; ``feeds`` are run-time inputs, ``weights`` constants."""

    rule: Rule
    binding: Binding
    values: Values
    nodes: Mapping[int, Node]
    left: tuple[int, ...]
    right: tuple[int, ...]
    _: KW_ONLY
    feeds: Mapping[int, Array]
    weights: Mapping[int, Array]
    placed: Mapping[Term, tuple[int, Node | None]] = field(default_factory=dict)
    """The terms of the left side with their ids and nodes, as a match has them; a literal has no node."""
    placed_right: Mapping[Term, tuple[int, Node | None]] = field(default_factory=dict)
    """The same of the right side."""
    refusal: str = ""
    """Why the right side cannot be built; ``right`` is then empty."""

    def model(self, outputs: Sequence[int], opset: int) -> Table:
        """A table that computes ``outputs`` and nothing else."""
        whole = Table(self.values, self.nodes, tuple(outputs), tuple(outputs), opset)
        kept = whole.reachable()
        nodes = {v: n for v, n in self.nodes.items() if v in kept}
        return Table(self.values, nodes, whole.roots, whole.outputs, opset)


LARGEST = 2**20
"""Most elements of a tensor of an instance: a rule may declare any number."""
DRAWN = 2**22
"""Most elements that are drawn for an instance, and most positions of an axis. Rules without large numbers come near
`LARGEST`, for trials that drop such instances: these are drawn to the end, so that later ones stay what they are."""


class Rejected(Exception):
    """A draw that is no instance of the rule."""


class TooLarge(Rejected):
    """A draw with a tensor that is too large to be tried."""


def limited(type_: TensorType, most: int = DRAWN) -> TensorType:
    """The type; `TooLarge` for one of more elements, or with an axis of more positions."""
    sizes = [d for d in type_.dims if isinstance(d, int)]
    if max(sizes, default=0) > most or math.prod(sizes) > most:
        raise TooLarge(f"{type_} has over {most} elements")
    return type_


@dataclass(frozen=True, slots=True)
class Manner:
    """How instances are drawn: from which menus, with which element types.

    With ``unbuilt`` an instance whose right side cannot be built is drawn as well.
    """

    menus: Callable[[np.random.Generator], Menus] = Menus
    types: Callable[[Rule, np.random.Generator], ElementTypes] = ordinary_types
    unbuilt: bool = False


PLAIN = Manner()

"""One small instance of a directed rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.prove.expansion.canonical import LeafFacts
from taso_py.rules.rule import Rule
from taso_py.rules.unify import Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallInstance:
    """One instance: both sides over ``nodes``; ``right`` is None where the right side cannot be built."""

    rule: Rule
    binding: Binding
    values: Values
    nodes: dict[int, Node]
    left: tuple[int, ...]
    right: tuple[int, ...] | None
    mistyped: str
    leaves: dict[int, tuple[str, LeafFacts]]
    literals: dict[int, float]

    @property
    def elements(self) -> int:
        """Elements of all tensors of both sides."""
        return sum(map(_count, self.values.types.values()))

    @property
    def outputs(self) -> int:
        """Elements of the outputs."""
        return sum(_count(self.values.types[v]) for v in self.left)

    def __str__(self) -> str:
        shapes = [f"{name}: {self.values.types[v]}" for v, (name, _) in self.leaves.items()]
        shapes += [f"{number:g}: {self.values.types[v]}" for v, number in self.literals.items()]
        names = [f"{k}={v}" for k, v in self.binding.names.items()]
        names += [f"*{k}={v}" for k, v in self.binding.blocks.items()]
        return "; ".join(filter(None, (", ".join(shapes), ", ".join(names))))


def _count(type_: TensorType) -> int:
    return math.prod(d for d in type_.dims if isinstance(d, int))

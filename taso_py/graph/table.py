"""The model table: an immutable map from value ids to the nodes that compute them.

A rewrite copies the table and rebinds only the ids that it replaces; every other node stays the same object.  A
value keeps its id, its type and its meaning for life, whatever node computes it, so types are stored once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from taso_py.graph.types import TensorType


@dataclass(frozen=True, slots=True)
class Node:
    """value = operator(inputs...); ``origin`` is the index of the ONNX node it came from, None for a new one."""

    operator: Any
    inputs: tuple[int | None, ...]
    origin: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Opaque:
    """Output number ``port`` of an ONNX node that is carried through untouched; ``key`` tells it from all others."""

    op_type: str
    domain: str
    key: int
    port: int

    onnx = property(lambda self: self.op_type)
    commutative = False

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.op_type}#{self.key}.{self.port}"


@dataclass(slots=True)
class Values:
    """What is known of each value id, shared by all tables of one model; grows, never changes.

    ``names`` holds the ONNX names that values have; ``fixed`` the ids of initializers that no caller can override.
    """

    types: dict[int, TensorType] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    inputs: set[int] = field(default_factory=set)
    fixed: set[int] = field(default_factory=set)
    constant: set[int] = field(default_factory=set)
    """Ids whose value depends on fixed initializers only: they cost nothing at run time."""
    interned: dict[Hashable, int] = field(default_factory=dict)

    def new(self, type_: TensorType, name: str | None = None) -> int:
        """A fresh id."""
        value = len(self.types)
        self.types[value] = type_
        if name is not None:
            self.names[value] = name
        return value

    def intern(self, node: Node, type_: TensorType) -> int:
        """The id of a new node: the same id whenever operator and inputs are the same."""
        key = (node.operator, node.inputs)
        value = self.interned.get(key)
        if value is None:
            value = self.interned[key] = self.new(type_)
            if all(i in self.constant for i in node.inputs if i is not None) and not isinstance(node.operator, Opaque):
                self.constant.add(value)
        return value


@dataclass(frozen=True, slots=True)
class Table:
    """A table: ``nodes[id]`` computes the value id; sources (inputs, initializers) have no node.

    ``roots`` are the graph outputs followed by the values that nothing used in the original: all stay.
    """

    values: Values
    nodes: Mapping[int, Node]
    roots: tuple[int, ...]
    outputs: tuple[int, ...]
    opset: int

    def type(self, value: int) -> TensorType:
        """Type of a value."""
        return self.values.types[value]

    def rebind(self, replaced: Mapping[int, Node]) -> Table:
        """The table with some ids computed by other nodes, and without what nothing needs any more."""
        nodes = dict(self.nodes)
        nodes.update(replaced)
        return Table(self.values, nodes, self.roots, self.outputs, self.opset)

    def reachable(self) -> set[int]:
        """Every id that a root depends on, sources included."""
        return self.ancestors(self.roots)

    def ancestors(self, values: Iterable[int]) -> set[int]:
        """``values`` and all they depend on."""
        seen: set[int] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            node = self.nodes.get(value)
            if node is not None:
                stack.extend(i for i in node.inputs if i is not None)
        return seen

    def order(self) -> Iterator[tuple[int, Node]]:
        """Reachable nodes, each after its inputs; depth first from the roots in their order."""
        done: set[int] = set()
        for root in self.roots:
            stack: list[tuple[int, bool]] = [(root, False)]
            while stack:
                value, ready = stack.pop()
                if value in done:
                    continue
                node = self.nodes.get(value)
                if node is None:
                    done.add(value)
                elif ready:
                    done.add(value)
                    yield value, node
                else:
                    stack.append((value, True))
                    stack.extend((i, False) for i in reversed(node.inputs) if i is not None and i not in done)

    def users(self) -> dict[int, list[int]]:
        """For each id the reachable ids computed directly from it."""
        found: dict[int, list[int]] = {}
        for value, node in self.order():
            for i in dict.fromkeys(node.inputs):
                if i is not None:
                    found.setdefault(i, []).append(value)
        return found

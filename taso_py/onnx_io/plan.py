"""What an exported graph consists of: original nodes that stay, new ones, folded weights, and their order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.table import Node, Opaque, Table
from taso_py.graph.types import TensorType
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.spell import several
from taso_py.ops import OPERATORS
from taso_py.ops.operator import Operator


@dataclass(frozen=True, slots=True)
class GraphSource:
    """A graph input or an initializer."""

    value: int


@dataclass(frozen=True, slots=True)
class KeptNode:
    """Node number ``index`` of the original; ``node`` is what the table says of it, if the table has it."""

    index: int
    node: Node | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class New:
    """A node that the original does not have, for these ids: one per output that is used."""

    values: tuple[int, ...]
    node: Node = field(compare=False)


@dataclass(frozen=True, slots=True)
class Folded:
    """A weights-only value that new nodes compute: written as an initializer."""

    value: int
    array: Array = field(compare=False)


Item: TypeAlias = GraphSource | KeptNode | New | Folded


class WritingPlan:
    """Items in the order in which they are written.

    Original nodes keep their order; new ones stand where the node was whose value they compute, or before
    their first user.
    """

    def __init__(self, loaded: Loaded, table: Table, nodes: Sequence[ir.Node]) -> None:
        self.loaded, self.table, self.nodes = loaded, table, nodes
        self.producer = {v.name: k for k, node in enumerate(self.nodes) for v in node.outputs if v.name}
        self.kept_inputs = [[None if v is None else v.name for v in node.inputs] for node in self.nodes]
        self._captured = {i for ids in loaded.captured.values() for i in ids}
        self._shared = Counter(node.origin for node in loaded.table.nodes.values())
        self._items: dict[int, Item] = {}
        self.claims: dict[int, int] = {}
        """Graph output -> the new value without a name that takes the output's name."""
        self._claim()
        self.live = self._liveness()
        self._group_pieces()
        self.labels: dict[int, str] = dict(loaded.values.names)
        self.labels.update({target: loaded.values.names[out] for out, target in self.claims.items()})
        self.order = list(self._ordered())

    def node_of(self, value: int) -> Node | None:
        """The node that computes a value; what the table no longer holds is computed as in the original."""
        return self.table.nodes.get(value) or self.loaded.table.nodes.get(value)

    def resolve(self, value: int) -> int:
        """The id behind new Identity nodes that need not be written."""
        while True:
            target = self._alias(value)
            if target is None or value in self._captured:
                return value
            if value in self.table.outputs and self.claims.get(value) is None:
                return value
            value = target

    def _alias(self, value: int) -> int | None:
        node = self.node_of(value)
        if node is None or node.origin is not None or not isinstance(node.operator, OPERATORS["Identity"]):
            return None
        return node.inputs[0]

    def _claim(self) -> None:
        claimed: set[int] = set()
        for output in dict.fromkeys(self.table.outputs):
            target = self._alias(output)
            if target is None or output in self._captured:
                continue
            target = self.resolve(target)
            if target in self.loaded.values.names or target in claimed:
                continue
            if isinstance(self.item(target), New):
                self.claims[output] = target
                claimed.add(target)

    def item(self, value: int) -> Item:
        """What a (resolved) id is written as."""
        if value not in self._items:
            self._items[value] = self._item(value)
        return self._items[value]

    def _item(self, value: int) -> Item:
        node = self.node_of(value)
        if node is None:
            return self._source(value)
        if self._is_kept(value, node):
            assert node.origin is not None
            return KeptNode(node.origin, node)
        if value in self.loaded.values.constant:
            try:
                return Folded(value, self.loaded.folder.value(value, self.table.nodes))
            except TypingError:
                return New((value,), node)  # its size is symbolic: computed at run time
        return New((value,), node)

    def _source(self, value: int) -> Item:
        producer = self.producer.get(self.loaded.values.names[value])
        if producer is None:
            return GraphSource(value)
        return KeptNode(producer) if self._stays(producer) else Folded(value, self.loaded.folder.source(value))

    def _stays(self, producer: int) -> bool:
        """Whether what a constant is computed from is there in any case: nothing is kept for its size alone."""
        stack, seen = [producer], {producer}
        while stack:
            index = stack.pop()
            for value in self._reads(index, None):
                name = self.loaded.values.names[value]
                if value in self.loaded.table.nodes:
                    if value not in self.table.nodes:
                        return False
                elif name in self.producer and self.producer[name] not in seen:
                    seen.add(self.producer[name])
                    stack.append(self.producer[name])
        return True

    def _is_kept(self, value: int, node: Node) -> bool:
        original = self.loaded.table.nodes.get(value)
        if original is None or node.origin is None or node.origin != original.origin:
            return False
        if self._computes_its_sizes(node.origin) and self._can_be_written(node):
            return False
        if node.inputs == original.inputs or isinstance(node.operator, Opaque):
            return bool(node.operator == original.operator)
        if node.operator != original.operator:
            return False
        if self._shared[node.origin] > 1 and (self._can_be_written(node) or not self._moved_together(node)):
            return False
        # What the node spells may be relative to its operands (a 0 or -1 in a shape, a negative axis, SAME padding):
        # it means the same operator only on operands of the same types.
        return self._types(node) == self._types(original)

    def _moved_together(self, node: Node) -> bool:
        """Whether all outputs of the original read what this one reads now."""
        assert node.origin is not None
        outputs = (self.loaded.ids.get(v.name or "") for v in self.nodes[node.origin].outputs)
        others = (self.table.nodes.get(v) for v in outputs if v is not None)
        return all(o is None or (o.origin, o.inputs) == (node.origin, node.inputs) for o in others)

    def _computes_its_sizes(self, index: int) -> bool:
        """Whether the original reads sizes, such as a Reshape's shape, that other nodes compute at run time."""
        operands = self.loaded.operand_positions.get(index, ())
        names = [name for k, name in enumerate(self.kept_inputs[index]) if name and k not in operands]
        return any(self._is_computed(self.loaded.ids[name]) for name in names)

    def _is_computed(self, value: int) -> bool:
        computed = value in self.loaded.table.nodes and value not in self.loaded.values.constant
        return computed and value in self.loaded.vectors

    def _can_be_written(self, node: Node) -> bool:
        """Whether a node says all that it is by itself: one symbolic size in a shape is a 0 or a -1 there."""
        types = [t for t in self._types(node) if t is not None]
        return isinstance(node.operator, Operator) and node.operator.write(self.table.opset, types) is not None

    def _types(self, node: Node) -> list[TensorType | None]:
        return [None if i is None else self.loaded.values.types[i] for i in node.inputs]

    def needs(self, item: Item) -> list[int]:
        """Resolved ids that an item reads."""
        match item:
            case KeptNode(index, node):
                return [self.resolve(i) for i in self._reads(index, node)]
            case New(_, node):
                return [self.resolve(i) for i in node.inputs if i is not None]
            case _:
                return []

    def inputs(self, index: int, node: Node | None) -> list[int | None]:
        """Ids of the ONNX inputs of a kept node, the ones that the table does not show included."""
        ids = [None if name is None else self.loaded.ids.get(name) for name in self.kept_inputs[index]]
        if node is not None:
            positions = self.loaded.operand_positions[index]
            for position, value in zip(positions, node.inputs, strict=False):
                ids[position] = value
        return ids

    def _reads(self, index: int, node: Node | None) -> Iterator[int]:
        yield from (i for i in self.inputs(index, node) if i is not None)
        yield from self.loaded.captured.get(index, ())

    def _anchors(self) -> Iterator[Item]:
        """Items that stay in any case, original nodes first and in their order."""
        for index, node in enumerate(self.nodes):
            ids = [self.loaded.ids[v.name] for v in node.outputs if v.name and v.name in self.loaded.ids]
            if not ids:
                yield KeptNode(index)
            for value in ids:
                if value in self.live:
                    yield self.item(value)
        yield from (self.item(self.resolve(root)) for root in self.table.roots)

    def _liveness(self) -> dict[int, None]:
        live: dict[int, None] = {}
        silent = [KeptNode(k) for k, n in enumerate(self.nodes) if not any(v.name for v in n.outputs)]
        stack = [self.resolve(r) for r in self.table.roots] + [i for item in silent for i in self.needs(item)]
        while stack:
            value = stack.pop()
            if value not in live:
                live[value] = None
                stack.extend(self.needs(self.item(value)))
        return live

    def _group_pieces(self) -> None:
        groups: dict[tuple[Operator, tuple[int | None, ...], int], list[int]] = {}
        met: Counter[Hashable] = Counter()
        named = self.loaded.values.names
        # New ids follow in the order in which they are reached: their numbers depend on what a search tried.
        for value in sorted(self.live, key=lambda v: v if v in named else math.inf):
            item = self.item(value)
            if isinstance(item, New) and several(item.node.operator):
                inputs = tuple(map(self._resolved, item.node.inputs))
                # Two ids may be the same output of equal nodes: each node has every output once.
                number = met[item.node.operator, inputs]
                met[item.node.operator, inputs] += 1
                groups.setdefault((item.node.operator.at_port(0), inputs, number), []).append(value)
        for values in groups.values():
            for value in values:
                node = self.node_of(value)
                assert node is not None
                self._items[value] = New(tuple(values), node)

    def _resolved(self, value: int | None) -> int | None:
        return None if value is None else self.resolve(value)

    def _ordered(self) -> Iterator[Item]:
        done: set[Item] = set()
        for anchor in self._anchors():
            stack: list[tuple[Item, bool]] = [(anchor, False)]
            while stack:
                item, ready = stack.pop()
                if item in done:
                    continue
                if ready:
                    done.add(item)
                    yield item
                    continue
                stack.append((item, True))
                needed = self.needs(item)
                self._label(item, needed)
                stack.extend((self.item(i), False) for i in reversed(needed))

    def _label(self, item: Item, needed: Iterable[int]) -> None:
        """Values without a name are called after the first named value that they serve."""
        match item:
            case New(values, _):
                label = next((self.labels[v] for v in values if v in self.labels), "")
            case KeptNode(index, _):
                label = next((v.name for v in self.nodes[index].outputs if v.name), "")
            case _:
                return
        for value in needed:
            self.labels.setdefault(value, label)

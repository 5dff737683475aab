"""What a rewrite changed, cut into regions that can be timed on their own.

A region is a connected piece of what differs between two tables, with unchanged neighbours as context on each side,
because ONNX Runtime fuses across the border and its blocked layout spans it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from taso_py.graph.table import Node, Opaque, Table
from taso_py.ops.normalization import BatchNormalization
from taso_py.ops.operator import Operator

_REACH = 4
"""How far context goes through what is done to each pixel."""
_IMAGE_RANK = 4
"""Only images [n, c, h, w] have a blocked layout."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A few nodes of one table: enough to build a stand-alone model."""

    nodes: tuple[tuple[int, Node], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def key(self, table: Table) -> str:
        """Text that is equal for alike fragments: operators, wiring and types, without names and values."""
        number: dict[int, str] = {}
        lines = []
        for i in self.inputs:
            number[i] = f"i{len(number)}"
            lines.append(f"{number[i]}:{table.type(i)}")
        for value, node in self.nodes:
            operands = ",".join(self._operand(table, i, number) for i in node.inputs)
            number[value] = f"v{len(number)}"
            lines.append(f"{number[value]}={node.operator}({operands})")
        lines.append("->" + ",".join(number[o] for o in self.outputs))
        return ";".join(lines)

    def _operand(self, table: Table, value: int | None, number: dict[int, str]) -> str:
        if value is None:
            return "_"
        if value in table.values.constant:
            # which constant it is matters only as far as sharing goes
            return number.setdefault(value, f"c{len(number)}:{table.type(value)}")
        return number[value]


@dataclass(frozen=True, slots=True)
class Region:
    """The same place before and after a rewrite."""

    before: Fragment
    after: Fragment
    ids: frozenset[int]
    """What changed, context excluded."""


def regions(before: Table, after: Table) -> Iterator[Region]:
    """The changed places, each with its context; empty where only constants changed."""
    gone = {v: n for v, n in before.nodes.items() if after.nodes.get(v) is not n}
    new = {v: n for v, n in after.nodes.items() if before.nodes.get(v) is not n}
    constant = before.values.constant
    gone = {v: n for v, n in gone.items() if v not in constant and not isinstance(n.operator, Opaque)}
    new = {v: n for v, n in new.items() if v not in constant and not isinstance(n.operator, Opaque)}
    users_before, users_after = before.users(), after.users()
    for piece in _pieces(gone, new):
        context = _context(before, after, piece, users_before, users_after)
        yield Region(
            _fragment(before, (piece & gone.keys()) | context, users_before),
            _fragment(after, (piece & new.keys()) | context, users_after),
            frozenset(piece),
        )


def _pieces(gone: dict[int, Node], new: dict[int, Node]) -> list[set[int]]:
    """Connected components of the changed ids, linked by edges and by shared inputs of changed nodes."""
    parent: dict[int, int] = {}

    def find(v: int) -> int:
        while parent.setdefault(v, v) != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    changed = [*gone.items(), *new.items()]
    for value, node in changed:
        find(value)
        for i in node.inputs:
            if i is not None and (i in gone or i in new):
                parent[find(value)] = find(i)
    groups: dict[int, set[int]] = {}
    for value, _ in changed:
        groups.setdefault(find(value), set()).add(value)
    return list(groups.values())


def _context(
    before: Table,
    after: Table,
    piece: set[int],
    users_before: dict[int, list[int]],
    users_after: dict[int, list[int]],
) -> set[int]:
    """Unchanged neighbours: producers of what the piece reads, users of what it makes.

    Through what is done to each pixel of an image it goes on to what lies behind: whether a convolution's result stays
    in ONNX Runtime's channel blocks is decided there.
    """
    around: set[int] = set()
    for model, users in ((before, users_before), (after, users_after)):
        for neighbours in (partial(_producers, model), partial(_users, users)):
            edge = {v for v in piece if v in model.nodes}
            for _ in range(_REACH):
                edge = {v for v in neighbours(edge) if v not in piece and _unchanged(before, after, v)}
                around |= edge
                edge = {v for v in edge if _passes_blocks(model, v)}
    return around


def _producers(table: Table, values: Iterable[int]) -> set[int]:
    return {i for v in values for i in table.nodes[v].inputs if i is not None}


def _users(users: dict[int, list[int]], values: Iterable[int]) -> set[int]:
    return {u for v in values for u in users.get(v, ())}


def _unchanged(before: Table, after: Table, value: int) -> bool:
    """Whether a node can be context: it is the same in both tables, and is computed when the model runs."""
    node = before.nodes.get(value)
    if node is None or node is not after.nodes.get(value):
        return False
    return value not in before.values.constant and not isinstance(node.operator, Opaque)


def _passes_blocks(table: Table, value: int) -> bool:
    """Whether an image that comes in channel blocks leaves in them, or the node is fused into the one before."""
    operator = table.nodes[value].operator
    point_wise = isinstance(operator, Operator) and operator.pointwise
    return table.type(value).rank == _IMAGE_RANK and (point_wise or isinstance(operator, BatchNormalization))


def _fragment(table: Table, chosen: Iterable[int], users: dict[int, list[int]]) -> Fragment:
    inside = set(chosen)
    nodes = tuple((v, n) for v, n in _ordered(table, inside))
    inputs = dict.fromkeys(
        i for _, n in nodes for i in n.inputs if i is not None and i not in inside and i not in table.values.constant
    )
    roots = set(table.roots)
    outputs = tuple(v for v, _ in nodes if v in roots or not users.get(v) or any(u not in inside for u in users[v]))
    return Fragment(nodes, tuple(inputs), outputs)


def _ordered(table: Table, inside: set[int]) -> list[tuple[int, Node]]:
    """The chosen nodes, each after those of its inputs that are chosen."""
    done: dict[int, Node] = {}
    for start in sorted(inside):
        stack = [(start, False)]
        while stack:
            value, ready = stack.pop()
            if value in done:
                continue
            node = table.nodes[value]
            if ready:
                done[value] = node
            else:
                stack.append((value, True))
                stack.extend((i, False) for i in node.inputs if i is not None and i in inside and i not in done)
    return list(done.items())

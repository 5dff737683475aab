"""What a rewrite does to a table, told from the change alone, is what a look at the whole table says."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from taso_py.graph.table import Node, Table, Values
from taso_py.graph.types import TensorType
from taso_py.ops.elementwise import Add
from taso_py.search.topology import Ranks, closes_cycle, ranks_after, ranks_of, without_dead

SOURCES, NODES, NEW = 3, 20, 6


def table(random: np.random.Generator) -> Table:
    """Additions of earlier values; all are needed."""
    values = Values()
    for _ in range(SOURCES + NODES + NEW):
        values.new(TensorType("float32", (2,)))
    nodes = {k: Node(Add(), pair(random, k)) for k in range(SOURCES, SOURCES + NODES)}
    used = {i for node in nodes.values() for i in node.inputs}
    roots = tuple(k for k in nodes if k not in used)
    return Table(values, nodes, roots, roots, 17)


def pair(random: np.random.Generator, below: int) -> tuple[int | None, ...]:
    return tuple(int(i) for i in random.integers(0, below, 2))


def change(random: np.random.Generator, table: Table) -> dict[int, Node]:
    """Some ids of the table get other operands, among them new ids; not always lower ones."""
    first = SOURCES + NODES
    new = {k: Node(Add(), pair(random, k)) for k in range(first, first + int(random.integers(0, NEW + 1)))}
    old = random.choice(list(table.nodes), int(random.integers(1, 4)), replace=False)
    operands = [*range(SOURCES), *table.nodes, *new]
    return {**new, **{int(v): Node(Add(), tuple(int(i) for i in random.choice(operands, 2))) for v in old}}


def users(table: Table) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for value, node in table.nodes.items():
        for i in node.inputs:
            if i is not None:
                found.setdefault(i, []).append(value)
    return found


def rising(ranks: Ranks, nodes: Mapping[int, Node]) -> bool:
    return all(ranks.get(i, -1) < ranks[v] for v, node in nodes.items() for i in node.inputs if i is not None)


@pytest.mark.parametrize("seed", range(300))
def test_ranks_and_what_is_dead(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = table(random)
    ranks = ranks_of(model)
    assert rising(ranks, model.nodes)
    for _ in range(4):
        changed = change(random, model)
        after = ranks_after(ranks, changed)
        if closes_cycle(model, changed, ranks):
            assert after is None
            continue
        whole = model.rebind(changed)
        reachable = whole.reachable()
        small = without_dead(model, changed, users(model))
        assert small.nodes == {v: n for v, n in whole.nodes.items() if v in reachable}
        assert after is None or rising(after, small.nodes)
        model, ranks = small, after if after is not None else ranks_of(small)


def test_operands_from_below_keep_all_ranks() -> None:
    """The common case needs no look at the whole table: new ids on top of lower ones, below what is replaced."""
    random = np.random.default_rng(0)
    model = table(random)
    ranks = ranks_of(model)
    last, new = max(model.nodes), SOURCES + NODES
    built = {new: Node(Add(), (0, 1)), new + 1: Node(Add(), (new, 3))}
    after = ranks_after(ranks, {**built, last: Node(Add(), (new + 1, 4))})
    assert after is not None
    assert {v: r for v, r in after.items() if v in ranks} == ranks
    assert ranks[3] < after[new + 1] < ranks[last]


def test_a_cycle_is_seen_at_once() -> None:
    values = Values()
    for _ in range(3):
        values.new(TensorType("float32", (2,)))
    broken = Table(values, {1: Node(Add(), (0, 0)), 2: Node(Add(), (1, 0))}, (2,), (2,), 17)
    changed = {1: Node(Add(), (2, 0))}
    assert closes_cycle(broken, changed, ranks_of(broken))
    assert ranks_after(ranks_of(broken), changed) is None
    assert not closes_cycle(broken, {1: Node(Add(), (0, 0))}, ranks_of(broken))

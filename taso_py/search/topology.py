"""What a rewrite does to a table as a graph, told from what it changes: the rest is not walked through again.

``Ranks`` number the ids of a table so that every node's number is above those of its operands; sources lie below all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from taso_py.graph.table import Node, Table

Ranks = Mapping[int, float]

_SOURCE = -1.0
"""Rank of what has no node."""


def ranks_of(table: Table) -> Ranks:
    """Ranks of a table's reachable ids."""
    return {value: float(k) for k, (value, _) in enumerate(table.order())}


def ranks_after(ranks: Ranks, changed: Mapping[int, Node]) -> Ranks | None:
    """Ranks of a table in which the ``changed`` ids have these nodes; None when ids would have to change places.

    Ids keep their rank, and new ones lie between what they need and what needs them.
    """
    operands = {value: [i for i in node.inputs if i is not None] for value, node in changed.items()}
    new = {value: [i for i in below if i in changed and i not in ranks] for value, below in operands.items()}
    new = {value: below for value, below in new.items() if value not in ranks}
    try:
        order = list(TopologicalSorter(new).static_order())
    except CycleError:
        return None
    kept = [value for value in changed if value in ranks]
    ceilings = dict.fromkeys(order, math.inf)
    for value in (*kept, *reversed(order)):
        top = ranks[value] if value in ranks else ceilings[value]
        for i in operands[value]:
            if i in ceilings:
                ceilings[i] = min(ceilings[i], top)
    after = dict(ranks)
    for value in order:
        low = max((after.get(i, _SOURCE) for i in operands[value]), default=_SOURCE)
        after[value] = (low + min(ceilings[value], low + 2)) / 2
        if not low < after[value] < ceilings[value]:
            return None
    in_order = all(after.get(i, _SOURCE) < after[value] for value in kept for i in operands[value])
    return after if in_order else None


def without_dead(table: Table, changed: Mapping[int, Node], users: Mapping[int, Iterable[int]]) -> Table:
    """The table with the ``changed`` nodes in place, less what no root needs any more.

    Every node of ``model`` is needed, and ``users`` holds at least the direct users of each of its ids.
    """
    nodes = dict(table.nodes)
    nodes.update(changed)
    users_now: dict[int, list[int]] = {}
    for value, node in changed.items():
        for i in node.inputs:
            if i is not None:
                users_now.setdefault(i, []).append(value)
    roots = set(table.roots)
    before = (i for v in changed if v in table.nodes for i in table.nodes[v].inputs if i is not None)
    doubtful = deque(dict.fromkeys([*changed, *before]))
    waiting = set(doubtful)
    while doubtful:
        # First come, first served: what many dead nodes read is looked at behind all of them.
        value = doubtful.popleft()
        waiting.remove(value)
        if value not in nodes or value in roots:
            continue
        by = chain(users_now.get(value, ()), users.get(value, ()))
        if not any(user in nodes and value in nodes[user].inputs for user in by):
            again = dict.fromkeys(i for i in nodes.pop(value).inputs if i is not None and i not in waiting)
            doubtful.extend(again)
            waiting.update(again)
    return Table(table.values, nodes, table.roots, table.outputs, table.opset)


def closes_cycle(table: Table, changed: Mapping[int, Node], ranks: Ranks) -> bool:
    """Whether a changed id now depends on itself (depth-first over the changed table, whose ``ranks`` were these).

    What lies below every changed id leads to none of them, and is not walked through.
    """
    floor = min((ranks[value] for value in changed if value in ranks), default=math.inf)
    state: dict[int, int] = {}
    for start in changed:
        stack = [(start, False)]
        while stack:
            value, leaving = stack.pop()
            if leaving:
                state[value] = 2
                continue
            seen = state.get(value)
            if seen == 2:
                continue
            if seen == 1:
                return True
            state[value] = 1
            stack.append((value, True))
            above = value in changed or ranks.get(value, math.inf) > floor
            node = (changed.get(value) or table.nodes.get(value)) if above else None
            below = [i for i in node.inputs if i is not None] if node else []
            if any(state.get(i) == 1 for i in below):
                return True
            stack.extend((i, False) for i in below if state.get(i) != 2)
    return False

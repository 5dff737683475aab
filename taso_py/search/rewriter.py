"""Applying a match to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taso_py.graph.table import Node, Table
from taso_py.graph.types import TensorType
from taso_py.ops.elementwise import Identity
from taso_py.rules.build import Builder, number_type
from taso_py.search.matcher import Match
from taso_py.search.topology import closes_cycle, ranks_after, without_dead
from taso_py.search.view import View


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A table after one step, and the ids whose definition is new in it."""

    table: Table
    changed: frozenset[int]
    matches: tuple[Match, ...]

    @property
    def rule(self) -> str:
        """The name of the rule that was applied."""
        return self.matches[0].rule.name

    @property
    def outputs(self) -> tuple[int, ...]:
        """What was replaced, match by match."""
        return tuple(o for m in self.matches for o in m.outputs)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What one match changes: new definitions by id, and ids that become other names of existing values."""

    new: Mapping[int, Node]
    aliases: Mapping[int, int]


def rewrite(view: View, match: Match) -> Rewrite | None:
    """The table with the match's outputs replaced; None when nothing changes or a cycle would close.

    A multi-output match whose inputs depend on its outputs is exactly such a cycle.
    """
    return rewrite_all(view, [match])


def rewrite_all(view: View, matches: Sequence[Match]) -> Rewrite | None:
    """The table with several matches of one rule applied at once.

    None also where they rely on each other's outputs: where what they replace is its own operand then, or its own name.
    """
    new: dict[int, Node] = {}
    aliases: dict[int, int] = {}
    for match in matches:
        view.watch.look()
        change = _replacement(view, match)
        if change is None:
            return None
        new.update(change.new)
        aliases.update(change.aliases)
    finals = _finals(aliases)
    if finals is None:
        return None
    changed = _rebind_users(view.table, new, finals)
    changed = {v: n for v, n in changed.items() if view.table.nodes.get(v) != n}
    if not any(v in view.table.nodes for v in changed):
        return None
    if ranks_after(view.ranks(), changed) is None and closes_cycle(view.table, changed, view.ranks()):
        return None
    after = without_dead(view.table, changed, view.users)
    return Rewrite(after, frozenset(v for v in changed if v in after.nodes), tuple(matches))


def _replacement(view: View, match: Match) -> Replacement | None:
    table = view.table
    dtype = number_type(match.binding, table.type, table.type(match.outputs[0]).dtype)
    builder = Builder(view.values, match.binding, match.rule.right, dtype)
    built = [builder.output(term) for term in match.rule.right.outputs]
    if tuple(built) == match.outputs:
        return None
    new = _materialised(view, match)
    new.update({v: n for v, n in builder.nodes.items() if v not in table.nodes and v not in new})
    aliases: dict[int, int] = {}
    for output, value in zip(match.outputs, built, strict=True):
        if value == output:  # the others may be computed from what stays
            continue
        inside = any(value in n.inputs for v, n in builder.nodes.items() if v != value) or built.count(value) > 1
        if value in builder.nodes and value not in table.nodes and not inside:
            new[output] = builder.nodes[value]
        else:
            aliases[output] = value
    return Replacement(_keep_origins(table, new), aliases)


def _materialised(view: View, match: Match) -> dict[int, Node]:
    """Nodes of the expansions that hold an output of the match: a virtual output becomes a real one."""
    new: dict[int, Node] = {}
    for output in match.outputs:
        if output in view.owners:
            owner, expansion = view.owners[output][0]
            new[owner] = expansion.root
            new.update({v: n for v, n in expansion.inner if v not in view.table.nodes})
    for value in list(match.binding.tensors.values()):
        _pull(view, value, new)
    return new


def _pull(view: View, value: int, new: dict[int, Node]) -> None:
    """A tensor variable may be bound to a virtual value: it and what it needs become real."""
    if value in view.table.nodes or value in new or value not in view.inner:
        return
    node = new[value] = view.inner[value]
    for i in node.inputs:
        if i is not None:
            _pull(view, i, new)


def _keep_origins(table: Table, new: Mapping[int, Node]) -> dict[int, Node]:
    """A rebound id whose operator stays the same keeps its ONNX node's name, attributes and metadata.

    The operands' types must stay the same too: a node's spelling (a 0 or -1 in a shape) may be relative to them.
    """
    kept = {}
    for value, node in new.items():
        old = table.nodes.get(value)
        same = old is not None and old.operator == node.operator and _types(table, old) == _types(table, node)
        kept[value] = replace(node, origin=old.origin) if same and old is not None else node
    return kept


def _types(table: Table, node: Node) -> list[TensorType | None]:
    return [None if i is None else table.type(i) for i in node.inputs]


def _finals(aliases: Mapping[int, int]) -> dict[int, int] | None:
    """What each alias stands for in the end; None where some stand for each other in a circle."""
    finals: dict[int, int] = {}
    for first in aliases:
        chain: dict[int, None] = {}
        value = first
        while value in aliases and value not in finals:
            if value in chain:
                return None
            chain[value] = None
            value = aliases[value]
        finals.update(dict.fromkeys(chain, finals.get(value, value)))
    return finals


def _rebind_users(table: Table, new: dict[int, Node], finals: Mapping[int, int]) -> dict[int, Node]:
    """The new definitions, and those of all that reads an alias or is one that must stay."""
    changed = dict(new)
    if not finals:
        return changed
    roots = set(table.roots)
    everything = {**table.nodes, **new}
    for value, node in everything.items():
        if any(i in finals for i in node.inputs):
            changed[value] = replace(node, inputs=tuple(i if i is None else finals.get(i, i) for i in node.inputs))
    for output, value in finals.items():
        if output in roots:
            changed[output] = Node(Identity(), (value,))
    return changed

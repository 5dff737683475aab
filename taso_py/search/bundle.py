"""What a bundle of rules is, and which of its matches count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from taso_py.graph.table import Table
from taso_py.search.matcher import Match


@dataclass(frozen=True, slots=True)
class Bundle:
    """Rules in the order in which they are applied, again and again until none matches."""

    leading: tuple[str, ...]
    """Where none of these matches, the others are not tried."""
    following: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    """Rules that count only where two sites or more have the same operands: what they make is one node then."""
    alone: frozenset[str] = frozenset()
    """Rules that count only where nothing else reads what is within the left side: it is gone then."""

    def chosen(self, rule: str, matches: Iterable[Match], table: Table) -> list[Match]:
        """The matches of one of its rules that count, of what matches in a table."""
        found = [match for match in matches if match.rule.name == rule]
        if rule in self.shared:
            sites = Counter(map(_operands, found))
            found = [match for match in found if sites[_operands(match)] > 1]
        if rule in self.alone and found:
            users = table.users()
            read_once = {v for v in table.nodes if len(users.get(v, ())) == 1 and v not in table.roots}
            within = [(match, table.nodes.keys() & match.used.difference(match.outputs)) for match in found]
            found = [match for match, values in within if values <= read_once]
        return found


def _operands(match: Match) -> tuple[int, ...]:
    """What the tensors on a rule's left side are."""
    return tuple(value for _, value in sorted(match.binding.tensors.items()))

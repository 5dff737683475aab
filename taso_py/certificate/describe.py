"""Rewrites in words: the same description whoever makes the rewrite, the search or the check.

Values that the original names keep those names; a new one is ``#1``, ``#2``, ... in the order in which it is first
spoken of.  (A name of the original that begins with # is written with another # before it.)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taso_py.certificate.document import CertifiedStep, CertifiedSubstitution, Look, MatchPlace
from taso_py.graph.sizes import Expression
from taso_py.graph.table import Node, Table, Values
from taso_py.rules.rule import Rule
from taso_py.rules.unify import Binding
from taso_py.search.matcher import Match
from taso_py.search.view import Expansion, View

_NEW = re.compile(r"#(\d{1,9})")


@dataclass(slots=True)
class Labels:
    """Ids of one table <-> what a certificate calls them."""

    labels: dict[int, str]
    ids: dict[str, int] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.ids = {label: value for value, label in self.labels.items()}

    @staticmethod
    def of(values: Values) -> Labels:
        """The names of the original."""
        return Labels({value: f"#{name}" if name.startswith("#") else name for value, name in values.names.items()})

    def copy(self) -> Labels:
        """An independent copy."""
        return Labels(dict(self.labels), self.count)

    def __getitem__(self, value: int | None) -> str:
        if value is None:
            return "nothing"
        if value not in self.labels:
            self.count += 1
            self.labels[value] = f"#{self.count}"
            self.ids[f"#{self.count}"] = value
        return self.labels[value]

    def count_on(self, labels: Iterable[str]) -> None:
        """New values get other labels than these."""
        found = (_NEW.fullmatch(label) for label in labels)
        self.count = max([self.count, *(int(new[1]) for new in found if new)])

    def name_as(self, definitions: Mapping[str, str], nodes: Mapping[int, Node]) -> None:
        """Values without a label get those under which ``definitions`` have their nodes; the others, fresh ones."""
        meant = {text: label for label, text in definitions.items() if label not in self.ids}
        waiting = [value for value in nodes if value not in self.labels]
        while waiting:
            left = []
            for value in waiting:
                known = all(i is None or i in self.labels for i in nodes[value].inputs)
                label = meant.pop(self.node(nodes[value]), None) if known else None
                if label is None:
                    left.append(value)
                else:
                    self.labels[value], self.ids[label] = label, value
            if len(left) == len(waiting):
                break
            waiting = left
        for value in waiting:
            self[value]

    def node(self, node: Node) -> str:
        """A definition: the operator with its attributes, then its operands."""
        return f"{node.operator}({', '.join(self[i] for i in node.inputs)})"


def law_of(rule: Rule) -> tuple[Rule, bool]:
    """The law as its file states it, and whether this rule is the law read backwards."""
    if rule.backwards:
        return rule.reversed(), True
    return rule, False


def use_of(rule: Rule) -> tuple[str, str, bool]:
    """Name and id of the law, and whether it is read backwards."""
    law, backwards = law_of(rule)
    return law.name, law.id, backwards


def look(labels: Labels, expansion: Expansion) -> Look:
    """An expansion with the match of its rule."""
    match = expansion.match
    (value,) = match.outputs
    where = _substitution(labels, match.binding)
    definitions = {labels[value]: labels.node(expansion.root)}
    definitions |= {labels[v]: labels.node(node) for v, node in expansion.inner}
    return Look(labels[value], *use_of(match.rule), where, definitions)


def looked_through(view: View, matches: Sequence[Match]) -> list[tuple[int, Expansion]]:
    """The expansions that matches need, with their values: an output is inside, or a left side saw them."""
    return list(dict.fromkeys([*_owned(view, matches), *_seen_through(view, matches)]))


def _owned(view: View, matches: Sequence[Match]) -> Iterator[tuple[int, Expansion]]:
    """The expansions that a rewrite makes real because an output is inside."""
    return (view.owners[o][0] for match in matches for o in match.outputs if o in view.owners)


def _seen_through(view: View, matches: Sequence[Match]) -> Iterator[tuple[int, Expansion]]:
    """The expansions in which a left side found what the table does not say."""
    for value, node in (placed for match in matches for placed in match.placed):
        held = view.table.nodes.get(value)
        if held is not None and not _same(held, node):
            yield value, next(e for e in view.expansions(value) if _same(e.root, node))


def _same(one: Node, other: Node) -> bool:
    """Whether two nodes are the same but for the order of a commutative operator's operands."""
    if one.operator != other.operator:
        return False
    return one.inputs == other.inputs or (bool(one.operator.commutative) and one.inputs == other.inputs[::-1])


def place(labels: Labels, view: View, match: Match) -> MatchPlace:
    """The site of a match; an output that only exists in an expansion belongs to the first that holds it."""
    inside = {labels[o]: labels[view.owners[o][0][0]] for o in match.outputs if o in view.owners}
    return MatchPlace(tuple(labels[o] for o in match.outputs), inside, _substitution(labels, match.binding))


def changed(before: Table, after: Table) -> dict[int, Node]:
    """The definitions that are new in a table."""
    return {v: n for v, n in after.nodes.items() if before.nodes.get(v) != n}


def changes(labels: Labels, before: Table, after: Table) -> dict[str, str]:
    """The same in words."""
    return {labels[v]: labels.node(n) for v, n in changed(before, after).items()}


def step(labels: Labels, view: View, matches: Sequence[Match], after: Table) -> tuple[CertifiedStep, tuple[Rule, ...]]:
    """A whole step, and the laws that it uses; the order in which new values get their labels is this one."""
    looks = looked_through(view, matches)
    described = CertifiedStep(
        *use_of(matches[0].rule),
        tuple(look(labels, expansion) for _, expansion in looks),
        tuple(place(labels, view, match) for match in matches),
        changes(labels, view.table, after),
    )
    return described, tuple(law_of(rule)[0] for rule in (matches[0].rule, *(e.match.rule for _, e in looks)))


def weights(labels: Labels, values: Values, folded: Mapping[str, int]) -> dict[str, str]:
    """Computed initializers: the value that each holds, and its type."""
    return {name: f"{labels[value]}: {values.types[value]}" for name, value in folded.items()}


def _substitution(labels: Labels, binding: Binding) -> CertifiedSubstitution:
    return CertifiedSubstitution(
        {name: labels[value] for name, value in binding.tensors.items()},
        {name: _plain(value) for name, value in binding.names.items()},
        {name: _plain(value) for name, value in binding.blocks.items()},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Expression):
        return {"size": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def difference(wanted: Any, given: Any, at: str = "") -> str | None:
    """The first thing in which two descriptions differ, in words."""
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys([*wanted, *given]):
            found = _entry_difference(wanted, given, name, at)
            if found is not None:
                return found
        return None
    # As JSON has them: there true is not 1, and 1 not 1.0.
    same = json.dumps(wanted) == json.dumps(given)
    return None if same else f"{at} is {_short(wanted)}, where the graph gives {_short(given)}"


def _entry_difference(wanted: Mapping[str, Any], given: Mapping[str, Any], name: str, at: str) -> str | None:
    place = f"{at} {name}".strip()
    if name not in given:
        return f"{place} is {_short(wanted[name])}, where the graph has no such thing"
    if name not in wanted:
        return f"{place} is missing"
    return difference(wanted[name], given[name], place)


def _short(value: Any, limit: int = 120) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."

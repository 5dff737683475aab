"""What `superopt diff` has found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.difference.compare import Difference
from taso_py.difference.graph import Graph, Operation
from taso_py.difference.regions import Piece
from taso_py.paths import name_in_json
from taso_py.report.content import count
from taso_py.report.names import clipped
from taso_py.report.story import MOST_DRAWN, node_lines, story
from taso_py.report.table import TextTable

SCHEMA = "superopt.diff/1"
_LINES = 40
_MOST_OPERATORS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between two models, and what they are called."""

    first: str
    """Path as it was given; "model" for one in memory."""
    second: str
    found: Difference

    @property
    def same(self) -> bool:
        """Whether both compute the same nodes, from the same inputs to the same outputs."""
        return self.found.same

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values; regions of one form have one number."""
        found = self.found
        forms = {id(region): k for k, group in enumerate(found.alike) for region in group}
        return {
            "schema": SCHEMA,
            "first": {"path": name_in_json(self.first), **_model(found.before)},
            "second": {"path": name_in_json(self.second), **_model(found.after)},
            "same": found.same,
            "unchanged": found.unchanged,
            "operators": {name: list(pair) for name, pair in found.operators.items()},
            "regions": [
                {
                    "form": forms[id(region)],
                    "before": _piece(region.before, found.before),
                    "after": _piece(region.after, found.after),
                    "ends": [list(pair) for pair in region.ends],
                }
                for region in found.regions
            ],
        }

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def text(self) -> str:
        """The tables, the kinds of places with their nodes, and a sentence at the end."""
        from rich.console import Group, RenderableType
        from rich.text import Text

        from taso_py.report.terminal import render, table

        parts: list[RenderableType] = [table(content) for content in tables_of(self.found)]
        for line in _lines(self.found):
            style = {"-": "red", "+": "green"}.get(line[2:3] if line.startswith("  ") else "", "")
            parts.append(Text(line, style=style or ("bold" if line and not line.startswith(" ") else "")))
        parts.append(Text(f"{self.first} and {self.second}: {summary(self.found)}", style="bold"))
        return render(Group(*parts))

    def save_report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the comparison as ``.json``, ``.md`` or ``.html``; OutputError where that cannot be done."""
        from taso_py.report.document import write_comparison

        write_comparison(self, Path(path), force=force)


def summary(found: Difference) -> str:
    """One sentence."""
    if not found.regions:
        other = "" if found.interface_same else "; inputs or outputs differ"
        return f"the same {_nodes(found.unchanged)}, whatever their names and their order{other}"
    places = "1 place differs" if len(found.regions) == 1 else f"{len(found.regions)} places differ"
    forms = len(found.alike)
    kinds = (
        f", of {forms} kinds"
        if 1 < forms < len(found.regions)
        else ", all alike"
        if forms == 1 < len(found.regions)
        else ""
    )
    gone = len(found.before.nodes) - found.unchanged
    new = len(found.after.nodes) - found.unchanged
    return f"{places}{kinds}: {_nodes(gone)} became {new}, {found.unchanged} are the same in both"


def tables_of(found: Difference) -> tuple[TextTable, ...]:
    """Sizes, operators and interfaces side by side; of the operators and values only what differs."""
    before, after = found.before, found.after
    sizes = [
        ("nodes", str(sum(before.operators.values())), str(sum(after.operators.values()))),
        ("parameters", count(before.parameters), count(after.parameters)),
        ("parameter bytes", count(before.parameter_bytes), count(after.parameter_bytes)),
        ("opsets", _opsets(before), _opsets(after)),
    ]
    changed = [(name, str(a or ""), str(b or "")) for name, (a, b) in found.operators.items() if a != b]
    operators = [(clipped(name, 60), a, b) for name, a, b in changed[:_MOST_OPERATORS]]
    if len(changed) > _MOST_OPERATORS:
        operators.append((f"{len(changed) - _MOST_OPERATORS} more", "", ""))
    interfaces = [
        *_values("input", before, after, before.inputs, after.inputs),
        *_values("output", before, after, before.outputs, after.outputs),
    ]
    made = (
        TextTable("Both models", ("figure", "first", "second"), tuple(sizes), frozenset({1, 2})),
        TextTable(
            "Operators whose number differs", ("operator", "first", "second"), tuple(operators), frozenset({1, 2})
        ),
        TextTable("Inputs and outputs that differ", ("value", "first", "second"), tuple(interfaces)),
    )
    return tuple(table for table in made if table.rows)


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _opsets(graph: Graph) -> str:
    return ", ".join(f"{domain} {version}" for domain, version in graph.opsets.items())


def _values(
    kind: str, before: Graph, after: Graph, names: tuple[str, ...], others: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*names, *others)):
        one = before.type_text(name) or "?" if name in names else "none"
        two = after.type_text(name) or "?" if name in others else "none"
        if one != two:
            yield f"{kind} {clipped(name, 60)}", one, two


def _lines(found: Difference) -> Iterator[str]:
    told = story(found)
    for number, change in enumerate(told.changes, start=1):
        yield f"{number}. {change.title} ({change.times})"
        if change.note:
            yield f"  {change.note}"
        yield from (f"  - {line}" for line in node_lines(change.region.before, found.before, _LINES))
        yield from (f"  + {line}" for line in node_lines(change.region.after, found.after, _LINES))
        if change.count > 1:
            yield f"  at {change.places}"
        yield ""
    if told.others:
        yield f"{MOST_DRAWN} kinds of places are shown; --json has all of them"
        yield from (f"  {line}" for line in told.others)
        yield ""


def _model(graph: Graph) -> dict[str, Any]:
    return {
        "nodes": sum(graph.operators.values()),
        "parameters": graph.parameters,
        "parameter_bytes": graph.parameter_bytes,
        "opsets": dict(graph.opsets),
        "inputs": {name: graph.type_text(name) for name in graph.inputs},
        "outputs": {name: graph.type_text(name) for name in graph.outputs},
    }


def _piece(piece: Piece, graph: Graph) -> dict[str, Any]:
    return {
        "nodes": [_node(node, graph) for node in piece.nodes],
        "inputs": list(piece.inputs),
        "outputs": list(piece.outputs),
    }


def _node(node: Operation, graph: Graph) -> dict[str, Any]:
    types: Mapping[str, str] = {v: graph.type_text(v) for v in (*node.reads, *node.outputs) if v}
    return {
        "name": node.name,
        "operator": node.operator,
        "inputs": list(node.inputs),
        "captured": list(node.captured),
        "outputs": list(node.outputs),
        "attributes": dict(node.attributes),
        "types": types,
    }

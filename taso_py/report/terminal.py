"""Results as text for a terminal: plain when stdout is a file, coloured when it is not."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from taso_py.report.content import (
    TextTable,
    conditions,
    count,
    profile_sentence,
    profile_table,
    sentence,
    shape_text,
    tables,
)
from taso_py.report.ranking import Ranking
from taso_py.result import Inspection, Result

__all__ = ["inspection_text", "ranking_text", "render", "result_text", "sentence", "table"]

# A pipe has no width; rules and CPU names should not be cut there.
_PLAIN_WIDTH = 160


def result_text(result: Result) -> str:
    """The sentence, the tables of rules, and what the figures hold for."""
    parts: list[RenderableType] = [table(content) for content in tables(result)]
    parts.append(Text(sentence(result), style="bold"))
    parts.append(Text(f"{conditions(result)}: {_holds(result)}", style="dim"))
    if result.output is not None:
        parts.append(Text(f"written: {result.output}"))
    return render(Group(*parts))


def inspection_text(inspection: Inspection) -> str:
    """Operators, sizes and costs of one model."""
    operators = TextTable(
        "Operators",
        ("operator", "nodes", ""),
        tuple(
            (name, str(number), "opaque" if name in inspection.opaque_types else "")
            for name, number in sorted(inspection.operators.items(), key=lambda item: (-item[1], item[0]))
        ),
        frozenset({1}),
    )
    interface = TextTable(
        "Inputs and outputs",
        ("", "name", "type"),
        tuple(("in", name, kind) for name, kind in inspection.inputs.items())
        + tuple(("out", name, kind) for name, kind in inspection.outputs.items()),
    )
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in inspection.opsets.items())
    name = inspection.input or "model"
    lines = (
        f"{name}: {inspection.nodes} nodes, opsets {opsets}, IR {inspection.ir_version}",
        f"parameters {count(inspection.parameters)} ({_bytes(inspection.parameter_bytes)})",
        f"FLOPs {count(inspection.flops)}, bytes moved {_bytes(inspection.bytes_moved)}, "
        f"peak activations {_bytes(inspection.peak_activation_bytes)}",
        *([f"at {shape_text(inspection.shapes)}"] if inspection.shapes else []),
        *(f"{key}: {' '.join(value.split())}" for key, value in inspection.provenance.items()),
    )
    parts: list[RenderableType] = [table(interface), table(operators)]
    if inspection.profile is not None:
        parts.append(table(profile_table(inspection.profile)))
        lines = (*lines, profile_sentence(inspection.profile))
    return render(Group(*parts, *(Text(line) for line in lines)))


def ranking_text(ranking: Ranking) -> str:
    """The rules that gain, the most useful first."""
    rows = tuple(
        (u.rule, str(len(u.gains)), f"{100 * u.total:.1f} %", f"{Path(u.best[0]).stem} {100 * u.best[1]:.1f} %")
        for u in ranking.rules
    )
    columns = ("rule", "models", "gains together", "most on")
    title = f"{len(rows)} of the {ranking.tried} rules that were tried gain; models: {len(ranking.models)}"
    return render(table(TextTable(title, columns, rows, frozenset({1, 2}))))


def table(content: TextTable) -> RichTable:
    """A table of plain texts: nothing in it is read as markup."""
    result = RichTable(title=content.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(content.header):
        result.add_column(name, justify="right" if index in content.numeric else "left", overflow="fold")
    for row in content.rows:
        result.add_row(*(Text(cell) for cell in row))
    return result


def render(content: RenderableType) -> str:
    """What a rich renderable looks like on this stdout, without the final newline."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(
        file=sys.stdout or io.StringIO(), width=None if terminal else _PLAIN_WIDTH, soft_wrap=not terminal
    )
    with console.capture() as capture:
        console.print(content, highlight=False)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


def _holds(result: Result) -> str:
    return "the speed-up holds for these" if result.improved else "searched for these"


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{count(value)}B" if value >= 1000 else f"{value} B"

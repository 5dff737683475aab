"""Results as text for a terminal: plain when stdout is a file, coloured when it is not."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from taso_py.report.advice import next_step, reason_words
from taso_py.report.approximation import books, layer_table, tried_table
from taso_py.report.content import (
    compared_profiles,
    conditions,
    count,
    headline,
    profile_sentence,
    profile_table,
    raced_rows,
    sentence,
    shape_text,
)
from taso_py.report.ranking import Ranking
from taso_py.report.rewrites import HEADER, TITLE, named, places_text, rewrite_rows
from taso_py.report.table import TextTable
from taso_py.result import Inspection, Result

__all__ = ["inspection_text", "ranking_text", "render", "result_text", "sentence", "table"]

# A pipe has no width; rules and CPU names should not be cut there.
_PLAIN_WIDTH = 160


def result_text(result: Result, certificate: Path | None = None) -> str:
    """Where the time goes, the rewrites, what was gained or why not, what to do next, and what the figures hold for.

    ``certificate`` is the file that was written for the result, if one was.
    """
    return render(result_view(result, _width(), certificate))


def result_view(result: Result, width: int, certificate: Path | None = None) -> RenderableType:
    """The same for any console of so many columns."""
    parts: list[RenderableType] = []
    further = () if result.approximation is None else _approximations(result)
    for one in (_operators(result), _rewrites(result, width), _raced(result, width), *further):
        if one is not None and one.rows:
            parts += [table(one), ""]
    for item in result.rejected:
        parts.append(Text(f"rejected: {item.name} at {places_text(item.site.split(', '), 40)}: {item.reason}"))
        if item.reproduction is not None:
            parts.append(Text(f"  reproduction: {item.reproduction}"))
    parts.append(Text(headline(result), style="bold"))
    why = reason_words(result)
    parts += [] if why is None else [Text(f"reason: {why}")]
    parts += [] if result.placement is None else [Text(result.placement.sentence())]
    if result.approximation is not None and not result.approximate:
        parts.append(Text(result.approximation.sentence()))
    parts += [] if result.output is None else [Text(f"written: {result.output}")]
    parts.append(Text(f"next: {next_step(result, certificate)}"))
    parts.append(Text(f"{conditions(result)}: {_holds(result)}", style="dim"))
    return Group(*parts)


def _operators(result: Result) -> TextTable | None:
    if result.profile is None or not result.profile.operators:
        return None
    if result.profile_after is None:
        return profile_table(result.profile)
    return compared_profiles(result.profile, result.profile_after)


def _approximations(result: Result) -> tuple[TextTable, ...]:
    """The layers with the largest errors, both books; what was tried where nothing is approximated."""
    told = result.approximation
    assert told is not None
    both = books(result)
    return (tried_table(told),) if both is None else (layer_table(told, _SHOWN_LAYERS), both)


_SHOWN_LAYERS = 12


def _rewrites(result: Result, width: int) -> TextTable:
    """The rules in a width of their own, as wide as the names need; the places have the rest."""
    longest = max((len(named(rule)) for rule in result.rules), default=0)
    rules = min(longest, max(_LEAST_RULE, (width - _FIGURES) // 2))
    places = max(_LEAST_PLACES, width - rules - _FIGURES)
    return TextTable(TITLE, HEADER, tuple(rewrite_rows(result, rules, places)), frozenset({1, 3}))


def _raced(result: Result, width: int) -> TextTable | None:
    """What was tried and lost."""
    if result.improved:
        return None
    rows = tuple(
        (places_text(rules.split(", "), max(_LEAST_PLACES, width - 30)), *rest) for rules, *rest in raced_rows(result)
    )
    return TextTable("Raced", ("rules of the candidate", "predicted", "measured"), rows, frozenset({1, 2}))


_FIGURES, _LEAST_RULE, _LEAST_PLACES = 20, 20, 26
"""Columns for counts and shares with what stands between columns, and for the names beside them."""


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


def _width() -> int:
    """Columns of this stdout."""
    return Console(file=sys.stdout).width if _is_terminal() else _PLAIN_WIDTH


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def render(content: RenderableType) -> str:
    """What a rich renderable looks like on this stdout, without the final newline."""
    drawn, terminal = io.StringIO(), _is_terminal()  # rich would write to a stdout itself, which may be gone by now
    console = Console(file=drawn, width=_width(), soft_wrap=not terminal, force_terminal=terminal or None)
    console.print(content, highlight=False)
    return "\n".join(line.rstrip() for line in drawn.getvalue().rstrip().splitlines())


def _holds(result: Result) -> str:
    return "the speed-up holds for these" if result.improved else "searched for these"


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{count(value)}B" if value >= 1000 else f"{value} B"

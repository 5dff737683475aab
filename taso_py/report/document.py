"""The report file that `--report` asks for: JSON, Markdown or one self-contained HTML page, by the suffix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from taso_py.errors import OutputError
from taso_py.files import write_text
from taso_py.report.approximation import approximation_tables
from taso_py.report.changes import Differences, summary, tables_of
from taso_py.report.content import conditions, figures, sentence, tables
from taso_py.report.deployment import deployment
from taso_py.report.errors import error_table
from taso_py.report.page.charts import latency_chart, time_table
from taso_py.report.story import LawCard, Story, node_lines, story, story_of
from taso_py.report.table import TextTable
from taso_py.result import Result
from taso_py.streams import strict_json

_LINES = 60


def write_report(result: Result, path: Path, *, force: bool = False) -> None:
    """Write `result` to `path` as ``.json``, ``.md`` or ``.html``; ``force`` replaces a file, but never the models."""
    writers = {".json": _json, ".md": markdown, ".html": html}
    write_text(path, writers[path.suffix.lower()](result), sources=result.kept, force=force)


def write_comparison(found: Differences, path: Path, *, force: bool = False) -> None:
    """Write what `superopt diff` has found to ``path``, by its suffix; neither model is ever replaced."""
    writers = {".json": _json, ".md": _comparison_markdown, ".html": _comparison_html}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise OutputError(f"cannot write {path}: the name must end in {', '.join(writers)}")
    write_text(path, write(found), sources=(Path(found.first), Path(found.second)), force=force)


def html(result: Result) -> str:
    """The report as one HTML page without any outside reference."""
    from taso_py.report.page.render import result_page

    return result_page(result)


def markdown(result: Result) -> str:
    """The report as Markdown: the sections of the page, with tables where that has pictures."""
    blocks = [f"# {inline(sentence(result))}", inline(conditions(result))]
    blocks += [f"> {inline(note)}" for note in result.notes]
    if result.approximation is not None:
        blocks += ["## Proved and approximate", *map(_markdown_table, approximation_tables(result))]
    if result.profile is not None:
        blocks += ["## Where the time goes", _markdown_table(time_table(result))]
    blocks += _markdown_changes(story_of(result))
    if (latencies := latency_chart(result)) is not None:
        blocks += ["## Latency, round by round", inline(latencies.words)]
    if result.errors:
        blocks += ["## Errors", _markdown_table(error_table(result))]
    reason = [] if result.reason is None else [inline(result.reason.words)]
    tried = [_markdown_table(table) for table in tables(result)]
    if reason or tried:
        blocks += ["## What was tried", *reason, *tried]
    if (how := deployment(result)) is not None:
        blocks += ["## How to deploy it", _fenced("python", how.code), inline(how.holds), _fenced("sh", how.again)]
    return "\n\n".join([*blocks, "## All figures", _markdown_table(figures(result))]) + "\n"


def _markdown_changes(told: Story, title: str = "What was changed") -> list[str]:
    blocks, found = [], told.difference
    if found is not None:
        blocks += [f"## {title}", inline(f"{summary(found)}.")]
        for number, change in enumerate(told.changes, start=1):
            lines = [f"- {line}" for line in node_lines(change.region.before, found.before, _LINES)]
            lines += [f"+ {line}" for line in node_lines(change.region.after, found.after, _LINES)]
            blocks.append(f"### {number}. {inline(change.title)} ({change.times})")
            blocks += [inline(change.note)] if change.note else []
            blocks += [_fenced("diff", "\n".join(lines)), f"At {inline(change.places)}."]
            blocks += [_markdown_law(card) for card in change.laws]
    if told.others:
        blocks += ["### Not shown", "\n".join(f"- {inline(line)}" for line in told.others)]
    if told.elsewhere:
        blocks += ["### Rules that none of these places shows", *(_markdown_law(card) for card in told.elsewhere)]
    return blocks


def _markdown_law(card: LawCard) -> str:
    gain = f", priced at {card.gain} of the model's time" if card.gain else ""
    head = f"**{inline(card.name)}** ({inline(card.status)}, sites: {card.sites}{gain})"
    return f"{head}\n\n{_fenced('', card.text)}" if card.text else head


def _json(found: Result | Differences) -> str:
    return strict_json(found.to_json()) + "\n"


def _comparison_html(found: Differences) -> str:
    from taso_py.report.page.render import difference_page

    return difference_page((found.first, found.second), found.found)


def _comparison_markdown(found: Differences) -> str:
    blocks = [f"# {inline(Path(found.first).name)} and {inline(Path(found.second).name)}"]
    blocks += [_markdown_table(table) for table in tables_of(found.found)]
    return "\n\n".join([*blocks, *_markdown_changes(story(found.found), "What differs")]) + "\n"


def _markdown_table(table: TextTable) -> str:
    rule = ("---:" if index in table.numeric else "---" for index in range(len(table.header)))
    lines = [_markdown_row(table.header), _markdown_row(rule, raw=True), *map(_markdown_row, table.rows)]
    return f"{inline(table.title)}:\n\n" + "\n".join(lines)


def _markdown_row(cells: Iterable[str], raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else inline(cell) for cell in cells) + " |"


def inline(text: str) -> str:
    """Text in which Markdown finds neither markup nor HTML nor the end of a table cell."""
    special = "\\`*_[]<>|#"
    return "".join(f"\\{char}" if char in special else char for char in " ".join(text.split()))


def _fenced(language: str, text: str) -> str:
    """A block of code that its own text cannot end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"

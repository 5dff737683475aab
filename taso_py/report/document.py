"""The report file that `--report` asks for: JSON, Markdown or one self-contained HTML page, by the suffix."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from taso_py.files import write_text
from taso_py.report.content import TextTable, conditions, figures, sentence, tables
from taso_py.result import Result

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a;
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 0 0 2rem; width: 100% }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid #ddd; overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums }
.conditions { color: #555 }
@media (prefers-color-scheme: dark) {
  body { background: #161616; color: #e6e6e6 } th, td { border-color: #444 } .conditions { color: #aaa }
}
"""


def write_report(result: Result, path: Path, *, force: bool = False) -> None:
    """Write `result` to `path` as ``.json``, ``.md`` or ``.html``; ``force`` replaces a file, but never the models."""
    writers = {".json": _json, ".md": markdown, ".html": html}
    kept = (*result.sources, *([result.output] if result.output is not None else []))
    write_text(path, writers[path.suffix.lower()](result), sources=kept, force=force)


def markdown(result: Result) -> str:
    """The report as Markdown."""
    blocks = [f"# {inline(sentence(result))}", inline(conditions(result))]
    blocks += [f"> {inline(note)}" for note in result.notes]
    blocks += [_markdown_table(table) for table in (*tables(result), figures(result))]
    return "\n\n".join(blocks) + "\n"


def html(result: Result) -> str:
    """The report as one HTML page without any outside reference."""
    title = escape(sentence(result))
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in result.notes)
    body = "\n".join(_html_table(table) for table in (*tables(result), figures(result)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f'<p class="conditions">{escape(conditions(result))}</p>\n{notes}{body}\n</body>\n</html>\n'
    )


def _json(result: Result) -> str:
    return result.to_json() + "\n"


def _markdown_table(table: TextTable) -> str:
    rule = ("---:" if index in table.numeric else "---" for index in range(len(table.header)))
    lines = [_markdown_row(table.header), _markdown_row(rule, raw=True), *map(_markdown_row, table.rows)]
    return f"## {table.title}\n\n" + "\n".join(lines)


def _markdown_row(cells: Iterable[str], raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else inline(cell) for cell in cells) + " |"


def inline(text: str) -> str:
    """Text in which Markdown finds neither markup nor HTML nor the end of a table cell."""
    special = "\\`*_[]<>|#"
    return "".join(f"\\{char}" if char in special else char for char in " ".join(text.split()))


def _html_table(table: TextTable) -> str:
    head = "".join(_cell("th", text, index in table.numeric) for index, text in enumerate(table.header))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", text, index in table.numeric) for index, text in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return f"<table><caption>{escape(table.title)}</caption>\n<tr>{head}</tr>\n{rows}\n</table>"


def _cell(tag: str, text: str, numeric: bool) -> str:
    kind = ' class="number"' if numeric else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"

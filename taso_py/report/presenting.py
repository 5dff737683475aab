"""A result as a notebook shows it and as a report; a `Result` holds one of these, because it knows no medium."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taso_py.result import Result

_COLUMNS = 100
_FRAME = '<pre style="white-space:pre;overflow-x:auto;line-height:1.3;font-family:monospace">{code}</pre>'


class Presentation:
    """Without a state of its own."""

    def compact(self, result: Result) -> str:
        """What the terminal says, as a piece of HTML that brings no style for the rest of a page."""
        from rich.console import Console

        from taso_py.report.terminal import result_view

        console = Console(file=io.StringIO(), record=True, width=_COLUMNS, force_terminal=True)
        console.print(result_view(result, _COLUMNS), highlight=False)
        return console.export_html(inline_styles=True, code_format=_FRAME)

    def page(self, result: Result) -> str:
        """One HTML page that needs no other file."""
        from taso_py.report.document import html

        return html(result)

    def write(self, result: Result, path: Path, *, force: bool) -> None:
        """A report file, by its suffix."""
        from taso_py.report.document import write_report

        write_report(result, path, force=force)

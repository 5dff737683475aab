"""Two ways to show progress: plain lines, and a live display on a terminal.

Everything goes to stderr; stdout is for results.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

from taso_py.progress import Level, Progress, SilentProgress
from taso_py.streams import say

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.text import Text

__all__ = ["Level", "LiveProgress", "PlainProgress", "Progress", "SilentProgress"]

# The verbosity from which a level is shown: -q, default, -v, -vv.
_SHOWN_FROM: dict[Level, int] = {"warning": -1, "info": 0, "detail": 1, "debug": 2}


class PlainProgress:
    """A line per log entry, and one of phase and figures at most every `interval_s`: for files and pipes."""

    def __init__(self, stream: TextIO | None = None, *, verbosity: int = 0, interval_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._verbosity = verbosity
        self._interval_s = interval_s
        self._state = _State()
        self._next_line = time.monotonic() + interval_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Print the phase's name if the last line is old enough, or on -v."""
        self._state.begin(name, total)
        self._report("detail")

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Print the figures if the last line is old enough."""
        self._state.update(done, candidates, best, remaining_s)
        self._report("debug")

    def _report(self, early: Level) -> None:
        """A run that ends within the first interval, an error above all, prints no progress at all."""
        due = time.monotonic() >= self._next_line
        if due:
            self._next_line = time.monotonic() + self._interval_s
        self.log("info" if due else early, self._state.line())

    def log(self, level: Level, text: str) -> None:
        """Print one line if the verbosity asks for its level."""
        if self._verbosity >= _SHOWN_FROM[level]:
            prefix = "warning: " if level == "warning" else ""
            line = f"superopt: {prefix}{_one_line(text)}"
            if self._stream is sys.stderr:
                say(line)
            else:
                print(line, file=self._stream, flush=True)


class LiveProgress:
    """One line that keeps itself up to date at the bottom of the terminal, log lines above it."""

    def __init__(self, console: Console, *, verbosity: int = 0) -> None:
        from rich.live import Live

        self._console = console
        self._verbosity = verbosity
        self._state = _State()
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the line and give the cursor back."""
        self._live.stop()

    def phase(self, name: str, total: int | None = None) -> None:
        """Show the phase's name."""
        self._state.begin(name, total)
        self.log("detail", name)

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Show the figures at the next refresh."""
        self._state.update(done, candidates, best, remaining_s)

    def log(self, level: Level, text: str) -> None:
        """Print one line above the display if the verbosity asks for its level."""
        if self._verbosity >= _SHOWN_FROM[level]:
            style = "yellow" if level == "warning" else "dim"
            self._console.print(_one_line(text), style=style, markup=False, highlight=False)

    def _render(self) -> Text:
        from rich.text import Text

        return Text(self._state.line(), style="cyan", no_wrap=True, overflow="ellipsis")


class _State:
    """The latest figures; the time left counts down between updates."""

    def __init__(self) -> None:
        self.name = "starting"
        self.total: int | None = None
        self.done: int | None = None
        self.candidates: int | None = None
        self.best: float | None = None
        self.deadline: float | None = None

    def begin(self, name: str, total: int | None) -> None:
        self.name, self.total, self.done = name, total, None

    def update(self, done: int | None, candidates: int | None, best: float | None, remaining_s: float | None) -> None:
        self.done = self.done if done is None else done
        self.candidates = self.candidates if candidates is None else candidates
        self.best = self.best if best is None else best
        if remaining_s is not None:
            self.deadline = time.monotonic() + remaining_s

    def line(self) -> str:
        parts = [self.name]
        if self.done is not None:
            parts.append(f"{self.done}/{self.total}" if self.total else str(self.done))
        if self.candidates is not None:
            parts.append(f"{self.candidates} candidates")
        if self.best is not None:
            parts.append(f"predicted {self.best:.2f} times faster")
        if self.deadline is not None:
            parts.append(f"{max(0.0, self.deadline - time.monotonic()):.0f} s left")
        return " · ".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())

"""Two ways to show progress: plain lines, and a live display on a terminal.

Everything goes to stderr; stdout is for results.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self, TextIO, Unpack

from taso_py.progress import Figures, Level, NewFigures, Progress, ProgressReport, SilentProgress
from taso_py.streams import say

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, ConsoleOptions, RenderResult

    from taso_py.stop import StopFlag

__all__ = ["Level", "LiveProgress", "PlainProgress", "Progress", "SilentProgress"]

# The verbosity from which a level is shown: -q, default, -v, -vv.
_SHOWN_FROM: dict[Level, int] = {"warning": -1, "info": 0, "detail": 1, "debug": 2}


class PlainProgress:
    """A line per log entry, and one of phase and figures at most every `interval_s`: for files and pipes."""

    def __init__(self, stream: TextIO | None = None, *, verbosity: int = 0, interval_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._verbosity = verbosity
        self._interval_s = interval_s
        self._figures = Figures()
        self._next_line = time.monotonic() + interval_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Print the phase's name if the last line is old enough, or on -v."""
        self._figures.start(name, total)
        self._report("detail")

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Print the figures if the last line is old enough."""
        self._figures.update(**figures)
        self._report("debug")

    def _report(self, early: Level) -> None:
        """A run that ends within the first interval, an error above all, prints no progress at all."""
        due = time.monotonic() >= self._next_line
        if due:
            self._next_line = time.monotonic() + self._interval_s
        self.log("info" if due else early, _line(self._figures))

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

    def __init__(self, console: Console, *, verbosity: int = 0, stop: StopFlag | None = None) -> None:
        from rich.live import Live

        self._console = console
        self._verbosity = verbosity
        self._figures = Figures()
        self._live = Live(
            console=console,
            get_renderable=lambda: _Bar(self._figures, stopping=bool(stop)),
            refresh_per_second=4,
            transient=True,
        )

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
        self._figures.start(name, total)
        self.log("detail", name)

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Show the figures at the next refresh."""
        self._figures.update(**figures)

    def log(self, level: Level, text: str) -> None:
        """Print one line above the display if the verbosity asks for its level."""
        if self._verbosity >= _SHOWN_FROM[level]:
            style = "yellow" if level == "warning" else "dim"
            self._console.print(_one_line(text), style=style, markup=False, highlight=False)


_LEAST_BAR, _MOST_BAR = 8, 40
"""Columns of the bar; where there is less room there is none."""


class _Bar:
    """Phase, bar, times, speed-up so far and what Ctrl-C does, as much of each as one line of the terminal holds."""

    def __init__(self, figures: Figures, *, stopping: bool = False) -> None:
        self._figures, self._stopping = figures, stopping

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        width = options.max_width - 1  # a full last column wraps on some terminals
        steps, share = _steps(self._figures), _share_done(self._figures)
        behind = next((text for text in _forms(self._figures, self._stopping) if cell_len(steps + text) <= width), "")
        room = min(width - cell_len(steps + behind) - 1, _MOST_BAR)
        if share is None or room < _LEAST_BAR:
            text = Text(steps + behind, style="cyan", no_wrap=True)
            text.truncate(width, overflow="ellipsis")
            yield text
            return
        line = Table.grid()
        bar = ProgressBar(total=1.0, completed=share, width=room, complete_style="cyan", finished_style="cyan")
        line.add_row(Text(f"{steps} ", style="cyan"), bar, Text(behind, style="cyan"))
        yield line


def _forms(figures: Figures, stopping: bool) -> list[str]:
    """What the line says behind the phase, the longest form first."""
    now = figures.report()
    seen = "" if figures.candidates is None else f" · {figures.candidates} candidates"
    times, short_times = _times(now, ", ", " left"), _times(now, " -", "")
    gain, short_gain, shortest_gain = _gain(now)
    hints = _FINISHING if stopping else _FINISH if (now.best_measured or 0) > 1 else ("", "", "")
    hint, short_hint, shortest_hint = hints
    return [
        _behind(" · ", times + seen, gain, hint),
        _behind(" · ", times, short_gain, hint),
        _behind(" · ", times, short_gain, short_hint),
        _behind(" · ", times, shortest_gain, shortest_hint),
        _behind(" ", short_times, shortest_gain, shortest_hint),
        _behind(" ", short_times),
    ]


def _behind(separator: str, *parts: str) -> str:
    return "".join(f"{separator}{part}" for part in parts if part)


_FINISH = ("Ctrl-C: finish with this", "Ctrl-C: finish", "^C: finish")
_FINISHING = ("finishing, Ctrl-C: quit now", "Ctrl-C: quit now", "^C: quit")


def _steps(figures: Figures) -> str:
    return f"{figures.name} {figures.done}/{figures.total}" if figures.done and figures.total else figures.name


def _times(now: ProgressReport, between: str, behind: str) -> str:
    """``0:42, 1:18 left``; only what has passed where there is no budget."""
    passed = _clock(now.elapsed_s)
    return passed if now.left_s is None else f"{passed}{between}{_clock(now.left_s)}{behind}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _gain(now: ProgressReport) -> tuple[str, str, str]:
    """The best speed-up so far at three lengths: measured, else said to be predicted."""
    if now.best_measured is not None:
        if now.best_measured <= 1:
            return "nothing faster yet", "nothing faster yet", ""
        ratio = f"{now.best_measured:.2f}"
        return f"{ratio} times faster (measured)", f"{ratio}x measured", f"{ratio}x"
    if now.best_predicted is not None and now.best_predicted > 1:
        ratio = f"{now.best_predicted:.2f}"
        return f"{ratio} times faster (predicted)", f"{ratio}x predicted", f"{ratio}x predicted"
    return "", "", ""


def _share_done(figures: Figures) -> float | None:
    """Of the time budget, else of the phase's steps; None where neither is known."""
    now = figures.report()
    if now.left_s is not None:
        return now.elapsed_s / max(now.elapsed_s + now.left_s, 1e-9)
    return None if not figures.total else min(1.0, (figures.done or 0) / figures.total)


def _line(figures: Figures) -> str:
    """The figures for a file: ``search · 40 candidates · 1.52 times faster (measured) · 42 s, 78 s left``."""
    now = figures.report()
    parts = [_steps(figures)]
    if figures.candidates is not None:
        parts.append(f"{figures.candidates} candidates")
    parts += filter(None, [_gain(now)[0]])
    if now.left_s is not None:
        parts.append(f"{now.elapsed_s:.0f} s, {now.left_s:.0f} s left")
    return " · ".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())

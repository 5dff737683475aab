"""What the pipeline may say while it works; `report.progress` shows it, the library shows nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypedDict, TypeGuard, Unpack

Level = Literal["debug", "detail", "info", "warning"]


class NewFigures(TypedDict, total=False):
    """What changed since the last update; what is None or missing is as before."""

    done: int | None
    """Steps of this phase."""
    candidates: int | None
    best: float | None
    """Speed-up of the best graph so far, as predicted."""
    measured: float | None
    """That of the best whole model so far, as measured."""
    remaining_s: float | None


class Progress(Protocol):
    """What the pipeline reports while it works; every method returns at once and never raises."""

    def phase(self, name: str, total: int | None = None) -> None:
        """A new phase begins, of `total` steps if that is known."""
        ...

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Figures that changed."""
        ...

    def log(self, level: Level, text: str) -> None:
        """One line for the user."""
        ...


class SilentProgress:
    """Shows nothing: the library's default."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Ignored."""

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Ignored."""

    def log(self, level: Level, text: str) -> None:
        """Ignored."""


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How far a call is.  Times in seconds; a speed-up is a ratio, 1.5 means 1.5 times faster.  None: not known."""

    phase: str
    elapsed_s: float
    left_s: float | None
    """Of the time budget; what is begun is finished, so that a call may take a little longer."""
    best_measured: float | None
    """Speed-up of the best model so far, timed as a whole; confirmed only once the call returns."""
    best_predicted: float | None
    """What the search takes the best graph so far for."""


@dataclass(slots=True, kw_only=True)
class Figures:
    """The latest figures of a call; the time left counts down between updates."""

    name: str = "starting"
    total: int | None = None
    done: int | None = None
    candidates: int | None = None
    best: float | None = None
    measured: float | None = None
    deadline: float | None = None
    begin: float = field(default_factory=time.monotonic)

    def start(self, name: str, total: int | None) -> None:
        """A new phase begins."""
        self.name, self.total, self.done = name, total, None

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Take what is given."""
        remaining_s = figures.pop("remaining_s", None)
        if remaining_s is not None:
            self.deadline = time.monotonic() + remaining_s
        for name, value in figures.items():
            if value is not None:
                setattr(self, name, value)

    def report(self) -> ProgressReport:
        """The figures at this moment."""
        now = time.monotonic()
        left = None if self.deadline is None else max(0.0, self.deadline - now)
        return ProgressReport(self.name, now - self.begin, left, self.measured, self.best)


Callback: TypeAlias = Callable[[ProgressReport], object]

_INTERVAL_S = 1.0


class CallingProgress:
    """Calls a function with a `ProgressReport`: at each phase, at each better figure, and about once a second.

    What the function raises ends the call that reports.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._figures = Figures()
        self._called: tuple[float, tuple[float | None, float | None]] = (0.0, (None, None))

    def phase(self, name: str, total: int | None = None) -> None:
        """Tell of the phase."""
        self._figures.start(name, total)
        self._tell()

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Tell of the figures, if they are new or the last call is old enough."""
        self._figures.update(**figures)
        moment, known = self._called
        if known != (self._figures.measured, self._figures.best) or time.monotonic() >= moment + _INTERVAL_S:
            self._tell()

    def log(self, level: Level, text: str) -> None:
        """Ignored."""

    def _tell(self) -> None:
        report = self._figures.report()
        self._called = (time.monotonic(), (report.best_measured, report.best_predicted))
        self._callback(report)


def is_progress(value: object) -> TypeGuard[Progress]:
    """Whether an object has the methods of `Progress`."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("phase", "update", "log")
    )


class KeptWarnings(SilentProgress):
    """Passes everything on, and keeps what is warned of."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.warnings: list[str] = []

    def phase(self, name: str, total: int | None = None) -> None:
        """Passed on."""
        self.shown.phase(name, total)

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Passed on."""
        self.shown.update(**figures)

    def log(self, level: Level, text: str) -> None:
        """Passed on, and kept where it is a warning."""
        if level == "warning":
            self.keep(text)
        self.shown.log(level, text)

    def keep(self, text: str) -> None:
        """One line, once."""
        line = " ".join(text.split())
        if line not in self.warnings:
            self.warnings.append(line)


@contextmanager
def keeping_warnings(shown: Progress) -> Iterator[KeptWarnings]:
    """A progress that keeps its warnings, and within the block those that this thread logs as well."""
    kept, thread = KeptWarnings(shown), threading.get_ident()

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread:
                kept.keep(record.getMessage())

    logger, keeper = logging.getLogger("taso_py"), Keeper(logging.WARNING)
    logger.addHandler(keeper)
    try:
        yield kept
    finally:
        logger.removeHandler(keeper)

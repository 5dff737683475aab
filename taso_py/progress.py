"""What the pipeline may say while it works; `report.progress` shows it, the library shows nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

Level = Literal["debug", "detail", "info", "warning"]


class Progress(Protocol):
    """What the pipeline reports while it works; every method returns at once and never raises."""

    def phase(self, name: str, total: int | None = None) -> None:
        """A new phase begins, of `total` steps if that is known."""
        ...

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Steps done in this phase, candidates seen, best speed-up so far, seconds left; None: as before."""
        ...

    def log(self, level: Level, text: str) -> None:
        """One line for the user."""
        ...


class SilentProgress:
    """Shows nothing: the library's default."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Ignored."""

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Ignored."""

    def log(self, level: Level, text: str) -> None:
        """Ignored."""


class KeptWarnings(SilentProgress):
    """Passes everything on, and keeps what is warned of."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.warnings: list[str] = []

    def phase(self, name: str, total: int | None = None) -> None:
        """Passed on."""
        self.shown.phase(name, total)

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Passed on."""
        self.shown.update(done=done, candidates=candidates, best=best, remaining_s=remaining_s)

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

"""Progress as records of `logging`, for whoever collects the logs of many runs."""

from __future__ import annotations

import logging
import time
from typing import Unpack

from taso_py.progress import Level, NewFigures

PROGRESS = "taso_py.progress"
"""The logger of progress."""
LEVELS: dict[Level, int] = {"debug": logging.DEBUG, "detail": 15, "info": logging.INFO, "warning": logging.WARNING}


class LoggedProgress:
    """A `Progress` that logs to `PROGRESS`: each phase as it begins, figures at most every `interval_s`, every line.

    A record has the phase's name as `phase`, and as `figures` a mapping of what is known: done, total, candidates,
    best (speed-up as predicted), measured (of the best whole model), remaining_s.
    """

    def __init__(self, *, interval_s: float = 10.0) -> None:
        self._logger = logging.getLogger(PROGRESS)
        self._interval_s = interval_s
        self._next = time.monotonic() + interval_s
        self._phase = "starting"
        self._figures: dict[str, float] = {}

    def phase(self, name: str, total: int | None = None) -> None:
        """Log that a phase begins."""
        self._phase = name
        for old in ("done", "total"):
            self._figures.pop(old, None)
        if total is not None:
            self._figures["total"] = total
        self.log("info", name)

    def update(self, **figures: Unpack[NewFigures]) -> None:
        """Log the figures if the last such record is old enough, else for debugging only."""
        left = figures.get("remaining_s")
        new = {**figures, "remaining_s": None if left is None else round(max(0.0, left), 1)}
        self._figures |= {name: value for name, value in new.items() if isinstance(value, int | float)}
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + self._interval_s
        self.log("info" if due else "debug", self._phase)

    def log(self, level: Level, text: str) -> None:
        """Log one line."""
        line = " ".join(text.split())
        self._logger.log(LEVELS[level], "%s", line, extra={"phase": self._phase, "figures": dict(self._figures)})

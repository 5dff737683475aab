"""Progress as records of `logging`, for whoever collects the logs of many runs."""

from __future__ import annotations

import logging
import time

from taso_py.progress import Level

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

    def update(
        self,
        *,
        done: int | None = None,
        candidates: int | None = None,
        best: float | None = None,
        measured: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Log the figures if the last such record is old enough, else for debugging only."""
        left = None if remaining_s is None else round(max(0.0, remaining_s), 1)
        new = {"done": done, "candidates": candidates, "best": best, "measured": measured, "remaining_s": left}
        self._figures |= {name: value for name, value in new.items() if value is not None}
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + self._interval_s
        self.log("info" if due else "debug", self._phase)

    def log(self, level: Level, text: str) -> None:
        """Log one line."""
        line = " ".join(text.split())
        self._logger.log(LEVELS[level], "%s", line, extra={"phase": self._phase, "figures": dict(self._figures)})

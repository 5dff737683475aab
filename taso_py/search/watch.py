"""The time that a search has, looked at from the inside of its loops: one step on a large graph may take minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class OutOfTime(Exception):
    """Raised within a step of a search that has to end: what the step was about to make is lost, the rest is not."""


@dataclass(slots=True)
class Watch:
    """Shared by all views of one search."""

    stop: Callable[[], bool] = lambda: False
    """Whether the user asked to stop."""
    deadline: float = math.inf
    """A time.monotonic() value."""

    def look(self) -> None:
        """`OutOfTime` if the search has to end."""
        if self.stop() or time.monotonic() > self.deadline:
            raise OutOfTime

    def halfway(self) -> float:
        """The moment when half of the time that is left now will be gone."""
        now = time.monotonic()
        return now + max(0.0, self.deadline - now) / 2

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Within the block the search has to end by then, or before if it had to anyway."""
        before = self.deadline
        self.deadline = min(before, deadline)
        try:
            yield
        finally:
            self.deadline = before

"""What the pipeline may say while it works; `report.progress` shows it, the library shows nothing."""

from __future__ import annotations

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

"""Exhaustive exploration: a function that makes choices is run once for every way in which they can fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class NothingToChoose(Exception):
    """A choice among no options: there is no typing of this kind."""


@dataclass(slots=True)
class Choices:
    """The choices of one run: those of ``script`` first, then always the first option."""

    script: Sequence[int] = ()
    taken: list[tuple[int, int]] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        if not options:
            raise NothingToChoose
        k = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        self.taken.append((k, len(options)))
        return options[k]


def explored(run: Callable[[Choices], R]) -> Iterator[R]:
    """The results of all runs of ``run``, depth first."""
    script: list[int] | None = []
    while script is not None:
        choices = Choices(script)
        yield run(choices)
        script = _next(choices.taken)


def _next(taken: list[tuple[int, int]]) -> list[int] | None:
    for last in reversed(range(len(taken))):
        k, options = taken[last]
        if k + 1 < options:
            return [choice for choice, _ in taken[:last]] + [k + 1]
    return None

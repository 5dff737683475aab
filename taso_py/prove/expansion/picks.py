"""The picks of one run: wherever something is open, one of the options is picked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class NoInstance(Exception):
    """These picks give no instance of the rule."""


@dataclass(slots=True)
class Picks:
    """The picks of one run: given ones first, then the first option each, or one drawn from the front."""

    given: list[int] = field(default_factory=list)
    draw: random.Random | None = None
    made: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; `NoInstance` when there is none."""
        if len(options) < 2:
            if not options:
                raise NoInstance
            return options[0]
        at = len(self.made)
        if at < len(self.given):
            chosen = self.given[at]
        elif self.draw is not None:
            chosen = int(len(options) * self.draw.random() ** 1.5)
        else:
            chosen = 0
        self.made.append(chosen)
        self.counts.append(len(options))
        return options[chosen]

    def following(self) -> list[int] | None:
        """The picks of the next run; None after the last one."""
        made = list(self.made)
        while made:
            if made[-1] + 1 < self.counts[len(made) - 1]:
                made[-1] += 1
                return made
            made.pop()
        return None

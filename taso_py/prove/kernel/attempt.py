"""What belongs to one attempt to prove something: its steps, what it has been told, its bound variables, its Z3.

An attempt owns its Z3 context.  Z3 orders terms by when it first saw them, so an answer that is given within limited
resources may depend on all earlier questions of its context: a verdict must not depend on the proofs before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import z3

from taso_py.ops.meaning import numbered_anew

STEPS = 400_000
"""Most steps of one attempt, minutes; no proof of the library takes a fifth of it."""


class Unprovable(Exception):
    """The method does not reach this goal; the message says why."""


@dataclass(slots=True)
class Attempt:
    """One attempt; `current` is the innermost that works."""

    steps: int = STEPS
    """What is left of the steps that it may take."""
    _: KW_ONLY
    z3: z3.Context = field(default_factory=z3.Context)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers of bound variables."""
    possible: dict[object, bool] = field(default_factory=dict)
    """Answers about guards that may hold together."""
    positive: dict[object, bool] = field(default_factory=dict)
    reduced: dict[object, Any] = field(default_factory=dict)
    tidied: dict[object, Any] = field(default_factory=dict)
    """Terms without their evident guards; each is asked for some six times."""
    terms: dict[object, Any] = field(default_factory=dict)
    """Z3 terms by what they stand for."""

    @contextmanager
    def working(self) -> Iterator[Attempt]:
        """Everything that is asked inside belongs to this attempt."""
        token = _CURRENT.set(self)
        try:
            with numbered_anew():
                yield self
        finally:
            _CURRENT.reset(token)

    def step(self, count: int = 1) -> None:
        """Counts simplifications; `Unprovable` when there were more than are allowed."""
        self.steps -= count
        if self.steps < 0:
            self.steps = 0
            raise Unprovable("no proof within the steps that it may take")


_CURRENT: ContextVar[Attempt] = ContextVar("attempt")


def current() -> Attempt:
    """The attempt that works here; outside of any, a new one that lasts."""
    try:
        return _CURRENT.get()
    except LookupError:
        attempt = Attempt()
        _CURRENT.set(attempt)
        return attempt

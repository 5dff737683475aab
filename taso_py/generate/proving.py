"""Candidates proved batch by batch, without waiting for the slowest of a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from taso_py.generate.checkpoint import Checkpoint
from taso_py.generate.tasks import Task
from taso_py.processes.crew import Answer, Lost
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

Forms: TypeAlias = list[list[str]]
"""The forms of a law as text, the most general first, those of which none is more general together."""

KEEP_S = 20.0
"""How long answers that come one by one may go unkept."""
_LEAST, _BATCHES = 24, 64
"""Candidates of a batch, and about how many batches there are."""


@dataclass(slots=True)
class KeptAnswers:
    """Answers by number that come one by one, written to the checkpoint now and then."""

    checkpoint: Checkpoint
    name: str
    count: int
    answers: dict[str, Any] = field(init=False)
    """In the place of one that is lost stands {"lost": why}."""
    written: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.answers = self.checkpoint.get(self.name) or {}

    @property
    def missing(self) -> list[int]:
        """What is not answered yet."""
        return [k for k in range(self.count) if str(k) not in self.answers]

    @property
    def complete(self) -> bool:
        """Whether everything is answered."""
        return len(self.answers) == self.count

    @property
    def ordered(self) -> list[Any]:
        """The answers in the order of their numbers."""
        return [self.answers[str(k)] for k in range(self.count)]

    def add(self, number: int, answer: Answer | Lost) -> None:
        """One more answer."""
        self.answers[str(number)] = {"lost": answer.why} if isinstance(answer, Lost) else answer
        if self.complete or time.monotonic() > self.written + KEEP_S:
            self.checkpoint.put(self.name, self.answers)
            self.written = time.monotonic()


class Proving:
    """The candidates of one stage, the simplest first.

    What follows from simpler laws is judged against the rules ``before`` and those of all batches but the one just
    before: so a batch begins while the one before it ends, and the result does not depend on who is faster.
    """

    def __init__(self, units: Sequence[Forms], before: Mapping[str, Rule], checkpoint: Checkpoint, name: str) -> None:
        size = max(_LEAST, len(units) // _BATCHES)
        self.batches = [units[k : k + size] for k in range(0, len(units), size)]
        self.kept = [KeptAnswers(checkpoint, f"{name}-{k:05}", len(batch)) for k, batch in enumerate(self.batches)]
        self._rules = [dict(before)]
        """The rules by id after each of the first batches, as far as those are complete."""
        self._given: list[tuple[int, int]] = []
        """Batch and place of each task."""
        self._advance()

    @property
    def rules(self) -> dict[str, Rule]:
        """By id, those of the batches that are complete."""
        return self._rules[-1]

    @property
    def done(self) -> int:
        """The number of candidates that are decided."""
        return sum(len(kept.answers) for kept in self.kept)

    def tasks(self) -> Iterator[Task | None]:
        """What is still to be decided; None while the batch before the last is not complete."""
        for k, batch in enumerate(self.batches):
            while len(self._rules) < k:
                yield None
            known = tuple(rule.text() for rule in self._rules[max(0, k - 1)].values())
            for place in self.kept[k].missing:
                self._given.append((k, place))
                yield "settle", (batch[place], known)

    def take(self, number: int, answer: Answer | Lost) -> None:
        """The answer to a task."""
        batch, place = self._given[number]
        self.kept[batch].add(place, answer)
        self._advance()

    def fates(self) -> Iterator[tuple[str, str, str]]:
        """(law, fate, why) of every candidate, when all are decided."""
        for batch, kept in zip(self.batches, self.kept, strict=True):
            for forms, answer in zip(batch, kept.ordered, strict=True):
                fate, _, why = _decision(answer)
                yield forms[0][0], fate, why

    def _advance(self) -> None:
        while len(self._rules) <= len(self.batches) and self.kept[len(self._rules) - 1].complete:
            rules = dict(self._rules[-1])
            for answer in self.kept[len(self._rules) - 1].ordered:
                for rule in map(parse_rule, _decision(answer)[1]):
                    rules.setdefault(rule.id, rule)
            self._rules.append(rules)


def _decision(answer: Any) -> tuple[str, Sequence[str], str]:
    """(fate, texts of the rules, why)."""
    return ("unknown", (), answer["lost"]) if isinstance(answer, dict) else answer

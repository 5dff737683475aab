"""What a proof made anew says beside what is on record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from taso_py.rules.lock import Lock, Record, place_of
from taso_py.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict made now that is not the one on record.

    None of a record: there is none for the rule as it is now.  None made: the line's rule is not there any more.
    """

    file: str
    name: str
    recorded: Record | None
    made: Record | None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the claim that differ; none where one of the two is missing."""
        if self.recorded is None or self.made is None:
            return ()
        there, here = self.recorded.claim, self.made.claim
        return tuple(part for part in here if there[part] != here[part])

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "file": self.file,
            "name": self.name,
            "parts": list(self.parts),
            "recorded": None if self.recorded is None else self.recorded.plain(),
            "made": None if self.made is None else self.made.plain(),
        }


def difference(lock: Lock, rule: Rule, made: Record) -> VerdictChange | None:
    """What differs between the record of a rule and its verdict now; None where they claim the same."""
    recorded = lock.record(rule)
    found = VerdictChange(*place_of(rule), recorded, made)
    return found if recorded is None or found.parts else None


def left_over(lock: Lock, known: Iterable[Rule]) -> tuple[VerdictChange, ...]:
    """The lines of rules that are not ``known``."""
    places = {place_of(rule) for rule in known}
    return tuple(VerdictChange(e.file, e.name, e.record, None) for e in lock.entries if e.place not in places)

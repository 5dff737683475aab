"""All instances of a directed rule over the menus: every way to choose, tried one after the other.

An instance is made by a straight piece of code that *picks* wherever something is open; running it again with the
next picks gives the next instance.  The order follows the rule's text, never its names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from taso_py.errors import TypingError
from taso_py.prove.expansion.instance import SmallInstance
from taso_py.prove.expansion.making import Making
from taso_py.prove.expansion.menus import SmallMenus
from taso_py.prove.expansion.picks import NoInstance, Picks
from taso_py.prove.expansion.rule_text import RuleText
from taso_py.rules.build import NotBuildable
from taso_py.rules.rule import Rule
from taso_py.rules.unify import Unbound

_NEAR = 20
"""Runs in order that are tried after one that was drawn gives no instance."""


@dataclass(slots=True)
class Enumeration:
    """The instances of a rule over menus, and how many runs it took; ``whole`` when there are no more."""

    rule: Rule
    menus: SmallMenus
    runs: int = 0
    whole: bool = False
    text: RuleText = field(init=False)

    def __post_init__(self) -> None:
        self.text = RuleText.of(self.rule)

    def every(self, most_runs: int) -> Iterator[SmallInstance]:
        """All instances in order, until ``most_runs`` runs were made."""
        given: list[int] | None = []
        while given is not None and self.runs < most_runs:
            picks = Picks(given)
            instance = self._run(picks)
            given = picks.following()
            if instance is not None:
                yield instance
        self.whole = given is None

    def drawn(self, most_runs: int) -> Iterator[SmallInstance]:
        """Different instances by picks that are drawn, until ``most_runs`` runs were made."""
        draw = random.Random(0)  # noqa: S311
        seen: set[tuple[int, ...]] = set()
        last = self.runs + most_runs
        while self.runs < last:
            picks = Picks(draw=draw)
            instance = self._run(picks)
            for _ in range(_NEAR):
                # What was drawn is no instance: the next one in order, with all that follows drawn anew.
                given = picks.following() if instance is None and self.runs < last else None
                if given is None:
                    break
                picks = Picks(given, draw)
                instance = self._run(picks)
            key = tuple(picks.made)
            if instance is not None and key not in seen:
                seen.add(key)
                yield instance

    def _run(self, picks: Picks) -> SmallInstance | None:
        self.runs += 1
        try:
            return Making(self.rule, self.menus, picks, self.text).instance()
        except (NoInstance, NotBuildable, TypingError, Unbound):
            # The left side or a condition has no meaning for these picks: no match could have bound them.
            return None

"""States of a search: tables, the moves that led there, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from taso_py.cost.model import Part
from taso_py.graph.table import Table
from taso_py.search.matcher import Match
from taso_py.search.moves import Applied, AppliedSite, Later, Matches, Moved
from taso_py.search.view import View


class StopReason(Enum):
    """Why a search ended."""

    SATURATED = "saturated"
    TIME = "time budget"
    STATES = "state limit"
    STALLED = "no further gain"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One move of a trace: its rule, the sites, and the cost in seconds before and after it."""

    rule: str
    sites: tuple[AppliedSite, ...]
    tidied: tuple[AppliedSite, ...]
    before: float
    after: float
    table: Table = field(repr=False)
    """The table after the move."""
    refined: bool = False
    """Whether sites where the rule does not pay were left out."""
    choice: tuple[Any, ...] = ()
    """The values of the rule's free choices."""
    applied: tuple[Applied, ...] = field(default=(), repr=False)
    """What leads from the table before the move to the one after it."""

    @staticmethod
    def of(moved: Moved, match: Match, before: float = 0.0, after: float = 0.0, *, refined: bool = False) -> TraceStep:
        """A move that began with ``match``, and what it cost."""
        return TraceStep(
            rule=match.rule.name,
            sites=moved.sites,
            tidied=moved.tidied,
            before=before,
            after=after,
            table=moved.view.table,
            refined=refined,
            choice=match.choice,
            applied=moved.applied,
        )

    def done_as(self, moved: Moved) -> TraceStep:
        """The same move on another table."""
        return replace(self, sites=moved.sites, tidied=moved.tidied, table=moved.view.table, applied=moved.applied)

    def found_again(self, matches: Matches) -> list[Match]:
        """Its matches among those of another table."""
        wanted = {o for site in self.sites for o in site.outputs}
        alike = (m for ms in matches.values() for m in ms if m.rule.name == self.rule and m.choice == self.choice)
        return [m for m in alike if wanted & set(m.outputs)]


@dataclass(frozen=True, slots=True)
class State:
    """A table that the search has reached."""

    view: View = field(compare=False)
    matches: Later = field(compare=False)
    cost: float
    estimate: float
    """Roofline seconds; breaks ties between equal costs."""
    trace: tuple[TraceStep, ...] = field(compare=False, default=())
    parts: tuple[Part, ...] = field(compare=False, default=())
    """The regions in which it differs from the start, with what each gained or lost."""

    @property
    def table(self) -> Table:
        """The table."""
        return self.view.table


@dataclass(frozen=True, slots=True)
class Found:
    """What a search brings home: states in the order of their cost, the start excluded, and why it ended."""

    states: tuple[State, ...]
    reason: StopReason
    explored: int
    simplest: State | None = None
    """The best state without the rules that it does not need."""
    selected: tuple[State, ...] = ()
    """States of moves that pay in the whole model, where that was asked."""
    gains: Mapping[str, float] = field(default_factory=dict)
    """The best gain of each rule that was tried, as a share of the start's cost, by the search's own prices."""
    kept: int = field(default=0, kw_only=True)
    """Values of the original that rules would have moved, but for what rounds them (`taso_py.search.rounding`)."""

"""Searches of earlier runs: the same run again makes the moves that were found then, and only checks and races.

Nothing is believed of what is remembered.  Each move is found anew by its rule with all its conditions, and the models
are checked, raced and confirmed like those of a new search; where they are not those of then, there is a new search.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taso_py.cost.cache import Cache
from taso_py.cost.roofline import Roofline
from taso_py.files import parse_json
from taso_py.graph.table import Table, Values
from taso_py.search.again import made_again
from taso_py.search.moves import AppliedSite, Rewriter
from taso_py.search.state import Found, State, StopReason, TraceStep
from taso_py.search.view import View

_DIGITS = 18
"""More than the id of any value has."""
_NOT_TOLD = (ValueError, KeyError, TypeError, OverflowError, SyntaxError, RecursionError, MemoryError)
"""What reading a text raises that tells of no search; the last three are literal_eval's."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What an earlier search found, and whether the model was improved by it then."""

    found: Found
    improved: bool


@dataclass(frozen=True, slots=True)
class Recall:
    """What the searches of one run found before, under everything that decides what such a run finds."""

    cache: Cache
    identity: Mapping[str, str]

    def recalled(
        self, begin: Callable[[], tuple[Rewriter, View]], start_cost: float, roofline: Roofline
    ) -> Recalled | None:
        """What was found before; None where nothing is remembered, or not all of it can be made again.

        Where to ``begin`` is asked for only where there is something.
        """
        text = self.cache.search(self._key())
        try:
            told = None if text is None else _Told.read(text)
        except _NOT_TOLD:
            return None
        if told is None:
            return None
        rewriter, start = begin()
        states = list[State]()
        for entry in told.states:
            state = entry.made(rewriter, start, start_cost, roofline)
            if state is None:
                return None
            states.append(state)
        return Recalled(Found(tuple(states), told.reason, told.explored, selected=tuple(states)), told.improved)

    def note(self, found: Found, states: Sequence[State], start_cost: float, *, improved: bool) -> None:
        """Remember a search, the states of it that are worth another race, and whether one ``improved`` the model."""
        entries = tuple(_ToldState.of(state, start_cost) for state in states)
        told = _Told(found.reason, found.explored, improved, entries)
        self.cache.remember_search(self._key(), told.text())

    def forget(self) -> None:
        """The next such run is to search anew."""
        self.cache.remember_search(self._key(), None)

    def _key(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _ToldStep:
    """A move; its places by what they compute, its costs as shares of the original's."""

    rule: str
    choice: tuple[Any, ...]
    places: tuple[tuple[str, ...], ...]
    refined: bool
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class _ToldState:
    cost: float
    table: str
    steps: tuple[_ToldStep, ...]

    @staticmethod
    def of(state: State, start_cost: float) -> _ToldState:
        meanings = Meanings(state.table.values)
        steps = tuple(
            _ToldStep(
                step.rule,
                step.choice,
                tuple(tuple(meanings[o] for o in site.outputs) for site in step.sites),
                step.refined,
                step.before / start_cost,
                step.after / start_cost,
            )
            for step in state.trace
        )
        return _ToldState(state.cost / start_cost, meanings.of_table(state.table), steps)

    def made(self, rewriter: Rewriter, start: View, start_cost: float, roofline: Roofline) -> State | None:
        """The state, if it is the same as then."""
        meanings = Meanings(start.table.values)
        only = rewriter.only(step.rule for step in self.steps)
        state = made_again(only, start, self._resolved(start, meanings, start_cost), roofline)
        if state is None or len(state.trace) != len(self.steps) or meanings.of_table(state.table) != self.table:
            return None
        return State(state.view, rewriter.later(state.view), self.cost * start_cost, state.estimate, state.trace)

    def _resolved(self, start: View, meanings: Meanings, start_cost: float) -> Iterator[TraceStep]:
        """The steps with the ids that their places have here, each as soon as those before it were made."""
        for step in self.steps:
            ids = [tuple(i for i in map(meanings.id_of, place) if i is not None) for place in step.places]
            yield TraceStep(
                rule=step.rule,
                sites=tuple(AppliedSite(step.rule, outputs) for outputs in ids if outputs),
                tidied=(),
                before=step.before * start_cost,
                after=step.after * start_cost,
                table=start.table,
                refined=step.refined,
                choice=step.choice,
            )


@dataclass(frozen=True, slots=True)
class _Told:
    """A search as it is written down."""

    reason: StopReason
    explored: int
    improved: bool
    states: tuple[_ToldState, ...]

    def text(self) -> str:
        states = [
            {
                "cost": state.cost,
                "table": state.table,
                "steps": [[s.rule, repr(s.choice), s.places, s.refined, s.before, s.after] for s in state.steps],
            }
            for state in self.states
        ]
        facts = {"reason": self.reason.value, "explored": self.explored, "improved": self.improved}
        return json.dumps({**facts, "states": states})

    @staticmethod
    def read(text: str) -> _Told:
        """Raises one of `_NOT_TOLD` for what is none."""
        found = parse_json(text)
        states = tuple(
            _ToldState(float(one["cost"]), str(one["table"]), tuple(map(_step, one["steps"])))
            for one in found["states"]
        )
        return _Told(StopReason(found["reason"]), int(found["explored"]), bool(found["improved"]), states)


def _step(entry: Any) -> _ToldStep:
    rule, choice, places, refined, before, after = entry
    named = tuple(tuple(map(str, place)) for place in places)
    chosen = ast.literal_eval(choice)
    if not isinstance(chosen, tuple):
        raise TypeError
    return _ToldStep(str(rule), chosen, named, bool(refined), float(before), float(after))


@dataclass(slots=True)
class Meanings:
    """What values compute, in texts that are the same in every process that reads the same model.

    The ids of the original are: they are given when it is read.  Others are numbered in the order in which a search
    comes upon them; each stands for the operator and the operands that it was first made from.
    """

    values: Values
    _known: dict[int, str] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _interned: int = 0

    def __getitem__(self, value: int) -> str:
        self._update()
        return self._known.get(value) or str(value)

    def id_of(self, meaning: str) -> int | None:
        """The value of this meaning; None where there is none so far."""
        self._update()
        if meaning.isdecimal():
            value = int(meaning[:_DIGITS])  # Python refuses to read thousands of them
            return value if value in self.values.types and value not in self._known else None
        return self._ids.get(meaning)

    def of_table(self, table: Table) -> str:
        """What a table computes, and how."""
        lines = (f"{self[value]} {self._made(node.operator, node.inputs)}" for value, node in table.order())
        return _digest((*lines, *(self[value] for value in table.roots)))

    def _made(self, operator: Any, inputs: Iterable[int | None]) -> str:
        operands = ("-" if i is None else self._known.get(i) or str(i) for i in inputs)
        return f"{operator!r}({','.join(operands)})"

    def _update(self) -> None:
        if self._interned == len(self.values.interned):
            return
        made: list[tuple[Any, int]] = list(self.values.interned.items())[self._interned :]
        for (operator, inputs), value in made:
            meaning = f"={_digest([self._made(operator, inputs)])}"  # operands are older than what is made from them
            self._known[value], self._ids[meaning] = meaning, value
        self._interned = len(self.values.interned)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()

"""What a worker process does: fingerprints of applications, forms of laws, verdicts on them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.errors import UsageError
from taso_py.generate.deciding import settle
from taso_py.generate.kept.derive import Rules, derivable
from taso_py.generate.kept.direction import named
from taso_py.generate.kept.explain import FEW, MORE, unexplained
from taso_py.generate.laws.generalise import rules
from taso_py.generate.laws.pairs import Law, Terms
from taso_py.generate.terms.enumeration import Enumeration, Shard
from taso_py.generate.terms.last_level import last_parts
from taso_py.generate.terms.stacks import Stacks
from taso_py.generate.terms.templates import SETS, TemplateSet
from taso_py.options import GenerateOptions
from taso_py.options.spelling import spelled
from taso_py.processes.crew import Work
from taso_py.prove.trials.runs import Replay
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

Kind: TypeAlias = Literal["prints", "unexplained", "laws", "general", "open", "forms", "settle", "derive"]
Task: TypeAlias = tuple[Kind, Any]

STEPS = GenerateOptions.steps
"""Steps of proofs, as `taso_py.prove.kernel.arithmetic.step` counts them: five seconds or so."""
_REMEMBERED = 100_000
"""Terms of laws whose values a process remembers."""


@dataclass(frozen=True, slots=True)
class Space:
    """What is enumerated."""

    set_name: str
    operators: tuple[str, ...]
    most: int

    @property
    def chosen(self) -> TemplateSet:
        """The template set."""
        if self.set_name not in SETS:
            raise UsageError(f"{spelled('set_name', self.set_name)}: there are {', '.join(SETS)}")
        whole = SETS[self.set_name]()
        return whole.only(self.operators) if self.operators else whole


@dataclass(frozen=True, slots=True)
class Start:
    """What a process begins with."""

    space: Space
    on_disk: bool = False
    """Whether values lie in temporary files."""
    steps: int = STEPS
    """The most that the proofs of one law may take together."""


@dataclass(slots=True)
class _State:
    """What a process keeps between its tasks."""

    start: Start
    chosen: TemplateSet = field(init=False)
    table: Enumeration | None = None
    terms: Terms = field(init=False)
    """Terms that only the template set is needed for."""
    written: Terms = field(init=False)
    """Terms of the table's values."""
    parts: list[Shard] | None = None
    replay: Replay | None = None
    parsed: dict[str, Rule] = field(default_factory=dict)
    known: tuple[tuple[str, ...], Rules] = field(default_factory=lambda: ((), Rules()))

    def __post_init__(self) -> None:
        self.chosen = self.start.space.chosen
        self.terms = Terms(Enumeration(self.chosen))

    def grown(self) -> Enumeration:
        """The table of all values below the last level."""
        if self.table is None:
            self.table = grown(self.start)
            self.written = Terms(self.table)
        return self.table

    def last_parts(self) -> list[Shard]:
        """The last level's applications in parts."""
        if self.parts is None:
            self.parts = last_parts(self.grown(), self.start.space.most)
        return self.parts

    def general(self, law: Law) -> Law | None:
        """The law with as many variables as possible; what is remembered of terms does not grow without end."""
        if len(self.terms.known) > _REMEMBERED:
            self.terms = Terms(Enumeration(self.chosen))
        return self.terms.general(law)

    def rule(self, text: str) -> Rule:
        """A rule from its text."""
        if text not in self.parsed:
            self.parsed[text] = parse_rule(text)
        return self.parsed[text]

    def rules(self, texts: tuple[str, ...]) -> Rules:
        """The rules of these texts, indexed; a longer list of the same beginning only adds."""
        before, index = self.known
        if texts[: len(before)] != before:
            before, index = (), Rules()
        for text in texts[len(before) :]:
            index.add(self.rule(text))
        self.known = (texts, index)
        return index


def grown(start: Start) -> Enumeration:
    """The table of all values below the last level."""
    table = Enumeration(start.space.chosen, Stacks(start.on_disk))
    for cost in range(1, start.space.most):
        table.grow(cost)
    return table


def begin(start: Start) -> Work:
    """What a process does with the tasks of a job; rules travel as text."""
    state = _State(start)

    def work(task: Task) -> Iterator[Any]:
        kind, given = task
        match kind:
            case "prints":
                yield _prints(state, given)
            case "unexplained":
                collisions, known = given
                state.grown()
                pairs = map(state.written.pair, collisions)
                yield list(unexplained(pairs, state.written, state.rules(known), FEW))
            case "laws":
                state.grown()
                yield list(state.written.laws(given))
            case "general":
                yield [state.general(law) for law in given]
            case "open":
                laws, known = given
                yield list(unexplained(laws, state.terms, state.rules(known), MORE))
            case "forms":
                yield [[[form.text() for form in level] for level in rules(law, state.chosen)] for law in given]
            case "derive":
                text, known = given
                rule = state.rule(text)
                yield follows(rule, state.rules(known).without([rule.id]))
            case "settle":
                yield _settled(state, *given)

    return work


def _prints(state: _State, numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
    parts, table = state.last_parts(), state.grown()
    return np.concatenate([table.evaluate(parts[k])[1] for k in numbers])


def follows(rule: Rule, known: Rules) -> bool:
    """`derivable` on instances that depend on the law alone, and through no larger graph than the law's own.

    A law that needs a detour through a larger graph stays, because a search that goes by cost would not find the way.
    Several outputs never follow.
    """
    seed = zlib.crc32(rule.id.encode())
    return len(rule.left.outputs) == 1 and derivable(rule, known, seed=seed, growth=0)


def _settled(state: _State, forms: Sequence[Sequence[str]], known: tuple[str, ...]) -> tuple[str, list[str], str]:
    """(fate, texts of the rules, why)."""
    if all(follows(parse_rule(text), state.rules(known)) for text in forms[0]):
        return "derivable", [], ""
    if state.replay is None:
        state.replay = Replay()
    # The prover draws the instances that a proof must agree with by the rule's name.
    outcome = settle(([named(parse_rule(text)) for text in level] for level in forms), state.replay, state.start.steps)
    return outcome.fate, [rule.text() for rule in outcome.rules], outcome.why

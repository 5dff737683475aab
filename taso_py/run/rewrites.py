"""What a result says of the rules that made it: how often, where in the original, and what that was to gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from taso_py.certificate.describe import law_of
from taso_py.graph.table import Table
from taso_py.result import BACKWARDS, RuleReport
from taso_py.rules.rule import Rule, RuleSet
from taso_py.search.matcher import Match
from taso_py.search.state import State, TraceStep

_ANY_ARITY = "any arity"
"""Status of the laws of operators with any number of operands: they are written out where they apply."""


def rule_reports(state: State, original: Table, rules: RuleSet, start: float) -> tuple[RuleReport, ...]:
    """The rules of a trace in the order of first use, those that only tidied up after moves behind them.

    ``start`` is the original's cost in seconds. What tidies is a part of the moves' gains and has none of its own.
    """
    sites: dict[str, int] = {}
    gains: dict[str, float] = {}
    tidied: dict[str, int] = {}
    for step in state.trace:
        sites[step.rule] = sites.get(step.rule, 0) + len(step.sites)
        gains[step.rule] = gains.get(step.rule, 0.0) + (step.before - step.after) / start
        for site in step.tidied:
            tidied[site.rule] = tidied.get(site.rule, 0) + 1
    places = _Places(original)
    laws: dict[str, tuple[Rule, bool]] = {}
    for step in state.trace:
        for match in places.follow(step):
            laws.setdefault(match.rule.name, law_of(match.rule))
    counts = [*sites.items(), *((name, count) for name, count in tidied.items() if name not in sites)]
    known = {rule.id: rule.status for rule in rules}
    found = []
    for name, count in counts:
        law, backwards = laws[name]
        where = tuple(places.found.get(name, ()))
        status = known.get(law.id, _ANY_ARITY)
        found.append(
            RuleReport(
                law.name, law.id, status, count, gains.get(name), places=where, law=law.text(), backwards=backwards
            )
        )
    return tuple(found)


def told_name(step: TraceStep) -> str:
    """What a person calls the rule of a step: the law's name, and whether it was read backwards."""
    rule = next((match.rule for applied in step.applied for match in applied if match.rule.name == step.rule), None)
    if rule is None:
        return step.rule
    law, backwards = law_of(rule)
    return f"{law.name}{BACKWARDS}" if backwards else law.name


def places_of_steps(trace: Sequence[TraceStep], original: Table) -> Iterator[tuple[str, ...]]:
    """For each step of a trace the values of the original that it replaced, by their ONNX names."""
    places = _Places(original)
    for step in trace:
        places.found = {}
        for _ in places.follow(step):
            pass
        yield tuple(dict.fromkeys(name for names in places.found.values() for name in names))


@dataclass(slots=True)
class _Places:
    """The values of the original that each rule's applications replaced, by the names that a viewer shows.

    What an earlier step made has no name yet: it stands for the nearest named values that are computed from it.
    """

    table: Table
    found: dict[str, dict[str, None]] = field(default_factory=dict)

    def follow(self, step: TraceStep) -> Iterator[Match]:
        """Enters the places of a step, and yields its matches."""
        users = [table.users() for table in (self.table, step.table)]
        for match in (match for applied in step.applied for match in applied):
            names = self.found.setdefault(match.rule.name, {})
            for output in match.outputs:
                names.update(dict.fromkeys(self._names(output, match.used, users)))
            yield match
        self.table = step.table

    def _names(self, output: int, used: frozenset[int], users: Sequence[Mapping[int, Sequence[int]]]) -> Sequence[str]:
        named = self.table.values.names
        seen, front = {output, *used}, [output]
        while front:
            found = [named[value] for value in front if value in named]
            if found:
                return found
            reached = dict.fromkeys(u for value in front for uses in users for u in uses.get(value, ()))
            front = [value for value in reached if value not in seen]
            seen.update(front)
        return [named[value] for value in sorted(used) if value in named]

"""The generator as a batch job: enumerate, pair, generalise, prove, minimise, write.

The result does not depend on the number of workers: work is cut into parts of fixed size, answers are put in order, and
what is derivable is judged against the rules of earlier batches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from taso_py.errors import UsageError
from taso_py.generate.checkpoint import Checkpoint
from taso_py.generate.kept.derive import Rules
from taso_py.generate.kept.direction import complexity
from taso_py.generate.laws.pairs import Law, size
from taso_py.generate.laws.shared_outputs import merged
from taso_py.generate.proving import Forms, KeptAnswers, Proving
from taso_py.generate.tasks import STEPS, Kind, Space, Start, begin, follows
from taso_py.generate.terms.enumeration import Collision, Enumeration, Shard
from taso_py.generate.terms.last_level import last_collisions, last_parts
from taso_py.generate.terms.stacks import Stacks
from taso_py.options.spelling import spelled, spelled_on
from taso_py.processes.crew import Crew, Lost
from taso_py.processes.ray_cluster import RayCrew
from taso_py.progress import Progress, SilentProgress
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

Item = TypeVar("Item")
AnyCrew: TypeAlias = Crew | RayCrew

LARGE = 50_000_000
"""Applications from which on an enumeration must be asked for."""
_BYTES, _BYTES_LAST = 1000, 40
"""Memory of a value beside its residues, and of an application of the last level: operand numbers, fingerprint."""
_LAWS, _PAIRS = 250, 5000
"""Laws, and pairs of equal values, that are dealt with together."""
_MANY = 200_000
"""Pairs of the last level from which on those are left out that the rules of the lower levels explain."""
_ATTEMPTS = 3
"""How often a task is tried when its process, or its node, is lost."""
_SECONDS = 600.0
"""The longest that a task may take: something hangs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the rules depend on; ``steps`` is the most that the proofs of one law may take together."""

    space: Space
    steps: int = STEPS


@dataclass(slots=True, kw_only=True)
class Figures:
    """What a run has done; ``applications`` count renamings at every level but the last."""

    applications: int = 0
    values: int = 0
    pairs: int = 0
    laws: int = 0
    candidates: int = 0
    proved: int = 0
    refuted: int = 0
    unknown: int = 0
    derivable: int = 0
    minimised: int = 0


@dataclass(slots=True)
class Generation:
    """One run of the generator."""

    settings: Settings
    workers: int = 1
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    _: KW_ONLY
    progress: Progress = field(default_factory=SilentProgress)
    force: bool = False
    memory_limit: float | None = None
    """Gigabytes for what grows with the size of the run; with a limit the residues of values lie in temporary files."""
    figures: Figures = field(default_factory=Figures)
    ray: str | None = None
    """Address of a Ray cluster to run on, instead of ``workers`` processes."""
    unknown: list[tuple[str, str]] = field(default_factory=list)
    """Laws that are neither proved nor refuted, and why."""

    def run(self) -> tuple[Rule, ...]:
        """The proved rules from which all others follow, in canonical order."""
        with self._crew() as crew:
            lower, last = self._collisions(self._grown(), crew)
            rules: dict[str, Rule] = {}
            stages = (lower, last) if len(last) > _MANY else ((*lower, *last),)
            for number, collisions in enumerate(stages):
                if number == 0:
                    laws = self._laws(number, collisions, crew)
                else:
                    laws = self._unexplained(number, collisions, rules.values(), crew)
                rules = self._proved(number, self._forms(number, laws, crew), rules, crew)
            return self._minimised(list(rules.values()), crew)

    def _crew(self) -> AnyCrew:
        start = Start(self.settings.space, self.memory_limit is not None, self.settings.steps)
        if self.ray is not None:
            return RayCrew(begin, start, _SECONDS, attempts=_ATTEMPTS, address=self.ray)
        return Crew(begin, start, self.workers, _SECONDS, _ATTEMPTS)

    # ---- enumeration -----------------------------------------------------------------------------------------

    def _grown(self) -> Enumeration:
        space = self.settings.space
        table = Enumeration(space.chosen, Stacks(self.memory_limit is not None))
        for cost in range(1, space.most + 1):
            count = table.estimate(cost)
            if count > LARGE and not self.force:
                raise UsageError(
                    f"{cost} operators are about {count:,} applications: "
                    f"add {spelled_on('force')} to run it, or choose fewer {spelled('ops')}"
                )
            if cost < space.most:
                self._require_memory(len(table.values) + count, 0)
                self.progress.phase(f"enumerating {cost} of {space.most} operators")
                table.grow(cost)
        return table

    def _require_memory(self, values: int, last: int) -> None:
        """`UsageError` when so many values and applications of the last level need more than the limit."""
        if self.memory_limit is None:
            return
        processes = 1 if self.ray is not None else 1 + self.workers
        gigabytes = processes * (values * _BYTES + last * _BYTES_LAST) / 1e9
        if gigabytes > self.memory_limit:
            raise UsageError(
                f"{values:,} values and {last:,} applications of the last level need {gigabytes:.2g} GB in {processes} "
                f"processes, more than {spelled('memory_limit_gb', f'{self.memory_limit:g}')}: "
                f"fewer {spelled('workers')}, or choose fewer {spelled('ops')}"
            )

    def _collisions(self, table: Enumeration, crew: AnyCrew) -> tuple[list[Collision], Sequence[Collision]]:
        """Pairs of equal values: those below the last level, and those of the last one."""
        parts = last_parts(table, self.settings.space.most)
        self._require_memory(len(table.values), sum(map(len, parts)))
        self._tell_unapplied(table, parts)
        collisions, fresh = last_collisions(table, parts, self._prints(parts, crew))
        self.figures.applications = table.applications + sum(map(len, parts))
        self.figures.values = len(table.values) + fresh
        self.figures.pairs = len(table.collisions) + len(collisions)
        return table.collisions, collisions

    def _tell_unapplied(self, table: Enumeration, parts: Sequence[Shard]) -> None:
        """Warns of operators that were asked for and that no value fits: else their laws seem not to exist."""
        numbers = {v.template for v in table.values} | {c.found[0] for c in table.collisions}
        numbers |= {part.template for part in parts}
        applied = [template for number, template in enumerate(table.chosen.templates) if number in numbers]
        for name in self.settings.space.operators:
            if not any(template.is_named(name) for template in applied):
                self.progress.log("warning", f"{name} could not be applied to any value: no law speaks of it")

    def _unexplained(
        self, stage: int, collisions: Sequence[Collision], rules: Iterable[Rule], crew: AnyCrew
    ) -> list[Law]:
        """The laws that do not follow from ``rules`` in a few steps, nor from a law that was left undecided."""
        known = (*(rule.text() for rule in rules), *(law for law, _ in self.unknown))
        collisions = self._left("unexplained", "explaining", _PAIRS, collisions, known, crew)
        laws = self._laws(stage, collisions, crew)
        return self._left("open", "explaining laws", _LAWS, laws, known, crew)

    def _left(
        self, kind: Kind, phase: str, count: int, items: Sequence[Item], known: tuple[str, ...], crew: AnyCrew
    ) -> list[Item]:
        """The pairs, or laws, that do not follow from the ``known`` laws in a few steps."""
        groups = list(_batches(items, count))
        answers = self._answers(kind, phase, groups, crew, further=(known,))
        return [group[k] for group, numbers in zip(groups, answers, strict=True) for k in numbers]

    def _laws(self, stage: int, collisions: Sequence[Collision], crew: AnyCrew) -> list[Law]:
        """The general laws that equal values show."""
        found = list(dict.fromkeys(map(_law, self._steps("laws", "writing laws", collisions, crew, stage))))
        self.figures.laws += len(found)
        general = map(_law, self._steps("general", "generalising", found, crew, stage))
        distinct = {law for law in general if law is not None}
        laws = sorted(distinct, key=lambda law: (size(law[0]) + size(law[1]), repr(law)))
        return [*laws, *merged(laws, self.settings.space.chosen)]

    def _prints(self, parts: Sequence[Shard], crew: AnyCrew) -> list[Any]:
        """The fingerprints of the last level, part by part."""
        if not parts:
            return []
        groups = list(_batches(range(len(parts)), 16))
        known = {k: self.checkpoint.get_array(f"prints-{k:05}") for k in range(len(groups))}
        missing = [k for k, p in known.items() if p is None]
        self.progress.phase("fingerprints", len(missing))
        tasks = [("prints", groups[k]) for k in missing]
        for done, (number, answer) in enumerate(crew.answers(tasks), start=1):
            known[missing[number]] = _answered(answer)
            self.checkpoint.put_array(f"prints-{missing[number]:05}", _answered(answer))
            self.progress.update(done=done)
        whole = np.concatenate([known[k] for k in range(len(groups))])
        ends = np.cumsum([len(p) for p in parts])
        return np.split(whole, ends[:-1])

    def _steps(self, kind: Kind, phase: str, items: Sequence[Any], crew: AnyCrew, stage: int) -> Iterator[Any]:
        """The answers for items that are independent of each other."""
        groups = list(_batches(items, _LAWS))
        return (x for answer in self._answers(kind, phase, groups, crew, stage) for x in answer)

    def _answers(
        self,
        kind: Kind,
        phase: str,
        groups: Sequence[Sequence[Any]],
        crew: AnyCrew,
        stage: int = 0,
        further: tuple[Any, ...] = (),
    ) -> list[Any]:
        """The answers for groups of items, each kept under its number; ``further`` goes with every task."""
        names = [f"{kind}{stage or ''}-{k:05}" for k in range(len(groups))]
        known = [self.checkpoint.get(name) for name in names]
        missing = [k for k, found in enumerate(known) if found is None]
        self.progress.phase(phase, len(missing))
        tasks = [(kind, (groups[k], *further) if further else groups[k]) for k in missing]
        for done, (number, answer) in enumerate(crew.answers(tasks), start=1):
            known[missing[number]] = _answered(answer)
            self.checkpoint.put(names[missing[number]], known[missing[number]])
            self.progress.update(done=done)
        return known

    # ---- rules -----------------------------------------------------------------------------------------------

    def _forms(self, stage: int, laws: Sequence[Law], crew: AnyCrew) -> list[Forms]:
        """The forms of every law, laws of one most general form together, the simplest first."""
        units: dict[str, tuple[Rule, Forms]] = {}
        for forms in self._steps("forms", "typing", laws, crew, stage):
            if forms:
                first = forms[0][0]
                if first not in units:
                    units[first] = (parse_rule(first), [])
                known = units[first][1]
                known += [level for level in forms if level not in known]
        self.figures.candidates += len(units)
        return [forms for _, forms in sorted(units.values(), key=lambda unit: complexity(unit[0]))]

    def _proved(self, stage: int, units: Sequence[Forms], before: Mapping[str, Rule], crew: AnyCrew) -> dict[str, Rule]:
        """The rules ``before``, and by id those that are proved and do not follow from those of earlier batches."""
        proving = Proving(units, before, self.checkpoint, f"proved{stage or ''}")
        self.progress.phase("proving", len(units))
        for number, answer in crew.answers(proving.tasks()):
            proving.take(number, answer)
            self.progress.update(done=proving.done, candidates=len(proving.rules))
        for law, fate, why in proving.fates():
            setattr(self.figures, fate, getattr(self.figures, fate) + 1)
            if fate == "unknown":
                self.unknown.append((law, why))
        return proving.rules

    def _minimised(self, rules: Sequence[Rule], crew: AnyCrew) -> tuple[Rule, ...]:
        """The rules without those that follow from the rest; each one left out is derived again from what stays."""
        texts = tuple(r.text() for r in rules)
        self.progress.phase("minimising", len(rules))
        kept_answers = KeptAnswers(self.checkpoint, "derived", len(rules))
        missing = kept_answers.missing
        for number, answer in crew.answers(("derive", (texts[k], texts)) for k in missing):
            kept_answers.add(missing[number], answer)
            self.progress.update(done=len(kept_answers.answers), candidates=len(rules))
        follow = [r for r, a in zip(rules, kept_answers.ordered, strict=True) if a is True]
        everything = Rules.of(rules)
        left_out: dict[str, Rule] = {}
        self.progress.phase("leaving out", len(follow))
        for done, rule in enumerate(sorted(follow, key=_useless, reverse=True), start=1):
            if follows(rule, everything.without([*left_out, rule.id])):
                left_out[rule.id] = rule
            self.progress.update(done=done, candidates=len(rules) - len(left_out))
        final = everything.without(left_out)
        left_out = {rule.id: rule for rule in left_out.values() if follows(rule, final)}
        self.figures.minimised = len(left_out)
        return tuple(sorted((r for r in rules if r.id not in left_out), key=complexity))


def _useless(rule: Rule) -> tuple[bool, tuple[int, int, str]]:
    """What is left out first: laws of constants, then the more complex ones."""
    constant = any(not a.arguments for s in (rule.left, rule.right) for a in s.applications())
    return constant, complexity(rule)


def _batches(items: Sequence[Item], count: int) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), count):
        yield items[at : at + count]


def _answered(answer: Any) -> Any:
    if isinstance(answer, Lost):
        raise UsageError(f"a worker gave no answer: {answer.why} (out of memory? fewer {spelled('workers')} may help)")
    return answer


def _law(law: Any) -> Law | None:
    """A law as JSON gives it back: lists are trees."""
    return None if law is None else (_tree(law[0]), _tree(law[1]))


def _tree(value: Any) -> Any:
    return tuple(map(_tree, value)) if isinstance(value, list | tuple) else value


HEAD = "# Generated by superopt generate "
"""How a rule file of ours begins."""


def text_of(settings: Settings, figures: Figures, rules: Sequence[Rule]) -> str:
    """The rule file: a header with the settings and figures, then the rules."""
    space = settings.space
    chosen = ", ".join(space.operators) or "all"
    lines = [
        f"{HEAD}--set {space.set_name} --max-operators {space.most}; templates: {chosen}.",
        "# Every rule is proved for all sizes; what follows from the others is left out.",
        "# " + ", ".join(f"{name} {number}" for name, number in asdict(figures).items()),
    ]
    return "\n".join(lines) + "\n\n" + "\n".join(rule.text() for rule in rules)

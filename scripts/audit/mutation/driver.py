"""Judging and proving many laws: what the drivers of mutants and of random equations share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.audit.mutation.jobs import DEEP
from scripts.audit.mutation.judgement import Judgement
from scripts.audit.mutation.store import Entry, Store
from scripts.audit.mutation.workers import Outcome, Task, run

_JUDGE_LIMIT = 900.0
_JUDGE = "scripts.audit.mutation.jobs:judge_mutants"
_JUDGE_TEXTS = "scripts.audit.mutation.jobs:judge_texts"
_PROVE = "scripts.audit.mutation.jobs:prove"
_DRAW = "scripts.audit.mutation.jobs:drawn"
_SITED = "scripts.audit.mutation.jobs:proved_at_sites"
_MAKE = "scripts.audit.mutation.jobs:make_equations"
_TEXTS_AT_ONCE = 10
_EQUATIONS_AT_ONCE = 12
_MOST_TRIES = 4
"""Draws per equation that is wanted."""
_SELDOM = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """How laws are judged and proved: the prover's import path, seconds for one proof, processes."""

    prover: str
    limit: float
    processes: int = 2
    console: Console | None = None


def judge(store: Store, entries: Sequence[Entry], setting: Setting, *, mutants: bool, deep: bool = False) -> None:
    """Asks the oracle about the entries that it has not judged; ``deep`` asks once more, with other draws."""
    seeds = DEEP if deep else (0,)
    open_ = [e for e in entries if deep or not e.oracle]
    groups: dict[str, list[Entry]] = {}
    for k, e in enumerate(open_):
        groups.setdefault(e.law if mutants else str(k // _TEXTS_AT_ONCE), []).append(e)
    function = _JUDGE if mutants else _JUDGE_TEXTS
    tasks = [
        Task(key, function, ((key, [e.id for e in g]) if mutants else ([e.text for e in g],)) + (seeds,), _JUDGE_LIMIT)
        for key, g in groups.items()
    ]
    for outcome in _shown(tasks, "judged again" if deep else "judged", setting):
        if outcome.failure:
            _say(setting, f"{outcome.key}: the oracle failed: {outcome.failure}")
            continue
        for e, finding in zip(groups[outcome.key], outcome.value, strict=True):
            store.put(e, "oracle", merged(e.oracle, finding) if deep else finding)


def mutants(store: Store, names: Sequence[str], count: int, seed: int, setting: Setting) -> list[Entry]:
    """About ``count`` well typed mutants, as many of every law as of any other."""
    each = -(-count // max(len(names), 1))
    tasks = [Task(name, _DRAW, (name, each, seed), _JUDGE_LIMIT) for name in names]
    found: dict[str, Entry] = {}
    for outcome in _shown(tasks, "laws", setting):
        if outcome.failure:
            _say(setting, f"mutants of {outcome.key}: {outcome.failure}")
        for raw in outcome.value or ():
            found[raw["id"]] = store.entry(raw["id"], raw["law"], raw["kind"], raw["text"])
    return sorted(found.values(), key=lambda e: e.id)[:count]


def audit(store: Store, entries: Sequence[Entry], setting: Setting, more: Collection[str] = ()) -> None:
    """Proves first, and judges thoroughly what is proved, and the entries of ``more`` by their ids.

    What is false elsewhere than where the proof speaks is proved again there, as a match would have it.
    """
    prove(store, entries, setting)
    claimed = [e for e in entries if e.proved or e.id in more]
    judge(store, claimed, setting, mutants=False)
    deeper = [e for e in claimed if e.oracle and e.oracle["seeds"] == 1 and not e.alarm]
    judge(store, deeper, setting, mutants=False, deep=True)
    elsewhere = {e.id: e for e in claimed if e.proved and not e.alarm and e.row == "different"}
    tasks = [
        Task(e.id, _SITED, (e.text, e.oracle["differences"]), _JUDGE_LIMIT)
        for e in elsewhere.values()
        if "sited" not in e.proof
    ]
    for outcome in _shown(tasks, "sites", setting):
        entry = elsewhere[outcome.key]
        store.put(entry, "proof", {**entry.proof, "sited": outcome.value or ""})


def equations(store: Store, seed: int, count: int, setting: Setting) -> list[Entry]:
    """At least ``count`` true equations and as many false ones, those that the store holds first."""
    known = {e.law for e in store.entries.values()}
    made = [e for e in store.entries.values() if e.law.startswith(f"{seed}/") and e.oracle]

    def enough() -> bool:
        true = sum(e.kind == "true" for e in made)
        return true >= count and len(made) - true >= count

    def tasks() -> Iterator[Task]:
        for first in itertools.count(0, _EQUATIONS_AT_ONCE):
            numbers = [n for n in range(first, first + _EQUATIONS_AT_ONCE) if f"{seed}/{n}" not in known]
            if enough() or first > _MOST_TRIES * count:
                return
            if numbers:
                yield Task(str(first), _MAKE, (seed, numbers), _JUDGE_LIMIT)

    for outcome in _counted(run(tasks(), setting.processes), lambda: len(made), 2 * count, setting):
        if outcome.failure:
            _say(setting, f"equations from {outcome.key} on: {outcome.failure}")
        for raw in outcome.value or ():
            entry = store.entry(raw["id"], f"{seed}/{raw['number']}", raw["kind"], raw["text"])
            if not entry.oracle:
                store.put(entry, "oracle", raw["oracle"])
                made.append(entry)
    return made


def _counted(outcomes: Iterator[Outcome], made: Callable[[], int], total: int, setting: Setting) -> Iterator[Outcome]:
    for k, outcome in enumerate(outcomes, start=1):
        yield outcome
        if k % _SELDOM == 0:
            _say(setting, f"equations {made()}/{total}")


def merged(first: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two findings about one law as one."""
    whole = Judgement.of(first)
    whole.add(Judgement.of(more))
    return {**whole.plain(), "seeds": first["seeds"] + more["seeds"]}


def prove(store: Store, entries: Iterable[Entry], setting: Setting) -> None:
    """Asks the prover about the entries that it has not seen."""
    open_ = {e.id: e for e in entries if not e.proof}
    tasks = [Task(e.id, _PROVE, (e.text, setting.prover), setting.limit) for e in open_.values()]
    for outcome in _shown(tasks, "proofs", setting):
        store.put(open_[outcome.key], "proof", _finding(outcome))


def _finding(outcome: Outcome) -> dict[str, Any]:
    if not outcome.failure:
        return {**outcome.value, "seconds": outcome.seconds}
    verdict = outcome.failure if outcome.failure in ("timeout", "crash") else "error"
    return {"verdict": verdict, "why": outcome.failure, "seconds": outcome.seconds}


def cross(store: Store, entries: Sequence[Entry], setting: Setting, *, mutants: bool) -> None:
    """Judges and proves; what is proved or looks true is judged once more, by many more draws."""
    judge(store, entries, setting, mutants=mutants)
    prove(store, [e for e in entries if e.row not in ("none", "not judged")], setting)
    claimed = [e for e in entries if e.row == "equal" or (e.proved and not e.alarm)]
    judge(store, [e for e in claimed if e.oracle["seeds"] == 1], setting, mutants=mutants, deep=True)


def _shown(tasks: Sequence[Task], what: str, setting: Setting) -> Iterator[Outcome]:
    """Outcomes, with a bar on a terminal and a line now and then elsewhere."""
    console = setting.console
    if not tasks or console is None:
        yield from run(tasks, setting.processes)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task(what, total=len(tasks))
        for k, outcome in enumerate(run(tasks, setting.processes), start=1):
            bar.advance(line)
            if not console.is_terminal and (k % max(1, len(tasks) // 20) == 0 or k == len(tasks)):
                console.print(f"{what} {k}/{len(tasks)}")
            yield outcome


def _say(setting: Setting, line: str) -> None:
    if setting.console is not None:
        setting.console.print(line)

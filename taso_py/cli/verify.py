"""`superopt verify`: prove the rule library, or look up that it is proved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option, progress_on_stderr
from taso_py.errors import UnprovedError

if TYPE_CHECKING:
    from taso_py.progress import Level, Progress
    from taso_py.rules.lock import Finding, Lock, Record
    from taso_py.rules.rule import Rule

FILE = click.Path(path_type=Path)
_SAVE_S = 30.0
"""How often a long run writes what it has proved."""


@click.command(context_settings=SETTINGS, short_help="Prove the rules.")
@click.argument("files", type=FILE, nargs=-1)
@option("--only", multiple=True, metavar="NAME", help="Only this rule (repeatable).")
@option("--fresh", is_flag=True, help="Prove everything again, whatever is on record.")
@option("--update", is_flag=True, help="Write the verdicts into the library's lock; an interrupt keeps what is done.")
@option("--jobs", type=click.IntRange(min=1), help="Processes; default: the CPUs this process may use.")
@option("--timeout", type=click.FloatRange(min=1), default=300.0, show_default=True, metavar="SECONDS",
              help="Processor time for one rule.")  # fmt: skip
@json_option
@option("-v", "--verbose", "verbosity", count=True, help="One line per rule that is proved.")
def verify(
    files: tuple[Path, ...],
    only: tuple[str, ...],
    fresh: bool,
    update: bool,
    jobs: int | None,
    timeout: float,
    as_json: bool,
    verbosity: int,
) -> None:
    """Prove the rules of FILES (default: the library) for all sizes, or refute them by a counterexample.

    The laws of refuted.rules, and those of taso_axioms.rules whose names end in -false, must be refuted, those
    named vacuous- must have no instance, those of open.rules are beyond the prover, all others must be proved; exit
    code 1 otherwise. A verdict on record counts while rule, prover and operators stay the same.
    """
    from taso_py.report.proofs import verification_json, verification_text

    start = time.perf_counter()
    run = _Run(_rules(files, only), fresh, update)
    run.judge(jobs, timeout, verbosity)
    findings = run.findings()
    seconds = time.perf_counter() - start
    emit(verification_json(findings, seconds) if as_json else verification_text(findings, seconds))
    _demand_expected(findings)


def _rules(files: Sequence[Path], only: Sequence[str]) -> list[Rule]:
    from taso_py.rules.library import load_file, require_names
    from taso_py.rules.location import rules_directory

    paths = files or sorted(rules_directory().glob("*.rules"))
    found = [rule for path in paths for rule in load_file(path)]
    require_names(only, found)
    return [rule for rule in found if rule.name in only or not only]


@dataclass(slots=True)
class _Run:
    """The rules of one command: those on record, and those judged now, with seconds."""

    rules: list[Rule]
    fresh: bool
    update: bool
    lock: Lock = field(init=False)
    recorded: dict[Rule, Record] = field(init=False)
    judged: dict[Rule, tuple[Record, float]] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        from taso_py.rules.lock import Lock, installed_z3, load_lock

        self.lock = load_lock()
        # Proofs by another version of Z3 are used, but here they are made again.
        reusable = Lock() if self.fresh or self.lock.z3 != installed_z3() else self.lock
        self.recorded = {rule: found for rule in self.rules if (found := reusable.record(rule)) is not None}

    def judge(self, jobs: int | None, timeout: float, verbosity: int) -> None:
        """Judges what is not on record; an interrupt keeps what is done."""
        missing = [rule for rule in self.rules if rule not in self.recorded]
        try:
            if missing:
                self._judge(missing, jobs, timeout, verbosity)
        finally:
            self.save()

    def _judge(self, rules: Sequence[Rule], jobs: int | None, timeout: float, verbosity: int) -> None:
        """Each law once, however many rules state it."""
        from taso_py.backend.runtime import available_threads, require_runtime
        from taso_py.prove.crew import judged
        from taso_py.prove.verify import record

        require_runtime()
        same: dict[str, list[Rule]] = {}
        for rule in rules:
            same.setdefault(rule.id, []).append(rule)
        first = [group[0] for group in same.values()]
        with progress_on_stderr(verbosity) as progress:
            progress.phase("proving", len(first))
            crew = judged(first, jobs=jobs or available_threads(), limit_s=timeout)
            for done, (rule, judgement) in enumerate(crew, start=1):
                found = record(judgement)
                for number, other in enumerate(same[rule.id]):
                    self.judged[other] = (found, judgement.seconds if number == 0 else 0.0)
                    _tell(progress, other, found)
                progress.update(done=done)
                if time.monotonic() > self.saved + _SAVE_S:
                    self.save()

    def save(self) -> None:
        """Writes the records of the library's rules; what was not looked at stays, what is gone goes."""
        if not self.update:
            return
        from taso_py.rules.library import load_file
        from taso_py.rules.location import rules_directory
        from taso_py.rules.lock import installed_z3

        self.saved = time.monotonic()
        home = rules_directory().resolve()
        found = {**self.recorded, **{rule: record for rule, (record, _) in self.judged.items()}}
        own = [(rule, made) for rule, made in found.items() if Path(rule.file).resolve().parent == home]
        known = [rule for path in sorted(home.glob("*.rules")) for rule in load_file(path)]
        updated = self.lock.updated(own, known, installed_z3())
        if updated.text() != self.lock.text():
            updated.write()

    def findings(self) -> tuple[Finding, ...]:
        """Every rule with its verdict."""
        from taso_py.rules.lock import Finding

        return tuple(
            Finding(rule, *self.judged[rule], recorded=False) if rule in self.judged
            else Finding(rule, self.recorded[rule])
            for rule in self.rules
        )  # fmt: skip


def _tell(progress: Progress, rule: Rule, found: Record) -> None:
    """What is not as expected is said at once: a long run need not end for it."""
    from taso_py.report.proofs import shortened, verdict_text
    from taso_py.rules.lock import as_expected

    level: Level = "detail" if as_expected(rule, found) else "info"
    progress.log(level, shortened(f"{Path(rule.file).name}:{rule.line} {rule.name}: {verdict_text(found)}"))


def _demand_expected(findings: Sequence[Finding]) -> None:
    wrong = [f for f in findings if not f.as_expected]
    if wrong:
        names = ", ".join(f.rule.name for f in wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise UnprovedError(f"{len(wrong)} of {len(findings)} rules are not as expected: {names}")

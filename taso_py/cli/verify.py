"""`superopt verify`: prove the rule library, or look up that it is proved."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option, progress_on_stderr
from taso_py.errors import DisagreementError, RuleError, UnprovedError, UsageError

if TYPE_CHECKING:
    from taso_py.progress import Level, Progress
    from taso_py.prove.verdict import Disagreement
    from taso_py.report.differences import VerdictChange
    from taso_py.rules.lock import Finding, Lock, Record
    from taso_py.rules.rule import Rule

FILE = click.Path(path_type=Path)
_SAVE_S = 30.0
"""How often a long run writes what it has proved."""


@click.command(context_settings=SETTINGS, short_help="Prove the rules.")
@click.argument("files", type=FILE, nargs=-1)
@option("--only", multiple=True, metavar="NAME", help="Only this rule (repeatable).")
@option("--fresh", is_flag=True, help="Prove everything again, whatever is on record.")
@option("--anew", is_flag=True, help="The same, and compare with what is on record; exit code 1 for any difference.")
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
    anew: bool,
    update: bool,
    jobs: int | None,
    timeout: float,
    as_json: bool,
    verbosity: int,
) -> None:
    """Prove the rules of FILES (default: the library) for all sizes, or refute them by a counterexample.

    A proof names the numbers of axes and element types that it covers, and is about finite real numbers:
    docs/proofs.md says what it claims.

    The laws of refuted.rules, and those of taso_axioms.rules whose names end in -false, must be refuted, those
    named vacuous- must have no instance, those of open.rules are beyond the prover, all others must be proved; exit
    code 1 otherwise. A verdict on record counts while rule, prover and operators stay the same, whichever Z3 found it;
    --anew, before a release, proves without the record and demands that it says the same.

    A proof that an instance contradicts is a bug of superopt: the rule is refused, law, proof and both sides are
    written to superopt-disagreement-ID.json in the current directory, and the exit code is 70.
    """
    from taso_py.report.proofs import verification_json, verification_text

    start = time.perf_counter()
    if anew and update:
        raise UsageError("--anew compares with the record, --update writes it: give one of them")
    run = _Run(_rules(files, only), _lock(fresh or update), fresh or anew, update)
    run.judge(jobs, timeout, verbosity)
    findings = run.findings()
    differences = _differences(run, whole=not files and not only) if anew else None
    seconds = time.perf_counter() - start
    emit((verification_json if as_json else verification_text)(findings, seconds, differences))
    _demand_agreement(run.disagreements)
    _demand_expected(findings)
    _demand_alike(differences or ())


def _rules(files: Sequence[Path], only: Sequence[str]) -> list[Rule]:
    from taso_py.rules.library import load_file, require_names
    from taso_py.rules.location import rules_directory

    paths = files or sorted(rules_directory().glob("*.rules"))
    found = [rule for path in paths for rule in load_file(path)]
    require_names(only, found)
    return [rule for rule in found if rule.name in only or not only]


def _lock(remade: bool) -> Lock:
    """The library's lock; where it is ``remade``, one that is damaged proves nothing instead of being an error."""
    from taso_py.rules.lock import Lock, load_lock

    try:
        return load_lock()
    except RuleError as error:
        if not remade:
            raise
        click.echo(f"superopt: {error}; everything is proved again", err=True)
        return Lock()


@dataclass(slots=True)
class _Run:
    """The rules of one command: those on record, and those judged now, with seconds."""

    rules: list[Rule]
    lock: Lock
    fresh: bool
    update: bool
    recorded: dict[Rule, Record] = field(init=False)
    judged: dict[Rule, tuple[Record, float]] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)
    disagreements: dict[Rule, Disagreement] = field(default_factory=dict)
    """Rules that are proved and contradicted."""

    def __post_init__(self) -> None:
        on_record = {} if self.fresh else {rule: self.lock.record(rule) for rule in self.rules}
        self.recorded = {rule: found for rule, found in on_record.items() if found is not None}

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
        from taso_py.prove.batch import judged
        from taso_py.prove.verdict import Disagreement
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
                if isinstance(judgement.verdict, Disagreement):
                    self.disagreements[rule] = judgement.verdict
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
        from taso_py.rules.lock import installed_z3

        self.saved = time.monotonic()
        found = {**self.recorded, **{rule: made for rule, (made, _) in self.judged.items()}}
        refused = {rule.id for rule in self.disagreements}
        own = [(rule, made) for rule, made in found.items() if _is_shipped(rule) and rule.id not in refused]
        updated = self.lock.updated(own, _shipped(), installed_z3())
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


def _is_shipped(rule: Rule) -> bool:
    from taso_py.rules.location import rules_directory

    return Path(rule.file).resolve().parent == rules_directory().resolve()


def _shipped() -> list[Rule]:
    """Every law that the lock speaks of."""
    from taso_py.rules.library import load_file
    from taso_py.rules.location import rules_directory

    return [rule for path in sorted(rules_directory().resolve().glob("*.rules")) for rule in load_file(path)]


def _differences(run: _Run, *, whole: bool) -> tuple[VerdictChange, ...]:
    """Where the verdicts made now are not those on record; in the ``whole`` library nothing else may be on record."""
    from taso_py.report.differences import difference, left_over

    made = ((rule, found) for rule, (found, _) in run.judged.items() if _is_shipped(rule))
    found = [d for rule, record in made if (d := difference(run.lock, rule, record)) is not None]
    return (*found, *(left_over(run.lock, run.rules) if whole else ()))


def _tell(progress: Progress, rule: Rule, found: Record) -> None:
    """What is not as expected is said at once: a long run need not end for it."""
    from taso_py.report.proofs import shortened, verdict_text
    from taso_py.rules.lock import as_expected

    level: Level = "detail" if as_expected(rule, found) else "info"
    progress.log(level, shortened(f"{Path(rule.file).name}:{rule.line} {rule.name}: {verdict_text(found)}"))


def _demand_agreement(found: Mapping[Rule, Disagreement]) -> None:
    """Writes what a report of each bug needs."""
    if not found:
        return
    from taso_py.files import write_text
    from taso_py.prove.verify import report

    told = []
    for rule, disagreement in found.items():
        path = Path(f"superopt-disagreement-{rule.id}.json")
        write_text(path, report(rule, disagreement), force=True)
        told.append(f"{rule.name} ({path})")
    names = ", ".join(told[:5]) + (", ..." if len(told) > 5 else "")
    raise DisagreementError(f"proof and instance disagree, a bug of superopt; please report the files: {names}")


def _demand_expected(findings: Sequence[Finding]) -> None:
    wrong = [f for f in findings if not f.as_expected]
    if wrong:
        names = ", ".join(f.rule.name for f in wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise UnprovedError(f"{len(wrong)} of {len(findings)} rules are not as expected: {names}")


def _demand_alike(differences: Sequence[VerdictChange]) -> None:
    if differences:
        names = ", ".join(d.name for d in differences[:5]) + (", ..." if len(differences) > 5 else "")
        raise UnprovedError(f"not as on record ({len(differences)}): {names}")

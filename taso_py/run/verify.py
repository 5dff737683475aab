"""Are the rules proved: the whole of `superopt verify`, from the record where it has them, else by the prover."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from taso_py.errors import RuleError, UsageError
from taso_py.onnx_io.collecting import uncollected
from taso_py.options import VerifyOptions
from taso_py.options.spelling import spelled_on
from taso_py.paths import real
from taso_py.progress import Level, Progress
from taso_py.report.differences import VerdictChange, difference, left_over
from taso_py.report.proofs import shortened, verdict_text
from taso_py.report.verification import Verification
from taso_py.rules import location, lock
from taso_py.rules.library import load_file, require_names
from taso_py.rules.lock import Finding, Lock, Record
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.prove.verdict import Disagreement

_SAVE_S = 30.0
"""How often a long run writes what it has proved."""


def verify(files: Sequence[Path], options: VerifyOptions, progress: Progress) -> Verification:
    """The verdict on every rule of ``files`` (none: the library); with ``update`` the library's are put on record.

    An interrupt keeps what is done.  `RuleError` for a file that cannot be read, `UsageError` for a name that no rule
    has, and for files beside the library's with ``update``.
    """
    start = time.perf_counter()
    own = [path for path in files if options.update and not _is_of_library(path)]
    if own:
        said = f"{spelled_on('update')} puts rules of the library on record"
        raise UsageError(f"{said}, and {own[0]} is none of its files: leave it out")
    remade = options.fresh or options.anew
    known = _lock(progress, remade=options.fresh or options.update)
    run = _Verifying(_rules(files, options.only), known, options, progress, {})
    if not remade:
        run.look_up()
    run.judge()
    whole = not files and not options.only
    return Verification(
        findings=run.findings(),
        seconds=time.perf_counter() - start,
        differences=run.differences(whole=whole) if options.anew else None,
        disagreements=run.disagreements,
    )


@uncollected()
def _rules(files: Sequence[Path], only: Sequence[str]) -> list[Rule]:
    found = [rule for path in files or _files_in(location.rules_directory()) for rule in load_file(path)]
    require_names(only, found)
    return [rule for rule in found if rule.name in only or not only]


def _files_in(home: Path) -> list[Path]:
    return sorted(home.glob("*.rules"))


def _lock(progress: Progress, *, remade: bool) -> Lock:
    """The library's lock; where it is ``remade``, one that is damaged proves nothing instead of being an error."""
    try:
        return lock.load_lock()
    except RuleError as error:
        if not remade:
            raise
        progress.log("info", f"{error}; everything is proved again")
        return Lock()


@dataclass(slots=True)
class _Verifying:
    """The rules of one run: those on record, and those judged now, with seconds."""

    rules: list[Rule]
    lock: Lock
    options: VerifyOptions
    progress: Progress
    recorded: dict[Rule, Record]
    _: KW_ONLY
    judged: dict[Rule, tuple[Record, float]] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)
    disagreements: dict[Rule, Disagreement] = field(default_factory=dict)
    """Rules that are proved and contradicted."""

    @uncollected()
    def look_up(self) -> None:
        """Takes what is on record."""
        found = {rule: self.lock.record(rule) for rule in self.rules}
        self.recorded = {rule: record for rule, record in found.items() if record is not None}

    def judge(self) -> None:
        """Judges what is not on record; an interrupt keeps what is done."""
        missing = [rule for rule in self.rules if rule not in self.recorded]
        try:
            if missing:
                self._judge(missing)
        finally:
            self.save()

    def _judge(self, rules: Sequence[Rule]) -> None:
        """Each law once, however many rules state it."""
        from taso_py.backend.runtime import available_threads, require_runtime
        from taso_py.prove import batch
        from taso_py.prove.verdict import Disagreement
        from taso_py.prove.verify import record

        require_runtime()
        same: dict[str, list[Rule]] = {}
        for rule in rules:
            same.setdefault(rule.id, []).append(rule)
        first = [group[0] for group in same.values()]
        self.progress.phase("proving", len(first))
        jobs = self.options.jobs or available_threads()
        crew = batch.judged(first, jobs=jobs, limit_s=self.options.timeout_s)
        for done, (rule, judgement) in enumerate(crew, start=1):
            found = record(judgement)
            if isinstance(judgement.verdict, Disagreement):
                self.disagreements[rule] = judgement.verdict
            for number, other in enumerate(same[rule.id]):
                self.judged[other] = (found, judgement.seconds if number == 0 else 0.0)
                self._tell(other, found)
            self.progress.update(done=done)
            if time.monotonic() > self.saved + _SAVE_S:
                self.save()

    def _tell(self, rule: Rule, found: Record) -> None:
        """What is not as expected is said at once: a long run need not end for it."""
        level: Level = "detail" if lock.as_expected(rule, found) else "info"
        words = f"{Path(rule.file).name}:{rule.line} {rule.name}: {verdict_text(found, rule)}"
        self.progress.log(level, shortened(words))

    def save(self) -> None:
        """Writes the records of the library's rules; what was not looked at stays, what is gone goes."""
        if not self.options.update:
            return
        self.saved = time.monotonic()
        found = {**self.recorded, **{rule: made for rule, (made, _) in self.judged.items()}}
        refused = {rule.id for rule in self.disagreements}
        own = [(rule, made) for rule, made in found.items() if _is_shipped(rule) and rule.id not in refused]
        home = real(location.rules_directory())
        shipped = [rule for path in _files_in(home) for rule in load_file(path)]
        updated = self.lock.updated(own, shipped, lock.installed_z3())
        if updated.text() != self.lock.text():
            updated.write()

    def findings(self) -> tuple[Finding, ...]:
        """Every rule with its verdict."""
        return tuple(
            Finding(rule, *self.judged[rule], recorded=False) if rule in self.judged
            else Finding(rule, self.recorded[rule])
            for rule in self.rules
        )  # fmt: skip

    def differences(self, *, whole: bool) -> tuple[VerdictChange, ...]:
        """Where the verdicts made now are not those on record; in a ``whole`` library nothing else may be on record."""
        made = ((rule, found) for rule, (found, _) in self.judged.items() if _is_shipped(rule))
        found = [d for rule, record in made if (d := difference(self.lock, rule, record)) is not None]
        return (*found, *(left_over(self.lock, self.rules) if whole else ()))


def _is_shipped(rule: Rule) -> bool:
    return _is_of_library(Path(rule.file))


def _is_of_library(file: Path) -> bool:
    return real(file).parent == real(location.rules_directory())

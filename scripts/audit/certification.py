"""Try to have `superopt certify` accept what it must not: altered and forged certificates, beside honest ones.

    python -m scripts.audit.certification                     honest ones, alterations, every forgery
    python -m scripts.audit.certification --tamperings 1000

Alterations leave digests alone; forgeries, false rules among them, have fitting ones. "Rules believed": the same false
rules, whoever judges them taken in, so that the comparison of the two models stands alone.
Exits with 1 when a forgery or an alteration is accepted, an honest certificate refused, or a refusal is not one line.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from scripts.audit.certificates.circles import circles
from scripts.audit.certificates.false_laws import BOUNDED_LAWS, FALSE_LAWS
from scripts.audit.certificates.forgeries import forgeries
from scripts.audit.certificates.subjects import HONEST, Case, Honest
from scripts.audit.certificates.tampering import tamperings
from taso_py.backend.pool import WorkerPool
from taso_py.certificate.certify import certify
from taso_py.certificate.laws import Prover, whole_judgement
from taso_py.errors import CertificateError, ModelError, UsageError
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Proved, Verdict
from taso_py.rules.coverage import DEFINED
from taso_py.rules.rule import Rule


def believing(_: Rule) -> Verdict:
    """A judge who is taken in by every rule."""
    return Proved(patterns=DEFINED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One certificate and what became of it: None where it was accepted, else why not."""

    kind: str
    name: str
    honest: bool
    line: str | None
    proper: bool = True
    """Whether a refusal is one line of a class that says whose fault it is."""

    @property
    def wrong(self) -> bool:
        """Whether this should not be."""
        return not self.proper or self.honest == (self.line is not None)


@dataclass(slots=True)
class Audit:
    """Runs `certify` with workers that are kept; verdicts on rules are remembered."""

    folder: Path
    pool: WorkerPool
    prover: Prover
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def judge(self, rule: Rule) -> Verdict:
        """The whole judgement, made once for each text."""
        text = rule.text()
        if text not in self.verdicts:
            self.verdicts[text] = self.prover(rule)
        return self.verdicts[text]

    def attempt(
        self, kind: str, case: Case, *, honest: bool = False, as_it_is: bool = False, prover: Prover | None = None
    ) -> Attempt:
        """Writes the case and has it certified."""
        files = case.written(self.folder, as_it_is=as_it_is)
        frozen = case.freeze_initializers
        try:
            certify(*files, freeze_initializers=frozen, prover=prover or self.judge, pool=self.pool)
        except (CertificateError, UsageError, ModelError) as error:
            return Attempt(kind, case.name, honest, str(error), proper="\n" not in str(error) and bool(str(error)))
        except Exception as error:  # noqa: BLE001 - any other way to end is a finding
            return Attempt(kind, case.name, honest, f"{type(error).__name__}: {error}", proper=False)
        return Attempt(kind, case.name, honest, None)


def attempts(audit: Audit, subjects: tuple[Honest, ...], count: int) -> Iterator[Attempt]:
    """Honest certificates first, then what was made of them, then false rules."""
    cases = [subject.case(audit.folder) for subject in subjects]
    for case in cases:
        yield audit.attempt("honest", case, honest=True, as_it_is=True)
    rewritten = [case for case in cases if case.document["steps"]]
    for number, case in enumerate(rewritten):
        share = count // len(rewritten) + (number < count % len(rewritten))
        for kind, altered, as_it_is in tamperings(case, share, seed=number):
            yield audit.attempt(f"altered {kind}", altered, as_it_is=as_it_is)
    for case in {case.original.SerializeToString(deterministic=True): case for case in rewritten}.values():
        for kind, forged, as_it_is in forgeries(case):
            yield audit.attempt(kind, forged, as_it_is=as_it_is)
    for case in circles():
        yield audit.attempt("places in a circle", case)
    for law in (*FALSE_LAWS, *BOUNDED_LAWS):
        case = law.case()
        yield audit.attempt("false or bounded rule", case)
        if law.shows:
            yield audit.attempt("rules believed", case, prover=believing)


def report(found: list[Attempt]) -> str:
    """A table: how many of each kind, and how many of them went wrong; then these."""
    kinds = Counter(a.kind for a in found)
    lines = [f"{'kind':<26}{'tried':>7}{'accepted':>10}{'refused':>9}{'wrong':>7}"]
    for kind, tried in kinds.items():
        of = [a for a in found if a.kind == kind]
        accepted = sum(a.line is None for a in of)
        lines.append(f"{kind:<26}{tried:>7}{accepted:>10}{tried - accepted:>9}{sum(a.wrong for a in of):>7}")
    lines += [f"WRONG: {a.kind}: {a.name}: {a.line or 'accepted'}" for a in found if a.wrong]
    return "\n".join(lines)


def run(subjects: tuple[Honest, ...] = HONEST, count: int = 100) -> list[Attempt]:
    """Every attempt, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, WorkerPool() as pool, Replay() as replay:
        return list(attempts(Audit(Path(folder), pool, whole_judgement(replay)), subjects, count))


@click.command(help=__doc__)
@click.option("--tamperings", type=int, default=100, show_default=True, help="So many alterations in all.")
@click.option("--lines", is_flag=True, help="Print the line of every refusal.")
def main(tamperings: int, lines: bool) -> None:
    """The command line."""
    found = run(count=tamperings)
    if lines:
        for attempt in found:
            click.echo(f"{attempt.kind}: {attempt.name}: {attempt.line or 'accepted'}")
    click.echo(report(found))
    sys.exit(1 if any(attempt.wrong for attempt in found) else 0)


if __name__ == "__main__":
    main()

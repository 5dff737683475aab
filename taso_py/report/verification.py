"""What `superopt verify` has found, and what it demands of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from taso_py.errors import DisagreementError, UnprovedError
from taso_py.report.differences import VerdictChange
from taso_py.report.proofs import verification_json, verification_text
from taso_py.rules.lock import Finding
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.prove.verdict import Disagreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Every rule with its verdict."""

    findings: tuple[Finding, ...]
    seconds: float
    """Of the whole run."""
    differences: tuple[VerdictChange, ...] | None
    """From what is on record; None where nothing was compared (``anew``)."""
    disagreements: Mapping[Rule, Disagreement]
    """Rules that are proved and contradicted by an instance: bugs of superopt."""

    def to_json(self) -> str:
        """One JSON object."""
        return verification_json(self.findings, self.seconds, self.differences)

    def text(self) -> str:
        """The table of files, and everything that is not as it should be."""
        return verification_text(self.findings, self.seconds, self.differences)

    def require_expected(self) -> None:
        """UnprovedError unless every rule is as its file promises, and as on record where that was compared."""
        wrong = [f.rule.name for f in self.findings if not f.as_expected]
        if wrong:
            raise UnprovedError(f"{len(wrong)} of {len(self.findings)} rules are not as expected: {some(wrong)}")
        if self.differences:
            names = [d.name for d in self.differences]
            raise UnprovedError(f"not as on record ({len(names)}): {some(names)}")


def require_agreement(found: Verification) -> None:
    """DisagreementError for a rule that is proved and contradicted; writes what a report of each bug needs.

    The files lie in the current directory: superopt-disagreement-ID.json.
    """
    if not found.disagreements:
        return
    from taso_py.files import write_text
    from taso_py.prove.verify import report

    told = []
    for rule, disagreement in found.disagreements.items():
        path = Path(f"superopt-disagreement-{rule.id}.json")
        write_text(path, report(rule, disagreement), force=True)
        told.append(f"{rule.name} ({path})")
    raise DisagreementError(f"proof and instance disagree, a bug of superopt; please report the files: {some(told)}")


def some(names: Iterable[str]) -> str:
    """The first five names of a list."""
    known = list(names)
    return ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")

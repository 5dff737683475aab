"""What `superopt rules list` and `superopt rules show` say of rules, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taso_py.paths import name_in_json, real
from taso_py.report.content import number
from taso_py.report.proofs import columns, obligations_plain, obligations_text, proof_lines
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Record
from taso_py.rules.printer import condition_text
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.prove.verdict import Proved


LIST_SCHEMA = "superopt.rules/1"
RULE_SCHEMA = "superopt.rule/1"
_NOT_ON_RECORD = "no proof"
"""The status of a rule of the library that nothing is on record of."""
_NOT_JUDGED = "not judged yet"
"""That of a rule of the user's own: no record has those, and every run proves them anew."""


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule, and what is on record of it as it is now (None: nothing)."""

    rule: Rule
    record: Record | None

    @property
    def status(self) -> str:
        """What is known of the law."""
        if self.record is not None:
            return self.rule.status
        shipped = real(Path(self.rule.file)).parent == real(rules_directory())
        return _NOT_ON_RECORD if shipped else _NOT_JUDGED

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        rule = self.rule
        return {
            "name": rule.name,
            "id": rule.id,
            "status": self.status,
            "file": name_in_json(rule.file),
            "line": rule.line,
            "conditions": [condition_text(condition) for condition in rule.conditions],
            "text": rule.text(),
            "proof": None if self.record is None else self.record.plain(),
        }


def rules_json(found: Sequence[ListedRule]) -> str:
    """One JSON object with an entry for each rule."""
    return json.dumps({"schema": LIST_SCHEMA, "rules": [one.to_dict() for one in found]}, indent=2)


def rules_text(found: Sequence[ListedRule]) -> str:
    """One line for each rule: name, status, file and line; then their number."""
    width = max((len(one.rule.name) for one in found), default=0)
    status = max((len(one.status) for one in found), default=0)
    lines = [
        f"{one.rule.name:<{width}}  {one.status:<{status}}  {Path(one.rule.file).name}:{one.rule.line}" for one in found
    ]
    return "\n".join([*lines, number(len(found), "rule")])


def rule_json(found: ListedRule, proof: Proved | None) -> str:
    """One JSON object; with a ``proof`` also its obligations."""
    shown = {} if proof is None else {"obligations": obligations_plain(found.rule, proof)}
    return json.dumps({"schema": RULE_SCHEMA, **found.to_dict(), **shown}, indent=2)


def rule_text(found: ListedRule, proof: Proved | None) -> str:
    """The rule, then the obligations of a ``proof``; without one, what is on record."""
    rule = found.rule
    if proof is not None:
        return f"{rule.text().rstrip()}\n\n{obligations_text(rule, proof)}"
    facts = [("status", found.status), ("id", rule.id), ("file", f"{rule.file}:{rule.line}")]
    return f"{rule.text().rstrip()}\n\n{columns([*facts, *proof_lines(found.record)])}"

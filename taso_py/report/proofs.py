"""What is known of rules, in words: the outcome of `superopt verify`, and the proof of one rule."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taso_py.options.spelling import spelled_on
from taso_py.report.content import number
from taso_py.report.differences import VerdictChange
from taso_py.report.table import TextTable
from taso_py.report.typings import typing_words
from taso_py.rules.alpha import own_names
from taso_py.rules.lock import Finding, Record
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.prove.kernel.obligations import Obligation
    from taso_py.prove.verdict import Proved

_LONGEST = 240
_WORK = "s, all processes"
"""Seconds that proofs took, added up: the sum below the table is the time of day."""
_WORD = re.compile(r"[@~]?([^\W\d]\w*)")
"""A name in what a proof says, with the mark of a real attribute or of an integer that may be negative."""
SCHEMA = "superopt.verify/1"
_SPECIALS = {
    "kept": "stay as they are",
    "changed": "may change: seen in ONNX Runtime",
    "open": "may change: not seen to, but the operations differ",
}
_KINDS = {
    "move": "move (elements are copied; any type, bit for bit)",
    "ring": "ring (sums and products; integers too)",
    "real": "real (floating point only)",
}
_ROLES = {
    "necessary": "necessary (false without it)",
    "droppable": "not needed (proved without it)",
    "undecided": "undecided",
}


def verdict_text(record: Record, rule: Rule | None = None) -> str:
    """The verdict in one line, in the names of ``rule``."""
    match record.verdict:
        case "proved":
            sizes = "all sizes" if record.limit is None else f"sizes up to {record.limit}"
            ranks = "" if record.ranks is None else f" and up to {record.ranks} axes"
            facts = f", facts: {', '.join(record.facts)}" if record.facts else ""
            range_ = f"; {record.overflow}: {spelled_on('allow_overflow')} admits it" if record.overflow else ""
            types = f", {'/'.join(record.types)}" if record.types and len(record.types) == 1 else ""
            claim = f"proved for {sizes}{ranks}{types}"
            return f"{claim}: {record.method}, {number(record.cases, 'case')}{facts}{range_}"
        case "refuted":
            return f"refuted at {(record.counterexample or {}).get('shapes', '')}"
        case _:
            return f"unknown: {record.why if rule is None else _in_own_names(rule, record.why)}"


def verification_text(
    findings: Sequence[Finding], seconds: float, differences: Sequence[VerdictChange] | None = None
) -> str:
    """The table of files, everything that is not as expected, ``differences`` from the record, and the sum."""
    from rich.console import Group, RenderableType
    from rich.text import Text

    from taso_py.report.terminal import render, table

    parts: list[RenderableType] = [table(_files(findings))]
    # What follows a colon is the goal that was left over, another one for every rule.
    reasons = Counter(f.record.why.partition(": ")[0] for f in findings if f.record.verdict == "unknown")
    if reasons:
        rows = tuple((str(count), why) for why, count in reasons.most_common())
        parts += [Text(""), table(TextTable("Unknown", ("rules", "reason"), rows, frozenset({0})))]
    wrong = [f for f in findings if not f.as_expected]
    parts += [Text(line) for line in ("", *(line for f in wrong for line in _complaint(f)))] if wrong else []
    parts += [Text(line) for line in ("", *map(_contrast, differences))] if differences else []
    looked_up = sum(f.recorded for f in findings)
    verdict = "all as expected" if not wrong else f"{len(wrong)} not as expected"
    source = f"{looked_up} on record" if differences is None else f"{len(differences)} not as on record"
    parts.append(Text(f"{number(len(findings), 'rule')}, {verdict}, {seconds:.1f} s ({source})"))
    return render(Group(*parts))


def shortened(text: str) -> str:
    """One line of a length that can be read; JSON has the whole text."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _files(findings: Sequence[Finding]) -> TextTable:
    by_file: dict[str, list[Finding]] = {}
    for f in findings:
        by_file.setdefault(Path(f.rule.file).name, []).append(f)
    rows = [(file, *_counts(own)) for file, own in by_file.items()]
    if len(rows) > 1:
        rows.append(("all", *_counts(findings)))
    header = ("file", "rules", "all sizes", "bounded", "refuted", "unknown", _WORK)
    return TextTable("", header, tuple(rows), frozenset(range(1, len(header))))


def _counts(findings: Sequence[Finding]) -> tuple[str, ...]:
    counted = Counter(_column(f.record) for f in findings)
    columns = ("all sizes", "bounded", "refuted", "unknown")
    seconds = sum(f.seconds for f in findings)
    return (str(len(findings)), *(str(counted[c] or "") for c in columns), f"{seconds:.0f}" if seconds >= 1 else "")


def _column(record: Record) -> str:
    if record.verdict != "proved":
        return record.verdict
    return "all sizes" if record.limit is None else "bounded"


def _complaint(finding: Finding) -> list[str]:
    """What a law should be and is; where it was contradicted, the values below."""
    rule, record = finding.rule, finding.record
    place = f"{Path(rule.file).name}:{rule.line}"
    values = columns((name, shortened(text)) for name, text in _against(record.counterexample or {}))
    words = f"{place} {rule.name} should be {rule.promise}, is {verdict_text(record, rule)}"
    return [shortened(words), *values.splitlines()]


def _contrast(difference: VerdictChange) -> str:
    recorded, made = difference.recorded, difference.made
    parts = f" ({', '.join(difference.parts)})" if difference.parts else ""
    there = "nothing is" if recorded is None else f"{verdict_text(recorded)} is"
    here = "the rule is not there" if made is None else verdict_text(made)
    return shortened(f"{difference.file} {difference.name}: {there} on record, but{parts} {here}")


def verification_json(
    findings: Sequence[Finding], seconds: float, differences: Sequence[VerdictChange] | None = None
) -> str:
    """Every verdict as one JSON object; ``differences`` from the record where it was compared with."""
    counts = Counter(_column(f.record).replace(" ", "_") for f in findings)
    names = ("all_sizes", "bounded", "refuted", "unknown")
    head = {
        "schema": SCHEMA,
        "as_expected": all(f.as_expected for f in findings),
        "seconds": round(seconds, 3),
        "counts": {name: counts[name] for name in names},
    }
    compared = {} if differences is None else {"differences": [d.plain() for d in differences]}
    return json.dumps({**head, **compared, "rules": [_entry(f) for f in findings]}, indent=2)


def _entry(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "name": rule.name,
        "id": rule.id,
        "file": rule.file,
        "line": rule.line,
        "expected": rule.promise,
        "as_expected": finding.as_expected,
        "status": finding.record.status,
        "seconds": round(finding.seconds, 3),
        "recorded": finding.recorded,
        **finding.record.plain(),
    }


def proof_lines(record: Record | None) -> list[tuple[str, str]]:
    """What is on record of a rule, as name and text."""
    if record is None:
        words = (
            "none on record for the rule as it is now: `superopt verify` judges it, `verify FILE` those of your files"
        )
        return [("proof", words)]
    lines = [("verdict", verdict_text(record))]
    if record.verdict == "proved":
        lines += [
            ("class", _KINDS.get(record.kind, record.kind)),
            ("bits", "both sides are the same operations in the same order" if record.bitwise else "reassociating"),
            ("NaN, Inf", _SPECIALS.get(record.nan, record.nan)),
            *((f"when {text}", _ROLES.get(role, role)) for text, role in record.conditions),
            ("witness", record.witness),
        ]
    return lines + list(_against(record.counterexample or {}))


def obligations_text(rule: Rule, proof: Proved) -> str:
    """What a proof has shown of each typing, and by what."""
    from rich.console import Group, RenderableType
    from rich.text import Text

    from taso_py.report.terminal import render, table

    parts: list[RenderableType] = []
    shown = _shown(rule, proof)
    for k, (signature, obligations) in enumerate(shown, start=1):
        rows = tuple((o.kind, shortened(o.what), o.by) for o in obligations)
        parts.append(Text(f"typing {k} of {len(shown)}: {typing_words(rule, signature)}"))
        parts += [table(TextTable("", ("kind", "shown", "by"), rows)), Text("")]
    counts = Counter(o.kind for _, obligations in shown for o in obligations)
    total = ", ".join(f"{count} of {kind}" for kind, count in counts.items())
    sizes = "for all sizes" if proof.limit is None else f"for sizes up to {proof.limit}"
    parts.append(Text(f"{number(counts.total(), 'obligation')} {sizes}: {total}"))
    return render(Group(*parts))


def obligations_plain(rule: Rule, proof: Proved) -> list[dict[str, Any]]:
    """The same for JSON, nothing shortened."""
    shown = _shown(rule, proof)
    return [{"typing": signature, "obligations": [asdict(o) for o in obligations]} for signature, obligations in shown]


def _shown(rule: Rule, proof: Proved) -> list[tuple[str, list[Obligation]]]:
    """The obligations of each typing, in the rule's names.  Signatures have none."""
    own = partial(_in_own_names, rule)
    return [(s, [replace(o, what=own(o.what), by=own(o.by)) for o in found]) for s, found in proof.obligations]


def _in_own_names(rule: Rule, text: str) -> str:
    """Proofs are made of the normal law; here its names are the rule's again."""
    names = own_names(rule)
    return _WORD.sub(lambda word: names.get(word[1], word[0]), text)


def _against(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, values in (found.get("inputs") or {}).items():
        yield f"with {name}", json.dumps(values)
    if found:
        yield "left", _value(found["left"])
        yield "right", _value(found["right"])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def columns(lines: Iterable[tuple[str, str]]) -> str:
    """Names and texts in two columns."""
    pairs = list(lines)
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in pairs)

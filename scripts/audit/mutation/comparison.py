"""The findings of two provers on the same laws, side by side."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.audit.mutation.store import Entry

_EXAMPLES = 2


@dataclass(frozen=True, slots=True)
class Before:
    """What another prover says of a law; ``false`` is an instance that contradicts its claim, in words."""

    verdict: str
    why: str = ""
    false: str = ""

    @property
    def proved(self) -> bool:
        """Whether it has proved the law."""
        return self.verdict == "proved"


def read(path: Path) -> dict[str, Before]:
    """Verdicts by the laws' ids, one line of JSON each; the last line of a law that has one counts.

    A line is flat (id, verdict, why, false), or has the verdict under ``proof``, as the drivers' own files do.
    """
    found: dict[str, Before] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        told = raw.get("proof", raw)
        if "verdict" in told:
            found[raw["id"]] = Before(told["verdict"], told.get("why", ""), told.get("false", ""))
    return found


def compared(entries: Sequence[Entry], before: Mapping[str, Before]) -> str:
    """A line per kind of change, then what is no longer proved, by the reason."""
    return "\n".join([*_kinds(entries, before), "", *_lost(entries, before)])


def _kinds(entries: Sequence[Entry], before: Mapping[str, Before]) -> Iterator[str]:
    names = ("count", "old proved", "old false", "old open", "proved", "false", "open")
    counts: dict[str, Counter[str]] = {}
    for e in entries:
        old = before.get(e.id)
        if old is None:
            continue
        for kind in (e.kind if not e.kind.startswith("false") else "false", "all"):
            own = counts.setdefault(kind, Counter())
            own["count"] += 1
            own["old proved" if old.proved else "old open"] += 1
            own["old false"] += bool(old.false)
            own["proved" if e.proved else "open"] += 1
            own["false"] += bool(e.alarm)
    yield "| " + " | ".join(("kind", *names)) + " |"
    yield "|---|" + "---:|" * len(names)
    for kind, own in sorted(counts.items(), key=lambda item: (item[0] == "all", -item[1]["count"])):
        yield "| " + " | ".join((kind, *(str(own[n]) for n in names))) + " |"


def lost(entries: Sequence[Entry], before: Mapping[str, Before]) -> list[Entry]:
    """Laws that the other prover proves and that are not seen to be false, and that are now open."""
    return [e for e in entries if e.id in before and before[e.id].proved and not e.proved and e.row != "different"]


def _lost(entries: Sequence[Entry], before: Mapping[str, Before]) -> Iterator[str]:
    groups: dict[str, list[Entry]] = {}
    for e in lost(entries, before):
        groups.setdefault(reason(str(e.proof.get("why", ""))), []).append(e)
    yield f"{sum(map(len, groups.values()))} laws that are not seen to be false were proved and are now open"
    for why, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"\n{len(found)} x {why}"
        yield from (f"  [{e.row}] {e.proof.get('why', '')[:300]}\n{e.text.rstrip()}" for e in found[:_EXAMPLES])


def reason(why: str) -> str:
    """The kind of a verdict's reason: its words without names, sizes and formulas."""
    head = why.split(": ")[0] if why.startswith("not proved equal") else why
    plain = [w.strip("',:.") for w in head.split()]
    words = [w if w.isalpha() and (len(w) > 1 or w == "a") else "…" for w in plain]
    return re.sub(r"(… ?)+", "… ", " ".join(words)).strip()[:140]

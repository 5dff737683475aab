"""Counts of laws by what they are and what the prover says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scripts.audit.mutation.store import Entry

ROWS: Mapping[str, str] = {
    "different": "different values",
    "mistyped": "other types",
    "refused": "right side refused",
    "equal": "equal",
    "none": "no instance",
    "not judged": "not judged",
}
"""What a law is: at some instance the values differ; only types differ; an operator of the right side cannot be applied
(all three with instances of equal types); equal at all instances; none of equal types."""
COLUMNS = ("proved", "bounded", "unknown", "refuted", "timeout", "crash", "error", "")
_FEW, _SHOWN = 3, 20


def report(entries: Sequence[Entry]) -> str:
    """The whole report as text: the table, the shares, the kinds, alarms with their counterexamples."""
    parts = [_table(entries), "", *_shares(entries), "", *_kinds(entries), "", *_times(entries), *_alarms(entries)]
    return "\n".join(parts)


def alarms(entries: Iterable[Entry]) -> list[Entry]:
    """False laws that were proved."""
    return [e for e in entries if e.alarm]


def _table(entries: Sequence[Entry]) -> str:
    counts: Counter[tuple[str, str]] = Counter((e.row, e.column) for e in entries)
    columns = [c for c in COLUMNS if any(counts[r, c] for r in ROWS)]
    lines = ["".join([f"{'':20}", *(f"{c or 'not asked':>11}" for c in columns), f"{'sum':>9}"])]
    for row in ROWS:
        numbers = [counts[row, c] for c in columns]
        if sum(numbers):
            lines.append("".join([f"{ROWS[row]:20}", *(f"{n:11}" for n in numbers), f"{sum(numbers):9}"]))
    return "\n".join(lines)


def _shares(entries: Sequence[Entry]) -> Iterator[str]:
    typed = [e for e in entries if e.row not in ("none", "not judged")]
    yield f"{len(entries)} laws, {len(typed)} of them with an instance of equal types on both sides"
    for row in ("equal", "refused", "mistyped", "different"):
        asked = [e for e in entries if e.row == row and e.column]
        if asked:
            open_ = sum(not e.proved for e in asked)
            yield f"{ROWS[row]}: {open_} of {len(asked)} not proved ({100 * open_ / len(asked):.1f} %)"
    beyond = [e for e in entries if e.row == "different" and e.proved and not e.alarm]
    if beyond:
        yield f"{len(beyond)} of them were proved, but not at the instances that were seen to differ"


def _kinds(entries: Sequence[Entry]) -> Iterator[str]:
    """A line per kind of change."""
    counts: dict[str, Counter[str]] = {}
    for e in entries:
        own = counts.setdefault(e.kind, Counter())
        own["all"] += 1
        own[e.row] += 1
        own["proved"] += e.proved
    names = ("all", *list(ROWS)[:5], "proved")
    yield "".join([f"{'kind':24}", *(f"{n:>10}" for n in names)])
    for kind, own in sorted(counts.items(), key=lambda item: -item[1]["all"]):
        yield "".join([f"{kind:24}", *(f"{own[n]:10}" for n in names)])


def _times(entries: Sequence[Entry]) -> Iterator[str]:
    spent = sorted(e.proof["seconds"] for e in entries if "seconds" in e.proof)
    if spent:
        mean, middle = sum(spent) / len(spent), spent[len(spent) // 2]
        yield f"a proof took {1000 * mean:.0f} ms on average, {1000 * middle:.0f} ms mostly, {spent[-1]:.1f} s at most"


def _alarms(entries: Sequence[Entry]) -> Iterator[str]:
    mistyped = [e for e in entries if e.mistyped and not e.alarm]
    if mistyped:
        yield f"{len(mistyped)} laws were proved whose types differ somewhere; there a match is refused, for example"
        yield from (_shown(e, e.mistyped) for e in mistyped[:_FEW])
    found = alarms(entries)
    yield f"{len(found)} false laws were proved"
    yield from (_shown(e, e.alarm) for e in found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"... and {len(found) - _SHOWN} more"


def _shown(entry: Entry, example: str) -> str:
    return f"\n{entry.kind} of {entry.law}:\n{entry.text.rstrip()}\n  but at {example}\n"

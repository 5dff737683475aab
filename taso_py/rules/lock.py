"""The proof lock: what is on record of each rule, and for which sources that holds.

``rules/proofs.lock`` has one line per rule.  Its key hashes the law under normal names (`taso_py.rules.alpha`) and the
trusted sources (`taso_py.rules.sources`): when one of them changes, the rule is no longer proved.  The head says with
which versions of Z3 that was, for information, and has a digest of the lines: one that was added, changed or lost in a
merge is noticed.  It guards against accidents; against forgery there is ``superopt verify --anew``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, Literal

from taso_py.errors import RuleError
from taso_py.files import parse_json, write_text
from taso_py.rules.alpha import normal_text
from taso_py.rules.location import rules_directory
from taso_py.rules.rule import Rule, RuleSet
from taso_py.rules.sources import sources_digest

SCHEMA = "superopt.proofs/2"
_OLDER = frozenset({"superopt.proofs/1"})
"""Schemas whose keys are made otherwise: such a file proves as little as one for other sources."""
_FIX = "run `superopt verify --update`"
_APART = ", "
_RENAMED = {"kind": "class"}
_WORDS = frozenset({"why", "witness", "counterexample"})

Outcome = Literal["proved", "refuted", "unknown"]


@dataclass(frozen=True, slots=True)
class Record:
    """The verdict on one rule, as plain data.

    ``limit`` and ``ranks`` bound sizes and numbers of axes (None: all); ``kind`` is move, ring or real; ``nan`` says
    whether NaN or Inf may differ between the sides: kept, changed (seen), open; ``bitwise``: the same operations in
    the same order; ``patterns``: the typings that the proof covers; ``conditions`` pairs each condition with
    necessary, droppable or undecided; ``types``: the element types of numbers (None: any); ``overflow``: where one side
    overflows float32 and the other does not; ``reason``: why nothing is known (`taso_py.prove.verdict.Reason`).
    """

    verdict: Outcome
    why: str = ""
    _: KW_ONLY
    limit: int | None = None
    ranks: int | None = None
    method: str = ""
    cases: int = 0
    facts: tuple[str, ...] = ()
    kind: str = ""
    nan: str = ""
    bitwise: bool = False
    conditions: tuple[tuple[str, str], ...] = ()
    patterns: tuple[str, ...] = ()
    witness: str = ""
    counterexample: Mapping[str, Any] | None = None
    types: tuple[str, ...] | None = None
    overflow: str = ""
    reason: str = ""

    @property
    def status(self) -> str:
        """proved, proved<=k, refuted or unknown."""
        return self.verdict if self.limit is None or self.verdict != "proved" else f"proved<={self.limit}"

    @property
    def vacuous(self) -> bool:
        """Whether no instance of the rule exists."""
        return self.verdict == "unknown" and self.reason == "contradictory"

    @property
    def decisive(self) -> tuple[object, ...]:
        """What lines about one law under several names must agree on."""
        return (self.verdict, self.limit, self.ranks, self.patterns, self.types)

    @property
    def claim(self) -> Mapping[str, Any]:
        """What is claimed, by its names in the file: neither examples nor reasons in words."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        for word in _WORDS:
            del told[word]
        return {**{_RENAMED.get(name, name): part for name, part in told.items()}, "vacuous": self.vacuous}

    def plain(self) -> dict[str, Any]:
        """The fields that say something, as JSON has them."""
        given = {f.name: f.default for f in fields(self)}
        return {_RENAMED.get(k, k): v for k, v in asdict(self).items() if v != given[k]}

    @staticmethod
    def of_plain(entry: Mapping[str, Any]) -> Record:
        """The inverse of `plain`."""
        names = {_RENAMED.get(f.name, f.name): f.name for f in fields(Record)}
        found = {name: entry[key] for key, name in names.items() if key in entry}
        found["facts"] = _texts(found.get("facts", []))
        found["patterns"] = _texts(found.get("patterns", []))
        found["types"] = None if found.get("types") is None else _texts(found["types"])
        found["conditions"] = tuple((text, role) for text, role in map(_texts, found.get("conditions", ())))
        for name, value in found.items():
            if not isinstance(value, _KINDS.get(name, object)):
                raise TypeError(f"{name} is {value!r}")
        return Record(**found)


_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("verdict", "why", "method", "kind", "nan", "witness", "overflow", "reason"), (str,)),
    **dict.fromkeys(("limit", "ranks"), (int, NoneType)),
    "cases": (int,),
    "bitwise": (bool,),
    "counterexample": (dict, NoneType),
}
"""What the fields of a record are that are no lists."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(_text, values))


@dataclass(frozen=True, slots=True)
class LockLine:
    """One line: a record under the name and the key of its rule."""

    name: str
    file: str
    key: str
    record: Record

    @property
    def place(self) -> tuple[str, str]:
        """The file and the name of the rule."""
        return (self.file, self.name)


@dataclass(frozen=True, slots=True)
class Lock:
    """The entries of a lock, and the versions of Z3 with which they were proved, for information."""

    z3: str = ""
    entries: tuple[LockLine, ...] = ()
    _records: Mapping[str, Record] = field(init=False, repr=False, compare=False)
    _placed: Mapping[tuple[str, str, str], Record] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # One law may stand under several names; each then has a record in its own words.
        placed = {(e.key, *e.place): e.record for e in self.entries}
        object.__setattr__(self, "_placed", MappingProxyType(placed))
        records = {e.key: e.record for e in reversed(self.entries)}
        object.__setattr__(self, "_records", MappingProxyType(records))

    def __hash__(self) -> int:
        return hash((self.z3, len(self.entries)))  # thousands of entries: what they say is left to ==

    def record(self, rule: Rule) -> Record | None:
        """What is on record of the rule as it is now, under whatever name."""
        key = key_of(rule)
        return self._placed.get((key, *place_of(rule))) or self._records.get(key)

    def stamped(self, rules: RuleSet) -> RuleSet:
        """The rules with their status; ``tested`` where nothing is on record."""
        return RuleSet(tuple(self._stamp(rule) for rule in rules))

    def _stamp(self, rule: Rule) -> Rule:
        record = self.record(rule)
        return rule if record is None else with_verdict(rule, record)

    def text(self) -> str:
        """The file, in an order of its own, so that one proof changes one line beside the head."""
        lines = [
            json.dumps({"name": e.name, "file": e.file, **e.record.plain(), "key": e.key}, ensure_ascii=False)
            for e in sorted(self.entries, key=lambda e: e.place)
        ]
        head = json.dumps({"schema": SCHEMA, "z3": self.z3, "digest": _digest(lines)})
        return "\n".join([head, *lines]) + "\n"

    def write(self, path: Path | None = None) -> None:
        """Replaces the file whole, or not at all."""
        write_text(path or lock_path(), self.text(), force=True)

    def updated(self, judged: Sequence[tuple[Rule, Record]], known: Iterable[Rule], z3: str) -> Lock:
        """The lock with these records, the lock's own or made with Z3 ``z3``.

        Entries of rules that are no longer ``known`` go, and so do those that contradict each other about one law.
        """
        new = any(self.record(rule) is not record for rule, record in judged)
        made = {place_of(rule): LockLine(rule.name, place_of(rule)[0], key_of(rule), record) for rule, record in judged}
        places = {place_of(rule) for rule in known}
        kept = {e.place: e for e in self.entries if e.place in places and e.place not in made}
        entries = _consistent((*kept.values(), *(e for place, e in made.items() if place in places)))
        old = kept or any(self.record(rule) is record for rule, record in judged)
        versions = {*(self.z3.split(_APART) if old else ()), *((z3,) if new else ())} - {""}
        return Lock(_APART.join(sorted(versions)), entries)


def with_verdict(rule: Rule, record: Record) -> Rule:
    """The rule with its status, and with the typings, sizes and element types that its proof covers."""
    patterns = record.patterns if record.verdict == "proved" else None
    return replace(
        rule,
        status=record.status,
        patterns=patterns,
        limit=record.limit,
        types=None if record.types is None else tuple(record.types),
        overflow=record.overflow,
    )


def lock_path() -> Path:
    """The library's lock."""
    return rules_directory() / "proofs.lock"


def load_lock(path: Path | None = None) -> Lock:
    """The lock of a file; one that is not there, or older than the schema, proves nothing.

    `RuleError` for one that cannot be read, was changed by other hands, or says two things of one law.
    """
    path = path or lock_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}:1:1: cannot be read: {error}") from None
    return _parsed(text, str(path))


@lru_cache(maxsize=4)
def _parsed(text: str, name: str) -> Lock:
    head, *lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()  # what follows the end of the last line
    found = _object(head, f"{name}:1:1")
    schema = found.get("schema")
    if isinstance(schema, str) and schema in _OLDER:
        return Lock()
    if schema != SCHEMA:
        raise RuleError(f"{name}:1:1: has the schema {schema!r}, not {SCHEMA!r}: {_FIX}")
    entries = tuple(_entry(line, f"{name}:{number}:1") for number, line in enumerate(lines, start=2))
    _demand_consistent(entries, name)
    if found.get("digest") != _digest(lines):
        raise RuleError(f"{name}:1:1: a line was added, changed or lost since the file was written: {_FIX}")
    return Lock(str(found.get("z3", "")), entries)


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except ValueError as error:
        raise RuleError(f"{place}: is no proof record ({error}): {_FIX}") from None
    if not isinstance(found, dict):
        raise RuleError(f"{place}: is no proof record (not an object): {_FIX}")
    return found


def _entry(line: str, place: str) -> LockLine:
    found = _object(line, place)
    try:
        return LockLine(_text(found["name"]), _text(found["file"]), _text(found["key"]), Record.of_plain(found))
    except (ValueError, KeyError, TypeError) as error:
        raise RuleError(f"{place}: is no proof record ({error}): {_FIX}") from None


def _demand_consistent(entries: Sequence[LockLine], name: str) -> None:
    """One line for each rule, and one claim for each law, under however many names it stands."""
    by_place: dict[tuple[str, str], int] = {}
    by_key: dict[str, tuple[int, Record]] = {}
    for line, entry in enumerate(entries, start=2):
        first = by_place.setdefault(entry.place, line)
        if first != line:
            raise RuleError(f"{name}:{line}:1: {entry.file} {entry.name} is on record already in line {first}: {_FIX}")
        first, known = by_key.setdefault(entry.key, (line, entry.record))
        if known.decisive != entry.record.decisive:
            raise RuleError(f"{name}:{line}:1: {entry.name} contradicts line {first}, which has the same law: {_FIX}")


def _consistent(entries: Sequence[LockLine]) -> tuple[LockLine, ...]:
    claims: dict[str, set[Any]] = {}
    for entry in entries:
        claims.setdefault(entry.key, set()).add(entry.record.decisive)
    return tuple(e for e in entries if len(claims[e.key]) == 1)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def place_of(rule: Rule) -> tuple[str, str]:
    """The rule's file, without its folder, and its name."""
    return Path(rule.file).name, rule.name


@lru_cache(maxsize=4096)
def key_of(rule: Rule) -> str:
    """The hash of all that a verdict on the rule depends on: the law, whatever its names, and the trusted sources."""
    return hashlib.sha256(f"{normal_text(rule)}\0{sources_digest()}".encode()).hexdigest()


def installed_z3() -> str:
    """Z3's version, without importing it."""
    try:
        return metadata.version("z3-solver")
    except metadata.PackageNotFoundError:
        return ""


def as_expected(rule: Rule, record: Record) -> bool:
    """Whether the verdict is what the rule's file promises."""
    return record.vacuous if rule.promise == "vacuous" else record.verdict == rule.promise


def admitted(status: str, allow_bounded: bool) -> bool:
    """Whether rules of this status may rewrite."""
    return status == "proved" or (allow_bounded and status.partition("<=")[:2] == ("proved", "<="))


def usable(rules: RuleSet, allow_bounded: bool) -> RuleSet:
    """The rules that may rewrite: proved ones; with ``allow_bounded`` also those proved up to some size."""
    return RuleSet(tuple(rule for rule in rules if admitted(rule.status, allow_bounded)))


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule with its verdict; ``recorded``: looked up, not proved now."""

    rule: Rule
    record: Record
    seconds: float = 0.0
    recorded: bool = True

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is what the rule's file promises."""
        return as_expected(self.rule, self.record)

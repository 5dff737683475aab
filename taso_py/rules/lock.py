"""The proof lock: what is on record of each rule, and for which sources that holds.

``rules/proofs.lock`` has one line per rule.  Its key hashes the law, the prover, the sources that give operators
and rules their meaning, and the version of Z3 that the file names: when any of them changes, the rule is no longer
proved.  A proof does not depend on which Z3 is installed where it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from taso_py.errors import RuleError
from taso_py.files import write_text
from taso_py.rules.location import rules_directory
from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule, RuleSet

SCHEMA = "superopt.proofs/1"
_PACKAGE = Path(__file__).resolve().parents[1]
_PLUMBING = frozenset({"verify.py", "crew.py", "__init__.py"})
"""Modules of the prover that only call it."""
_MEANING = ("graph/sizes.py", "graph/types.py", *(f"rules/{m}.py" for m in (
    "build", "coverage", "functions", "instances", "predicates", "rule", "term", "unify",
)))  # fmt: skip
_RENAMED = {"kind": "class"}

Outcome = Literal["proved", "refuted", "unknown"]
Promise = Literal["proved", "refuted", "vacuous", "unknown"]


@dataclass(frozen=True, slots=True)
class Record:
    """The verdict on one rule, as plain data.

    ``limit`` and ``ranks`` bound sizes and numbers of axes (None: all); ``kind`` is move, ring or real; ``nan`` says
    whether NaN or Inf may differ between the sides: kept, changed (seen), open; ``bitwise``: the same operations in
    the same order; ``patterns``: ways of broadcasting that the proof covers; ``conditions`` pairs each condition with
    necessary, droppable or undecided.
    """

    verdict: Outcome
    why: str = ""
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

    @property
    def status(self) -> str:
        """proved, proved<=k, refuted or unknown."""
        return self.verdict if self.limit is None or self.verdict != "proved" else f"proved<={self.limit}"

    @property
    def vacuous(self) -> bool:
        """Whether no instance of the rule exists."""
        return self.verdict == "unknown" and self.why.startswith("vacuous")

    def plain(self) -> dict[str, Any]:
        """The fields that say something, as JSON has them."""
        given = {f.name: f.default for f in fields(self)}
        return {_RENAMED.get(k, k): v for k, v in asdict(self).items() if v != given[k]}

    @staticmethod
    def of_plain(entry: Mapping[str, Any]) -> Record:
        """The inverse of `plain`."""
        names = {_RENAMED.get(f.name, f.name): f.name for f in fields(Record)}
        found = {name: entry[key] for key, name in names.items() if key in entry}
        found["facts"] = tuple(found.get("facts", ()))
        found["patterns"] = tuple(found.get("patterns", ()))
        found["conditions"] = tuple((text, role) for text, role in found.get("conditions", ()))
        return Record(**found)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a record under the name and the key of its rule."""

    name: str
    file: str
    key: str
    record: Record


@dataclass(frozen=True, slots=True)
class Lock:
    """The entries of a lock, and the version of Z3 that they were proved with."""

    z3: str = ""
    entries: tuple[Entry, ...] = ()
    _records: Mapping[str, Record] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_records", MappingProxyType({e.key: e.record for e in self.entries}))

    def record(self, rule: Rule) -> Record | None:
        """What is on record of the rule as it is now."""
        return self._records.get(key_of(rule, self.z3))

    def stamped(self, rules: RuleSet) -> RuleSet:
        """The rules with their status; ``tested`` where nothing is on record."""
        return RuleSet(tuple(self._stamp(rule) for rule in rules))

    def _stamp(self, rule: Rule) -> Rule:
        record = self.record(rule)
        return rule if record is None else with_verdict(rule, record)

    def text(self) -> str:
        """The file, in an order of its own, so that one proof changes one line."""
        head = json.dumps({"schema": SCHEMA, "z3": self.z3})
        lines = [
            json.dumps({"name": e.name, "file": e.file, **e.record.plain(), "key": e.key}, ensure_ascii=False)
            for e in sorted(self.entries, key=lambda e: (e.file, e.name))
        ]
        return "\n".join([head, *lines]) + "\n"

    def write(self, path: Path | None = None) -> None:
        """Replaces the file whole, or not at all."""
        write_text(path or lock_path(), self.text(), force=True)

    def updated(self, judged: Sequence[tuple[Rule, Record]], known: Iterable[Rule], z3: str) -> Lock:
        """The lock with these records; entries of rules that are no longer ``known`` go."""
        kept = {(e.file, e.name): e for e in self.entries}
        for rule, record in judged:
            place = (Path(rule.file).name, rule.name)
            kept[place] = Entry(rule.name, place[0], key_of(rule, z3), record)
        places = {(Path(rule.file).name, rule.name) for rule in known}
        return Lock(z3, tuple(e for place, e in kept.items() if place in places))


def with_verdict(rule: Rule, record: Record) -> Rule:
    """The rule with its status, and with the typings that its proof covers."""
    patterns = record.patterns if record.verdict == "proved" else None
    return replace(rule, status=record.status, patterns=patterns)


def lock_path() -> Path:
    """The library's lock."""
    return rules_directory() / "proofs.lock"


def load_lock(path: Path | None = None) -> Lock:
    """The lock of a file; one that is not there proves nothing. `RuleError` for one that cannot be read."""
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
    entries: list[Entry] = []
    head, *lines = text.splitlines() or [""]
    try:
        z3 = str(json.loads(head)["z3"])
        for line in lines:
            entry = json.loads(line)
            entries.append(Entry(entry["name"], entry["file"], entry["key"], Record.of_plain(entry)))
    except (ValueError, KeyError, TypeError) as error:
        fix = "delete the file and run `superopt verify --update`"
        raise RuleError(f"{name}:{len(entries) + 2}:1: is no proof record ({error}): {fix}") from None
    return Lock(z3, tuple(entries))


@lru_cache(maxsize=4096)
def key_of(rule: Rule, z3: str) -> str:
    """The hash of all that a verdict on the rule depends on."""
    parts = (law_text(rule), sources_digest(), z3)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@lru_cache(maxsize=4)
def sources_digest(package: Path = _PACKAGE) -> str:
    """The hash of the prover's sources and of those that state meanings."""
    paths = [p for p in (package / "prove").glob("*.py") if p.name not in _PLUMBING]
    paths += [*(package / "ops").glob("*.py"), *(package / name for name in _MEANING)]
    digest = hashlib.sha256()
    for path in sorted(paths):
        # Text, not bytes: the ends of lines depend on how the sources were checked out.
        digest.update(f"{path.relative_to(package).as_posix()}\0{path.read_text(encoding='utf-8')}\0".encode())
    return digest.hexdigest()


def installed_z3() -> str:
    """Z3's version, without importing it."""
    try:
        return metadata.version("z3-solver")
    except metadata.PackageNotFoundError:
        return ""


def expected(rule: Rule) -> Promise:
    """What the rule's file promises.

    False laws stand in refuted.rules and, named so, in taso_axioms.rules; laws that no proof reaches in open.rules.
    """
    file = Path(rule.file).name
    if file == "refuted.rules":
        return "vacuous" if rule.name.startswith("vacuous-") else "refuted"
    if file == "open.rules":
        return "unknown"
    return "refuted" if file == "taso_axioms.rules" and rule.name.endswith("-false") else "proved"


def as_expected(rule: Rule, record: Record) -> bool:
    """Whether the verdict is what the rule's file promises."""
    wanted = expected(rule)
    return record.vacuous if wanted == "vacuous" else record.verdict == wanted


def admitted(status: str, allow_bounded: bool) -> bool:
    """Whether rules of this status may rewrite."""
    return status == "proved" or (allow_bounded and status.startswith("proved<="))


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

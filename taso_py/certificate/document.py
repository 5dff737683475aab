"""Certificates and decisions as files: plain records, their JSON, and reading that back without believing any of it.

Decisions are what a certificate says of the way from the original, without the model that it leads to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from taso_py.errors import UsageError
from taso_py.files import parse_json, read_text
from taso_py.result import plain

SCHEMA = "superopt.certificate/2"
DECISIONS_SCHEMA = "superopt.decisions/1"
MAXIMAL_BYTES = 2**25
"""No file of ours is longer: the certificate of a network of 5,000 nodes has 10 MB."""
MAXIMAL_VALUES = 2_000_000
"""Lists, objects and entries: ours have one in 13 bytes. In memory each takes up to 130, twice while it is digested."""
MAXIMAL_LAW = 2**21
"""Characters of all rules, which are parsed in seconds: one has about 300, that of a Split into 128 parts 200,000."""
_WIDTH = 110
_LONGEST_NAME, _LONGEST_PATH = 255, 4000
"""Bytes that filesystems give to a name, and systems to a path."""
_SHOWN = 60

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Digest:
    """SHA-256 of a model file, and of each file that holds weights of it."""

    sha256: str
    external: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Law:
    """A rule as the certificate states it: whoever checks it needs no library."""

    id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Unproved:
    """The model that took the place of the exact one by an approximation; nothing is claimed of it."""

    kind: str
    model: Digest


@dataclass(frozen=True, slots=True)
class CertifiedSubstitution:
    """What the names of a rule stand for: tensors, sizes and attributes, blocks of axes."""

    tensors: Mapping[str, str]
    names: Mapping[str, Any]
    blocks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """A composite value looked through: by this law it is also ``definitions``, whose first entry is the value."""

    value: str
    rule: str
    id: str
    backwards: bool
    substitution: CertifiedSubstitution
    definitions: Mapping[str, str]

    def labels(self) -> Iterator[str]:
        """Every value that it speaks of by itself; a new one is among them."""
        yield from (self.value, *self.definitions, *self.substitution.tensors.values())


@dataclass(frozen=True, slots=True)
class MatchPlace:
    """Where a step's rule applies; ``inside`` names the composite that an output is only a part of."""

    outputs: tuple[str, ...]
    inside: Mapping[str, str]
    substitution: CertifiedSubstitution

    def labels(self) -> Iterator[str]:
        """As above."""
        yield from (*self.outputs, *self.inside, *self.inside.values(), *self.substitution.tensors.values())


@dataclass(frozen=True, slots=True)
class CertifiedStep:
    """One rule applied at some places at once; ``gives`` are the definitions that are new in the graph."""

    rule: str
    id: str
    backwards: bool
    looks: tuple[Look, ...]
    places: tuple[MatchPlace, ...]
    gives: Mapping[str, str]

    def labels(self) -> Iterator[str]:
        """As above."""
        for look in self.looks:
            yield from look.labels()
        for place in self.places:
            yield from place.labels()
        yield from self.gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """All that leads from the original to the optimised model.

    ``weights`` are the initializers that were computed: name -> value and type.  ``freeze_initializers``: those
    that a caller may override were taken for constants.
    """

    original: Digest
    optimised: Digest
    freeze_initializers: bool
    metadata: Mapping[str, str]
    rules: tuple[Law, ...]
    steps: tuple[CertifiedStep, ...]
    weights: Mapping[str, str]
    unproved: Unproved | None = None
    """Then ``optimised`` is the exact model, which is in no file, and this names the one that is.  Left out if null."""

    def to_json(self) -> str:
        """The file's text: the same for the same run."""
        return _text({"schema": SCHEMA} | self._told() | {"sha256": self.sha256()}) + "\n"

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = plain(self)
        if self.unproved is None:
            del told["unproved"]
        return told

    def sha256(self) -> str:
        """Of all that it says. It shows accidents, and proves nothing: whoever alters the rest can alter this too."""
        return hashlib.sha256(json.dumps(self._told(), allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """The steps that a run decided on, to be made again without measuring; by which laws, and what was assumed.

    ``measured`` is what the run found, for whoever reviews it; nothing is made of it.
    """

    original: Digest
    freeze_initializers: bool
    metadata: Mapping[str, str]
    measured: Mapping[str, Any]
    rules: tuple[Law, ...]
    steps: tuple[CertifiedStep, ...]

    def to_json(self) -> str:
        """The file's text."""
        return _text({"schema": DECISIONS_SCHEMA} | plain(self)) + "\n"


def _text(value: Any, indent: int = 0) -> str:
    """JSON in which whatever fits on a line stands on one."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if indent + len(flat) <= _WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inner = "\n" + (indent + 1) * " "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_text(entry, indent + 1)}" for key, entry in value.items()]
        return f"{{{inner}{f',{inner}'.join(lines)}\n{indent * ' '}}}"
    return f"[{inner}{f',{inner}'.join(_text(entry, indent + 1) for entry in value)}\n{indent * ' '}]"


def read(path: Path) -> tuple[Certificate, bool]:
    """The certificate of a file, and whether it is as it was written; `UsageError` where it is none.

    Nothing may stand in it that is not looked at: an unknown field is an error, as is one that stands there twice.
    """
    content = _content(path, "certificate", SCHEMA)
    reader = _Reader(str(path))
    stated = reader.text(content, "sha256")
    del content["sha256"]
    certificate = reader.certificate(content)
    return certificate, stated == certificate.sha256()


def extended(text: str, unproved: Unproved) -> str:
    """The text of a certificate of ours for the exact model, with the one that took its place."""
    content = parse_json(text)
    del content["schema"], content["sha256"]
    return replace(_Reader("certificate").certificate(content), unproved=unproved).to_json()


def read_decisions(path: Path) -> Decisions:
    """The decisions of a file; `UsageError` where there are none, or a field is unknown or stands there twice."""
    content = _content(path, "record of decisions", DECISIONS_SCHEMA)
    return _Reader(str(path)).decisions(content)


def _content(path: Path, what: str, schema: str) -> dict[str, Any]:
    """What a file of this schema holds beside it."""
    try:
        text = read_text(path, most=MAXIMAL_BYTES)
        _require_readable(text)
        content = parse_json(text, object_pairs_hook=_once)
    except ValueError as error:
        raise UsageError(f"{path} is no {what}: {error}") from None
    if not isinstance(content, dict) or content.get("schema") != schema:
        raise UsageError(f"{path} is no {what} of this version: its schema is not {schema}")
    del content["schema"]
    return content


def _require_readable(text: str) -> None:
    """ValueError for more than anyone writes: counted in the text, as what is in memory cannot be refused any more."""
    values = sum(map(text.count, ",[{"))
    if values > MAXIMAL_VALUES:
        raise ValueError(f"it has {values} lists, objects and entries, and {MAXIMAL_VALUES} are the most that are read")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, or a ValueError where a name stands in it twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} stands in it twice")
    return entries


def _names_a_file(location: str) -> bool:
    """Whether weights can lie in a file of this name, seen from the model's folder."""
    try:
        path = location.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False
    longest = max(map(len, path.split(b"/")))
    return bool(path) and b"\0" not in path and longest <= _LONGEST_NAME and len(path) <= _LONGEST_PATH


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns what JSON holds into records; everything else is a `UsageError` that says where it stands."""

    at: str

    def certificate(self, entry: Mapping[str, Any]) -> Certificate:
        self.only(entry, Certificate)
        return Certificate(
            original=self.digest(entry, "original"),
            optimised=self.digest(entry, "optimised"),
            freeze_initializers=self.get(entry, "freeze_initializers", bool),
            metadata=self.texts(entry, "metadata"),
            rules=self.laws(entry),
            steps=tuple(r.step(e) for r, e in self.entries(entry, "steps")),
            weights=self.texts(entry, "weights"),
            unproved=self.unproved(entry) if "unproved" in entry else None,
        )

    def unproved(self, entry: Mapping[str, Any]) -> Unproved:
        told = self.get(entry, "unproved", dict)
        self.only(told, Unproved)
        return Unproved(self.text(told, "kind"), self.digest(told, "model"))

    def decisions(self, entry: Mapping[str, Any]) -> Decisions:
        self.only(entry, Decisions)
        return Decisions(
            original=self.digest(entry, "original"),
            freeze_initializers=self.get(entry, "freeze_initializers", bool),
            metadata=self.texts(entry, "metadata"),
            measured=self.get(entry, "measured", dict),
            rules=self.laws(entry),
            steps=tuple(r.step(e) for r, e in self.entries(entry, "steps")),
        )

    def digest(self, entry: Mapping[str, Any], name: str) -> Digest:
        digest = self.get(entry, name, dict)
        self.only(digest, Digest)
        external = self.texts(digest, "external")
        strange = next((file for file in external if not _names_a_file(file)), None)
        if strange is not None:
            raise UsageError(f"{self.at}: {name}.external names {strange[:_SHOWN]!a}, as no file can be called")
        return Digest(self.text(digest, "sha256"), external)

    def laws(self, entry: Mapping[str, Any]) -> tuple[Law, ...]:
        laws = tuple(r.law(e) for r, e in self.entries(entry, "rules"))
        whole = sum(len(law.text) for law in laws)
        if whole > MAXIMAL_LAW:
            raise UsageError(f"{self.at}: rules have {whole} characters, and {MAXIMAL_LAW} are the most that are read")
        return laws

    def law(self, entry: Mapping[str, Any]) -> Law:
        self.only(entry, Law)
        return Law(self.text(entry, "id"), self.text(entry, "name"), self.text(entry, "text"))

    def step(self, entry: Mapping[str, Any]) -> CertifiedStep:
        self.only(entry, CertifiedStep)
        looks = tuple(r.look(e) for r, e in self.entries(entry, "looks"))
        places = tuple(r.place(e) for r, e in self.entries(entry, "places"))
        return CertifiedStep(*self.use(entry), looks, places, self.texts(entry, "gives"))

    def look(self, entry: Mapping[str, Any]) -> Look:
        self.only(entry, Look)
        where, definitions = self.where(entry), self.texts(entry, "definitions")
        return Look(self.text(entry, "value"), *self.use(entry), where, definitions)

    def place(self, entry: Mapping[str, Any]) -> MatchPlace:
        self.only(entry, MatchPlace)
        outputs = self.get(entry, "outputs", list)
        self.demand(all(isinstance(o, str) for o in outputs), "outputs", "texts")
        return MatchPlace(tuple(outputs), self.texts(entry, "inside"), self.where(entry))

    def use(self, entry: Mapping[str, Any]) -> tuple[str, str, bool]:
        return self.text(entry, "rule"), self.text(entry, "id"), self.get(entry, "backwards", bool)

    def where(self, entry: Mapping[str, Any]) -> CertifiedSubstitution:
        where = self.get(entry, "substitution", dict)
        self.only(where, CertifiedSubstitution)
        names, blocks = self.get(where, "names", dict), self.get(where, "blocks", dict)
        return CertifiedSubstitution(self.texts(where, "tensors"), names, blocks)

    def entries(self, entry: Mapping[str, Any], name: str) -> list[tuple[_Reader, Mapping[str, Any]]]:
        found = self.get(entry, name, list)
        self.demand(all(isinstance(e, dict) for e in found), name, "objects")
        return [(_Reader(f"{self.at}: {name}[{k}]"), e) for k, e in enumerate(found)]

    def text(self, entry: Mapping[str, Any], name: str) -> str:
        return self.get(entry, name, str)

    def texts(self, entry: Mapping[str, Any], name: str) -> Mapping[str, str]:
        texts = self.get(entry, name, dict)
        self.demand(all(isinstance(t, str) for t in texts.values()), name, "texts")
        return texts

    def get(self, entry: Mapping[str, Any], name: str, kind: type[T]) -> T:
        value = entry.get(name)
        if not isinstance(value, kind):
            raise UsageError(f"{self.at}: {name} is missing or no {kind.__name__}; write the file again")
        return value

    def only(self, entry: Mapping[str, Any], record: type[Any]) -> None:
        """No fields but those of the record."""
        strange = set(entry) - {f.name for f in fields(record)}
        if strange:
            raise UsageError(f"{self.at}: {min(strange)} is no field of such a file; write the file again")

    def demand(self, holds: bool, name: str, what: str) -> None:
        if not holds:
            raise UsageError(f"{self.at}: {name} holds something else than {what}; write the file again")

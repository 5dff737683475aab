"""Findings about laws, one line of JSON each: a run that is interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import taso_py
from scripts.audit.mutation.judgement import covered
from taso_py.rules.sources import sources_digest

Row: TypeAlias = Literal["different", "mistyped", "refused", "equal", "none", "not judged"]

_PACKAGE = Path(taso_py.__file__).parent
_HERE = Path(__file__).parent


@dataclass(slots=True)
class Entry:
    """A law, what the oracle says of it and what the prover says of it (both empty until known)."""

    id: str
    law: str
    kind: str
    text: str
    oracle: dict[str, Any] = field(default_factory=dict)
    proof: dict[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        """What the law is: different, mistyped, refused, equal or none, as the oracle calls it."""
        return self.oracle["truth"] if self.oracle else "not judged"

    @property
    def column(self) -> str:
        """What the prover says: proved, bounded (for small sizes only), unknown, timeout, crash, error; or nothing."""
        verdict = str(self.proof.get("verdict", ""))
        return "bounded" if verdict == "proved" and self.proof.get("limit") is not None else verdict

    @property
    def proved(self) -> bool:
        """Whether there is a proof, of whatever reach."""
        return self.column in ("proved", "bounded")

    @property
    def alarm(self) -> str:
        """An instance of which the proof speaks and at which the values differ, in words; empty when there is none."""
        if not (self.proved and self.oracle):
            return ""
        return covered(self.oracle["differences"], self.proof) or str(self.proof.get("sited", ""))

    @property
    def mistyped(self) -> str:
        """The same of an instance at which the types differ."""
        return covered(self.oracle["types"], self.proof) if self.proved and self.oracle else ""


class Store:
    """Entries by id, read from a file and appended to it as they change; without a file, in memory only."""

    def __init__(self, path: Path | None, prover: str) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self.marks = {"oracle": fingerprint(_oracle_sources()), "proof": f"{prover} {sources_digest()[:12]}"}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        """One line; findings of an oracle or a prover that has changed since are left out."""
        try:
            raw = json.loads(line)
        except ValueError:
            return  # the line that was being written when the run ended
        entry = Entry(raw["id"], raw["law"], raw["kind"], raw["text"])
        for part in ("oracle", "proof"):
            if raw.get(part, {}).get("by") == self.marks[part]:
                setattr(entry, part, raw[part])
        self.entries[entry.id] = entry

    def entry(self, id_: str, law: str, kind: str, text: str) -> Entry:
        """The entry of that id, made when there is none."""
        return self.entries.setdefault(id_, Entry(id_, law, kind, text))

    def put(self, entry: Entry, part: Literal["oracle", "proof"], finding: Mapping[str, Any]) -> None:
        """Adds a finding and writes the entry."""
        setattr(entry, part, {**finding, "by": self.marks[part]})
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry)) + "\n")


def fingerprint(paths: Iterable[Path]) -> str:
    """A hash of files' contents."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


def _oracle_sources() -> list[Path]:
    names = ("sampling", "large", "deep", "oracle", "judgement", "runtime")
    return [*(_HERE / f"{n}.py" for n in names), _PACKAGE / "rules" / "menus.py", _PACKAGE / "rules" / "instances.py"]

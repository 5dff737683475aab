"""Which false laws were refused, and by which prover: with the same one a sample of them is enough.

    python -m tests.helpers.refused     # judges every law of the corpus and writes the record

A law that is proved for some of its instances is none of them: whether its claim includes a false instance depends on
more than the prover, and is asked every time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from rich.progress import track

from taso_py.prove.prover import prove, prove_all_sizes
from taso_py.prove.sites import SiteProofs
from taso_py.prove.verdict import Proved, Verdict
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import installed_z3
from taso_py.rules.rule import Rule
from taso_py.rules.sources import sources_digest
from tests.helpers.false_laws import FOLDER, FalseLaw, claim_includes, files, read_laws

Law = TypeVar("Law", FalseLaw, Rule)
RECORD = FOLDER / "refused.json"
REFUTED = rules_directory() / "refuted.rules"
SHARE = 8
"""Of the laws on record, one in so many is judged again."""


def at_sites(rule: Rule) -> tuple[Rule, Verdict]:
    """A law with proofs at its sites, and what the prover alone says: instances could only say more against the law."""
    rule = replace(rule, at_site=SiteProofs())
    return rule, prove_all_sizes(rule)


def judged_again(laws: Sequence[Law], record: Path = RECORD) -> list[Law]:
    """The laws without those that this prover refused when all were judged, but for a sample."""
    told = json.loads(record.read_text(encoding="utf-8"))
    if told["prover"] != _prover():
        return [*laws]
    claimed = frozenset(told["claimed"])
    return [law for number, law in enumerate(laws) if number % SHARE == 0 or law.name in claimed]


@lru_cache(maxsize=1)
def _prover() -> str:
    """Whatever a refusal depends on: the prover's sources, Z3, and the laws."""
    digest = hashlib.sha256(f"{sources_digest()}\0{installed_z3()}".encode())
    for path in (*files(), REFUTED):
        digest.update(path.read_text(encoding="utf-8").encode())
    return digest.hexdigest()


def _claimed() -> list[str]:
    """Names of the laws that are not refused outright; ValueError where a claim includes a false instance."""
    found = []
    for law in track([law for path in files() for law in read_laws(path) if not law.load_error]):
        rule, verdict = at_sites(law.rule)
        if claim_includes(rule, verdict, law.instance):
            raise ValueError(f"{law.file}:{law.line}: {law.name} is believed")
        if isinstance(verdict, Proved):
            found.append(law.name)
    return [*found, *(law.name for law in track(load_file(REFUTED)) if isinstance(prove(law), Proved))]


if __name__ == "__main__":
    record = {"prover": _prover(), "claimed": _claimed()}
    RECORD.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")

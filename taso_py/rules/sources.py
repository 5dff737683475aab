"""The trusted sources: what a proof rests on, and the digest that voids proofs when any of it changes.

Whole folders are trusted, with all that lies below them, so that a new file or folder counts from the day it is
written.  What is left out is named, each with its reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

_PACKAGE = Path(__file__).resolve().parents[1]
TRUSTED = ("graph", "ops", "prove", "rules")
"""Folders of the package: sizes and types, operators and their meaning, prover and verdict, rules and matching."""
_SUFFIXES = (".py", ".lark")
EXCLUDED: Mapping[str, str] = {
    "prove/batch.py": "hands rules to other processes and takes the verdicts of prove/verify.py back",
    "rules/taso": "reads TASO's file and writes laws, which are proved like any others",
    "rules/library.py": "says which files of rules are read",
    "rules/location.py": "says where they lie",
    "rules/promises.py": "reads which verdict a file promises, with which the judged one is compared",
    "rules/lock.py": "keeps verdicts and makes none; its schema says when they read differently",
}
"""Files and folders inside the trusted ones that no proof rests on, by their paths in the package, and why not."""


def trusted_files(package: Path = _PACKAGE) -> tuple[str, ...]:
    """The trusted files, by their paths in the package with ``/``, in order."""
    found = (path for folder in TRUSTED for path in (package / folder).rglob("*") if path.suffix in _SUFFIXES)
    names = {path.relative_to(package).as_posix() for path in found}
    return tuple(sorted(n for n in names if not {n, *map(str, PurePosixPath(n).parents)} & EXCLUDED.keys()))


@lru_cache(maxsize=4)
def sources_digest(package: Path = _PACKAGE) -> str:
    """The hash of the names and texts of the trusted files, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in trusted_files(package):
        # Text, not bytes: the ends of lines depend on how the sources were checked out.
        digest.update(f"{name}\0{(package / name).read_text(encoding='utf-8')}\0".encode())
    return digest.hexdigest()

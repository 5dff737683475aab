"""The JSON Schemas of everything that the program writes as JSON; they lie in the package."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from taso_py.errors import UsageError

FOLDER = Path(__file__).resolve().parents[1] / "schemas"


def schema_files() -> dict[str, Path]:
    """``superopt.result/1`` -> its file, in alphabetical order."""
    files = sorted(FOLDER.glob("*.json"))
    return {f"superopt.{file.stem.rpartition('-')[0]}/{file.stem.rpartition('-')[2]}": file for file in files}


def schema_text(name: str) -> str:
    """The schema of that name; ``result`` is the newest version of ``superopt.result``. UsageError for another."""
    known = schema_files()
    full = name if name.startswith("superopt.") else f"superopt.{name}"
    versions = [one for one in known if one == full or one.rpartition("/")[0] == full]
    if not versions:
        near = difflib.get_close_matches(full, known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else "superopt schema lists them"
        raise UsageError(f"there is no schema '{name}': {hint}")
    newest = max(versions, key=lambda one: int(one.rpartition("/")[2]))
    return known[newest].read_text(encoding="utf-8").rstrip()


def schemas_text() -> str:
    """One line for each: name, and what it describes."""
    files = schema_files()
    width = max(map(len, files), default=0)
    return "\n".join(f"{name:<{width}}  {_about(file)}" for name, file in files.items())


def _about(file: Path) -> str:
    """The first sentence of a description."""
    description: str = json.loads(file.read_text(encoding="utf-8"))["description"]
    return description.partition(". ")[0].rstrip(".")

"""What the Makefile, the scripts and the documents name is there: a renamed file leaves no dead name behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

NAMED = re.compile(r"(?<![\w/.<-])((?:tests|scripts|taso_py|docs)/[\w/.-]*\w/?)(?![\w<*{-])")
MODULES = re.compile(r"-m (scripts(?:\.\w+)+)")
NAMING = [
    "Makefile",
    "README.md",
    "CONTRIBUTING.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md"))),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "scripts").glob("*.sh"))),
]


def named(text: str) -> set[str]:
    modules = {name.replace(".", "/") for name in MODULES.findall(text)}
    return set(NAMED.findall(text)) | {name if (ROOT / name).is_dir() else f"{name}.py" for name in modules}


@pytest.mark.parametrize("file", NAMING)
def test_what_a_document_names_is_there(file: str) -> None:
    missing = {name for name in named((ROOT / file).read_text(encoding="utf-8")) if not (ROOT / Path(name)).exists()}
    assert missing == set()


def test_names_are_found() -> None:
    text = "see `docs/a.md`, tests/x/test_y.py; python -m scripts.bench.nothing <tests/z/> https://e.org/docs/b"
    assert named(text) == {"docs/a.md", "tests/x/test_y.py", "scripts/bench/nothing.py"}

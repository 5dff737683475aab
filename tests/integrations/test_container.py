"""The container file copies what a build needs from places that exist; building it takes a registry."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.helpers.packaging import SOURCES

TEXT = (ROOT / "scripts" / "container" / "Containerfile").read_text(encoding="utf-8")


def test_it_copies_what_the_wheel_is_built_from() -> None:
    copied = {name for line in re.findall(r"^COPY (.+)$", TEXT, re.MULTILINE) for name in line.split()[:-1]}
    assert {*SOURCES, "constraints.txt"} == copied
    assert all((ROOT / name).exists() for name in copied)

"""Examples taken from the documentation, so that what it shows is what is tested."""

from __future__ import annotations

import re
from pathlib import Path


def fenced(document: Path, language: str, holding: str) -> str:
    """The one block of this language in which ``holding`` stands."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if holding in block)
    return str(found)

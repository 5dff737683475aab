"""What a command says on stderr, without how far it is: on a busy machine it says that, too."""

from __future__ import annotations

import re

_PROGRESS = re.compile(r"superopt: \w+ \d+/\d+")


def said(stderr: str) -> str:
    """The lines that are no progress."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not _PROGRESS.match(line))

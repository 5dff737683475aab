"""Standard streams that may be closed, full, or unable to spell a character: what is said must not end a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def steady() -> None:
    """Open closed standard streams, so that no file of ours takes their numbers, and replace what cannot be spelled.

    Call it first of all.  A stdout that was closed stays None: what should go there is an error.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def say(line: str) -> None:
    """Print a line on stderr; where that is closed or full, the rest of the run says nothing."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr.fileno())


def discard(descriptor: int) -> None:
    """Let what a stream still holds, and all that follows, go nowhere instead of failing again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)

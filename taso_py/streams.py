"""Standard streams that may be closed, full, or unable to spell a character: what is said must not end a run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

PREFIX = "superopt: "
"""What every line of text on stderr begins with."""
LEVELS: Mapping[str, int] = MappingProxyType({"debug": 10, "info": 20, "warning": 30, "error": 40})
"""The numbers of `logging`, which this module does without: it is imported before anything else."""


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


@dataclass(slots=True)
class _Voice:
    """How lines on stderr look, and which are left out."""

    as_json: bool = False
    least: int = 0


_voice = _Voice()


def speak(*, as_json: bool, least: int = 0) -> None:
    """From now on lines on stderr are text or JSON objects, and those of a level below `least` are left out."""
    _voice.as_json, _voice.least = as_json, least


def least() -> int:
    """The level below which lines are left out; 0: none was asked for."""
    return _voice.least


def speaks_json() -> bool:
    """Whether lines on stderr are JSON objects."""
    return _voice.as_json


def say(text: str, *, level: int | None = None, logger: str = "taso_py.cli", **further: Any) -> None:
    """Print a line on stderr; where that is closed or full, the rest of the run says nothing.

    A text begins with ``superopt: ``, and behind it the level may stand; `further` goes into a JSON object alone.
    """
    found = level_of(text) if level is None else level
    if found < _voice.least:
        return
    try:
        with blocking(sys.stderr):
            print(formatted(text, level=found, logger=logger, **further), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr.fileno())


@contextmanager
def blocking(stream: TextIO) -> Iterator[None]:
    """Within the block a write waits for a slow reader, also where whoever made the pipe has it refused instead.

    Afterwards all is as before: others may share the pipe.
    """
    try:
        descriptor = stream.fileno()
        refused = not os.get_blocking(descriptor)
    except (OSError, ValueError):  # no file of the system's
        refused = False
    if not refused:
        yield
        return
    os.set_blocking(descriptor, True)
    try:
        yield
    finally:
        os.set_blocking(descriptor, False)


class Enduring:
    """A stream for a library to write to: closed, full, or a terminal that is gone, it takes the rest to nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, or nothing."""
        try:
            with blocking(self._stream):
                return self._stream.write(text)
        except OSError:
            discard(self._stream.fileno())
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or nothing."""
        try:
            with blocking(self._stream):
                self._stream.flush()
        except OSError:
            discard(self._stream.fileno())


def formatted(text: str, *, level: int, logger: str, created: float | None = None, **further: Any) -> str:
    """A line as stderr has it: the text, or one JSON object of time (UTC), level, logger, message and `further`."""
    if not _voice.as_json:
        return printable(text)
    from datetime import UTC, datetime  # for records only: every command would wait for it

    moment = datetime.fromtimestamp(time.time() if created is None else created, UTC)
    message = text.removeprefix(PREFIX)
    name = _name_of(level)
    entry = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": name,
        "logger": logger,
        "message": message.removeprefix(f"{name}: "),
    }
    return json.dumps(_without_halves(entry | further))


def strict_json(text: str) -> str:
    """JSON without halves of characters, which strict readers refuse: bytes of names are spelled, as in ``\\xff``."""
    if "\\udc" not in text:
        return text
    return json.dumps(_without_halves(json.loads(text)), indent=2)


def _without_halves(value: Any) -> Any:
    """The same, the bytes that Python keeps of names that are not UTF-8 spelled."""
    if isinstance(value, str):
        try:
            return value.encode(errors="surrogateescape").decode(errors="backslashreplace")
        except UnicodeEncodeError:  # half of a character that is no byte of a name
            return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return [_without_halves(item) for item in value] if isinstance(value, list | tuple) else value


def printable(text: str) -> str:
    """The text without what would steer a terminal: it may quote somebody's file."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def level_of(text: str) -> int:
    """The level that a line states itself, else that of information."""
    stated = text.removeprefix(PREFIX).partition(": ")[0]
    return LEVELS.get(stated, LEVELS["info"])


def _name_of(level: int) -> str:
    return max((name for name in LEVELS if level >= LEVELS[name]), key=LEVELS.__getitem__, default="debug")


def discard(descriptor: int) -> None:
    """Let what a stream still holds, and all that follows, go nowhere instead of failing again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)

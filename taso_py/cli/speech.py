"""What is said on stderr, and how: text or JSON objects, from which level on."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taso_py import streams
from taso_py.options import GeneralOptions
from taso_py.options.field import declared
from taso_py.streams import LEVELS, say

if TYPE_CHECKING:
    from taso_py.progress import Progress

_VERBOSITY = {LEVELS["debug"]: 2, LEVELS["info"]: 0, LEVELS["warning"]: -1, LEVELS["error"]: -2}
"""What a least level means for progress: its lines are those of -vv, of no option, of -q, and none."""
_SHOWN = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG + 1, 2: logging.DEBUG}
"""From which level on records of progress are shown, by verbosity."""
_FORMAT = next(one.flag for one in declared(GeneralOptions) if one.name == "log_format")


class LogLines(logging.Handler):
    """What the library logs, as one line each on whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        text = " ".join(record.getMessage().split())
        plain = record.levelname.lower() if record.levelno >= logging.WARNING else ""
        told = {name: getattr(record, name) for name in ("phase", "figures") if hasattr(record, name)}
        line = f"{streams.PREFIX}{plain}{': ' if plain else ''}{text}"
        say(line, level=record.levelno, logger=record.name, created=record.created, **told)


def begin(arguments: Sequence[str]) -> None:
    """Speak as the arguments or the environment ask, before anything is read that could fail."""
    logger = logging.getLogger("taso_py")
    if not any(isinstance(handler, LogLines) for handler in logger.handlers):
        logger.addHandler(LogLines())
    settle(GeneralOptions(log_format="json" if _asks_for_json(arguments) else "text"))


def settle(general: GeneralOptions) -> None:
    """Speak as all settings together ask."""
    least = LEVELS[general.log_level] if general.log_level else 0
    streams.speak(as_json=general.log_format == "json", least=least)
    logging.getLogger("taso_py").setLevel(least or logging.WARNING)


def verbosity_of(said: int) -> int:
    """The verbosity that -q and -v say, or what a least level means instead, if one was asked for."""
    return _VERBOSITY.get(streams.least(), said)


def logged_progress(verbosity: int) -> Progress:
    """Progress as records, of which as many are shown as the verbosity says."""
    from taso_py.report.logged import PROGRESS, LoggedProgress

    logging.getLogger(PROGRESS).setLevel(_SHOWN[min(verbosity, 2)])
    return LoggedProgress()


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether the command line or else the environment names JSON; what cannot be read yet counts as text."""
    flag, asked = _FORMAT.name, os.environ.get(_FORMAT.environment or "")
    for place, text in enumerate(arguments):
        if text == "--":
            break
        if text == flag:
            asked = next(iter(arguments[place + 1 :]), None)
        elif text.startswith(f"{flag}="):
            asked = text.removeprefix(f"{flag}=")
    return asked == "json"

"""What lies at a path, whatever the operating system says to the question.

`Path.is_file` and its like raise OSError for a name that is too long and for a folder that may not be looked into, and
their answers hang on the version of Python; those of `os.path` are never an error.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def exists(path: Path) -> bool:
    """Whether anything is known to be there, links followed."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib raises


def is_file(path: Path) -> bool:
    """Whether a regular file is known to be there, links followed."""
    return os.path.isfile(path)  # noqa: PTH113 - pathlib raises


def is_folder(path: Path) -> bool:
    """Whether a directory is known to be there, links followed."""
    return os.path.isdir(path)  # noqa: PTH112 - pathlib raises


def why_no_file(path: Path) -> str | None:
    """Why no regular file is there, links followed, as the end of a sentence; None where one is."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return reason_of(error)
    except ValueError:
        return "it holds a NUL, which no name of a file does"
    if stat.S_ISDIR(mode):
        return "it is a directory"
    return None if stat.S_ISREG(mode) else "it is not a regular file"


def reason_of(error: OSError) -> str:
    """What the operating system says, as the end of a sentence."""
    text = error.strerror or type(error).__name__
    return f"{text[:1].lower()}{text[1:]}"


def real(path: Path) -> Path:
    """The absolute path without links; what cannot be followed stays as it is written."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # ValueError: it holds a NUL
        return path.absolute()


def is_text(path: str | Path) -> bool:
    """Whether a name is UTF-8: Linux has others, of which Python keeps the bytes as halves of characters."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def name_in_json(path: str | Path) -> str:
    """The name as JSON can hold it: itself, or, where it is not UTF-8, the file: URI of the absolute path (RFC 8089).

    Each %XX of that is a byte.  No path looks like one: pathlib makes one slash of three.
    """
    return str(path) if is_text(path) else Path(path).absolute().as_uri()

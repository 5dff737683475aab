"""Temporary folders that never outlive their run for long, however it ends.

Each holds a lock file, locked for as long as its process lives.  Whoever makes another one beside it first removes
those that are marked, of the same user, over a minute old, and locked by nobody: those of runs that were killed.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from taso_py.errors import OutputError

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
"""None where files cannot be locked: there nobody cleans up after others."""
LOCK = ".superopt-lock"
"""The mark of a folder of ours, and its lock."""
_AGE_S = 60.0
"""Younger ones may be about to be locked."""
PATIENCE_S, _MOMENT_S = 5.0, 0.02
"""How long a folder that another process has locked is waited for, and how often it is tried."""


class RunFolder:
    """A folder of this process; a context manager; gone at the end of the block, or with the object.

    ``path`` is empty at first; the lock file lies beside it.  Raises OSError where no folder can be made.
    """

    def __init__(self, parent: Path | None = None, *, prefix: str = "superopt-", suffix: str = "") -> None:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        remove_abandoned(place, f"{prefix[:1]}*{suffix}" if suffix else f"{prefix}*")
        self._folder = Path(tempfile.mkdtemp(suffix=suffix, prefix=prefix, dir=place))
        self._end = weakref.finalize(self, _remove, self._folder, _locked(self._folder / LOCK))
        self.path = self._folder / "files"
        self.path.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder with all that lies in it; closing twice is allowed."""
        self._end()


def temporary_folder() -> RunFolder:
    """A folder of this process among the temporary files; OutputError where none can be made."""
    try:
        return RunFolder()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OutputError(f"cannot make a folder for temporary files: {reason}; name a place in TMPDIR") from error


def remove_abandoned(place: Path, pattern: str) -> None:
    """Remove the folders of killed runs whose names match the pattern; what cannot be removed stays."""
    with suppress(OSError):
        for folder in [entry for entry in place.glob(pattern) if _is_ours(entry)]:
            _remove_if_abandoned(folder)


def _is_ours(folder: Path) -> bool:
    """Whether this is a marked folder of this user, and no link to one."""
    try:
        about, mark = folder.lstat(), (folder / LOCK).lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and stat.S_ISREG(mark.st_mode) and about.st_uid == mark.st_uid == os.geteuid()


def _remove_if_abandoned(folder: Path) -> None:
    if sys.platform == "win32" or time.time() - (folder / LOCK).lstat().st_mtime < _AGE_S:
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(BlockingIOError):  # somebody lives in it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _locked(path: Path) -> int:
    """The descriptor of a new lock file, which stays locked until it is closed; no child inherits it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def locked_file(path: Path) -> int:
    """The descriptor of a lock file, made if need be, which stays locked until it is closed or the process ends.

    BlockingIOError where another has it; nobody is kept out where files cannot be locked.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise
    except OSError:  # a system of files that has no locks
        return lock
    return lock


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        os.close(lock)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time is within this for the same folder; all may be where files cannot be locked.

    Whoever keeps the folder locked for longer than any of us would is no process of ours: nobody waits for it.
    """
    if fcntl is None:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a system of files that has no locks
            _lock_soon(place)
        yield
    finally:
        os.close(place)


def _lock_soon(descriptor: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return
            time.sleep(_MOMENT_S)
        else:
            return

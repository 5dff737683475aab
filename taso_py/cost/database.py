"""The file of a cache: one SQLite database that several processes may use at once.

A damaged one is moved aside.  A file that is not recognisably a cache of ours is left as it is.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from functools import partial
from pathlib import Path

from taso_py.folders import alone
from taso_py.paths import exists, is_file

logger = logging.getLogger(__name__)

SCHEMA = 2
APPLICATION_ID = 0x7461736F
"""In the header of our files: "taso", as SQLite's application_id."""
_HEADER, _HEADER_BYTES, _ID_BYTES = b"SQLite format 3\0", 100, slice(68, 72)
"""https://www.sqlite.org/fileformat.html#the_database_header"""
_NOT_OURS = "it is not a cache of superopt, and is left as it is"
_NO_TEXT = "it holds texts that are none"
BUSY_S = 30.0
"""How long a file that another process has locked is waited for, where nothing hurries."""
MOMENT_S, _STEP_S = 0.5, 0.05
_TABLE = """CREATE TABLE regions (
    key TEXT PRIMARY KEY, before REAL NOT NULL, after REAL NOT NULL, noise REAL NOT NULL, samples INTEGER NOT NULL,
    created REAL NOT NULL, ort_version TEXT NOT NULL) WITHOUT ROWID"""
_COLUMNS = "SELECT key, before, after, noise, samples, ort_version, created FROM regions LIMIT 0"


def connect(path: Path | None, patience_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection with the table in place; transactions are ours (isolation_level None)."""
    name = ":memory:" if path is None else str(path)
    connection = sqlite3.connect(name, timeout=patience_s, isolation_level=None)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # the key of no region, then
    try:
        version = _version(connection)
        # A table of this version is not written to: several processes may start at once, and one may only read.
        if version < SCHEMA:
            connection.execute("BEGIN IMMEDIATE")
            version = _version(connection)  # another process may have been faster
            if 0 < version < SCHEMA:  # an older version's times are of no use to this one
                connection.execute("SELECT seconds, noise, ort_version FROM regions LIMIT 0")  # fails if not ours
                connection.execute("DROP TABLE regions")
            if version < SCHEMA:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        elif version > SCHEMA:
            raise sqlite3.OperationalError(f"written by a newer version of superopt (schema {version})")
        connection.execute(_COLUMNS)  # fails where the table is another
    except BaseException as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):  # in what sqlite3 says of damage
            raise sqlite3.OperationalError(_NO_TEXT) from None
        raise
    return connection


def require_ours(path: Path) -> None:
    """Raise OSError unless a file is new, empty, marked as ours, or a cache from before there was a mark."""
    if not exists(path) or is_marked(path):
        return
    if not is_file(path):
        raise OSError(_NOT_OURS)
    if path.stat().st_size == 0:
        return
    try:
        with contextlib.closing(reading(path, MOMENT_S)) as connection:
            connection.execute("SELECT key, noise, ort_version FROM regions LIMIT 0")
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'").fetchone()
            if tables == 1 and _version(connection) > 0:
                return
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise OSError(_NOT_OURS) from error
    raise OSError(_NOT_OURS)


def reading(path: Path, patience_s: float) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=patience_s)


def is_marked(path: Path) -> bool:
    """Whether the header says that a file is ours, whatever lies behind it."""
    try:
        if not is_file(path):  # to open a FIFO would wait for ever
            return False
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return header.startswith(_HEADER) and header[_ID_BYTES] == APPLICATION_ID.to_bytes(4, "big")


def is_replaceable(path: Path) -> bool:
    """Whether a damaged file is ours, or another process has just put it aside and is about to begin anew."""
    return is_marked(path) or not exists(path) or (is_file(path) and path.stat().st_size == 0)


def _version(connection: sqlite3.Connection) -> int:
    """The schema of a file; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def copy_soon(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy what a database holds; TimeoutError where somebody keeps it locked: `backup` by itself waits for ever."""
    end = time.monotonic() + MOMENT_S

    def waiting(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
            raise TimeoutError

    source.execute("PRAGMA busy_timeout = 0")  # SQLite's own patience, for which no signal is heard
    source.backup(target, progress=waiting, sleep=_STEP_S)


def move_aside(path: Path, patience_s: float) -> None:
    """Rename a damaged file, unless another process has put a sound one in its place meanwhile.

    OSError or `sqlite3.Error` where that cannot be done, or somebody keeps the file locked for longer.
    """
    with alone(path.parent):
        try:
            connect(path, patience_s).close()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        else:
            if _is_sound(path, patience_s):
                return
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        # Before the file: a journal that is there afterwards is that of another process's new file.
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        try:
            path.replace(aside)
        except FileNotFoundError:  # another process was quicker
            return
    logger.warning("cache %s was damaged: moved to %s, a new one is started", path, aside.name)


def _is_sound(path: Path, patience_s: float) -> bool:
    connection = sqlite3.connect(str(path), timeout=patience_s)
    try:
        return bool(connection.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()

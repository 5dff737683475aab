"""Measured region times on disk, shared by all runs of a user: key -> `Measurement`, in one SQLite file.

Several processes may use it at once. A damaged file is moved aside and a place that cannot be written is
replaced by memory, each with one warning: a cache never stops an optimisation. A file that is not recognisably a cache
of ours is left as it is, and memory takes its place too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from taso_py.cost.measurement import Measurement
from taso_py.errors import OutputError, UsageError
from taso_py.files import parse_json, write_text
from taso_py.folders import alone

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
_MOMENT_S = 0.5
_CHUNK = 500  # SQLite's oldest limit on the variables of one statement is 999
_UNUSABLE = "cache %s cannot be used (%s): this run's measurements are not kept"
_TABLE = """CREATE TABLE regions (
    key TEXT PRIMARY KEY, before REAL NOT NULL, after REAL NOT NULL, noise REAL NOT NULL, samples INTEGER NOT NULL,
    created REAL NOT NULL, ort_version TEXT NOT NULL) WITHOUT ROWID"""
_SELECT = "SELECT key, before, after, noise, samples, ort_version, created FROM regions "
_INSERT = """INSERT OR REPLACE INTO regions (key, before, after, noise, samples, ort_version, created)
    VALUES (?,?,?,?,?,?,?)"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What ``superopt cache show`` prints; ``path`` None means memory."""

    path: Path | None
    entries: int
    size_bytes: int
    oldest: float | None
    newest: float | None
    ort_versions: Mapping[str, int]


def cache_path() -> Path:
    """``$SUPEROPT_CACHE``, else ``$XDG_CACHE_HOME/superopt/regions.sqlite``, else the same below ~/.cache."""
    chosen = os.environ.get("SUPEROPT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification: relative paths are ignored
        base = Path("~/.cache").expanduser()
    return base / "superopt" / "regions.sqlite"


def proofs_path() -> Path | None:
    """Where proofs at sites are remembered: beside the times of regions.

    None where nothing can be, or something else lies there, or somebody keeps it locked: each question would wait.
    """
    try:
        path = cache_path().with_name("proofs.sqlite")
        if not path.exists():
            return path
        if not path.is_file():
            return None
        with contextlib.closing(_reading(path, _MOMENT_S)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (OSError, RuntimeError, sqlite3.Error, UnicodeDecodeError):  # RuntimeError: no home directory
        return None
    return path if tables <= {"sites"} else None


class Cache:
    """The cache at ``path`` (default: `cache_path`); a context manager. Use one per process and thread.

    A file that is not there is made, unless it is only to be looked at (``create`` false).  One that another process
    keeps locked for longer than ``patience_s`` is done without.
    """

    def __init__(self, path: Path | None = None, *, create: bool = True, patience_s: float = BUSY_S) -> None:
        self.path: Path | None = None
        self._patience_s = patience_s
        self._connection: sqlite3.Connection
        self._open(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, Measurement]:
        """The measurements known among ``keys``."""
        wanted = list(dict.fromkeys(keys))
        return self._guarded(lambda: self._select(wanted))

    def put_many(self, measurements: Mapping[str, Measurement]) -> None:
        """Store measurements, replacing those with the same key, in one transaction."""
        rows = [(key, *astuple(one)) for key, one in measurements.items()]
        self._guarded(lambda: self._insert(rows))

    def show(self) -> CacheStats:
        """Number of entries, size on disk, age and ONNX Runtime versions."""
        return self._guarded(self._stats)

    def clear(self) -> int:
        """Forget everything; the number of entries forgotten."""
        return self._guarded(self._delete)

    def export(self, path: Path) -> int:
        """Write all entries as JSON lines, sorted by key; the number written. Raises OutputError."""
        if path.exists() and not _is_export(path):
            raise OutputError(f"{path} exists, and is no earlier export: choose another file")
        rows = self._guarded(self._all)
        lines = (json.dumps({"key": key, **asdict(one)}) + "\n" for key, one in rows)
        write_text(path, "".join(lines), force=True)
        return len(rows)

    def import_(self, path: Path) -> int:
        """Add the entries of an exported file, none if a line is not one (UsageError); the number read."""
        found = {}
        if path.exists() and not path.is_file():  # to open a FIFO would wait for ever, and a device has no end
            raise UsageError(f"{path} is not a regular file: give a file written by `superopt cache export`")
        try:
            with path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    key, one = _parse(line, f"{path}:{number}")
                    found[key] = one
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UsageError(f"{path}: {reason}: give a file written by `superopt cache export`") from error
        self.put_many(found)
        return len(found)

    def _open(self, path: Path | None, *, create: bool = True) -> None:
        """Connect to the file; move a damaged one aside and try once more; else fall back to memory."""
        target: Path | None = None
        try:
            target = path or cache_path()
            if not create and not target.exists():
                self.path, self._connection = target, _connect(None)
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            _require_ours(target)
            try:
                self._connection = _connect(target, self._patience_s)
            except sqlite3.DatabaseError as error:
                if not (_is_damage(error) and _is_replaceable(target)):
                    raise
                _move_aside(target)
                self._connection = _connect(target, self._patience_s)
            self.path = target
        except (OSError, RuntimeError, sqlite3.Error) as error:  # RuntimeError: no home directory
            self._connection = _connect(None)
            logger.warning(_UNUSABLE, target or "in the home directory", error)

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do the work; when the file is damaged or cannot be written, again on a new file or in memory."""
        try:
            return work()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if self.path is None:
                raise
            path, old = self.path, self._connection
            if _is_damage(error) and _is_replaceable(path):
                old.close()
                _move_aside(path)
                self._open(path)
            else:
                self.path, self._connection = None, _connect(None)
                with contextlib.closing(old), contextlib.suppress(sqlite3.Error):
                    old.backup(self._connection)  # what was readable stays known
                logger.warning(_UNUSABLE, path, error)
            return self._retried(work)

    def _retried(self, work: Callable[[], T]) -> T:
        """Do the work once more; where that fails too, what was rescued is of no use."""
        try:
            return work()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._connection.close()
            logger.warning(_UNUSABLE, self.path or "in memory", error)
            self.path, self._connection = None, _connect(None)
            return work()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Take the write lock at once: a transaction upgraded later fails instead of waiting for its turn."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _select(self, keys: list[str]) -> dict[str, Measurement]:
        found: dict[str, Measurement] = {}
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            found.update(_entries(self._connection.execute(f"{_SELECT} WHERE key IN ({marks})", part)))
        return found

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        with self._transaction() as connection:
            connection.executemany(_INSERT, rows)

    def _all(self) -> list[tuple[str, Measurement]]:
        return list(_entries(self._connection.execute(f"{_SELECT} ORDER BY key")))

    def _delete(self) -> int:
        with self._transaction() as connection:
            return connection.execute("DELETE FROM regions").rowcount

    def _stats(self) -> CacheStats:
        count, oldest, newest = self._connection.execute(
            "SELECT COUNT(*), MIN(created), MAX(created) FROM regions WHERE typeof(created) = 'real'"
        ).fetchone()
        versions = self._connection.execute("SELECT ort_version, COUNT(*) FROM regions GROUP BY 1 ORDER BY 1")
        size = self.path.stat().st_size if self.path is not None and self.path.exists() else 0
        return CacheStats(self.path, count, size, oldest, newest, {str(name): many for name, many in versions})


def _connect(path: Path | None, patience_s: float = BUSY_S) -> sqlite3.Connection:
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
        connection.execute(f"{_SELECT} LIMIT 0")  # fails where the table is another
    except BaseException as error:
        connection.close()
        if isinstance(error, UnicodeDecodeError):  # in what sqlite3 says of damage
            raise sqlite3.OperationalError(_NO_TEXT) from None
        raise
    return connection


def _require_ours(path: Path) -> None:
    """Raise OSError unless a file is new, empty, marked as ours, or a cache from before there was a mark."""
    if not path.exists() or _is_marked(path):
        return
    if not path.is_file():
        raise OSError(_NOT_OURS)
    if path.stat().st_size == 0:
        return
    try:
        with contextlib.closing(_reading(path, _MOMENT_S)) as connection:
            connection.execute("SELECT key, noise, ort_version FROM regions LIMIT 0")
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'").fetchone()
            if tables == 1 and _version(connection) > 0:
                return
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise OSError(_NOT_OURS) from error
    raise OSError(_NOT_OURS)


def _reading(path: Path, patience_s: float) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=patience_s)


def _is_marked(path: Path) -> bool:
    """Whether the header says that a file is ours, whatever lies behind it."""
    try:
        if not path.is_file():  # to open a FIFO would wait for ever
            return False
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return header.startswith(_HEADER) and header[_ID_BYTES] == APPLICATION_ID.to_bytes(4, "big")


def _is_replaceable(path: Path) -> bool:
    """Whether a damaged file is ours, or another process has just put it aside and is about to begin anew."""
    return _is_marked(path) or not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _version(connection: sqlite3.Connection) -> int:
    """The schema of a file; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _move_aside(path: Path) -> None:
    """Rename a damaged file, unless another process has put a sound one in its place meanwhile."""
    with alone(path.parent):
        try:
            _connect(path).close()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
        else:
            if _is_sound(path):
                return
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        # Before the file: a journal that is there afterwards is that of another process's new file.
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        try:
            path.replace(aside)
        except FileNotFoundError:  # another process was quicker
            return
    logger.warning("cache %s was damaged: moved to %s, a new one is started", path, aside.name)


def _is_sound(path: Path) -> bool:
    connection = sqlite3.connect(str(path), timeout=BUSY_S)
    try:
        return bool(connection.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def _entries(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, Measurement]]:
    """The rows that hold what was put there: a damaged file can hold anything in any column."""
    for key, before, after, noise, samples, ort_version, created in rows:
        times = (before, after, noise, created)
        if all(isinstance(time, float) and math.isfinite(time) for time in times) and isinstance(samples, int):
            yield key, Measurement(before, after, noise, samples, str(ort_version), created)


def _is_export(path: Path) -> bool:
    """Whether a file is empty, or begins as our exports do."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            line = file.readline(4096)
        if line:
            _parse(line.decode(), str(path))
    except (OSError, UnicodeDecodeError, UsageError):
        return False
    return True


def _parse(line: str, place: str) -> tuple[str, Measurement]:
    try:
        fields = parse_json(line)
        before, after, noise, created = (float(fields[name]) for name in ("before", "after", "noise", "created"))
        samples, key, version = int(fields["samples"]), str(fields["key"]), str(fields["ort_version"])
        f"{key}{version}".encode()  # a text that is none cannot be stored
        if not all(map(math.isfinite, (before, after, noise, created))) or not 0 <= samples < 2**63:
            raise ValueError("a number that no measurement has")
        return key, Measurement(before, after, noise, samples, version, created)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{place}: not a cache entry: give a file of `superopt cache export`") from error

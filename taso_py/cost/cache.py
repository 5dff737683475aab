"""What was measured and found, on disk and shared by all runs of a user, in one SQLite file.

Times of regions, each a `Measurement` under its key, and what whole searches found, each a text under its key.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from taso_py.cost.database import (
    BUSY_S,
    MOMENT_S,
    connect,
    copy_soon,
    is_damage,
    is_replaceable,
    move_aside,
    reading,
    require_ours,
)
from taso_py.cost.measurement import Measurement
from taso_py.errors import OutputError, UsageError
from taso_py.files import parse_json, read_text, write_text
from taso_py.paths import exists, is_file

logger = logging.getLogger(__name__)

_CHUNK = 500  # SQLite's oldest limit on the variables of one statement is 999
_LONGEST_EXPORT = 2**28
"""Bytes: a million entries."""
_LAST_S = 253_402_300_800.0
"""When the year 9999 ends, and with it what a date can be."""
_GIVE_AN_EXPORT = "give a file of `superopt cache export`"
_UNUSABLE = "cache %s cannot be used (%s): this run's measurements are not kept"
_SELECT = "SELECT key, before, after, noise, samples, ort_version, created FROM regions "
_INSERT = """INSERT OR REPLACE INTO regions (key, before, after, noise, samples, ort_version, created)
    VALUES (?,?,?,?,?,?,?)"""
_SEARCHES = "CREATE TABLE IF NOT EXISTS searches (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID"
"""Made when it is first written to: files of earlier versions have none, and they read those that do."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What ``superopt cache show`` prints; ``path`` None means memory."""

    path: Path | None
    entries: int
    size_bytes: int
    oldest: float | None
    newest: float | None
    ort_versions: Mapping[str, int]
    searches: int


def cache_path() -> Path:
    """``$SUPEROPT_CACHE``, else ``$XDG_CACHE_HOME/superopt/regions.sqlite``, else the same below ~/.cache."""
    chosen = os.environ.get("SUPEROPT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the XDG specification: relative paths are ignored
        base = Path("~/.cache").expanduser()
    return base / "superopt" / "regions.sqlite"


def proofs_path(cache: Path | None) -> Path | None:
    """Where proofs at sites are remembered: beside the times of regions, which are in ``cache`` or `cache_path`.

    None where nothing can be, or something else lies there, or somebody keeps it locked: each question would wait.
    """
    try:
        path = (cache.expanduser() if cache else cache_path()).with_name("proofs.sqlite")
        if not exists(path):
            return path
        if not is_file(path):
            return None
        with contextlib.closing(reading(path, MOMENT_S)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (OSError, RuntimeError, ValueError, sqlite3.Error):  # RuntimeError: no home directory; ValueError: no text
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

    def search(self, key: str) -> str | None:
        """What is remembered of a search; None where nothing is."""
        return self._guarded(lambda: self._search(key))

    def remember_search(self, key: str, text: str | None) -> None:
        """Store what a search found, in place of what was there; None forgets it."""
        self._guarded(lambda: self._put_search(key, text))

    def show(self) -> CacheStats:
        """Number of entries and of searches, size on disk, age and ONNX Runtime versions of the entries."""
        return self._guarded(self._stats)

    def clear(self) -> int:
        """Forget everything; the number of entries and searches forgotten. OutputError where the file keeps them."""
        forgotten = self._guarded(self._delete)
        self._require_kept()
        return forgotten

    def export(self, path: Path) -> int:
        """Write all entries as JSON lines, sorted by key; the number written. Raises OutputError."""
        if exists(path) and not _is_export(path):
            raise OutputError(f"{path} exists, and is no earlier export: choose another file")
        rows = self._guarded(self._all)
        if not rows and exists(path) and path.stat().st_size:
            raise OutputError(f"{path} is left as it is: there is no measurement in {self.path or 'the cache'}")
        lines = (json.dumps({"key": key, **asdict(one)}) + "\n" for key, one in rows)
        write_text(path, "".join(lines), force=True)
        return len(rows)

    def import_(self, path: Path) -> int:
        """Add the entries of an exported file, none if a line is not one (UsageError); the number read.

        OutputError where they are not kept.
        """
        try:
            text = read_text(path, most=_LONGEST_EXPORT)
        except ValueError:
            raise UsageError(f"{path} is not UTF-8 text: {_GIVE_AN_EXPORT}") from None
        except UsageError as error:
            raise UsageError(f"{error}; {_GIVE_AN_EXPORT}") from None
        found = dict(_parse(line, f"{path}:{number}") for number, line in enumerate(text.splitlines(), 1))
        self.put_many(found)
        self._require_kept()
        return len(found)

    def _require_kept(self) -> None:
        """OutputError where what was asked for became of a copy in memory alone: it was said why."""
        if self.path is None:
            raise OutputError("the cache cannot be written, and is as it was: name another one")

    def _open(self, path: Path | None, *, create: bool = True) -> None:
        """Connect to the file; move a damaged one aside and try once more; else fall back to memory."""
        target: Path | None = None
        try:
            target = path.expanduser() if path else cache_path()
            if not create and not exists(target):
                self.path, self._connection = target, connect(None)
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            require_ours(target)
            try:
                self._connection = connect(target, self._patience_s)
            except sqlite3.DatabaseError as error:
                if not (is_damage(error) and is_replaceable(target)):
                    raise
                move_aside(target, self._patience_s)
                self._connection = connect(target, self._patience_s)
            self.path = target
        except (OSError, RuntimeError, sqlite3.Error) as error:  # RuntimeError: no home directory
            self._connection = connect(None)
            logger.warning(_UNUSABLE, target or "in the home directory", error)

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do the work; when the file is damaged or cannot be written, again on a new file or in memory."""
        try:
            return work()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if self.path is None:
                raise
            self._abandon(self.path, error)
            return self._retried(work)

    def _abandon(self, path: Path, error: sqlite3.Error | UnicodeDecodeError) -> None:
        """Go on with a new file in the place of a damaged one, else in memory with what can still be read."""
        reason: Exception = error
        if is_damage(error) and is_replaceable(path):
            self._connection.close()
            try:
                move_aside(path, self._patience_s)
            except (OSError, sqlite3.Error) as refused:  # in a folder that may not be written
                reason = refused
            else:
                self._open(path)
                return
        old, self._connection, self.path = self._connection, connect(None), None
        with contextlib.closing(old), contextlib.suppress(sqlite3.Error, TimeoutError):
            copy_soon(old, self._connection)
        logger.warning(_UNUSABLE, path, reason)

    def _retried(self, work: Callable[[], T]) -> T:
        """Do the work once more; where that fails too, what was rescued is of no use."""
        try:
            return work()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._connection.close()
            logger.warning(_UNUSABLE, self.path or "in memory", error)
            self.path, self._connection = None, connect(None)
            return work()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Take the write lock at once: a transaction upgraded later fails instead of waiting for its turn."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")  # which may fail as well, as long as somebody reads
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

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

    def _search(self, key: str) -> str | None:
        if not self._has_searches():
            return None
        row = self._connection.execute("SELECT text FROM searches WHERE key = ?", [key]).fetchone()
        return row[0] if row is not None and isinstance(row[0], str) else None

    def _put_search(self, key: str, text: str | None) -> None:
        with self._transaction() as connection:
            connection.execute(_SEARCHES)
            if text is None:
                connection.execute("DELETE FROM searches WHERE key = ?", [key])
            else:
                connection.execute("INSERT OR REPLACE INTO searches VALUES (?, ?)", [key, text])

    def _has_searches(self) -> bool:
        return bool(self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'searches'").fetchone())

    def _all(self) -> list[tuple[str, Measurement]]:
        return list(_entries(self._connection.execute(f"{_SELECT} ORDER BY key")))

    def _delete(self) -> int:
        with self._transaction() as connection:
            searches = connection.execute("DELETE FROM searches").rowcount if self._has_searches() else 0
            return searches + connection.execute("DELETE FROM regions").rowcount

    def _stats(self) -> CacheStats:
        count, oldest, newest = self._connection.execute(
            "SELECT COUNT(*), MIN(created), MAX(created) FROM regions "
            "WHERE typeof(created) = 'real' AND created >= 0 AND created < ?",
            [_LAST_S],
        ).fetchone()
        versions = self._connection.execute("SELECT ort_version, COUNT(*) FROM regions GROUP BY 1 ORDER BY 1")
        size = self.path.stat().st_size if self.path is not None and exists(self.path) else 0
        searches = (
            self._connection.execute("SELECT COUNT(*) FROM searches").fetchone()[0] if self._has_searches() else 0
        )
        return CacheStats(
            path=self.path,
            entries=count,
            size_bytes=size,
            oldest=oldest,
            newest=newest,
            ort_versions={str(name): many for name, many in versions},
            searches=searches,
        )


def _entries(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, Measurement]]:
    """The rows that hold what was put there: a damaged file can hold anything in any column."""
    for key, before, after, noise, samples, ort_version, created in rows:
        times = (before, after, noise, created)
        if all(isinstance(time, float) and math.isfinite(time) for time in times) and isinstance(samples, int):
            yield key, Measurement(before, after, noise, samples, str(ort_version), created)


def _is_export(path: Path) -> bool:
    """Whether a file is empty, or begins as our exports do."""
    if not is_file(path):
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
        finite = all(map(math.isfinite, (before, after, noise)))
        if not finite or not 0 <= created < _LAST_S or not 0 <= samples < 2**63:
            raise ValueError("a number that no measurement has")
        return key, Measurement(before, after, noise, samples, version, created)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{place}: not a cache entry: {_GIVE_AN_EXPORT}") from error

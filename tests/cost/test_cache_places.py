"""A cache whose place is another's, locked, no file, or nowhere: a run does without, and waits for nobody."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taso_py.cost import cache as caches
from taso_py.cost.cache import Cache, proofs_path
from taso_py.errors import OutputError, UsageError


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


def ended(work: Callable[[], object]) -> bool:
    """Whether some work comes to an end at all."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_a_fifo_is_no_cache_and_nobody_waits_for_its_writer(fifo: Path) -> None:
    found: list[Path | None] = [fifo]

    def work() -> None:
        with Cache(fifo) as cache:
            found[0] = cache.path

    assert ended(work)
    assert found == [None]


@pytest.mark.parametrize("name", ["import_", "export"])
def test_a_fifo_is_no_export_either(fifo: Path, tmp_path: Path, name: str) -> None:
    met: list[type[Exception]] = []

    def work() -> None:
        with Cache(tmp_path / "c.sqlite") as cache:
            try:
                getattr(cache, name)(fifo)
            except (OutputError, UsageError) as error:
                met.append(type(error))

    assert ended(work)
    assert met == [UsageError if name == "import_" else OutputError]


def test_a_locked_cache_is_waited_for_as_long_as_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).close()
    with locked(path), caplog.at_level(logging.WARNING), Cache(path, patience_s=0.01) as cache:
        assert cache.path is None
        assert "database is locked" in caplog.text
    with Cache(path, patience_s=0.01) as cache:
        assert cache.path == path


def test_without_a_home_directory_there_is_only_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUPEROPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nowhere(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    assert proofs_path() is None
    with Cache() as cache:
        assert cache.path is None


def test_proofs_are_remembered_only_in_a_file_of_ours_that_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "c.sqlite"))
    monkeypatch.setattr(caches, "MOMENT_S", 0.01)
    path = tmp_path / "proofs.sqlite"
    assert proofs_path() == path
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sites (key TEXT PRIMARY KEY, proved INTEGER NOT NULL)")
    assert proofs_path() == path
    with locked(path):
        assert proofs_path() is None
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE somebody (name TEXT)")
    assert proofs_path() is None
    path.unlink()
    os.mkfifo(path)
    assert proofs_path() is None

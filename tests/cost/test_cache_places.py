"""A cache whose place is another's, locked, no file, or nowhere: a run does without, and waits for nobody."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from taso_py.cost import cache as caches
from taso_py.cost.cache import Cache, proofs_path
from taso_py.cost.measurement import Measurement
from taso_py.errors import OutputError, UsageError

ONE = Measurement(1.5e-3, 1.2e-3, 1e-6, 6, "1.31.1", 1.7e9)


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
    assert proofs_path(None) is None
    with Cache() as cache:
        assert cache.path is None


def test_proofs_are_remembered_only_in_a_file_of_ours_that_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "c.sqlite"))
    monkeypatch.setattr(caches, "MOMENT_S", 0.01)
    path = tmp_path / "proofs.sqlite"
    assert proofs_path(None) == path
    assert proofs_path(tmp_path / "deep" / "c.sqlite") == tmp_path / "deep" / "proofs.sqlite"
    assert proofs_path(Path()) is None
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sites (key TEXT PRIMARY KEY, proved INTEGER NOT NULL)")
    assert proofs_path(None) == path
    with locked(path):
        assert proofs_path(None) is None
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE somebody (name TEXT)")
    assert proofs_path(None) is None
    path.unlink()
    os.mkfifo(path)
    assert proofs_path(None) is None


def test_what_a_reader_keeps_from_being_written_is_done_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A backup or a shell is enough: while it reads, nobody's transaction ends."""
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put_many({"a": ONE})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM regions").fetchone()

        def work() -> None:
            with Cache(path, patience_s=0.01) as cache:
                cache.put_many({"b": ONE})
                assert cache.get_many(["a", "b"]) == {"a": ONE, "b": ONE}
                assert cache.path is None

        assert ended(work)
    assert "this run's measurements are not kept" in caplog.text
    with Cache(path) as cache:
        assert cache.get_many(["a", "b"]) == {"a": ONE}


def test_a_cache_that_is_locked_while_it_is_open_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.sqlite"
    known: list[object] = []

    def work() -> None:
        with Cache(path, patience_s=0.01) as cache, locked(path):
            cache.put_many({"b": ONE})
            known.append(cache.get_many(["b"]))

    assert ended(work)
    assert known == [{"b": ONE}]
    assert "database is locked" in caplog.text


def test_a_damaged_cache_that_cannot_be_moved_is_left_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put_many({f"{i:064}": ONE for i in range(3000)})
    path.write_bytes(path.read_bytes()[:40960] + os.urandom(160_000))
    before = path.read_bytes()

    def refused(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refused)  # permissions mean nothing to root
    with Cache(path) as cache:
        cache.put_many({"b": ONE, **{f"{i:064}": ONE for i in range(3000)}})
        assert cache.get_many(["b"]) == {"b": ONE}
        assert cache.path is None
    assert "Permission denied" in caplog.text
    assert path.read_bytes() == before


def test_a_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Cache(Path("~/deep/c.sqlite")) as cache:
        assert cache.path == tmp_path / "deep" / "c.sqlite"


def test_nothing_is_said_to_be_kept_or_forgotten_that_is_not(tmp_path: Path) -> None:
    export, other = tmp_path / "e.jsonl", tmp_path / "model.onnx"
    with Cache(tmp_path / "c.sqlite") as cache:
        cache.put_many({"a": ONE})
        cache.export(export)
    other.write_text("somebody else's")
    with Cache(other) as cache:
        for work in (lambda: cache.import_(export), cache.clear):
            with pytest.raises(OutputError, match="cannot be written"):
                work()
    assert other.read_text() == "somebody else's"


@pytest.mark.parametrize("create", [True, False])
def test_an_export_is_not_replaced_by_nothing(tmp_path: Path, create: bool) -> None:
    export = tmp_path / "e.jsonl"
    with Cache(tmp_path / "c.sqlite") as cache:
        cache.put_many({"a": ONE})
        cache.export(export)
    before = export.read_text()
    with Cache(tmp_path / "mistyped.sqlite", create=create) as cache:
        with pytest.raises(OutputError, match="is left as it is"):
            cache.export(export)
        assert cache.export(tmp_path / "new.jsonl") == 0
    assert export.read_text() == before


@pytest.mark.parametrize("seconds", [1e300, -1e12, 2.6e11])
def test_a_time_that_no_date_has_is_no_entry(tmp_path: Path, seconds: float) -> None:
    export = tmp_path / "e.jsonl"
    export.write_text(json.dumps({"key": "a", **asdict(replace(ONE, created=seconds))}) + "\n")
    with Cache(tmp_path / "c.sqlite") as cache:
        with pytest.raises(UsageError, match="not a cache entry"):
            cache.import_(export)
        cache.put_many({"a": replace(ONE, created=seconds), "b": ONE})
        assert (cache.show().oldest, cache.show().newest) == (ONE.created, ONE.created)


@pytest.mark.parametrize("work", ["import_", "export"])
def test_a_name_that_is_too_long_is_one_error(tmp_path: Path, work: str) -> None:
    with Cache(tmp_path / "c.sqlite") as cache, pytest.raises((UsageError, OutputError), match="name too long"):
        getattr(cache, work)(tmp_path / ("a" * 300))


def test_an_export_is_read_only_if_it_fits_into_memory(tmp_path: Path) -> None:
    endless = tmp_path / "e.jsonl"
    with endless.open("wb") as file:
        file.truncate(2**42)
    with Cache(tmp_path / "c.sqlite") as cache, pytest.raises(UsageError, match="too long"):
        cache.import_(endless)

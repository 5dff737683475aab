"""The cache of measured regions: concurrent, damaged, read-only, exported."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from taso_py.cost import cache as cache_module
from taso_py.cost.cache import Cache, CacheStats, cache_path
from taso_py.cost.database import APPLICATION_ID
from taso_py.cost.measurement import Measurement
from taso_py.errors import OutputError, UsageError
from tests.conftest import tiny_network

ROOT = Path(__file__).resolve().parents[2]
ONE = Measurement(1.5e-3, 1.2e-3, 1e-6, 6, "1.31.1", 1.7e9)


def other(seconds: float) -> Measurement:
    return Measurement(seconds, 2 * seconds, 0.0, 3, "1.30.0", 1.6e9)


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.sqlite"
    with Cache(path) as cache:
        cache.put_many({"a": ONE, "b": other(2.0)})
        cache.put_many({"b": other(3.0)})
        cache.put_many({})
    with Cache(path) as cache:
        assert cache.get_many(["a", "b", "c", "a"]) == {"a": ONE, "b": other(3.0)}
        assert cache.get_many([]) == {}


def test_many_keys_at_once(tmp_path: Path) -> None:
    many = {f"key {i}": other(float(i)) for i in range(2500)}
    with Cache(tmp_path / "c.sqlite") as cache:
        cache.put_many(many)
        assert cache.get_many(many) == many


def test_show_and_clear(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        assert cache.show().entries == 0
        cache.put_many({"a": ONE, "b": other(1.0), "c": other(2.0)})
        found = cache.show()
        assert (found.path, found.entries, found.oldest, found.newest) == (path, 3, 1.6e9, 1.7e9)
        assert found.ort_versions == {"1.30.0": 2, "1.31.1": 1}
        assert found.size_bytes == path.stat().st_size > 0
        assert cache.clear() == 3
        assert cache.get_many(["a"]) == {}


def test_looking_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.sqlite"
    with Cache(path, create=False) as cache:
        assert cache.show() == CacheStats(
            path=path, entries=0, size_bytes=0, oldest=None, newest=None, ort_versions={}, searches=0
        )
        assert cache.clear() == 0
    assert list(tmp_path.iterdir()) == []


def test_export_and_import(tmp_path: Path) -> None:
    lines = tmp_path / "cache.jsonl"
    with Cache(tmp_path / "one.sqlite") as cache:
        cache.put_many({"b": other(1.0), "a": ONE})
        assert cache.export(lines) == 2
        with pytest.raises(OutputError, match="no such file"):
            cache.export(tmp_path / "no" / "folder.jsonl")
    assert lines.read_text().startswith('{"key": "a"')
    with Cache(tmp_path / "two.sqlite") as cache:
        assert cache.import_(lines) == 2
        assert cache.get_many(["a", "b"]) == {"a": ONE, "b": other(1.0)}


@pytest.mark.parametrize("line", ["nonsense", "{}", '{"key": "a", "seconds": "x"}', "[1]"])
def test_importing_something_else_changes_nothing(tmp_path: Path, line: str) -> None:
    lines = tmp_path / "cache.jsonl"
    with Cache(tmp_path / "one.sqlite") as cache:
        cache.put_many({"a": ONE})
        cache.export(lines)
        cache.clear()
        with lines.open("a") as file:
            file.write(line + "\n")
        with pytest.raises(UsageError, match=r"cache.jsonl:2: not a cache entry"):
            cache.import_(lines)
        assert cache.get_many(["a"]) == {}
        with pytest.raises(UsageError, match="no such file"):
            cache.import_(tmp_path / "absent")


def test_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_CACHE", "/somewhere/mine.sqlite")
    assert cache_path() == Path("/somewhere/mine.sqlite")
    monkeypatch.delenv("SUPEROPT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_path() == Path("/xdg/superopt/regions.sqlite")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_path() == Path("/home/me/.cache/superopt/regions.sqlite")


def damaged_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("c.sqlite.damaged-*"))


def damage(path: Path) -> None:
    """A cache of ours of which the header is all that is left."""
    Cache(path).close()
    path.write_bytes(path.read_bytes()[:100] + b"garbage" * 1000)


def test_a_cache_that_is_no_database_any_more_is_moved_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    damage(path)
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        cache.put_many({"a": ONE})
        assert cache.get_many(["a"]) == {"a": ONE}
        assert cache.path == path
    assert len(damaged_files(tmp_path)) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "was damaged: moved to" in caplog.text
    with Cache(path) as cache:
        assert cache.get_many(["a"]) == {"a": ONE}


def model_file(path: Path) -> None:
    onnx.save(tiny_network(), path)


def users_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")


def text_file(path: Path) -> None:
    path.write_text("mine", encoding="utf-8")


@pytest.mark.parametrize("make", [model_file, users_database, text_file])
def test_what_is_not_ours_is_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "mine"
    make(path)
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        cache.put_many({"a": ONE})
        assert cache.get_many(["a"]) == {"a": ONE}
        with pytest.raises(OutputError, match="is as it was"):
            cache.clear()
        with pytest.raises(OutputError, match="no earlier export"):
            cache.export(path)
    assert "is not a cache of superopt, and is left as it is" in caplog.text
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_replaces_an_earlier_one(tmp_path: Path) -> None:
    lines = tmp_path / "cache.jsonl"
    with Cache(tmp_path / "c.sqlite") as cache:
        cache.put_many({"a": ONE})
        assert cache.export(lines) == 1
        cache.put_many({"b": ONE})
        assert cache.export(lines) == 2


def test_pages_damaged_inside_are_noticed_when_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put_many({f"key {i}": other(float(i)) for i in range(5000)})
    whole = bytearray(path.read_bytes())
    whole[8192:] = b"\xa5" * (len(whole) - 8192)
    path.write_bytes(whole)
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        assert cache.get_many([f"key {i}" for i in range(5000)]) == {}
        cache.put_many({"a": ONE})
    assert len(damaged_files(tmp_path)) == 1
    with Cache(path) as cache:
        assert cache.get_many(["a"]) == {"a": ONE}


def test_a_place_that_cannot_be_used_becomes_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    for path in (blocker / "c.sqlite", tmp_path):
        caplog.clear()
        with caplog.at_level(logging.WARNING), Cache(path) as cache:
            assert cache.path is None
            cache.put_many({"a": ONE})
            assert cache.get_many(["a"]) == {"a": ONE}
            assert cache.show().path is None
        assert len(caplog.records) == 1
        assert "this run's measurements are not kept" in caplog.text


def test_an_unwritable_file_is_still_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write protection by SQLite itself: permissions mean nothing to root."""
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put_many({"a": ONE})
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        cache._connection.execute("PRAGMA query_only = 1")
        cache.put_many({"b": other(1.0)})
        assert cache.get_many(["a", "b"]) == {"a": ONE, "b": other(1.0)}
        assert cache.path is None
    assert len(caplog.records) == 1
    with Cache(path) as cache:
        assert cache.get_many(["a", "b"]) == {"a": ONE}


def test_times_of_an_older_version_are_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE regions (key TEXT, seconds REAL, noise REAL, ort_version TEXT)")
        connection.execute("INSERT INTO regions VALUES ('a', 1.0, 0.1, '1.30.0')")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        assert (cache.path, cache.show().entries) == (path, 0)
        cache.put_many({"b": ONE})
    assert not caplog.records
    with Cache(path) as cache:
        assert cache.get_many(["a", "b"]) == {"b": ONE}


@pytest.mark.parametrize("version", [0, 1])
def test_a_database_of_something_else_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    path = tmp_path / "c.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE regions (name TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        assert cache.path is None
    assert "this run's measurements are not kept" in caplog.text
    assert path.read_bytes() == before


def test_another_schema_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.close()
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING), Cache(path) as cache:
        assert cache.path is None
    assert "a newer version of superopt" in caplog.text
    assert path.read_bytes() == before


WRITER = """
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
path, name = Path(sys.argv[1]), sys.argv[2]
with Cache(path) as cache:
    for i in range(60):
        one = Measurement(i, i, 0, 1, name, 1.0)
        cache.put_many({f"{name} {i}": one, "shared": one})
        assert cache.get_many([f"{name} {i}"])[f"{name} {i}"].before == i
    assert cache.path is not None
"""


def run_writers(path: Path, names: str) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors


@pytest.mark.parametrize("start", ["absent", "damaged"])
def test_two_processes_write_at_once(tmp_path: Path, start: str) -> None:
    path = tmp_path / "c.sqlite"
    if start == "damaged":
        damage(path)
    run_writers(path, "AB")
    with Cache(path) as cache:
        found = cache.show()
        names = {f"{name} {i}" for name in "AB" for i in range(60)}
        known = set(cache.get_many([*names, "shared"]))
    if start == "absent":
        assert known == {*names, "shared"}
    else:  # whoever moved the damaged file aside last may have lost the other's first entries
        assert "shared" in known
        assert found.entries >= 61


@pytest.mark.parametrize("begun", [False, True])
def test_another_process_puts_a_damaged_file_aside_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, begun: bool
) -> None:
    path, connect = tmp_path / "c.sqlite", cache_module.connect
    damage(path)

    def overtaken(*arguments: Any) -> sqlite3.Connection:
        monkeypatch.setattr(cache_module, "connect", connect)
        try:
            return connect(*arguments)
        finally:
            path.rename(tmp_path / "aside")
            if begun:  # the other process's connection, before its first transaction
                path.touch()

    monkeypatch.setattr(cache_module, "connect", overtaken)
    with Cache(path) as cache:
        cache.put_many({"a": ONE})
        assert cache.path == path
    assert not damaged_files(tmp_path)


def test_a_file_with_another_table_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE regions RENAME COLUMN samples TO rounds")
    with Cache(path) as cache:
        cache.put_many({"a": ONE})
        assert cache.path is None
        assert cache.get_many(["a"]) == {"a": ONE}
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize("word", [b"regions (", b"samples", b"WITHOUT ROWID"])
def test_a_table_whose_text_is_damaged_is_not_used(word: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    Cache(path).close()
    path.write_bytes(path.read_bytes().replace(word, b"\x80" + word[1:]))
    with Cache(path) as cache:
        cache.put_many({"a": ONE})
        assert cache.get_many(["a"]) == {"a": ONE}


def test_rows_that_hold_no_measurement_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with Cache(path) as cache:
        cache.put_many({"a": ONE, "b": other(2.0)})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE regions SET before = 'soon', created = X'ff', ort_version = X'ff' WHERE key = 'a'")
    with Cache(path) as cache:
        assert cache.get_many(["a", "b"]) == {"b": other(2.0)}
        assert cache.show().newest == other(2.0).created


@pytest.mark.parametrize(
    ("name", "value"),
    [("before", "1e999"), ("created", "NaN"), ("samples", "Infinity"), ("samples", str(2**63)), ("key", r'"\ud800"'),
     ("noise", "[" * 5000)],
)  # fmt: skip
def test_an_import_is_of_numbers_and_texts(name: str, value: str, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    with Cache(tmp_path / "c.sqlite") as cache:
        cache.put_many({"a": ONE})
        cache.export(export)
        fields = {k: json.dumps(v) for k, v in json.loads(export.read_text()).items()} | {name: value}
        export.write_text("{" + ", ".join(f'"{k}": {v}' for k, v in fields.items()) + "}\n")
        with pytest.raises(UsageError, match="not a cache entry"):
            cache.import_(export)

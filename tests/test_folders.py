"""Folders of runs that were killed are removed by the next run, and nothing else is."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taso_py.errors import FileTakenError
from taso_py.files import write_atomically
from taso_py.folders import LOCK, RunFolder
from tests.conftest import cli_environment

HOLDER = """
import sys
from pathlib import Path
from taso_py.folders import RunFolder
folder = RunFolder(Path(sys.argv[1]))
(folder.path / "weights").write_bytes(bytes(1000))
print(folder.path.parent, flush=True)
sys.stdin.read()
"""


def holder(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that lives in a folder of its own below ``place``, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)],
        env=cli_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def grow_old(folder: Path) -> None:
    past = time.time() - 3600
    os.utime(folder / LOCK, (past, past))


def test_a_folder_goes_with_its_block_and_with_its_owner(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        assert list(folder.path.iterdir()) == []
        (folder.path / "a").touch()
    other = RunFolder(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del other
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next_once_it_is_old(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with RunFolder(tmp_path):
        assert left.is_dir()  # too young
    grow_old(left)
    with RunFolder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder.path.parent]


def test_what_a_living_run_uses_stays_however_old(tmp_path: Path) -> None:
    process, used = holder(tmp_path)
    grow_old(used)
    with RunFolder(tmp_path):
        assert (used / "files" / "weights").is_file()
    process.communicate("")
    assert not used.exists()


@pytest.mark.parametrize("kind", ["unmarked", "link to a folder", "link as mark", "file"])
def test_what_is_not_recognisably_ours_stays(tmp_path: Path, kind: str) -> None:
    place, elsewhere = tmp_path / "tmp", tmp_path / "mine"
    place.mkdir()
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    grow_old(elsewhere)
    like_ours = place / "superopt-abcdefgh"
    match kind:
        case "unmarked":
            like_ours.mkdir()
        case "link to a folder":
            like_ours.symlink_to(elsewhere)
        case "link as mark":
            like_ours.mkdir()
            (like_ours / LOCK).symlink_to(elsewhere / LOCK)
        case "file":
            like_ours.touch()
    with RunFolder(place):
        pass
    assert like_ours.exists()
    assert (elsewhere / LOCK).is_file()


def test_staging_that_a_killed_run_left_beside_its_target_goes_with_the_next_write(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    staging = left.rename(tmp_path / ".out.onnx.abcdefgh.tmp")
    grow_old(staging)
    target = tmp_path / "out.onnx"
    write_atomically(target, lambda folder: (folder / target.name).touch())
    assert list(tmp_path.iterdir()) == [target]


def test_of_two_runs_with_one_target_each_publishes_all_its_files_at_once(tmp_path: Path) -> None:
    target, seen = tmp_path / "out.onnx", list[bool]()
    move = Path.replace

    def moved(path: Path, to: Path) -> Path:
        other = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen.append(True)
        finally:
            os.close(other)
        return move(path, to)

    def write(folder: Path) -> None:
        (folder / "out.onnx").touch()
        (folder / "out.onnx.data").touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", moved)
        write_atomically(target, write)
    assert seen == [True, True]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]


def test_what_another_run_has_written_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"

    def write(folder: Path) -> None:
        (folder / "out.onnx").write_text("second")
        target.write_text("first")  # by another run, which was quicker

    with pytest.raises(FileTakenError, match="exists already"):
        write_atomically(target, write)
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_nobody_waits_for_ever_for_a_folder_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taso_py.folders.PATIENCE_S", 0.05)
    place, target = os.open(tmp_path, os.O_RDONLY), tmp_path / "out.onnx"
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        write_atomically(target, lambda folder: (folder / target.name).touch())
    finally:
        os.close(place)
    assert target.is_file()

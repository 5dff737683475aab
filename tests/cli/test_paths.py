"""Paths that are no ordinary files are refused at once, and nothing of the user's is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taso_py.errors import ModelError, OutputError
from taso_py.files import check_target, require_model_file
from tests.conftest import RunCli, tiny_network


def test_only_regular_files_are_read(tmp_path: Path, run_cli: RunCli) -> None:
    fifo = tmp_path / "fifo.onnx"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(ModelError, match="not a regular file"):
            require_model_file(path)
    assert run_cli("inspect", fifo, timeout=60).returncode == 3


@pytest.mark.parametrize("name", ["n" * 300 + ".onnx", "a\0b.onnx"])
def test_names_that_no_file_has_are_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"too long|NUL"):
        require_model_file(tmp_path / name)
    with pytest.raises(OutputError):
        check_target(tmp_path / name)


@pytest.mark.parametrize("to", ["file", "nothing", "device"])
def test_a_link_is_never_replaced(tmp_path: Path, to: str) -> None:
    link, file = tmp_path / "link.onnx", tmp_path / "file.onnx"
    file.write_bytes(b"content")
    link.symlink_to({"file": file, "nothing": tmp_path / "absent", "device": Path("/dev/null")}[to])
    with pytest.raises(OutputError, match="symbolic link: name the file"):
        check_target(link, force=True)
    assert link.is_symlink()
    assert file.read_bytes() == b"content"


@pytest.mark.parametrize("suffix", [".json", ".onnxtxt"])
def test_what_a_model_is_called_does_not_say_how_it_is_written(suffix: str, tmp_path: Path, run_cli: RunCli) -> None:
    """onnx.load takes some names for models written as text."""
    model, out = tmp_path / f"m{suffix}", tmp_path / f"o{suffix}"
    model.write_bytes(tiny_network().SerializeToString())
    files = ("--certificate", "c.cert", "--record", "d.dec")
    for arguments in (
        ("optimize", model, "-o", out, "--no-race", *files),
        ("optimize", model, "-o", out, "--no-race"),
        ("certify", model, out, "c.cert"),
        ("apply", model, "d.dec", "-o", tmp_path / f"a{suffix}"),
        ("check", model, out),
        ("diff", model, out),
        ("inspect", model),
    ):
        done = run_cli(*arguments)
        assert done.returncode == 0, f"{arguments[0]}: {done.stderr}"

"""Standard streams that are closed, full or of another encoding: an exit code of the table, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import cli_environment
from tests.helpers.schemas import require_valid

COMMANDS = {"a result": ["cache", "show", "--cache", "c"], "help": ["--help"]}


def shell(tmp_path: Path, arguments: list[str], redirection: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    line = f'exec "$0" -m taso_py "$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *arguments],
        check=False,
        cwd=tmp_path,
        env=cli_environment(env),
        capture_output=True,
    )


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_full_stdout_is_said_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    done = shell(tmp_path, arguments, ">/dev/full")
    assert done.returncode == 4
    assert done.stderr.startswith(b"superopt: error: cannot write")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("arguments", [COMMANDS["a result"], ["config"]], ids=["a result", "a table"])
def test_a_closed_stdout_is_said_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    done = shell(tmp_path, arguments, ">&-")
    assert done.returncode == 4
    assert done.stderr == b"superopt: error: cannot write to stdout: it is closed (redirect it elsewhere)\n"


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_a_lost_stderr_changes_no_exit_code_and_no_result(tmp_path: Path, redirection: str) -> None:
    done = shell(tmp_path, COMMANDS["a result"], redirection)
    assert done.returncode == 0
    assert b"entries" in done.stdout
    failed = shell(tmp_path, ["optimize", "absent.onnx"], redirection)
    assert (failed.returncode, failed.stdout) == (3, b"")


def test_all_streams_closed_is_an_exit_code(tmp_path: Path) -> None:
    assert shell(tmp_path, ["optimize", "absent.onnx"], "<&- >&- 2>&-").returncode == 3


def test_a_terminal_that_lacks_characters_shows_others(tmp_path: Path) -> None:
    done = shell(tmp_path, ["rules", "show", "matmul-shared-weight"], "", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    failed = shell(tmp_path, ["optimize", "\N{GREEK SMALL LETTER ALPHA}.onnx"], "", PYTHONIOENCODING="latin-1")
    assert failed.returncode == 3
    assert failed.stderr.startswith(b"superopt: error: ?.onnx")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pipe_that_refuses_what_its_reader_has_no_room_for_gets_all_of_it(tmp_path: Path, stream: str) -> None:
    """A program of Node's makes such pipes for its children."""
    arguments = {"stdout": ["rules", "list", "--json"], "stderr": ["optimize", "absent.onnx"]}[stream]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.write(writing, bytes(2**16 - 1))  # but for a byte it is full
    command = [sys.executable, "-m", "taso_py", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, env=cli_environment(), **{stream: writing}) as process:
        time.sleep(3)  # it is at its end by then, or waits
        seen = bytearray()
        os.close(writing)
        while piece := os.read(reading, 2**16):
            seen += piece
    assert process.returncode == {"stdout": 0, "stderr": 3}[stream]
    os.close(reading)
    text = seen.lstrip(b"\0").decode()
    if stream == "stdout":
        require_valid(json.loads(text))
    assert text.endswith("}\n" if stream == "stdout" else "check the path\n")

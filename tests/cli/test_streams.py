"""Standard streams that are closed, full or of another encoding: an exit code of the table, and no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import cli_environment

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

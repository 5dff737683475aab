"""A home directory, or a folder for temporary files, that is not there: a run does without, or says so in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, cli_environment

_PROGRAM = """
import os, pwd, sys, tempfile
sys.path.insert(0, {root!r})
def nobody(number):
    raise KeyError(number)
{before}
from taso_py.cli import main
sys.exit(main(sys.argv[1:]))
"""
NO_HOME = "pwd.getpwuid = nobody\nfor name in ('HOME', 'XDG_CACHE_HOME'): os.environ.pop(name, None)"
NO_TEMPORARY = "tempfile._candidate_tempdir_list = lambda: ['/dev/null/missing']"


def run(before: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(root=str(ROOT), before=before)
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd, env=cli_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", ["--time-budget 5", "--no-race"])
def test_without_a_home_directory_nothing_is_remembered(tiny_model: Path, arguments: str) -> None:
    done = run(NO_HOME, tiny_model.parent, "optimize", "model.onnx", *arguments.split())
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert tiny_model.with_name("model.superopt.onnx").exists()


@pytest.mark.parametrize(
    "arguments",
    ["check model.onnx model.onnx --threads 1", "inspect model.onnx --profile", "eps", "eps --test cpu"],
)
def test_without_a_folder_for_temporary_files_models_run(tiny_model: Path, arguments: str) -> None:
    done = run(NO_TEMPORARY, tiny_model.parent, *arguments.split())
    assert (done.returncode, done.stderr.count("\n")) in ((0, 0), (4, 1)), done.stderr
    assert done.returncode == 0 or "TMPDIR" in done.stderr


def test_without_a_folder_for_temporary_files_optimizing_says_so(tiny_model: Path) -> None:
    done = run(NO_TEMPORARY, tiny_model.parent, "optimize", "model.onnx", "--no-race")
    assert (done.returncode, done.stderr.count("\n")) in ((0, 0), (4, 1)), done.stderr
    assert done.returncode == 0 or "TMPDIR" in done.stderr

"""No process of ours lets ONNX Runtime write a device id or look for its vendor."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import cli_environment

START = """
from pathlib import Path
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
with Worker(WorkerConfig()) as worker:
    pid = worker.info().pid
    print("ORT_DISABLE_TELEMETRY=1" in Path(f"/proc/{pid}/environ").read_text().split(chr(0)))
"""


def environment(home: Path) -> dict[str, str]:
    """As a user has it: nothing of it forbids telemetry."""
    found = cli_environment({"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")})
    return {name: value for name, value in found.items() if name != "ORT_DISABLE_TELEMETRY"}


def test_a_worker_is_told_before_it_imports_onnx_runtime_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START], check=True, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.stdout == "True\n"
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_worker_asks_for_no_connection(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "calls"
    home.mkdir()
    trace = ["strace", "-f", "-e", "trace=connect", "-o", str(log)]
    done = subprocess.run(
        [*trace, sys.executable, "-c", START], check=False, env=environment(home), capture_output=True, text=True
    )
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.stdout == "True\n"
    assert "connect(" not in log.read_text()


def test_the_tests_themselves_are_told() -> None:
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"

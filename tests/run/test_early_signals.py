"""A signal before anything is known of a run: whatever is asked then, nobody waits for its answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.test_signals import heeded
from tests.conftest import cli_environment, tiny_network
from tests.helpers.interpreters import script
from tests.helpers.precision import saved

LOOP_FOR_EVER = "import time\nopen('asked', 'w').close()\ntime.sleep(600)\ndef f(expected, found): return 0.0\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, an interpreter that never answers, samples, and a metric that never does."""
    monkeypatch.chdir(tmp_path)
    onnx.save(tiny_network(), "model.onnx")
    script(tmp_path / "python", "touch asked; exec sleep 600")
    (tmp_path / "metric.py").write_text(LOOP_FOR_EVER)
    saved(tmp_path / "samples.npz", x=np.arange(20 * 3 * 8 * 8, dtype=np.float32).reshape(20, 3, 8, 8))
    return tmp_path


def signalled(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run that gets SIGTERM once it has asked what is not answered; it has a minute to end."""
    command = [sys.executable, "-m", "taso_py", "optimize", "model.onnx", "-o", "out.onnx", *arguments]
    env = cli_environment({"SUPEROPT_CACHE": os.path.abspath("cache.sqlite")})  # noqa: PTH100 - as it is named
    with subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=heeded,  # noqa: PLW1509 - this test starts no threads
    ) as process:  # fmt: skip
        while not Path("asked").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.parametrize(
    "arguments",
    [
        "--ep-python python",
        "--ep auto --ep-python python",
        "--ep openvino,cpu --ep-python python",
        "--error-budget rel=0.1 --calibration samples.npz --metric metric.py:f",
        "--error-budget rel=0.1 --calibration samples.npz --ep auto --ep-python python",
    ],
)
def test_a_signal_while_something_is_asked_that_never_answers_ends_with_a_copy(place: Path, arguments: str) -> None:
    done = signalled(*arguments.split())
    assert done.returncode == 143, done.stderr
    assert done.stderr.count("superopt: SIGTERM: stopping") == 1
    assert Path("out.onnx").read_bytes() == Path("model.onnx").read_bytes()


def test_a_signal_while_a_result_that_is_there_is_looked_at_leaves_it(place: Path) -> None:
    Path("out.onnx").write_bytes(b"an earlier result")
    done = signalled("--ep-python", "python")
    assert (done.returncode, done.stdout) == (143, ""), done.stderr
    assert done.stderr.splitlines()[-1] == "superopt: error: ended by SIGTERM"
    assert Path("out.onnx").read_bytes() == b"an earlier result"

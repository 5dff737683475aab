"""Native code in a process of its own: whatever becomes of it, there is an answer or a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import onnx.parser
import pytest

from taso_py.onnx_io import inference
from taso_py.onnx_io.child import CHILD
from taso_py.onnx_io.load import load
from taso_py.processes.crew import Answer, Crew, Task, Work
from taso_py.processes.isolated import NoAnswerError, answer, killed_after
from tests.conftest import ROOT
from tests.processes.obedient import OBEDIENT

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]>\ng (float[3, 4] x) => (int64[a, b] y) { y = NonZero(x) }'
)


@pytest.mark.parametrize("seconds", [3e6, 1e300, float("inf")])
def test_nobody_is_too_patient(seconds: float) -> None:
    assert asked(seconds=seconds).startswith(b"process ")
    with Crew(counted, None, 1, seconds) as crew:
        assert list(crew.answers([1])) == [(0, 2)]


def counted(settings: None) -> Work:
    def work(task: Task) -> Iterator[Answer]:
        yield task + 1

    return work


def asked(*words: str, seconds: float = 60.0) -> bytes:
    return answer(OBEDIENT, *words, given=b"process ", seconds=seconds)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("die", r"its process died \(SIGSEGV\)"),
        ("leave", r"its process died \(exit code 4\)"),
        ("hang", "it took longer than 0.5 s"),
        ("fill", "MemoryError"),
        ("fail", "no more"),
    ],
)
def test_what_dies_hangs_or_fails_is_told_and_the_next_question_is_answered(word: str, why: str) -> None:
    before = asked()
    with pytest.raises(NoAnswerError, match=why):
        asked(word, seconds=0.5 if word == "hang" else 60.0)
    after = asked()
    assert after.startswith(b"process ")
    assert (before == after) == (word in ("fill", "fail"))


def test_what_stops_in_the_midst_of_a_question_is_ended() -> None:
    """A pipe holds 64 KiB: whoever asks more waits for the other side, stopped as that may be."""
    process = int(asked().removeprefix(b"process "))
    os.kill(process, signal.SIGSTOP)
    rescue = threading.Timer(60, os.kill, (process, signal.SIGKILL))  # else a failure would last for ever
    rescue.start()
    with pytest.raises(NoAnswerError, match="it took longer than 3 s"):
        answer(OBEDIENT, given=bytes(2**24), seconds=3.0)
    rescue.cancel()
    assert asked() != b"process " + str(process).encode()


def slept_until_killed(seconds: float) -> int:
    with subprocess.Popen(["sleep", "60"]) as process, killed_after(process, seconds):
        return process.wait()


def test_each_process_has_its_own_time() -> None:
    with subprocess.Popen(["sleep", "60"]) as patient:
        with killed_after(patient, 60):
            assert slept_until_killed(0.1) == -signal.SIGKILL
            assert slept_until_killed(0.1) == -signal.SIGKILL
        with killed_after(patient, 0.1):
            pass
        assert slept_until_killed(0.3) == -signal.SIGKILL
        assert patient.poll() is None, "it is over in time, so it is left alone"
        patient.kill()


FORKED = """
import os, sys
from tests.processes.test_isolated import slept_until_killed

slept_until_killed(0.1)
child = os.fork()
if child == 0:
    os._exit(-slept_until_killed(0.1))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_watches_its_own_processes() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == signal.SIGKILL


def test_what_a_library_prints_is_no_answer() -> None:
    assert asked("print") == asked()


def test_bytes_that_are_no_model_are_told() -> None:
    with pytest.raises(NoAnswerError, match="parsing"):
        answer(CHILD, "infer", given=b"\xff\xff", seconds=60.0)


def test_a_model_whose_inference_dies_loads_without_what_it_would_have_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = load(MODEL)
    assert known.values.types[known.ids["y"]].rank == 2

    def dies(*_: object, **__: object) -> bytes:
        return asked("die")

    monkeypatch.setattr(inference, "answer", dies)
    unknown = load(MODEL)
    assert unknown.values.types[unknown.ids["y"]].shape is None

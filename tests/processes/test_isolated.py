"""Native code in a process of its own: whatever becomes of it, there is an answer or a reason."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import onnx.parser
import pytest

from taso_py.onnx_io import inference
from taso_py.onnx_io.child import CHILD
from taso_py.onnx_io.load import load
from taso_py.processes.crew import Answer, Crew, Task, Work
from taso_py.processes.isolated import NoAnswerError, answer
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

"""Signals: the first of any kind ends a run with a result, the second at once; neither leaves anything behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from scripts.bench.networks import nasrnn
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
from taso_py.cli import main
from taso_py.folders import LOCK
from taso_py.stop import ECHO_S, SIGNALS, Ended, Interrupted, StopFlag, end_at_signals, stop_on_interrupt
from tests.conftest import cli_environment


def heeded() -> None:
    """What nohup, under which these tests may run, had set to be ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def heeded_here() -> Iterator[None]:
    """The same in this process, for as long as a test takes."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heeded()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def run(tmp_path: Path, phase: str) -> Iterator[subprocess.Popen[str]]:
    """A run on a model that takes its time, once it has said that it is in a phase."""
    onnx.save(nasrnn(steps=4, hidden=64), tmp_path / "model.onnx")
    (tmp_path / "tmp").mkdir()
    command = ["optimize", "model.onnx", "-o", "out.onnx", "--time-budget", "300", "--json", "-vv"]
    env = cli_environment({"TMPDIR": str(tmp_path / "tmp"), "SUPEROPT_CACHE": str(tmp_path / "cache.sqlite")})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-m", "taso_py", *command],
        cwd=tmp_path, env=env, text=True, preexec_fn=heeded, **pipes,  # noqa: PLW1509 - this test starts no threads
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"superopt: {phase}"):
                break
        yield process


@pytest.mark.parametrize(
    ("number", "code", "phase"),
    [
        (signal.SIGTERM, 143, "load"),
        (signal.SIGTERM, 143, "search"),
        (signal.SIGHUP, 129, "search"),
        (signal.SIGINT, 0, "search"),
        (signal.SIGXCPU, 152, "search"),
    ],
)
def test_the_first_signal_ends_with_a_copy_and_a_reason(tmp_path: Path, number: int, code: int, phase: str) -> None:
    with run(tmp_path, phase) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert f"superopt: {signal.Signals(number).name}: stopping" in err
    assert "Traceback" not in err
    result = json.loads(out)
    assert (result["stop_reason"], result["improved"]) == ("interrupted", False)
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_after_a_kill_nothing_is_left_once_another_run_has_begun(tmp_path: Path) -> None:
    with run(tmp_path, "search") as process:
        time.sleep(1)
        process.kill()
        process.communicate(timeout=120)
    left = list((tmp_path / "tmp").iterdir())
    for folder in left:
        past = time.time() - 3600
        os.utime(folder / LOCK, (past, past))
    env = cli_environment({"TMPDIR": str(tmp_path / "tmp")})
    program = "from taso_py.folders import RunFolder\nRunFolder().close()"
    subprocess.run([sys.executable, "-c", program], check=True, env=env)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "out.onnx").exists()


def test_what_is_confirmed_is_finished(capfd: pytest.CaptureFixture[str]) -> None:
    stop, done = StopFlag(), []
    with stop_on_interrupt(stop, SIGNALS):
        with pytest.raises(Interrupted), stop.abandoning():
            signal.raise_signal(signal.SIGTERM)
        other = StopFlag()
        with stop_on_interrupt(other, SIGNALS), other.abandoning():
            other.keep()
            signal.raise_signal(signal.SIGTERM)
            done.append("kept")
    assert done == ["kept"]
    assert (stop.signal, other.signal) == (signal.SIGTERM, signal.SIGTERM)
    assert capfd.readouterr().err.count("SIGTERM: stopping") == 2


def test_the_second_signal_ends_at_once() -> None:
    with stop_on_interrupt(StopFlag(), SIGNALS):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_is_ignored_stays_ignored(number: int) -> None:
    """Those that nohup has set to be, and SIGINT in the background of a script."""
    signal.signal(number, signal.SIG_IGN)
    with stop_on_interrupt(StopFlag(), SIGNALS) as stop:
        signal.raise_signal(number)
        assert not stop
    end_at_signals()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_signal_that_comes_twice_at_once_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends its signal to the process, and then to the group that it is in."""
    with stop_on_interrupt(StopFlag(), SIGNALS) as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        monkeypatch.setattr("taso_py.stop.ECHO_S", 0.0)
        with pytest.raises(Ended) as ended:
            signal.raise_signal(signal.SIGTERM)
    assert ended.value.number == signal.SIGTERM


def test_a_limit_of_processor_time_is_passed_once() -> None:
    """The system sends its signal again with every second."""
    with stop_on_interrupt(StopFlag(), SIGNALS) as stop:
        for _ in range(3):
            signal.raise_signal(signal.SIGXCPU)
            time.sleep(ECHO_S / 2 + 0.1)
        assert stop.signal == signal.SIGXCPU


HOLDING = """
import signal, sys, time
from pathlib import Path
from taso_py import api
from taso_py.folders import RunFolder
def inspect(*_, **__):
    with RunFolder():
        Path("ready").touch()
        for _ in range(600):
            time.sleep(0.1)
api.inspect = inspect
sys.argv[1:] = ["inspect", "model.onnx", "--json"]
from taso_py.__main__ import run
run()
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_any_command_with_its_code_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    env = cli_environment({"TMPDIR": str(tmp_path)})
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        cwd=tmp_path, env=env, text=True, preexec_fn=heeded,  # noqa: PLW1509 - this test starts no threads
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        while not (tmp_path / "ready").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        if number != signal.SIGINT:
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
    words = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    assert (process.returncode, err) == (128 + number, f"superopt: error: {words}\n")
    told = json.loads(out)
    assert (told["code"], told["error"], told["exit_code"]) == ("interrupted", words, 128 + number)
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


def wait_interrupted(stop: StopFlag) -> None:
    with stop_on_interrupt(stop, SIGNALS), stop.abandoning():
        stop.keep(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.pause()


def test_what_takes_too_long_to_finish_is_given_up_unless_it_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taso_py.stop.FINISH_S", 0.01)
    with pytest.raises(Interrupted):
        wait_interrupted(StopFlag())
    stop = StopFlag()
    with stop.abandoning():
        stop.set(signal.SIGINT)
        stop.keep()
        stop.give_up()  # raises nothing


def test_with_something_found_ctrl_c_finishes_and_other_signals_leave(capfd: pytest.CaptureFixture[str]) -> None:
    for number, told in ((signal.SIGINT, "finishing with what was found"), (signal.SIGTERM, "stopping")):
        stop, left = StopFlag(), True
        try:
            with stop_on_interrupt(stop, SIGNALS), stop.abandoning():
                stop.keep(signal.SIGINT)
                signal.raise_signal(number)
                left = False
        except Interrupted:
            pass
        assert (bool(stop), left) == (True, number == signal.SIGTERM)
        assert f"{signal.Signals(number).name}: {told}" in capfd.readouterr().err


IMPORTING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.{number})
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments!r}
from taso_py.__main__ import run
run()
"""


def run_importing(folder: Path, name: str, number: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, which gets a signal while it imports a module."""
    program = IMPORTING.format(name=name, number=number, arguments=list(arguments))
    command, env = [sys.executable, "-c", program], cli_environment()
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["taso_py.cli", "onnx.onnx_cpp2py_export"])
def test_ctrl_c_while_modules_are_imported_is_no_traceback(tiny_model: Path, name: str) -> None:
    done = run_importing(tiny_model.parent, name, "SIGINT", "inspect", "model.onnx")
    assert done.returncode in (0, 130)  # 0: it was done before the last import was
    assert bool(done.stdout) == (done.returncode == 0)
    assert done.stderr in ("", "superopt: error: interrupted\n")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 0), ("SIGTERM", 143)])
@pytest.mark.parametrize("name", ["taso_py.report.delivery", "onnx.onnx_cpp2py_export", "taso_py.report.terminal"])
def test_a_signal_while_modules_are_imported_ends_with_a_model(
    tiny_model: Path, number: str, code: int, name: str
) -> None:
    arguments = ("optimize", "model.onnx", "-o", "out.onnx", "--no-race")
    done = run_importing(tiny_model.parent, name, number, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count(f"superopt: {number}: stopping") == 1
    assert tiny_model.with_name("out.onnx").is_file()


def test_a_signal_while_the_model_is_read_ends_with_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(nasrnn(steps=1, hidden=8), path)

    def reading(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it went on")

    monkeypatch.setattr("taso_py.run.subject.load", reading)
    code = main(["optimize", str(path), "-o", str(out), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["stop_reason"], result["reason"]["code"]) == (143, "interrupted", "interrupted")
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", [Interrupted, KeyboardInterrupt, ValueError])
def test_who_asked_to_stop_waits_for_no_worker(kind: type[BaseException]) -> None:
    """A worker that is told to end has a moment for it, unless the run was told to end."""
    waited: list[float] = []

    class Process:
        def wait(self, seconds: float = 0) -> int:
            waited.append(seconds)
            return 0

    worker = Worker(WorkerConfig())
    nothing = SimpleNamespace(close=lambda: None)
    worker._child = SimpleNamespace(connection=nothing, process=Process(), stderr=nothing)  # type: ignore[assignment]
    with pytest.raises(kind), worker:
        raise kind
    assert waited == [2.0 if kind is ValueError else 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seed", range(3))
def test_at_any_moment_a_signal_ends_with_what_is_whole(tmp_path: Path, number: int, seed: int) -> None:
    """At which moment is up to the machine too; the audit of it takes fifty of each."""
    with run(tmp_path, "load") as process:
        time.sleep(random.Random(seed).uniform(0, 12))
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == (143 if number == signal.SIGTERM else 0), err
    assert "Traceback" not in err
    result = json.loads(out)
    made, given = (tmp_path / "out.onnx").read_bytes(), (tmp_path / "model.onnx").read_bytes()
    assert (made != given) == result["improved"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} <= {
        "cache.sqlite",
        "proofs.sqlite",
        "model.onnx",
        "out.onnx",
        "tmp",
    }

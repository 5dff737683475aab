"""Workers that stop, at any point, or never begin: nobody waits for them for longer than was said."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig, receive
from taso_py.errors import WorkerError, WorkerTimeoutError
from tests.backend.test_backend_worker import IDENTITY, model


def test_a_hang_is_stopped() -> None:
    with Worker(WorkerConfig()) as own:
        handle = own.open(model(IDENTITY))
        os.kill(own.info().pid, signal.SIGSTOP)
        with pytest.raises(WorkerError, match=r"did not answer run within 0\.2 s"):
            own.run(handle, {"x": np.ones(1, np.float32)}, timeout=0.2)
        assert own.run(handle, {"x": np.ones(1, np.float32)})["y"].tolist() == [1]


@pytest.mark.parametrize("reading", [True, False])
def test_a_hang_in_the_midst_of_a_large_message_is_stopped(monkeypatch: pytest.MonkeyPatch, reading: bool) -> None:
    """A socket holds a few hundred kilobytes: whoever writes more waits for the other side, stopped as that may be."""
    large = {"x": np.ones(2**24, np.float32)}
    with Worker(WorkerConfig()) as own:
        handle = own.open(model(IDENTITY))
        rescue = threading.Timer(60, os.kill, (own.info().pid, signal.SIGKILL))  # else a failure would last for ever
        rescue.start()

        def stopped(connection: Connection) -> object:
            os.kill(own.info().pid, signal.SIGSTOP)
            return receive(connection)

        if reading:
            os.kill(own.info().pid, signal.SIGSTOP)
        else:
            monkeypatch.setattr("taso_py.backend.client.receive", stopped)
        with pytest.raises(WorkerTimeoutError, match=r"did not answer run within 3 s"):
            own.run(handle, large, timeout=3)
        rescue.cancel()


@pytest.mark.parametrize(("number", "named"), [(signal.SIGSEGV, "SIGSEGV"), (40, "signal 40")])
def test_every_signal_that_kills_a_worker_is_named(number: int, named: str) -> None:
    with Worker(WorkerConfig()) as own:
        os.kill(own.info().pid, number)
        with pytest.raises(WorkerError, match=rf"worker died \({named}\) during survey"):
            own.survey()


def test_a_worker_that_does_not_start_is_waited_for_no_longer_than_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taso_py.backend.starting.worker_command", lambda *_: ["sleep", "600"])
    own = Worker(WorkerConfig())
    with own.keeping_to(time.monotonic()), pytest.raises(WorkerTimeoutError, match="no answer within 5 s"):
        own.info()


def test_nothing_is_waited_for_beyond_a_moment_after_the_time_that_was_given() -> None:
    with Worker(WorkerConfig()) as own:
        handle = own.open(model(IDENTITY))
        with own.keeping_to(time.monotonic() - 60):
            assert own.run(handle, {"x": np.ones(1, np.float32)})["y"].tolist() == [1]
            os.kill(own.info().pid, signal.SIGSTOP)
            with pytest.raises(WorkerError, match="did not answer run within 1 s"):
                own.run(handle, {"x": np.ones(1, np.float32)})
        assert own.until == math.inf

"""Starting a worker's process, under our own interpreter or another."""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import IO, cast

from taso_py.backend.interpreters import runtime_of, worker_command, worker_environment
from taso_py.backend.protocol import Info, Reply, WorkerConfig, receive, send
from taso_py.errors import RuntimeMissingError, WorkerError, WorkerTimeoutError
from taso_py.processes.isolated import ending, last_words, scratch

_START_S = 120.0  # importing ONNX Runtime from a cold disk


@dataclass(slots=True)
class Child:
    """One living process, its socket, its captured stderr, and its numbers for our handles."""

    process: subprocess.Popen[bytes]
    connection: Connection
    stderr: IO[bytes]
    info: Info
    sessions: dict[int, int]


def started(config: WorkerConfig, within: float) -> Child:
    """A child in its own session, so that a terminal's Ctrl-C reaches the parent only; it has so many seconds.

    RuntimeMissingError where its interpreter or ONNX Runtime is missing, WorkerError where it does not start.
    """
    runtime_of(config.python)
    ours, theirs = socket.socketpair()
    stderr = scratch()
    with theirs:
        process = subprocess.Popen(
            worker_command(config.python, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            env=worker_environment(config.python),
        )
    connection = Connection(ours.detach())
    within = min(_START_S, within)
    end = time.monotonic() + within
    try:
        reply = _greeting(connection, config, within)
    except BaseException:  # somebody who asked to stop
        process.kill()
        raise
    if reply is not None and isinstance(reply.value, Info):
        return Child(process, connection, stderr, reply.value, {})
    late = time.monotonic() >= end
    process.kill()
    code = process.wait()
    connection.close()
    with stderr:
        tail = last_words(stderr)
    if reply is not None:  # it says itself what it lacks
        raise RuntimeMissingError(str(reply.value))
    raise _fault(config, f"no answer within {within:.3g} s" if late else ending(code), tail, late=late)


def _fault(config: WorkerConfig, how: str, tail: str, *, late: bool) -> RuntimeMissingError | WorkerError:
    """Why there is no worker."""
    if config.python is not None:
        words = f"no worker can start under {config.python} ({how}): check the onnxruntime there{tail}"
        return RuntimeMissingError(words)
    kind = WorkerTimeoutError if late else WorkerError
    return kind(f"worker cannot start ({how}): check the onnxruntime installation{tail}")


def _greeting(connection: Connection, config: WorkerConfig, within: float) -> Reply | None:
    """The child's first words; None where it has none."""
    try:
        send(connection, config)
        return cast(Reply, receive(connection)) if connection.poll(within) else None
    except (EOFError, OSError):
        return None

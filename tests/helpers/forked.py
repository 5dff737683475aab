"""Real processes of the command line that need not import anything or read our rules: forks of one that has done so.

Two servers with hash seeds of their own take turns, so that two runs of one test never share the order of their sets.
Run as a module it is such a server: for each request on its socket it forks, the child becomes the command, and the
answer is the child's process id and then its status.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

from taso_py.rules import library

_REQUEST_BYTES = 1 << 20
_PRELOADED = (
    *("click", "jinja2", "lark", "numpy", "onnx", "onnx_ir", "rich.console", "rich.table", "onnx.reference"),
    *("taso_py.cli", "taso_py.api", "taso_py.run.pipeline", "taso_py.run.check", "taso_py.run.bench"),
    *("taso_py.run.inspect", "taso_py.run.standing", "taso_py.report.terminal", "taso_py.report.document"),
)


@dataclass(slots=True)
class Server:
    """One server, started with the first command."""

    _process: subprocess.Popen[bytes] | None = None
    _socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """`subprocess.run` of the command line, its streams captured; TimeoutExpired after so many seconds."""
        connection = self._started(env)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        socket.send_fds(connection, [request], [out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        child = int(connection.recv(64))
        late = threading.Timer(timeout, os.kill, (child, 9))
        late.start()
        streams = _read(os.fdopen(out, "rb"), os.fdopen(err, "rb"))
        status = int(connection.recv(64))
        if not late.is_alive():
            raise subprocess.TimeoutExpired(list(arguments), timeout, *streams)
        late.cancel()
        code, texts = os.waitstatus_to_exitcode(status), [s.decode().replace("\r\n", "\n") for s in streams]
        return subprocess.CompletedProcess(list(arguments), code, *texts)

    def _started(self, env: Mapping[str, str]) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=dict(env), cwd=_ROOT)
            theirs.close()
        return self._socket

    def close(self) -> None:
        """End the server."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


def _read(*files: IO[bytes]) -> list[bytes]:
    """All of several pipes, whichever is written to first."""
    found = [b""] * len(files)

    def read(number: int) -> None:
        with files[number] as file:
            found[number] = file.read()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(files))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


_ROOT = Path(__file__).resolve().parents[2]


def _serve(connection: socket.socket) -> None:
    """Forks for each request; returns in a child that is to become the command, and where nobody asks any more."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 2)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            connection.close()
            _become(json.loads(request), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(child).encode())
        connection.send(str(os.waitpid(child, 0)[1]).encode())


def _become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    for descriptor, target in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
    # Those of the server were made for other files: whether one can be sought in is asked once.
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr, buffering=1)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["superopt", *asked["arguments"]]


def _stream(number: int, like: TextIO, buffering: int = -1) -> TextIO:
    """A standard stream as Python makes it at its start."""
    return open(number, "w", buffering, like.encoding, like.errors, closefd=False)


if __name__ == "__main__":
    for preloaded in _PRELOADED:
        import_module(preloaded)
    library.load()  # files of rules that were read are kept by their text
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from taso_py.__main__ import run

    run()

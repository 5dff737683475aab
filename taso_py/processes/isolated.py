"""Native code run in a process of its own: it may die, hang or take all memory, and costs nothing but its answer."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 1e6
"""The longest that anything is waited for: poll(2) counts milliseconds in an int, and deadlines may be infinite."""
MEMORY_BYTES = 2 << 30
"""The most memory of its own that the process may take."""


class NoAnswerError(Exception):
    """The process gave no answer; the message says why, as a clause."""


def command(module: str, *words: str) -> list[str]:
    """How a module of this package is run by another interpreter."""
    # -P: a module in the current directory must not shadow numpy or onnx
    return [sys.executable, "-P", "-m", module, *words]


def environment() -> dict[str, str]:
    """The parent's environment, with this package importable even when it is not installed, without telemetry.

    ONNX Runtime's wheels write a device id below the home directory and look up the vendor's collector when they are
    imported: a call of its API comes too late.
    """
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    own = {"PYTHONPATH": os.pathsep.join([*paths, str(_PACKAGE_ROOT)]), "ORT_DISABLE_TELEMETRY": "1"}
    return {**os.environ, **own}


def scratch() -> IO[bytes]:
    """A file for what a process says; in memory where the system can, as there may be no folder for one."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("superopt"), "w+b")
    return tempfile.TemporaryFile()  # type: ignore[unreachable,unused-ignore]


def last_words(said: IO[bytes]) -> str:
    """The last line that a process wrote, as a clause; empty when it wrote none."""
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return f"; last words: {lines[-1][:200]}" if lines else ""


def ending(code: int) -> str:
    """How a process ended, by its return code: ``SIGSEGV``, ``signal 40``, ``exit code 1``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # one for real time, which has a number alone
        return f"signal {-code}"


@contextmanager
def killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Within the block the process has so long, also where it stops in the midst of a message."""
    watch = _watch()
    place = watch.begin(process, time.monotonic() + seconds)
    try:
        yield
    finally:
        watch.over(place)


class _Watch:
    """One thread that ends the processes whose time is over.

    A thread for each question would cost a change of threads at its start and another at its end. This one is not
    told of what ends after the time at which it looks again anyway, nor of what is over.
    """

    def __init__(self) -> None:
        self._places = itertools.count()
        self._ends: dict[int, tuple[float, subprocess.Popen[bytes]]] = {}
        self._looks_again = math.inf
        self._earlier = threading.Condition()
        threading.Thread(target=self._look, name="superopt-watch", daemon=True).start()

    def begin(self, process: subprocess.Popen[bytes], end: float) -> int:
        """End the process at this time.monotonic() value, unless it is `over` by then."""
        with self._earlier:
            place = next(self._places)
            self._ends[place] = end, process
            if end < self._looks_again:
                self._earlier.notify()
        return place

    def over(self, place: int) -> None:
        with self._earlier:
            self._ends.pop(place, None)

    def _look(self) -> None:
        with self._earlier:
            while True:
                now = time.monotonic()
                for place in [place for place, (end, _) in self._ends.items() if end <= now]:
                    self._ends.pop(place)[1].kill()
                self._looks_again = min((end for end, _ in self._ends.values()), default=math.inf)
                self._earlier.wait(min(self._looks_again - now, LONGEST_S))


@cache
def _watch() -> _Watch:
    return _Watch()


if hasattr(os, "register_at_fork"):  # a fork has no thread of its parent's
    os.register_at_fork(after_in_child=_watch.cache_clear)


def answer(module: str, *words: str, given: bytes, seconds: float) -> bytes:
    """What the process of ``module``, which serves by `serve`, answers to ``words`` and ``given`` bytes.

    The process is started at the first question and stays for further ones, until it dies or this one ends.
    `NoAnswerError` where it fails, dies, or takes longer.
    """
    with _LOCK:
        found = _PROCESSES.get(module)
        if found is None or found.owner != os.getpid() or found.process.poll() is not None:
            found = _PROCESSES[module] = _Process(module)
        try:
            return found.answer(words, given, seconds)
        except BaseException:
            if not found.idle:
                _PROCESSES.pop(module).end()
            raise


def serve(work: Callable[[tuple[str, ...], bytes], bytes], memory: int = MEMORY_BYTES) -> None:
    """Answers questions from standard input until there are no more: what a module does that is asked by `answer`."""
    limit_memory(memory)
    # What a library prints must not get between the answers.
    answers = Connection(os.dup(sys.stdout.fileno()), readable=False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    questions = Connection(os.dup(sys.stdin.fileno()), writable=False)
    with suppress(EOFError, OSError):
        while True:
            words, given = questions.recv()
            try:
                found: bytes | str = work(words, given)
            except Exception as error:  # noqa: BLE001 - it raises whatever its C++ code meets
                found = " ".join(str(error).split())[:200] or type(error).__name__
            answers.send(found)


class _Process:
    """A living process of a module; ``idle`` when it waits for a question."""

    def __init__(self, module: str) -> None:
        self.owner = os.getpid()
        self.idle = True
        try:
            # In a session of its own a terminal's Ctrl-C reaches the parent only, which ends it.
            self.process = subprocess.Popen(
                command(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswerError(f"no process could be started ({error.strerror})") from None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.questions = Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self.answers = Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.process.stdin.close()
        self.process.stdout.close()

    def answer(self, words: tuple[str, ...], given: bytes, seconds: float) -> bytes:
        self.idle = False
        seconds = min(seconds, LONGEST_S)
        end, late = time.monotonic() + seconds, f"it took longer than {seconds:.3g} s"
        try:
            with killed_after(self.process, seconds):
                self.questions.send((words, given))
                if not self.answers.poll(seconds):
                    raise NoAnswerError(late)
                found = self.answers.recv()
        except (EOFError, OSError):
            if time.monotonic() >= end:
                raise NoAnswerError(late) from None
            raise NoAnswerError(f"its process died ({ending(self.process.wait())})") from None
        self.idle = True
        if isinstance(found, str):
            raise NoAnswerError(found)
        assert isinstance(found, bytes)
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.questions.close()
        self.answers.close()


_PROCESSES: dict[str, _Process] = {}
_LOCK = threading.Lock()


@atexit.register
def _end_all() -> None:
    for found in _PROCESSES.values():
        if found.owner == os.getpid():
            found.end()
    _PROCESSES.clear()


def memory_bytes() -> float:
    """The memory of this machine; inf where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on this platform
        return math.inf


def limit_memory(most: int) -> None:
    """Bounds the data of this process where the system can: beyond it there is a MemoryError."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))

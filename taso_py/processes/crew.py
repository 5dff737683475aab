"""Worker processes that do independent tasks: one that dies or hangs costs its task, not the rest."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from taso_py.processes.isolated import LONGEST_S, limit_memory

Task: TypeAlias = Any
Answer: TypeAlias = Any
Work: TypeAlias = Callable[[Task], Iterator[Answer]]
"""Better and better answers to a task, the last of which counts."""
Begin: TypeAlias = Callable[[Any], Work]
"""A function of a module, called once in every process with the crew's settings, before its first task."""
Limit: TypeAlias = float | Callable[[Task], float]
"""The most seconds of processor time that a task may take: the same for all, or told from the task."""

START_S = 120.0
"""The longest that a process may take to begin with a task: it imports, and makes ready."""
MEMORY_BYTES = 4 << 30
"""The most memory of its own that a process may take; the system then refuses it more, and its task is lost."""
_WAITING = 4.0
"""How often its limit a task may last that gets no processor, or waits for something."""
DIED = "the process died"
"""Why a task is lost that may be tried again."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A task whose process died, hung or failed: why, the answer so far (None: none), and the seconds spent."""

    why: str
    so_far: Answer = None
    seconds: float = 0.0
    late: bool = False
    """Whether the process was ended because the task took too long."""


@dataclass(slots=True)
class Queue:
    """Tasks in their order, each asked for when there is somebody to do it, and those that are tried again."""

    tasks: Iterator[Task | None]
    attempts: int
    count: int = 0
    again: deque[tuple[int, Task]] = field(default_factory=deque)
    given: dict[int, Task] = field(default_factory=dict)
    tries: Counter[int] = field(default_factory=Counter)

    def next(self) -> tuple[int, Task] | None:
        """The number of a task, and the task; None when there is none now."""
        if self.again:
            number, task = self.again.popleft()
        else:
            task = next(self.tasks, None)
            if task is None:
                return None
            number = self.count
            self.count += 1
        self.given[number] = task
        self.tries[number] += 1
        return number, task

    def back(self, number: int) -> None:
        """A task that was not begun."""
        self.tries[number] -= 1
        self.again.appendleft((number, self.given.pop(number)))

    def done(self, number: int, answer: Answer | Lost) -> bool:
        """Whether the answer counts; else the task will be given again."""
        task = self.given.pop(number)
        if isinstance(answer, Lost) and answer.why == DIED and self.tries[number] < self.attempts:
            self.again.appendleft((number, task))
            return False
        return True


@dataclass(slots=True)
class Crew:
    """A number of processes, each started at its first task; a context manager that ends them."""

    begin: Begin
    settings: Any
    count: int
    limit_s: Limit
    """Of processor time where the system tells it: beside other work a task may last longer."""
    attempts: int = 1
    """How often a task is tried when its process dies."""
    members: list[_Member] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.members = [_Member(self.begin, self.settings, self.limit_s) for _ in range(self.count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.stop()

    def answers(self, tasks: Iterable[Task | None]) -> Iterator[tuple[int, Answer | Lost]]:
        """The number of each task with its last answer, as they come.

        Tasks are asked for one by one: one may depend on answers that were given by then, and None in the place of a
        task says that there is none before the next answer.
        """
        queue = Queue(iter(tasks), self.attempts)
        while True:
            for member in (m for m in self.members if m.number is None):
                given = queue.next()
                if given is None:
                    break
                member.give(*given)
            if all(m.number is None for m in self.members):
                return
            for number, answer in filter(None, [member.answer() for member in self._ready()]):
                if queue.done(number, answer):
                    yield number, answer

    def _ready(self) -> list[_Member]:
        """Members that have said something, died, or are late; waits until there is one."""
        busy = [m for m in self.members if m.number is not None]
        patience = max(0.0, min(m.deadline for m in busy) - time.monotonic())
        spoken = wait([m.connection for m in busy], timeout=min(patience, LONGEST_S))
        return [m for m in busy if m.connection in spoken or m.late()]


_BEGUN, _BETTER, _LAST, _FAILED = range(4)
"""What a process says: work begins, an answer, that it was the last one, what went wrong."""


@dataclass(slots=True)
class _Member:
    """One process, started again after it was lost."""

    begin: Begin
    settings: Any
    limit: Limit
    _: KW_ONLY
    number: int | None = None
    limit_s: float = 0.0
    """Of the task."""
    since: float = 0.0
    deadline: float = 0.0
    """When to ask whether the task has taken too long."""
    used: float = 0.0
    """Processor time of the process when the task began."""
    begun: bool = False
    so_far: Answer = None
    process: SpawnProcess | None = None
    connection: Connection = field(init=False)

    def late(self) -> bool:
        """Whether the task has taken too long."""
        now = time.monotonic()
        if now < self.deadline:
            return False
        left = self.limit_s - (self._processor_time() - self.used) if self.begun else 0.0
        if left <= 0 or now >= self.since + _WAITING * self.limit_s:
            return True
        self.deadline = now + left
        return False

    def _processor_time(self) -> float:
        """Seconds that the process has computed; where the system does not say so, the time of day."""
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return time.monotonic()

    def give(self, number: int, task: Task) -> None:
        """Starts work on a task."""
        if self.process is None:
            self._start()
        self.number, self.since, self.begun, self.so_far = number, time.monotonic(), False, None
        self.limit_s = self.limit(task) if callable(self.limit) else self.limit
        self.deadline = self.since + START_S
        with suppress(OSError):  # a process that is gone is found out when its answer is read
            self.connection.send(task)

    def answer(self) -> tuple[int, Answer | Lost] | None:
        """The task's number with its last answer; None while there is no last one."""
        try:
            if not self.connection.poll():
                return self._lost(f"no answer within {self.limit_s:.0f} s", late=True)
            kind, said = self.connection.recv()
        except (EOFError, OSError):
            return self._lost(DIED)
        if kind == _BEGUN:
            self.since, self.begun, self.used = time.monotonic(), True, self._processor_time()
            self.deadline = self.since + self.limit_s
        elif kind == _BETTER:
            self.so_far = said
        elif kind == _FAILED:
            return self._done(Lost(said, self.so_far, time.monotonic() - self.since))
        else:
            return self._done(self.so_far)
        return None

    def _done(self, answer: Answer | Lost) -> tuple[int, Answer | Lost]:
        number, self.number = self.number, None
        assert number is not None
        return number, answer

    def _lost(self, why: str, *, late: bool = False) -> tuple[int, Lost]:
        self.stop()
        number, answer = self._done(Lost(why, self.so_far, time.monotonic() - self.since, late))
        return number, answer

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.begin, self.settings), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        """Ends the process; workers of its own end with it."""
        process, self.process = self.process, None
        if process is None:
            return
        self.connection.close()
        process.kill()
        process.join()


def _serve(connection: Connection, begin: Begin, settings: Any) -> None:
    """A member's own loop; a terminal's Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit_memory(MEMORY_BYTES)
    work = begin(settings)
    with suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            connection.send((_BEGUN, None))
            for kind, said in _said(work, task):
                connection.send((kind, said))


def _said(work: Work, task: Task) -> Iterator[tuple[int, Any]]:
    try:
        for answer in work(task):
            yield _BETTER, answer
    except MemoryError:
        yield _FAILED, f"it needs more than {MEMORY_BYTES >> 30} GiB of memory"
        return
    except Exception as error:  # noqa: BLE001 - a fault costs this task, and says so
        yield _FAILED, f"internal error: {type(error).__name__}: {error}"
        return
    yield _LAST, None


def _end_with_parent() -> None:
    """A parent that was killed cannot end its processes; they end by themselves, whatever they are doing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

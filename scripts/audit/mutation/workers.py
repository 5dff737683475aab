"""Calls of functions in other processes, each with a time limit that ends the process."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

_TICK = 0.5


@dataclass(frozen=True, slots=True)
class Task:
    """``function`` ("module:name") of ``arguments``, within ``limit`` seconds."""

    key: str
    function: str
    arguments: tuple[Any, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task gave; ``failure`` is empty, "timeout", "crash" or an exception in words."""

    key: str
    value: Any
    failure: str
    seconds: float


def called(function: str, arguments: tuple[Any, ...]) -> Any:
    """The function of that import path, called."""
    module, name = function.split(":")
    return getattr(import_module(module), name)(*arguments)


def _serve(connection: Connection) -> None:
    """In a child: answers calls until there are no more."""
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        begin = time.perf_counter()
        try:
            value, failure = called(function, arguments), ""
        except Exception as error:  # noqa: BLE001  (whatever a task raises is its outcome)
            value, failure = None, f"{type(error).__name__}: {error}"
        connection.send((value, failure, time.perf_counter() - begin))


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task | None = None
    begin: float = 0.0

    @staticmethod
    def start() -> _Worker:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)

    def give(self, task: Task) -> None:
        self.task, self.begin = task, time.perf_counter()
        self.connection.send((task.function, task.arguments))

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def run(tasks: Iterable[Task], processes: int = 2) -> Iterator[Outcome]:
    """Outcomes as they come; a task beyond its limit, or one that kills its process, costs no other task."""
    waiting = iter(tasks)
    workers: list[_Worker] = []
    try:
        for task in waiting:
            workers.append(_Worker.start())
            workers[-1].give(task)
            if len(workers) == processes:
                break
        while any(w.task for w in workers):
            yield from _round(workers, waiting)
    finally:
        for worker in workers:
            worker.end()


def _round(workers: list[_Worker], waiting: Iterator[Task]) -> Iterator[Outcome]:
    """Waits for one answer or a tick; gives new tasks to whoever is free."""
    busy = {w.connection: w for w in workers if w.task}
    ready = set(wait(list(busy), timeout=_TICK))
    for connection, worker in busy.items():
        assert worker.task is not None
        spent = time.perf_counter() - worker.begin
        if connection not in ready and spent < worker.task.limit:
            continue
        outcome = _answer(worker, spent) if connection in ready else Outcome(worker.task.key, None, "timeout", spent)
        if outcome.failure in ("timeout", "crash"):
            worker.end()
            fresh = _Worker.start()
            worker.process, worker.connection = fresh.process, fresh.connection
        worker.task = None
        following = next(waiting, None)
        if following is not None:
            worker.give(following)
        yield outcome


def _answer(worker: _Worker, spent: float) -> Outcome:
    assert worker.task is not None
    try:
        value, failure, seconds = worker.connection.recv()
    except (EOFError, OSError):
        return Outcome(worker.task.key, None, "crash", spent)
    return Outcome(worker.task.key, value, failure, seconds)

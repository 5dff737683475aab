"""Calls of functions in other processes, each with a time limit that ends the process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from taso_py.processes.crew import Crew, Lost, Work


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


def _answers(task: Task) -> Iterator[Outcome]:
    begin = time.perf_counter()
    try:
        value, failure = called(task.function, task.arguments), ""
    except Exception as error:  # noqa: BLE001  (whatever a task raises is its outcome)
        value, failure = None, f"{type(error).__name__}: {error}"
    yield Outcome(task.key, value, failure, time.perf_counter() - begin)


def _begin(_settings: None) -> Work:
    return _answers


def _limit(task: Task) -> float:
    return task.limit


def run(tasks: Iterable[Task], processes: int = 2) -> Iterator[Outcome]:
    """Outcomes as they come; a task beyond its limit, or one that kills its process, costs no other task."""
    given: dict[int, Task] = {}

    def noted() -> Iterator[Task]:
        for number, task in enumerate(tasks):
            given[number] = task
            yield task

    with Crew(_begin, None, processes, _limit) as crew:
        for number, answer in crew.answers(noted()):
            task = given.pop(number)
            if isinstance(answer, Lost):
                answer = Outcome(task.key, None, "timeout" if answer.late else "crash", answer.seconds)
            yield answer

"""The generator's tasks on a Ray cluster (https://docs.ray.io): a lost node costs no more than a lost process."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import Any, Self

from taso_py.errors import RuntimeMissingError, UsageError
from taso_py.options.spelling import spelled
from taso_py.processes.crew import DIED, START_S, Answer, Begin, Lost, Queue, Task
from taso_py.version import VERSION

_LOOK_S = 5.0
"""How often nodes that came or went are looked for."""
_PLACING_S = 20.0
"""How long a task waits for a place of its own while an actor is idle."""


class _Worker:
    """One actor's side."""

    def __init__(self, begin: Begin, settings: Any) -> None:
        self.work = begin(settings)

    def do(self, task: Task) -> Iterator[Answer]:
        """Better and better answers to a task; first, to say that it is begun, this node's version of superopt."""
        yield VERSION
        yield from self.work(task)


@dataclass(slots=True)
class _Running:
    """A task that an actor has been given."""

    number: int
    actor: Any
    since: float = field(default_factory=time.monotonic)
    begun: bool = False
    so_far: Answer = None

    def lost(self, why: str, *, late: bool = False) -> Lost:
        return Lost(why, self.so_far, time.monotonic() - self.since, late)


@dataclass(slots=True)
class RayCrew:
    """What `taso_py.processes.crew.Crew` does, with one actor for each free CPU of an existing cluster."""

    begin: Begin
    settings: Any
    limit_s: float
    _: KW_ONLY
    attempts: int
    address: str
    idle: list[Any] = field(default_factory=list)
    running: dict[Any, _Running] = field(default_factory=dict)
    """By the stream of answers."""
    _ray: Any = None
    _own: bool = False
    _free: int = 0
    _looked: float = float("-inf")

    def __enter__(self) -> Self:
        try:
            import ray
        except ImportError:
            raise RuntimeMissingError(f"{spelled('executor', 'ray')} needs Ray: pip install 'superopt[ray]'") from None
        self._ray, self._own = ray, not ray.is_initialized()
        if self._own:
            self._connect()
        return self

    def _connect(self) -> None:
        found = re.fullmatch(r"([\w.-]+):(\d+)", self.address)
        if found is None and self.address != "auto":
            raise UsageError(f"{spelled('address', self.address)}: give auto, or HOST:PORT of the cluster's head")
        try:
            if found is not None:  # where nothing listens, Ray itself would go on trying for minutes
                socket.create_connection((found[1], int(found[2])), timeout=10).close()
            self._ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UsageError(f"{spelled('address', self.address)}: no Ray cluster answers there ({reason})") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in [*self.idle, *(r.actor for r in self.running.values())]:
            self._kill(actor)
        self.idle, self.running = [], {}
        if self._own:
            self._ray.shutdown()

    def answers(self, tasks: Iterable[Task | None]) -> Iterator[tuple[int, Answer | Lost]]:
        """The number of each task with its last answer, as they come; see `Crew.answers`."""
        queue = Queue(iter(tasks), self.attempts)
        while True:
            self._replace(queue)
            self._give(queue)
            if not self.running:
                return
            for number, answer in self._received():
                if queue.done(number, answer):
                    yield number, answer

    def _give(self, queue: Queue) -> None:
        """A task for every actor that there is a CPU for."""
        while (given := queue.next()) is not None:
            number, task = given
            actor = self._actor()
            if actor is None:
                queue.back(number)
                return
            self.running[actor.do.options(num_returns="streaming").remote(task)] = _Running(number, actor)

    def _actor(self) -> Any:
        """An idle actor, or a new one where a CPU is free; None when there is neither."""
        if self.idle:
            return self.idle.pop()
        if time.monotonic() - self._looked > _LOOK_S:
            self._free = int(self._ray.available_resources().get("CPU", 0))
            self._looked = time.monotonic()
        if self._free < 1 and self.running:
            return None
        self._free -= 1
        return self._ray.remote(num_cpus=1)(_Worker).remote(self.begin, self.settings)

    def _replace(self, queue: Queue) -> None:
        """Gives idle actors the tasks of those that found no place: the CPU that was free may be gone."""
        now = time.monotonic()
        late = [s for s, r in self.running.items() if not r.begun and now >= r.since + _PLACING_S]
        for stream in late[: len(self.idle)]:
            one = self.running.pop(stream)
            self._kill(one.actor)
            queue.back(one.number)

    def _received(self) -> list[tuple[int, Answer | Lost]]:
        """The tasks that have ended, one way or the other; waits a while until something is said."""
        if not self.running:
            return []
        streams = list(self.running)
        self._ray.wait(streams, num_returns=1, timeout=self._patience(), fetch_local=False)
        ready, silent = self._ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)
        found = [self._read(stream) for stream in ready]
        now = time.monotonic()
        for stream in silent:
            one = self.running[stream]
            if now >= self._deadline(one):
                why = f"no answer within {self.limit_s:.0f} s" if one.begun else DIED
                found.append(self._ended(stream, why, late=one.begun))
        return [f for f in found if f is not None]

    def _deadline(self, one: _Running) -> float:
        return one.since + (self.limit_s if one.begun else START_S)

    def _patience(self) -> float:
        return min(_LOOK_S, max(0.0, min(map(self._deadline, self.running.values())) - time.monotonic()))

    def _read(self, stream: Any) -> tuple[int, Answer | Lost] | None:
        one, errors = self.running[stream], self._ray.exceptions
        try:
            said = self._ray.get(next(stream))
        except StopIteration:
            del self.running[stream]
            self.idle.append(one.actor)
            return one.number, one.so_far
        except errors.RayTaskError as error:
            del self.running[stream]
            self.idle.append(one.actor)
            return one.number, one.lost(f"internal error: {type(error.cause).__name__}: {error.cause}")
        except errors.RayError as error:
            if getattr(error, "actor_init_failed", False):
                reason = str(error).strip().splitlines()[-1]
                raise UsageError(f"a node cannot run superopt ({reason}): install {VERSION} on every node") from None
            return self._ended(stream, DIED)
        if one.begun:
            one.so_far = said
        elif said != VERSION:
            raise UsageError(f"a node of the cluster has superopt {said}: install {VERSION} on every node")
        else:
            one.begun, one.since = True, time.monotonic()
        return None

    def _ended(self, stream: Any, why: str, *, late: bool = False) -> tuple[int, Lost]:
        one = self.running.pop(stream)
        self._kill(one.actor)
        return one.number, one.lost(why, late=late)

    def _kill(self, actor: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(actor)

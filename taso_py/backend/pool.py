"""Workers that outlive one run: consecutive optimisations of many small models need not start a process each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig


@dataclass(slots=True)
class WorkerPool:
    """One live worker per configuration, lent to one run after the other; a context manager that ends them all.

    Timings are the same as in a fresh process only while no run leaves sessions open; every run closes its own.
    """

    _workers: dict[WorkerConfig, Worker] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()

    def worker(self, config: WorkerConfig) -> Worker:
        """The worker of this configuration; it stays alive until the pool ends."""
        if config not in self._workers:
            self._workers[config] = Worker(config)
        return self._workers[config]


@contextmanager
def lent(pool: WorkerPool | None, config: WorkerConfig) -> Iterator[Worker]:
    """A worker of the pool; without one a worker of one's own, ended at exit."""
    if pool is not None:
        yield pool.worker(config)
        return
    with Worker(config) as worker:
        yield worker

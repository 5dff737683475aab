"""Which provider runs a model fastest: a race across processes, one worker for each, their blocks in turn.

Each entrant may have a model of its own, so that rewritten models on several providers meet in the same rounds.

Two providers in one process disturb each other's threads up to tenfold, hence the processes.  Only ratios of blocks of
the same round are compared.  While one is timed the others wait for a request; how much of a CPU their pools keep busy
all the same is measured, and a round in which that is more than a little does not count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from taso_py.backend.client import Worker
from taso_py.backend.delays import ran_s
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.statistics import Interval, bootstrap_interval, geometric_mean
from taso_py.backend.timing import affordable_block
from taso_py.check.check import Checker
from taso_py.check.placed import difference_at
from taso_py.errors import ModelError, NotLosslessError, RuntimeMissingError, WorkerError
from taso_py.providers.lossless import is_plain, require_lossless
from taso_py.providers.record import RacedProvider

_BLOCK_S = 0.25
_MOST_IDLE = 0.05
"""Of a CPU that waiting workers may keep busy in a round that counts."""
_SETTLE_S, _MOMENT_S = 0.25, 0.02
"""How long the others' pools may take to come to rest before a block, and how long is looked at a time."""
_PATIENCE = 3
"""Rounds that may not count for each that should."""
_BASELINE = 6
"""How many times longer the baseline may take than others: without it there is no run at all."""
UNTIMED = "not timed: no time was left, or pools that should have waited kept the CPUs busy"
_Failures = (ModelError, RuntimeMissingError, WorkerError, NotLosslessError)


@dataclass(slots=True, eq=False, kw_only=True)
class Entrant:
    """A model on a provider in the race, with a worker of its own."""

    config: WorkerConfig
    worker: Worker
    model: ModelRef
    ort_version: str | None = None
    handle: int | None = None
    opening_s: float = 0.0
    """What its session and first runs took."""
    seconds: dict[int, float] = field(default_factory=dict)
    """Round -> geometric mean over the workloads of the medians of its blocks."""
    idle: float = 0.0
    failure: str | None = None

    def fail(self, error: object) -> None:
        """It is not timed any more."""
        self.failure, self.handle = str(error), None
        self.worker.stop()


class ProviderRace:
    """The providers of one model; a context manager that ends their workers. The first of them is the baseline.

    ``models``: what each of ``configs`` runs, of the same inputs; without it all run the original.
    """

    def __init__(
        self,
        configs: Sequence[WorkerConfig],
        original: ModelRef,
        workloads: Sequence[Feeds],
        *,
        patience_s: float,
        models: Sequence[ModelRef] | None = None,
    ) -> None:
        self.workloads, self.patience_s = workloads, patience_s
        self.entrants = [
            Entrant(config=config, worker=Worker(config, timeout=patience_s), model=model)
            for config, model in zip(configs, models or [original] * len(configs), strict=True)
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for one in self.entrants:
            self._stack.enter_context(one.worker)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def admit(self, checker: Checker | None = None) -> None:
        """Open each one's model, and say of each why it may not take part: it fails, or other values come out.

        It is the provider that ``checker`` judges, by the original: a model of its own is for others to compare.
        Raises what the baseline raises: without it there is no race.
        """
        base = self.entrants[0]
        if checker is not None:
            checker.prepare()  # its time is nobody's of these
        for one in self.entrants:
            patience = self.patience_s * (_BASELINE if one is base else 1)
            try:
                one.ort_version = one.worker.ort_version()
                with one.worker.keeping_to(time.monotonic() + 2 * patience):
                    self._admit(one, checker, patience)
            except _Failures as error:
                if one is base:
                    raise
                one.fail(error)

    def _admit(self, one: Entrant, checker: Checker | None, patience_s: float) -> None:
        if checker is not None and not is_plain(one.config):
            require_lossless(one.worker)
            wrong = difference_at(checker, one.worker, timeout=patience_s)
            if wrong is not None:
                raise ModelError(f"other values than ONNX Runtime's CPU provider: {wrong}")
        begin = time.monotonic()
        one.handle = one.worker.open(one.model, timeout=patience_s)
        for feeds in self.workloads:  # first runs allocate: they belong into no round
            one.worker.run(one.handle, feeds, timeout=patience_s)
        one.opening_s = time.monotonic() - begin

    def time(self, rounds: int, *, deadline: float) -> None:
        """So many rounds that count, or as many as end before ``deadline``, a time.monotonic() value.

        Blocks get shorter rather than rounds fewer.
        """
        done, beside = 0, 2 * _MOMENT_S
        for number in range(_PATIENCE * rounds):
            alive = [one for one in self.entrants if one.handle is not None]
            if done == rounds or len(alive) < 2 or time.monotonic() >= deadline:
                break
            begin, blocks = time.monotonic(), len(alive) * len(self.workloads)
            left = deadline - begin - beside * (rounds - done) * len(alive)
            block = affordable_block(_BLOCK_S, left, rounds - done, blocks)
            found = {one: self._timed(one, alive, block) for one in (alive if number % 2 == 0 else alive[::-1])}
            # What an entrant takes beside its blocks: others come to rest, and a run ends after its block.
            beside = max(beside, (time.monotonic() - begin - block * blocks) / len(alive))
            if max(idle for _, idle in found.values()) > _MOST_IDLE * len(alive):
                continue
            done += 1
            for one, (seconds, _) in found.items():
                if seconds is not None:
                    one.seconds[number] = seconds

    def _timed(self, one: Entrant, alive: Sequence[Entrant], block_s: float) -> tuple[float | None, float]:
        """Seconds of a run, and how much of a CPU the others kept busy meanwhile."""
        others = [other for other in alive if other is not one and other.handle is not None]
        _settle([other.worker.info().pid for other in others])
        before = [ran_s(other.worker.info().pid) for other in others]
        begin = time.monotonic()
        assert one.handle is not None
        try:
            handles = [one.handle] * len(self.workloads)
            blocks = one.worker.time_blocks(handles, self.workloads, rounds=1, block_s=block_s)
        except _Failures as error:
            if one is self.entrants[0]:
                raise
            one.fail(error)
            return None, 0.0
        took = time.monotonic() - begin
        shares = [(ran_s(other.worker.info().pid) - ran) / took for other, ran in zip(others, before, strict=True)]
        for other, share in zip(others, shares, strict=True):
            other.idle = max(other.idle, share)
        return (geometric_mean(blocks[0]) if blocks else None), sum(shares)

    def interval(self, one: Entrant) -> Interval | None:
        """How many times faster it runs its model than the baseline; None for one that was not timed."""
        base = self.entrants[0].seconds
        ratios = [base[number] / seconds for number, seconds in one.seconds.items() if number in base]
        return bootstrap_interval(ratios) if ratios and one.failure is None else None

    def record(self) -> tuple[RacedProvider, ...]:
        """What was found of each."""
        several = sum(one.failure is None for one in self.entrants) > 1
        return tuple(self._record(one, UNTIMED if several and not one.seconds else None) for one in self.entrants)

    def _record(self, one: Entrant, untimed: str | None) -> RacedProvider:
        found = self.interval(one)
        return RacedProvider(
            ep=one.config.ep, python=one.config.python, ort_version=one.ort_version,
            speedup=None if found is None else found.median,
            speedup_low=None if found is None else found.low,
            speedup_high=None if found is None else found.high,
            rounds=len(one.seconds),
            idle_share=one.idle if one.seconds else None,
            failure=one.failure or untimed,
        )  # fmt: skip


def _settle(pids: Sequence[int]) -> None:
    """Wait until these processes rest: a pool of threads spins for some milliseconds after its last run."""
    end, ran = time.monotonic() + _SETTLE_S, sum(map(ran_s, pids))
    while pids and time.monotonic() < end:
        time.sleep(_MOMENT_S)
        before, ran = ran, sum(map(ran_s, pids))
        if ran - before < _MOST_IDLE * _MOMENT_S:
            return

"""Candidates that are the exact model on a provider that may compute in bfloat16, by the provider's own hint.

Each runs in a process of its own: two providers in one disturb each other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from taso_py.approximate.candidates import Candidate
from taso_py.approximate.judge import Judge
from taso_py.approximate.record import HINT, TriedApproximation
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.timing import Confirmation, Unconfirmed, confirmation_of
from taso_py.errors import ModelError, RuntimeMissingError, TooLateError, WorkerError
from taso_py.options.providers import short_name
from taso_py.providers.lossless import executed_errors, loss
from taso_py.providers.race import ProviderRace
from taso_py.providers.record import RacedProvider

_LEAST_JUDGED = 4
"""Samples that are enough where time is short: others decide in the end."""
_LEAST_PATIENCE_S = 2.0
"""What one request of a race may take at least."""


def hinted(
    config: WorkerConfig, exact: ModelRef, judge: Judge, selection: Sequence[int], *, beyond: float, until: float
) -> Candidate | TriedApproximation:
    """The exact model as ``config`` runs it, judged on these samples; or why that is no candidate.

    The precision is read back from what is computed: a hint that is not followed, as on a CPU without instructions for
    it, approximates nothing.  ``until`` is a time.monotonic() value.
    """
    try:
        with Worker(config) as worker, worker.keeping_to(until):
            errors = executed_errors(worker)
            why = loss(errors)
            if why is None:
                return _failed(config, f"{short_name(config.ep)} computes in float32 all the same here")
            if not errors:
                return _failed(config, f"{short_name(config.ep)}: {why}")
            verdict = judge.on(worker).verdict(exact, selection, beyond=beyond, until=until, least=_LEAST_JUDGED)
    except (ModelError, RuntimeMissingError, TooLateError, WorkerError) as error:
        return _failed(config, str(error))
    return Candidate(
        kind=HINT, calibrator=None, reference=exact, layers=frozenset(), whole=True, verdict=verdict, config=config
    )  # fmt: skip


def _failed(config: WorkerConfig, why: str) -> TriedApproximation:
    return TriedApproximation(HINT, None, 0, whole=True, failure=why, ep=config.ep)


def raced(
    base: WorkerConfig,
    others: Sequence[WorkerConfig],
    exact: ModelRef,
    workloads: Sequence[Feeds],
    *,
    rounds: int,
    deadline: float,
) -> tuple[RacedProvider, ...]:
    """How much faster each of ``others`` runs the exact model than ``base`` does, in processes of their own.

    Raises what ``base`` raises; what another one raises is its `failure`.
    """
    with ProviderRace([base, *others], exact, workloads, patience_s=_patience(deadline)) as race:
        race.admit()
        race.time(rounds, deadline=deadline)
        return race.record()[1:]


def confirmed(
    base: WorkerConfig,
    config: WorkerConfig,
    exact: ModelRef,
    workloads: Sequence[Feeds],
    *,
    rounds: int,
    deadline: float,
    seed: int = 0,
) -> Confirmation | Unconfirmed:
    """The exact model as ``config`` runs it against ``base``, in new processes, each workload by itself.

    ModelError, WorkerError or RuntimeMissingError where one does not run.
    """
    taken: list[list[tuple[float, float]]] = []
    for number, feeds in enumerate(workloads):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(workloads) - number)
        with ProviderRace([base, config], exact, [feeds], patience_s=_patience(until)) as race:
            race.admit()
            race.time(rounds, deadline=until)
            first, second = race.entrants
            if second.failure is not None:
                raise WorkerError(second.failure)
            taken.append([(first.seconds[k], seconds) for k, seconds in second.seconds.items() if k in first.seconds])
    pairs = [[seconds for pair in together for seconds in pair] for together in zip(*taken, strict=False)]
    return confirmation_of(pairs, seed) if pairs else Unconfirmed()


def _patience(deadline: float) -> float:
    return max(_LEAST_PATIENCE_S, deadline - time.monotonic())

"""Candidates that run elsewhere than the exact model: on another provider, or with a provider's hint of bfloat16.

Each runs in a process of its own: two providers in one disturb each other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taso_py.approximate.candidates import Candidate
from taso_py.approximate.judge import Judge
from taso_py.approximate.record import HINT, TriedApproximation, with_hint
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.timing import Confirmation, Unconfirmed, confirmation_of
from taso_py.errors import ModelError, RuntimeMissingError, TooLateError, WorkerError
from taso_py.options.providers import short_name
from taso_py.providers.lossless import executed_errors, loss
from taso_py.providers.race import ProviderRace
from taso_py.providers.record import RacedProvider

LEAST_JUDGED = 4
"""Samples that are enough where time is short: others decide in the end."""
_FAILURES = (ModelError, RuntimeMissingError, TooLateError, WorkerError)
_LEAST_PATIENCE_S = 2.0
"""What one request of a race may take at least."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A provider that candidates may run on, other than the exact model's, and whether a hint makes it less precise."""

    config: WorkerConfig
    hint: bool


Judged = Candidate | TriedApproximation


def hinted(
    config: WorkerConfig,
    models: Sequence[ModelRef],
    judge: Judge,
    selection: Sequence[int],
    *,
    beyond: float,
    until: float,
) -> list[Judged]:
    """Models without 8-bit layers as ``config``, which has a hint, runs them, judged on these samples; or why not.

    The first is the exact model, a second one the original.  The precision is read back from what is computed: a hint
    that is not followed, as on a CPU without instructions for it, approximates nothing.  ``until`` is a
    time.monotonic() value.
    """
    made = list[Judged]()
    try:
        with Worker(config) as worker, worker.keeping_to(until):
            errors = executed_errors(worker)
            why = loss(errors)
            if why is None:
                return [_failed(config, f"{short_name(config.ep)} computes in float32 all the same here")]
            if not errors:
                return [_failed(config, f"{short_name(config.ep)}: {why}")]
            for number, model in enumerate(models):
                share = time.monotonic() + (until - time.monotonic()) / (len(models) - number)
                verdict = judge.on(worker).verdict(model, selection, beyond=beyond, until=share, least=LEAST_JUDGED)
                one = Candidate(
                    kind=HINT, calibrator=None, reference=model, layers=frozenset(), whole=True, verdict=verdict,
                    config=config, of_original=number > 0,
                )  # fmt: skip
                made.append(one)
    except _FAILURES as error:
        made.append(_failed(config, str(error), of_original=bool(made)))
    return made


def moved(
    place: Elsewhere,
    candidates: Sequence[Candidate],
    judge: Judge,
    selection: Sequence[int],
    *,
    beyond: float,
    until: float,
) -> list[Judged]:
    """Models with 8-bit layers as they run in another place, judged there on these samples; or why they do not."""
    made = list[Judged]()
    try:
        with Worker(place.config) as worker, worker.keeping_to(until):
            for one in candidates:
                verdict = judge.on(worker).verdict(
                    one.reference, selection, beyond=beyond, until=until, least=LEAST_JUDGED
                )
                kind = with_hint(one.kind) if place.hint else one.kind
                made.append(replace(one, kind=kind, verdict=verdict, config=place.config))
    except _FAILURES as error:
        one = candidates[len(made)]
        kind = with_hint(one.kind) if place.hint else one.kind
        failed = TriedApproximation(kind, one.calibrator, len(one.layers), whole=one.whole, failure=str(error))
        made.append(replace(failed, ep=place.config.ep))
    return made


def _failed(config: WorkerConfig, why: str, *, of_original: bool = False) -> TriedApproximation:
    return TriedApproximation(HINT, None, 0, whole=True, failure=why, ep=config.ep, of_original=of_original)


def raced(
    base: WorkerConfig,
    others: Sequence[WorkerConfig],
    exact: ModelRef,
    models: Sequence[ModelRef],
    workloads: Sequence[Feeds],
    *,
    rounds: int,
    deadline: float,
) -> tuple[RacedProvider, ...]:
    """How much faster each of ``others`` runs its model than ``base`` runs the exact one, in processes of their own.

    Raises what ``base`` raises; what another one raises is its `failure`.
    """
    patience, every = _patience(deadline), [exact, *models]
    with ProviderRace([base, *others], exact, workloads, patience_s=patience, models=every) as race:
        race.admit()
        race.time(rounds, deadline=deadline)
        return race.record()[1:]


def confirmed(
    base: WorkerConfig,
    config: WorkerConfig,
    models: tuple[ModelRef, ModelRef],
    workloads: Sequence[Feeds],
    *,
    rounds: int,
    deadline: float,
    seed: int = 0,
) -> Confirmation | Unconfirmed:
    """The second model as ``config`` runs it against the first on ``base``, in new processes, each workload by itself.

    ModelError, WorkerError or RuntimeMissingError where one does not run.
    """
    taken: list[list[tuple[float, float]]] = []
    for number, feeds in enumerate(workloads):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(workloads) - number)
        with ProviderRace([base, config], models[0], [feeds], patience_s=_patience(until), models=models) as race:
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

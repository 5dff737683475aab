"""`superopt optimize --error-budget`: the exact search first, then approximations of its result under the budget."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from taso_py.approximate.candidates import Candidate
from taso_py.approximate.elsewhere import Elsewhere
from taso_py.approximate.judge import Verdict
from taso_py.approximate.measure import warrant
from taso_py.approximate.model import ApproximateModel
from taso_py.approximate.record import HINT, Approximation, ApproximationReason, ReasonCode
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.backend.timing import Confirmation
from taso_py.certificate.approximate import ApproximateTrail
from taso_py.certificate.record import Trail
from taso_py.check.inputs import make_feeds, override_shapes, with_arrays
from taso_py.check.shapes import resolve_shapes
from taso_py.errors import TooLateError, WorkerTimeoutError
from taso_py.files import load_arrays
from taso_py.onnx_io.artifact import Artifact, CopiedFile, GivenProto
from taso_py.options import Options
from taso_py.options.providers import bf16_options, exact_options
from taso_py.progress import Progress
from taso_py.providers.choosing import run_of, worker_config
from taso_py.providers.contenders import contenders
from taso_py.providers.race import UNTIMED
from taso_py.result import Reason, Result
from taso_py.run import pipeline, provenance
from taso_py.run.approximation import Stage
from taso_py.run.budget import Data, data_of, notes_of, require_usable
from taso_py.run.candidates import work_folder
from taso_py.run.dropped import fault
from taso_py.run.run import Clock
from taso_py.run.subject import reference, require_runnable
from taso_py.stop import Interrupted, StopFlag

_EXACT_SHARE = 0.5
"""Part of the time budget that the exact search has."""
_TRIAL_SHARE, _LEAST_TRIAL_S = 0.25, 5.0
"""Part of the time budget, of the exact search's, in which samples and metric may be tried before; and in any case."""
Made = tuple[Candidate, Verdict, Confirmation]


def optimize(source: Path | onnx.ModelProto, options: Options, *, progress: Progress, stop: StopFlag) -> Result:
    """The fastest exact rewrite, and of that the fastest approximation within ``options.error_budget``.

    The exact result comes back where no approximation keeps the budget, is faster, or is confirmed before a signal;
    `Result.approximation` says why.  UsageError for samples or a metric that do not fit the model.
    """
    clock = Clock.since(stop.begun(), options.time_budget_s)
    require_runnable(source)
    progress.phase("load")
    original = reference(source)
    try:
        with stop.abandoning():
            data = _tried(original, options, clock)
    except Interrupted:
        return _exactly(source, options, clock, progress, stop)  # which ends at once, and says why
    given = options.ep_options
    # The hint that they may ask for is what the budget is for: what is proved is computed in float32.
    options = replace(_at_sizes_of(data, options), ep_options=exact_options(options.provider, given))
    exact = _exactly(source, options, clock, progress, stop)
    notes = (*exact.notes, *notes_of(data))
    result = replace(
        _approximated(source, original, exact, _Means(options, data, clock, progress, stop, given)), notes=notes
    )
    phases = {**exact.phases_s, **clock.phases}
    phases["approximate"] = clock.elapsed() - sum(phases.values())
    return replace(result, elapsed_s=clock.elapsed(), phases_s=phases)


def _tried(original: ModelRef, options: Options, clock: Clock) -> Data:
    """What the budget is measured on, tried once; UsageError for what does not fit.

    Where the trial takes too long it is the second stage that finds out: the exact search has its own time.
    """
    data = data_of(original, options)
    _ = data.parts  # too few samples are said before anything long begins
    with suppress(TooLateError, WorkerTimeoutError):
        require_usable(original, data, options, until=max(clock.at(_TRIAL_SHARE), clock.begin + _LEAST_TRIAL_S))
    return data


@dataclass(frozen=True, slots=True)
class _Means:
    """What the second stage works with."""

    options: Options
    data: Data
    clock: Clock
    progress: Progress
    stop: StopFlag
    given: Mapping[str, str]
    """Provider options as they were given, a hint included."""


def _at_sizes_of(data: Data, options: Options) -> Options:
    """The sizes of the samples count where nobody chose others: the result will meet those."""
    if data.samples.random or options.shapes or options.workloads:
        return options
    fixed = override_shapes(data.samples.fixed)
    return replace(options, shapes={name: size for name, size in data.samples.shapes.items() if name not in fixed})


def _exactly(
    source: Path | onnx.ModelProto, options: Options, clock: Clock, progress: Progress, stop: StopFlag
) -> Result:
    """The exact search, in its part of the time, as it is without a budget."""
    seconds = max(1.0, _EXACT_SHARE * clock.budget - clock.elapsed())
    asked = replace(options, error_budget=None, calibration=None, metric=None, time_budget_s=seconds)
    if asked.is_race:
        from taso_py.run import placing

        return placing.optimize(source, asked, progress=progress, stop=stop)
    return pipeline.optimize(source, asked, progress=progress, stop=stop)


def _approximated(source: Path | onnx.ModelProto, original: ModelRef, exact: Result, means: _Means) -> Result:
    """The exact result, with what became of the budget; the approximate one where there is one."""
    options, data = means.options, means.data
    told = _nothing(exact, options, data)
    if means.stop:
        return replace(
            exact, approximation=_dropped(told, "interrupted", "interrupted before anything was approximated")
        )
    stage: Stage | None = None
    try:
        with means.stop.abandoning(), work_folder() as folder:
            stage = Stage(
                original=original, exact=exact.artifact.proto(), options=options, data=data,
                feeds=_feeds(options, data), config=_config(exact, options), folder=folder, clock=means.clock,
                progress=means.progress, places=_places(exact, options, means.given), differs=exact.changed,
            )  # fmt: skip
            made = stage.run()
            means.stop.keep()
            if made[0].of_original:
                exact = _original(source, exact)
                told = _nothing(exact, options, data)
            return _applied(source, exact, _told(told, stage, exact, made), made[0], means)
    except Interrupted:
        told = _dropped(told, "interrupted", "interrupted before an approximation was confirmed")
    except Exception as error:  # noqa: BLE001 - whatever fails here, the exact result is there and must not be lost
        told = replace(told, reason=fault(error).reason)
    if stage is not None:
        told = replace(told, layers=stage.layers, tried=tuple(stage.told))
    return replace(exact, approximation=told)


def _nothing(exact: Result, options: Options, data: Data) -> Approximation:
    """The record of a stage that has found nothing yet."""
    file = None if options.calibration is None else str(options.calibration)
    parts, timed = data.parts, exact.improved and exact.speedup is not None
    assert options.error_budget is not None
    return Approximation(
        budget=options.error_budget, metric=options.metric, calibration=file, random_data=data.samples.random,
        calibration_samples=len(parts.calibration), selection_samples=len(parts.selection),
        test_samples=len(parts.test), applied=False,
        exact_speedup=(exact.speedup or 1.0) if timed else 1.0,
        exact_low=(exact.speedup_low or 1.0) if timed else 1.0,
        exact_high=(exact.speedup_high or 1.0) if timed else 1.0,
    )  # fmt: skip


def _dropped(told: Approximation, code: ReasonCode, words: str) -> Approximation:
    return replace(told, reason=ApproximationReason(code, words))


def _told(told: Approximation, stage: Stage, exact: Result, made: Made) -> Approximation:
    """The record of an approximation of ``exact`` that is confirmed and tested."""
    winner, verdict, confirmed = made
    layers = tuple(replace(one, approximated=one.name in winner.layers) for one in stage.layers)
    alone = {one.name: one.error_alone for one in layers if one.approximated and one.error_alone is not None}
    return replace(
        told,
        applied=True,
        kind=winner.kind,
        calibrator=winner.calibrator,
        provider=None if winner.config is None else run_of(winner.config),
        of_original=winner.of_original,
        exact_sha256=hashlib.sha256(exact.artifact.proto().SerializeToString(deterministic=True)).hexdigest(),
        speedup=confirmed.speedup,
        speedup_low=confirmed.low,
        speedup_high=confirmed.high,
        latency_exact_ms=confirmed.before_ms,
        latency_ms=confirmed.after_ms,
        rounds_ms=confirmed.rounds_ms,
        error=verdict.error,
        test_samples=verdict.samples,
        worst_output=verdict.output or None,
        worst_layer=max(alone, key=lambda name: alone[name], default=None),
        warrant=warrant(verdict.samples, random=told.random_data, models=stage.tested, given=told.test_samples),
        approximate_nodes=winner.nodes,
        layers=layers,
        tried=tuple(stage.told),
    )


def _applied(
    source: Path | onnx.ModelProto, exact: Result, told: Approximation, winner: Candidate, means: _Means
) -> Result:
    """The approximate model in place of the exact one; where that is the original, proved rewrites gained nothing."""
    if winner.kind == HINT:  # the exact model stays the file: what approximates is how its session is made
        told = replace(told, nodes=exact.nodes_after)
        return _in_place(exact, told, exact.artifact, exact.nodes_after)
    assert isinstance(winner.reference.model, Path)
    model = onnx.load(winner.reference.model)
    told = replace(told, nodes=len(model.graph.node))
    if means.options.provenance:
        _state(model, provenance.approximate(model, source, told))
    artifact = ApproximateModel(model.SerializeToString(deterministic=True))
    return _in_place(exact, told, artifact, len(model.graph.node))


def _original(source: Path | onnx.ModelProto, exact: Result) -> Result:
    """The result that the original would have been: what approximates it is faster than what approximates ``exact``."""
    assert isinstance(exact.evidence, Trail)
    stamps = exact.evidence.loaded.stamps
    placement = exact.placement
    return replace(
        exact,
        artifact=CopiedFile(source, stamps) if isinstance(source, Path) else GivenProto(source),
        evidence=exact.evidence.of_nothing(),
        improved=False,
        reason=Reason("lost the race", "without its proved rewrites the model is faster still at less precision"),
        rules=(), speedup=None, speedup_low=None, speedup_high=None, predicted_speedup=None, latency_before_ms=None,
        latency_after_ms=None, rounds_ms=(), max_abs_error=None, max_rel_error=None, tolerance=None, errors=(),
        nodes_after=exact.nodes_before, flops_after=exact.flops_before, profile_after=None,
        placement=None if placement is None else replace(placement, rewriting_speedup=1.0),
    )  # fmt: skip


def _in_place(exact: Result, told: Approximation, artifact: Artifact, nodes: int) -> Result:
    assert exact.evidence is not None
    evidence = ApproximateTrail(exact.evidence, exact.artifact, told.kind or "")
    found = replace(exact, approximation=told, artifact=artifact, evidence=evidence, nodes_after=nodes)
    if exact.improved:
        return found
    words = None if exact.reason is None else exact.reason.words
    same_ms = told.latency_exact_ms
    return replace(
        found, approximation=replace(told, exact_reason=words), improved=True, reason=None,
        speedup=1.0, speedup_low=1.0, speedup_high=1.0, latency_before_ms=same_ms, latency_after_ms=same_ms,
    )  # fmt: skip


def _state(model: onnx.ModelProto, metadata: dict[str, str]) -> None:
    kept = [entry for entry in model.metadata_props if entry.key not in metadata]
    entries = {entry.key: entry.value for entry in kept} | metadata
    del model.metadata_props[:]
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)


def _feeds(options: Options, data: Data) -> list[dict[str, Any]]:
    """What models are timed on, one for each workload."""
    arrays = load_arrays(options.inputs)
    given = [with_arrays(one, arrays) for one in options.workloads or (options.shapes,)]
    sizes = [resolve_shapes(data.facts.inputs, one) for one in given]
    return [make_feeds(data.facts.inputs, one, seed=options.seed, overrides=arrays) for one in sizes]


def _config(exact: Result, options: Options) -> WorkerConfig:
    """How the exact result runs: where it was placed, if providers were raced."""
    placed = exact.placement
    if placed is None:
        return worker_config(options)
    threads = placed.threads or exact.threads
    return WorkerConfig(
        placed.ep, tuple(placed.options.items()), threads, placed.ort_level, python=placed.python
    )  # fmt: skip


def _places(exact: Result, options: Options, given: Mapping[str, str]) -> tuple[Elsewhere, ...]:
    """Where else models may run: the other providers at hand, and all that have one with a hint of bfloat16.

    None that the race of providers found to fail.
    """
    if options.ep_library is not None:  # which options a plugin has is not known
        return ()
    own = _config(exact, options)
    configs = [own]
    if options.is_race:
        raced = () if exact.placement is None else exact.placement.providers
        failed = {(one.ep, one.python) for one in raced if one.failure not in (None, UNTIMED)}
        configs = [one.config for one in contenders(options).all]
        configs = [one for one in configs if (one.ep, one.python) not in failed]
    hinted = [(one, bf16_options(one.ep, given, one.threads)) for one in configs]
    return (
        *(Elsewhere(one, hint=False) for one in configs if (one.ep, one.python) != (own.ep, own.python)),
        *(Elsewhere(replace(one, ep_options=tuple(how.items())), hint=True) for one, how in hinted if how is not None),
    )

"""The result of one run, from the original or from the winner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx_ir

from taso_py.backend.accelerators import gpu_of
from taso_py.backend.runtime import cpu_name
from taso_py.backend.timing import Confirmation
from taso_py.certificate.record import Trail
from taso_py.check.report import CheckReport
from taso_py.check.tolerance import Closeness
from taso_py.onnx_io.artifact import (
    Artifact,
    CopiedFile,
    GivenProto,
    RewrittenModel,
    external_locations,
    require_unchanged,
)
from taso_py.onnx_io.export import node_count
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.ours import Key
from taso_py.options.spelling import spelled
from taso_py.providers.choosing import run_of
from taso_py.report.presenting import Presentation
from taso_py.result import OutputError, Reason, ReasonCode, Result
from taso_py.run.candidates import Candidate
from taso_py.run.rewrites import rule_reports
from taso_py.run.run import Run
from taso_py.search.canonical import Canonicalizer
from taso_py.search.state import Found, State


def _frame(job: Run, artifact: Artifact, stop_reason: str) -> Result:
    setting, loaded = job.setting, job.setting.loaded
    before = job.roofline.flops(loaded.table)
    nodes = len(loaded.proto.graph.node)
    closeness = Closeness.of(job.options.rtol, job.options.atol)
    require_unchanged(loaded.stamps)
    return Result(
        input=loaded.path,
        improved=False,
        rtol=None if closeness is None else closeness.rtol,
        atol=None if closeness is None else closeness.atol,
        nodes_before=nodes,
        nodes_after=nodes,
        opaque_nodes=sum(loaded.opaque.values()),
        flops_before=int(before),
        flops_after=int(before),
        stop_reason=stop_reason,
        recalled=job.recalled is not None,
        elapsed_s=job.clock.elapsed(),
        phases_s=dict(job.clock.phases),
        provider=None if job.options.is_default_session else run_of(setting.config),
        ep=setting.config.ep,
        threads=setting.config.threads,
        shapes=tuple(dict(a.shapes) for a in setting.assignments),
        cpu=cpu_name(),
        gpu=gpu_of(setting.config.ep),
        ort_version=job.worker.ort_version(),
        seed=job.options.seed,
        notes=setting.notes,
        profile=job.profile,
        artifact=artifact,
        evidence=_evidence(job),
        presenter=Presentation(),
        sources=sources_of(loaded),
    )


def unchanged(job: Run, stop_reason: str, code: ReasonCode, words: str) -> Result:
    """The original, byte for byte, and why."""
    stamps = job.setting.loaded.stamps
    artifact = CopiedFile(job.source, stamps) if isinstance(job.source, Path) else GivenProto(job.source)
    result = _frame(job, artifact, stop_reason)
    return replace(result, improved=False if job.options.race else None, reason=Reason(code, words))


def rewritten(
    job: Run, winner: Candidate, made: RewrittenModel, found: Found, confirmed: Confirmation | None
) -> Result:
    """The winner as it was made, with what the check found and the confirmation measured (None: nothing was timed)."""
    report, state = winner.report, winner.state
    if job.stop and job.options.provenance:  # known only now; a later run must not take it for all that there is
        made.model.metadata_props.setdefault(Key.INTERRUPTED, "yes")
    start = state.trace[0].before
    result = replace(
        _frame(job, made, found.reason.value),
        improved=None if confirmed is None else True,
        predicted_speedup=start / state.cost if state.cost > 0 else None,
        max_abs_error=report.max_abs_error,
        max_rel_error=report.max_rel_error,
        tolerance=report.tolerance,
        nodes_after=node_count(job.setting.loaded, made.model),
        flops_after=int(job.roofline.flops(state.table)),
        rules=rule_reports(state, job.setting.loaded.table, job.library.all(), start),
        errors=output_errors(report),
        notes=(*job.setting.notes, *report.warnings),
        evidence=_evidence(job, winner.state, made.model),
    )
    if confirmed is None:
        return result
    return replace(
        result,
        notes=(*result.notes, *_timed_way(job)),
        speedup=confirmed.speedup,
        speedup_low=confirmed.low,
        speedup_high=confirmed.high,
        latency_before_ms=confirmed.before_ms,
        latency_after_ms=confirmed.after_ms,
        rounds_ms=confirmed.rounds_ms,
    )


def _timed_way(job: Run) -> tuple[str, ...]:
    """One line where the speed-up may be another for other inputs."""
    if not job.setting.loaded.scopes:
        return ()
    return (
        f"the speed-up is that of the branches of If that these inputs take: choose others with {spelled('inputs')}",
    )


def output_errors(report: CheckReport) -> tuple[OutputError, ...]:
    return tuple(
        OutputError(inputs=case.label, output=one.output, relative=one.relative, absolute=one.absolute)
        for case in report.cases
        for one in case.outputs
    )


def _evidence(job: Run, state: State | None = None, made: onnx_ir.Model | None = None) -> Trail:
    """The way to the winning state; without one, the original and no way at all."""
    canonical = Canonicalizer.of(job.library.canonical, job.library.cleanup)
    frozen = job.options.freeze_initializers
    if state is None:
        return Trail(source=job.source, loaded=job.setting.loaded, canonical=canonical, freeze_initializers=frozen)
    applied = tuple(matches for step in state.trace for matches in step.applied)
    return Trail(
        source=job.source,
        loaded=job.setting.loaded,
        canonical=canonical,
        applied=applied,
        table=state.table,
        exported=made,
        freeze_initializers=frozen,
    )


def sources_of(loaded: Loaded) -> tuple[Path, ...]:
    """The files that a model was read from."""
    path = loaded.path
    if path is None:
        return ()
    return (path, *(path.parent / location for location in sorted(external_locations(loaded.proto))))

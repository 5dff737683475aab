"""Decisions of an earlier run, made again without measuring: the whole of `superopt apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx

from taso_py.certificate.digest import digest
from taso_py.certificate.document import Decisions, read_decisions
from taso_py.certificate.laws import read_law
from taso_py.certificate.reapply import Reapplied
from taso_py.certificate.record import Way
from taso_py.check.check import Checker
from taso_py.check.report import CheckReport
from taso_py.cost.cache import proofs_path
from taso_py.errors import CertificateError, DecisionsError, MismatchError, RuleError, TypingError, UsageError
from taso_py.onnx_io.artifact import CopiedFile, GivenProto, RewrittenModel, require_unchanged
from taso_py.onnx_io.export import node_count
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.ours import KEYS
from taso_py.options import ApplyOptions
from taso_py.options.spelling import spelled
from taso_py.prove.sites import SiteProofs, extended
from taso_py.report.application import Application
from taso_py.rules.lock import load_lock
from taso_py.rules.rule import Rule, RuleSet
from taso_py.run.candidates import Workshop, work_folder
from taso_py.run.conclude import sources_of
from taso_py.run.growth import growth
from taso_py.run.provenance import made_again
from taso_py.run.subject import Subject, checker_of, prepare, require_runnable, weight_bytes

_SMALL_GROWTH = 2**26
"""Where nothing is said, computed weights may add as many bytes as the model has, or so many."""
_METADATA_CHARACTERS = 2**16
_WORDS = 300


def apply(source: Path | onnx.ModelProto, file: Path, options: ApplyOptions) -> Application:
    """The model that the decisions of ``file`` lead to from ``source``, checked as `optimize` checks its own."""
    decisions = read_decisions(file)
    _require_said(decisions, options)
    require_runnable(source)
    subject = prepare(source, options)
    loaded = subject.loaded
    unchanged = replace(_unchanged(source, loaded, decisions), sources=(*sources_of(loaded), file))
    if not decisions.steps:
        return replace(unchanged, decided=_reason(decisions))
    if loaded.unsupported is not None:
        raise DecisionsError(f"the model can only be returned unchanged: {loaded.unsupported}")
    try:
        made = Reapplied.of(loaded, _admitted(decisions, options))
        table = made.run(decisions.steps, partial=options.partial)
        if not made.steps:
            raise DecisionsError(f"no step holds for this model; the first, {made.skipped[0].words()}")
        _require_growth(growth(loaded.table)(table), weight_bytes(loaded.proto), options)
        with checker_of(subject, options) as checker, work_folder() as folder:
            whole = unchanged.same_model and not made.skipped
            told = decisions.metadata if whole else made_again(decisions.metadata, digest(source))
            workshop = _workshop(told, subject, checker, folder, options)
            model = workshop.build(table)
            report = _checked(workshop, model)
    except (RecursionError, TypingError) as error:
        what = "they are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DecisionsError(f"the decisions cannot be followed: {what}") from None
    require_unchanged(loaded.stamps)
    way = made.way(source, model.model, freeze_initializers=options.freeze_initializers)
    return replace(_finished(unchanged, way, model, report), skipped=tuple(made.skipped))


def _reason(decisions: Decisions) -> str | None:
    """Why nothing was changed, as far as the file says so."""
    told = decisions.measured.get("reason")
    words = told.get("words") if isinstance(told, dict) else None
    return " ".join(words.split())[:_WORDS] if isinstance(words, str) else None


def _require_said(decisions: Decisions, options: ApplyOptions) -> None:
    """What is taken for granted is what the caller says."""
    if decisions.freeze_initializers != options.freeze_initializers:
        raise UsageError(
            "the decisions were made with --freeze-initializers: if nobody overrides initializers, say so here too"
            if decisions.freeze_initializers
            else "the decisions were made without --freeze-initializers: leave it out, or decide again with it"
        )
    for key, text in decisions.metadata.items():
        if key not in KEYS:
            raise DecisionsError(f"metadata {key} is none that a rewrite may add")
        if len(key) + len(text) > _METADATA_CHARACTERS:
            raise DecisionsError(f"metadata {key[:40]} has over {_METADATA_CHARACTERS} characters")


def _require_growth(added: float, weights: int, options: ApplyOptions) -> None:
    """`DecisionsError` where the weights, in bytes, become larger than what is allowed."""
    most = options.max_growth
    if added > (max(_SMALL_GROWTH, weights) if most is None else (most - 1) * weights):
        times, allowing = 2 if most is None else most, spelled("max_growth", metavar="X")
        raise DecisionsError(f"the decisions make the weights over {times:g} times as large: {allowing} allows more")


def _admitted(decisions: Decisions, options: ApplyOptions) -> Mapping[str, Rule]:
    """The laws by id: those on record, and any other proved now; `DecisionsError` for one that may not rewrite."""
    from taso_py.prove.verify import proved

    try:
        stated = RuleSet(tuple(read_law(law) for law in decisions.rules))
        if len({rule.id for rule in stated}) < len(decisions.rules):
            raise DecisionsError("the decisions state a rule twice")
        known = load_lock().stamped(stated)
        admitted = proved(known, allow_bounded=options.allow_bounded, allow_overflow=options.allow_overflow)
    except (CertificateError, RuleError) as error:
        raise DecisionsError(str(error)) from None
    return {rule.id: rule for rule in extended(admitted, SiteProofs(proofs_path(None)))}


def _workshop(
    told: Mapping[str, str], subject: Subject, checker: Checker, folder: Path, options: ApplyOptions
) -> Workshop:
    return Workshop(
        loaded=subject.loaded,
        checker=checker,
        rules=RuleSet(()),
        folder=folder,
        provenance=told,
        allow_contrib=options.allow_contrib,
        strict=True,
    )


def _checked(workshop: Workshop, model: RewrittenModel) -> CheckReport:
    """What the check says of a model that passes it."""
    reference = workshop.reference(model)
    beyond = workshop.out_of_range(model, reference)
    if beyond is not None:
        raise DecisionsError(f"the decisions do not fit these weights: {beyond}")
    report = workshop.checker.check(reference)
    if not report.passed:
        raise MismatchError(f"the decisions change the model's values: {report.reason}")
    return report


def _unchanged(source: Path | onnx.ModelProto, loaded: Loaded, decisions: Decisions) -> Application:
    nodes = len(loaded.proto.graph.node)
    return Application(
        input=loaded.path,
        same_model=digest(source) == decisions.original,
        steps=0,
        places=0,
        nodes_before=nodes,
        nodes_after=nodes,
        artifact=CopiedFile(source, loaded.stamps) if isinstance(source, Path) else GivenProto(source),
        evidence=Way(
            source=source, loaded=loaded, exported=None, freeze_initializers=decisions.freeze_initializers,
        ),
        sources=sources_of(loaded),
    )  # fmt: skip


def _finished(unchanged: Application, way: Way, model: RewrittenModel, report: CheckReport) -> Application:
    return replace(
        unchanged,
        steps=len(way.steps),
        places=sum(len(step.places) for step in way.steps),
        rules=way.rules(),
        nodes_after=node_count(way.loaded, model.model),
        max_abs_error=report.max_abs_error,
        max_rel_error=report.max_rel_error,
        tolerance=report.tolerance,
        inputs=len(report.cases),
        notes=report.warnings,
        artifact=model,
        evidence=way,
    )

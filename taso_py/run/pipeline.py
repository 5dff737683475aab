"""load > search > check > race: the whole of `superopt optimize` as one readable function; `rank` beside it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from taso_py.backend.client import Worker
from taso_py.backend.pool import WorkerPool, lent
from taso_py.backend.race import race
from taso_py.backend.runtime import require_runtime
from taso_py.backend.timing import confirm
from taso_py.check.check import Checker
from taso_py.check.oracle import OracleLimits as CheckLimits
from taso_py.cost.cache import proofs_path
from taso_py.errors import OutputError
from taso_py.options import Options
from taso_py.progress import Progress
from taso_py.prove.sites import SiteProofs, extended
from taso_py.report.ranking import Ranking, ranked
from taso_py.result import Result
from taso_py.rules.library import Library
from taso_py.rules.library import load as load_rules
from taso_py.run.candidates import Candidate, Workshop, shortlist, work_folder
from taso_py.run.conclude import rewritten, unchanged
from taso_py.run.inspect import inspect
from taso_py.run.run import CHECK_SHARE, SEARCH_SHARE, Clock, Run
from taso_py.run.searching import explore, log_trace, single_gains
from taso_py.run.subject import Subject, prepare
from taso_py.search.strategy import Found, StopReason
from taso_py.stop import StopFlag
from taso_py.version import VERSION

__all__ = ["inspect", "optimize", "rank"]

_RACED = 6
"""Candidates that are checked and raced."""
_CONFIRM_ROUNDS = 15


def optimize(
    source: Path | onnx.ModelProto,
    options: Options,
    *,
    progress: Progress,
    stop: StopFlag,
    pool: WorkerPool | None = None,
) -> Result:
    """The fastest checked rewrite of ``source`` that a fresh measurement confirms; else ``source`` itself.

    ``pool`` lends its workers to the run, the checker's included, and keeps them alive for the next one.
    """
    clock = Clock(options.time_budget_s)
    require_runtime()
    progress.phase("load")
    library = _library(options)
    setting = prepare(source, options)
    clock.lap("load")
    with lent(pool, setting.config) as worker:
        baseline = _baseline(worker, setting, options)
        clock.lap("baseline")
        job = Run(source, options, setting, library, worker, clock, progress, stop, baseline, pool is not None)
        if setting.loaded.unsupported is not None:
            return unchanged(job, "unsupported", f"returned unchanged: {setting.loaded.unsupported}")
        if options.race and baseline is not None and clock.left() < _race_seconds(baseline, setting):
            need = clock.elapsed() + _race_seconds(baseline, setting)
            return unchanged(
                job, StopReason.TIME.value, f"too little time to race: use --time-budget {4 * need:.0f} or more"
            )
        with work_folder() as folder, _checker(job) as checker:
            workshop = _workshop(job, checker, folder)
            found, checked = _search_and_check(job, workshop)
            result = _decide(job, workshop, found, checked)
    clock.lap("race")
    return replace(result, elapsed_s=clock.elapsed(), phases_s=dict(clock.phases))


def rank(models: Sequence[Path], options: Options, *, progress: Progress, stop: StopFlag) -> Ranking:
    """Which rules pay on ``models`` by themselves; each has the whole time budget; after a stop, those so far."""
    gains: dict[str, Mapping[str, float]] = {}
    for model in models:
        progress.log("info", str(model))
        gains[str(model)] = _single_gains(model, options, progress, stop)
        if stop:
            break
    return ranked(gains)


def _single_gains(source: Path, options: Options, progress: Progress, stop: StopFlag) -> Mapping[str, float]:
    clock = Clock(options.time_budget_s / SEARCH_SHARE)
    progress.phase("load")
    library, setting = _library(options), prepare(source, options)
    if setting.loaded.unsupported is not None:
        return {}
    with lent(None, setting.config) as worker:
        baseline = _baseline(worker, setting, options)
        return single_gains(Run(source, options, setting, library, worker, clock, progress, stop, baseline))


def _library(options: Options) -> Library:
    """The rules that may rewrite; those of the user's own files are proved now."""
    library = load_rules(options.rules, options.only, options.disable)
    if options.rules:
        from taso_py.prove.verify import proved

        bounded, overflow = options.allow_bounded, options.allow_overflow
        library = replace(library, search=proved(library.search, allow_bounded=bounded, allow_overflow=overflow))
    sites = SiteProofs(proofs_path())
    return library.usable(options.allow_bounded, options.allow_overflow).map(lambda rules: extended(rules, sites))


def _baseline(worker: Worker, setting: Subject, options: Options) -> float | None:
    """Seconds of one run of the original; opening it tells whether ONNX Runtime can run it at all."""
    handle = worker.open(setting.reference)
    try:
        worker.run(handle, setting.feeds[0])
        if not options.race:
            return None
        blocks = worker.time_blocks([handle], [setting.feeds[0]], rounds=3, block_s=0.1)
        return min(block[0] for block in blocks)
    finally:
        worker.close(handle)


def _race_seconds(baseline: float, setting: Subject) -> float:
    """What the shortest race and confirmation of one candidate take."""
    return 30 * max(0.02, 2 * baseline) * len(setting.feeds) * 2


def _search_and_check(job: Run, workshop: Workshop) -> tuple[Found, list[Candidate]]:
    """The search and its checked candidates; again without the rules that turned out wrong, if there were any."""
    while True:
        barred = len(workshop.barred)
        found = explore(job, workshop.barred)
        log_trace(job, found)
        job.clock.lap("search")
        checked = _check(job, workshop, found)
        job.clock.lap("check")
        late = job.options.race and job.clock.left() < (1 - SEARCH_SHARE) * job.clock.budget
        if len(workshop.barred) == barred or late or job.stop:
            return found, checked


def _checker(job: Run) -> Checker:
    """The checker of this model; computes the original's outputs at its first use."""
    options, setting = job.options, job.setting
    return Checker(
        setting.reference,
        setting.config,
        workloads=options.workloads or (options.shapes,),
        overrides=setting.overrides,
        seed=options.seed,
        limits=CheckLimits(
            deadline=job.deadline(SEARCH_SHARE + CHECK_SHARE),
            flops=job.roofline.flops(setting.loaded.model),
        ),
        facts=setting.facts,
        worker=job.worker if job.shared_worker else None,
    )


def _workshop(job: Run, checker: Checker, folder: Path) -> Workshop:
    """Where candidates are made and checked."""
    options = job.options
    return Workshop(
        job.setting.loaded,
        checker,
        job.library.all(),
        folder,
        _provenance(job) if options.provenance else {},
        options.allow_contrib,
        options.strict,
    )


def _provenance(job: Run) -> dict[str, str]:
    names = ",".join(rule.name for rule in job.library.search)
    return {
        "superopt.version": VERSION,
        "superopt.rules": hashlib.sha256(names.encode()).hexdigest()[:16],
        "superopt.options": f"ep={job.options.ep} seed={job.options.seed}",
    }


def _check(job: Run, workshop: Workshop, found: Found) -> list[Candidate]:
    """The checked candidates, best first; a wrong one bars its guilty rule and the next best takes its place."""
    deadline = job.deadline(SEARCH_SHARE + CHECK_SHARE)
    wanted = _RACED if job.options.race else 1
    states = list(found.states) if job.options.apply == "all" else shortlist(found, job.start_cost, wanted)
    job.progress.phase("check", len(states))
    checked: list[Candidate] = []
    for number, state in enumerate(states):
        if checked and job.options.race and time.monotonic() > deadline:
            break
        try:
            candidate = workshop.candidate(state, deadline)
        except OutputError:
            if checked:  # the disk is full, but there is something to race
                break
            raise
        if candidate is not None:
            checked.append(candidate)
        job.progress.update(done=number + 1)
    return checked or _second_choice(workshop, found, deadline)


def _second_choice(workshop: Workshop, found: Found, deadline: float) -> list[Candidate]:
    """When every candidate held a barred rule: the best state without one."""
    for state in found.states if workshop.barred else ():
        candidate = workshop.candidate(state, deadline)
        if candidate is not None:
            return [candidate]
        if time.monotonic() > deadline:
            break
    return []


def _decide(job: Run, workshop: Workshop, found: Found, checked: Sequence[Candidate]) -> Result:
    """The winner of the race, if a fresh measurement confirms it; else the original."""
    rejected = tuple(workshop.rejected)
    if not checked:
        return replace(unchanged(job, found.reason.value), rejected=rejected)
    if not job.options.race:
        made = workshop.rebuilt(checked[0])
        return replace(rewritten(job, checked[0], made, found, None), rejected=rejected)
    job.progress.phase("race")
    models = [job.setting.reference, *(c.reference for c in checked)]
    now = time.monotonic()
    standings = race(
        job.worker,
        models,
        job.setting.feeds,
        deadline=now + 0.5 * max(1.0, job.clock.left()),
        max_sessions=2 if job.setting.large else 8,
    )
    if standings.winner == 0:
        return replace(unchanged(job, found.reason.value), rejected=rejected)
    winner = checked[standings.winner - 1]
    job.progress.phase("confirm")
    confirmation = confirm(
        job.setting.config,
        job.setting.reference,
        winner.reference,
        job.setting.feeds,
        deadline=time.monotonic() + max(1.0, job.clock.left()),
        rounds=_CONFIRM_ROUNDS,
        seed=job.options.seed,
    )
    if confirmation is None or not confirmation.improves(job.options.min_gain):
        return replace(unchanged(job, found.reason.value), rejected=rejected)
    made = workshop.rebuilt(winner)
    return replace(rewritten(job, winner, made, found, confirmation), rejected=rejected)

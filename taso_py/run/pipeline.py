"""load > search > check > race: the whole of `superopt optimize` as one readable function."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx

from taso_py.backend.blocks import is_long
from taso_py.backend.pool import WorkerPool, lent
from taso_py.backend.protocol import ModelRef
from taso_py.backend.race import RaceResult, race
from taso_py.backend.timing import Confirmation, Unconfirmed, confirm
from taso_py.check.check import Checker
from taso_py.check.oracle import OracleLimits as CheckLimits
from taso_py.errors import ModelError, OutputError, TooLateError, WorkerError, WorkerTimeoutError
from taso_py.graph.table import Table
from taso_py.onnx_io.ours import Key
from taso_py.options import Options
from taso_py.progress import Progress
from taso_py.providers.lossless import require_lossless
from taso_py.result import ModelProfile, RacedCandidate, Result
from taso_py.rules.library import Library
from taso_py.rules.rule import RuleSet
from taso_py.run import provenance
from taso_py.run.candidates import Candidate, Finalists, Workshop, shortlist, work_folder
from taso_py.run.conclude import rewritten, unchanged
from taso_py.run.earlier import recalled, remember
from taso_py.run.original import (
    confirmation_seconds,
    race_block_seconds,
    race_seconds,
    refused,
    require_same_values,
    time_original,
    too_little,
    too_slow,
)
from taso_py.run.profile import profile
from taso_py.run.reasons import lost, no_candidate, not_confirmed
from taso_py.run.rehearsing import candidates_wanted, rehearsed, with_selected
from taso_py.run.rewrites import told_name
from taso_py.run.run import CHECK_SHARE, SEARCH_SHARE, SELECT_SHARE, Clock, Run, whole_budget, writing_seconds
from taso_py.run.searching import Explored, explore, log_trace, selected
from taso_py.run.sessions import OpenModels
from taso_py.run.subject import Subject, checker_of, prepared_or_unfed, require_runnable, unprepared
from taso_py.run.usable import ProofsTooLateError, chosen_rules, usable_rules
from taso_py.search.state import Found, StopReason
from taso_py.stop import FINISH_S, Interrupted, StopFlag
from taso_py.version import VERSION

_SELECTED_FROM = 2
"""States from which the moves that pay in the whole model are selected."""
_CONFIRM_ROUNDS, _RACE_ROUNDS, _LONE_ROUNDS = 15, 6, 3
"""Rounds of the confirmation and of the race; a lone candidate with long runs only has to be worth confirming."""
_LEAST_RACE = 0.3
"""Part of the time for race and confirmation that the race may have in any case."""
_HASTE_S = 0.6 * FINISH_S
"""What the confirmation may take where the user asked to stop; there is no race then."""
_PROFILE_SHARE = 0.1
"""Part of the time budget that opening and running the original may have taken for it to be profiled as well."""


def optimize(
    source: Path | onnx.ModelProto,
    options: Options,
    *,
    progress: Progress,
    stop: StopFlag,
    pool: WorkerPool | None = None,
    finalists: Finalists = shortlist,
) -> Result:
    """The fastest checked rewrite of ``source`` that a fresh measurement confirms; else ``source`` itself.

    ``pool`` lends its workers to the run, the checker's included, and keeps them alive for the next one;
    ``finalists`` chooses what is raced.
    """
    clock = Clock.since(stop.begun(), options.time_budget_s)
    require_runnable(source)
    progress.phase("load")
    progress.update(remaining_s=clock.left())
    library, setting = _prepared(source, options, stop)
    clock.lap("load")
    clock.leave(writing_seconds(*setting.file_bytes(), clock.phases["load"], len(setting.loaded.proto.graph.node)))
    with lent(pool, setting.config) as worker:
        job = Run(
            source=source, options=options, setting=setting, library=library, worker=worker, clock=clock,
            progress=progress, stop=stop, baseline=None, shared_worker=pool is not None, finalists=finalists,
        )  # fmt: skip
        try:
            with closing(job), stop.abandoning():
                result = _run(job)
        except Interrupted:
            result = _interrupted(job)
    if result.suggested_budget_s is None and _ended_by_time(result):
        result = replace(result, suggested_budget_s=whole_budget(2 * options.time_budget_s))
    return replace(result, unproved=job.unproved, elapsed_s=clock.elapsed(), phases_s=dict(clock.phases))


def _prepared(source: Path | onnx.ModelProto, options: Options, stop: StopFlag) -> tuple[Library, Subject]:
    """The rules and the model; nothing of both that matters where a signal comes before they are read."""
    try:
        with stop.abandoning():
            return chosen_rules(options), prepared_or_unfed(source, options)
    except Interrupted:
        none = RuleSet.of(())
        return Library(none, none, none), unprepared(source, options)


def _interrupted(job: Run) -> Result:
    words = "interrupted before a faster model was confirmed"
    if not job.shared_worker:  # it may be at work, and nobody waits for that
        job.worker.stop(at_once=True)
    return unchanged(job, StopReason.INTERRUPTED.value, "interrupted", words)


def _ended_by_time(result: Result) -> bool:
    if result.stop_reason == StopReason.INTERRUPTED.value:
        return False
    short = result.reason is not None and result.reason.code == "too little time"
    return short or result.stop_reason == StopReason.TIME.value


def _run(job: Run) -> Result:
    """The phases behind loading; `Interrupted` where a signal ends them before there is a result."""
    require_lossless(job.worker)
    try:
        _prove(job)
    except ProofsTooLateError as error:
        job.clock.lap("prove")
        return too_little(job, job.clock.elapsed() + error.needed_s, str(error))
    try:
        original = time_original(job.worker, job.setting, job.options)
    except WorkerTimeoutError:
        job.clock.lap("baseline")
        return too_slow(job)
    job.baseline, job.opening_s = original.seconds, original.opening_s
    job.adopt(original.setting)
    job.clock.lap("baseline")
    refusal = refused(job, original)
    if refusal is not None:
        return refusal
    require_same_values(job)
    if job.options.race and job.clock.phases["baseline"] < _PROFILE_SHARE * job.options.time_budget_s:
        job.profile = _profiled(job, job.setting.reference, job.setting.loaded.table)
        job.clock.lap("profile")
    job.clock.share_rest()
    with job.worker.keeping_to(job.patience(1.0)), work_folder() as folder, _checker(job) as checker:
        workshop = _workshop(job, checker, folder)
        try:
            found, checked = _search_and_check(job, workshop)
        except WorkerError as error:  # it has run the original: somebody stopped it, or took its memory
            words = f"the search ended early, so nothing is confirmed: {error}"
            return unchanged(job, StopReason.TIME.value, "race ended early", words)
        result = _decide(job, workshop, found, checked)
    job.clock.lap("race")
    remember(job, found, checked, result)
    return result


def _prove(job: Run) -> None:
    """Leaves the run the rules that may rewrite; those of files are proved before anything is timed."""
    usable = usable_rules(job.library, job.options, job.progress, until=job.clock.at(1.0))
    job.library, job.unproved = usable.library, usable.unproved
    if job.options.rules:
        job.clock.lap("prove")


def _profiled(job: Run, model: ModelRef, table: Table) -> ModelProfile | None:
    """Where a model's time goes; None where ONNX Runtime cannot tell."""
    if not job.setting.config.tells_kernel_times:
        return None
    with suppress(ModelError, WorkerError), job.worker.keeping_to(job.patience(1.0)):
        return profile(job.worker, model, job.setting.feeds[0], table, job.roofline)
    return None


def _profile_after(job: Run, winner: Candidate) -> ModelProfile | None:
    """Where the winner's time goes, if that was asked of the original; a signal keeps the winner without it."""
    if job.profile is None:
        return None
    job.begin("profile")
    try:
        job.stop.leave()
        return _profiled(job, winner.reference, winner.state.table)
    except Interrupted:
        job.worker.stop()  # its answer may still be on the way
        return None


def _search_and_check(job: Run, workshop: Workshop) -> tuple[Found, list[Candidate]]:
    """The search and its checked candidates; again without the rules that turned out wrong, if there were any."""
    while True:
        barred = len(workshop.barred)
        searched, folder = job.deadline(SEARCH_SHARE + SELECT_SHARE), job.setting.loaded.folder
        patience = job.patience(SEARCH_SHARE + SELECT_SHARE)
        with job.worker.keeping_to(patience), folder.until(searched), OpenModels(job, workshop) as models:
            job.recalled = None if barred else recalled(job)
            found = _selected(job, explore(job, models)) if job.recalled is None else job.recalled.found
        log_trace(job, found)
        checked = _check(job, workshop, found)
        job.clock.lap("check")
        late = job.options.race and job.clock.left() < (1 - SEARCH_SHARE - SELECT_SHARE) * job.clock.budget
        if len(workshop.barred) == barred or late or job.stop:
            return found, checked


def _selected(job: Run, explored: Explored) -> Found:
    """What was found, the moves that pay in the whole model first."""
    job.clock.lap("search")
    found, selection = explored.found, explored.selection
    if selection is None:
        return found
    if found.reason is StopReason.INTERRUPTED:
        return with_selected(found, selection.faster(explored.judged))
    job.begin("select")
    selection.deadline = job.deadline(SEARCH_SHARE + SELECT_SHARE)
    known = [timed.state.table.nodes for timed in explored.judged]
    promising = [s for s in shortlist(found, job.start_cost, _SELECTED_FROM) if s.table.nodes not in known]
    known_best = rehearsed(selection, found, selected(job, explored, promising))
    job.clock.lap("select")
    return known_best


def _checker(job: Run) -> Checker:
    deadline, table = job.deadline(SEARCH_SHARE + SELECT_SHARE + CHECK_SHARE), job.setting.loaded.table
    limits = CheckLimits(deadline=deadline, until=job.patience(1.0), flops=job.roofline.flops(table))
    return checker_of(job.setting, job.options, limits=limits, worker=job.worker if job.shared_worker else None)


def _workshop(job: Run, checker: Checker, folder: Path) -> Workshop:
    """Where candidates are made and checked."""
    options = job.options
    if options.race or options.provenance:
        job.identity = provenance.identity(job.source, options, job.library)
    return Workshop(
        loaded=job.setting.loaded,
        checker=checker,
        rules=job.library.all(),
        folder=folder,
        provenance=_provenance(job) if options.provenance else {},
        allow_contrib=options.allow_contrib,
        strict=options.strict,
    )


def _provenance(job: Run) -> dict[str, str]:
    """What decided the result, and at which sizes it was searched and checked."""
    sizes = provenance.shapes_text(job.setting.assignments)
    made = {Key.VERSION.value: VERSION, **job.identity}
    return made | ({Key.SHAPES: sizes} if sizes else {})


def _check(job: Run, workshop: Workshop, found: Found) -> list[Candidate]:
    """The checked candidates, best first; a wrong one bars its guilty rule and the next best takes its place."""
    deadline = time.monotonic() if job.stop else job.deadline(SEARCH_SHARE + SELECT_SHARE + CHECK_SHARE)
    wanted = candidates_wanted(job, found)
    states = list(found.states) if job.options.apply == "all" else job.finalists(found, job.start_cost, wanted)
    job.begin("check", len(states))
    checked: list[Candidate] = []
    for number, state in enumerate(states):
        if checked and job.options.race and time.monotonic() > deadline:
            break
        job.stop.leave()
        try:
            with job.setting.loaded.folder.until(deadline if checked else _last_moment(job)):
                candidate = workshop.candidate(state, deadline)
        except TooLateError:
            break
        except OutputError:
            if checked:  # the disk is full, but there is something to race
                break
            raise
        if candidate is not None:
            checked.append(candidate)
        job.progress.update(done=number + 1)
    return checked or (_second_choice(workshop, found, deadline) if states else [])


def _last_moment(job: Run) -> float:
    """Until when the weights of the first candidate may be computed: the shortest race must still be possible."""
    return job.clock.at(1.0) - (race_seconds(job.baseline, job.setting) if job.baseline is not None else 0.0)


def _second_choice(workshop: Workshop, found: Found, deadline: float) -> list[Candidate]:
    """When every candidate held a barred rule: the best state without one."""
    with suppress(TooLateError):
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
        return replace(unchanged(job, found.reason.value, *no_candidate(job, found, rejected)), rejected=rejected)
    job.stop.leave()
    if not job.options.race:
        job.stop.keep()
        made = workshop.rebuilt(checked[0])
        return replace(rewritten(job, checked[0], made, found, None), rejected=rejected)
    try:
        return replace(_contested(job, workshop, found, checked), rejected=rejected)
    except (ModelError, WorkerError) as error:  # the candidates were run before: memory, or another process's doing
        words = f"the race ended early, so nothing is confirmed: {error}"
        return replace(unchanged(job, found.reason.value, "race ended early", words), rejected=rejected)


def _contested(job: Run, workshop: Workshop, found: Found, checked: Sequence[Candidate]) -> Result:
    """The candidates raced, and the winner confirmed; the best one at once where the user asked to stop."""
    told: Callable[[Result], Result] = replace
    winner = checked[0]
    if not job.stop:
        standings = _raced(job, checked)
        told = partial(replace, raced=_told(job, checked, standings))
        if standings.winner == 0:
            return told(unchanged(job, found.reason.value, *lost(job, standings)))
        winner = checked[standings.winner - 1]
    job.stop.leave()
    confirmation = _confirmed(job, winner)
    if isinstance(confirmation, Unconfirmed) or not confirmation.improves(job.options.min_gain):
        if job.stop:
            return _interrupted(job)
        return told(unchanged(job, found.reason.value, *not_confirmed(job, confirmation)))
    after = _profile_after(job, winner)
    job.stop.keep()
    return replace(told(rewritten(job, winner, workshop.rebuilt(winner), found, confirmation)), profile_after=after)


def _raced(job: Run, checked: Sequence[Candidate]) -> RaceResult:
    """The race, in at most half of the time that is left, and less where the confirmation needs more."""
    job.begin("race")
    left = max(1.0, _time_left(job))
    spare = left - confirmation_seconds(job, _CONFIRM_ROUNDS)
    return race(
        job.worker,
        [job.setting.reference, *(c.reference for c in checked)],
        job.setting.feeds,
        deadline=time.monotonic() + min(0.5 * left, max(_LEAST_RACE * left, spare)),
        block_s=race_block_seconds(job),
        run_s=job.run_s,
        rounds=_LONE_ROUNDS if len(checked) == 1 and is_long(job.run_s) else _RACE_ROUNDS,
        progress=job.tell_measured,
        least_gain=job.options.min_gain,
        max_sessions=2 if job.setting.large else 8,
    )


def _confirmed(job: Run, winner: Candidate) -> Confirmation | Unconfirmed:
    job.begin("confirm")
    found = confirm(
        job.setting.config,
        job.setting.reference,
        winner.reference,
        job.setting.feeds,
        deadline=time.monotonic() + max(1.0, _time_left(job) - job.clock.phases.get("profile", 0.0)),
        rounds=_CONFIRM_ROUNDS,
        block_s=race_block_seconds(job),
        run_s=job.run_s,
        seed=job.options.seed,
    )
    if isinstance(found, Confirmation):
        job.tell_measured(found.speedup)
    return found


def _time_left(job: Run) -> float:
    """Seconds for race and confirmation: what the budget leaves, or the little that there is if the user waits."""
    return min(job.clock.left(), _HASTE_S) if job.stop else job.clock.left()


def _told(job: Run, checked: Sequence[Candidate], standings: RaceResult) -> tuple[RacedCandidate, ...]:
    """The race for the record."""
    found = []
    for candidate, standing in zip(checked, standings.standings[1:], strict=True):
        state = candidate.state
        predicted = job.start_cost / state.cost if state.cost > 0 else None
        rules = tuple(dict.fromkeys(told_name(step) for step in state.trace))
        found.append(RacedCandidate(rules, predicted, standing.speedup, standing.rounds, standing.failure))
    return tuple(found)

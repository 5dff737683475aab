"""The original in ONNX Runtime: what opening and running it takes, and whether that leaves time for anything else."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from taso_py.backend.blocks import block_seconds, is_long
from taso_py.backend.client import Worker
from taso_py.backend.timing import FEW_ROUNDS, GROUPS
from taso_py.check.fitting import FIT_S
from taso_py.check.inputs import advice
from taso_py.check.oracle import ALWAYS, OracleLimits
from taso_py.check.placed import difference_at
from taso_py.errors import ModelError, NotLosslessError, WorkerError, WorkerTimeoutError
from taso_py.options import Options
from taso_py.options.providers import short_name
from taso_py.options.spelling import spelled
from taso_py.providers.lossless import is_plain
from taso_py.result import Result
from taso_py.run.conclude import unchanged
from taso_py.run.run import Run, whole_budget
from taso_py.run.subject import Subject, checker_of, fitting
from taso_py.search.state import StopReason

_PATIENCE_S = 120.0
"""What opening the original and one run of it may take at least, each, however small the budget."""
_LEAST_FIT_S, _FIT_SHARE = 3.0, 0.2
"""What looking for inputs that the original takes may take at least in seconds, and as part of the time budget."""
_BLOCK_RUNS, _SHORTEST_BLOCK_S, _LONGEST_BLOCK_S = 12, 0.06, 0.25
"""Runs of the original that a block of race and confirmation takes, in seconds between these: models whose blocks are
short are timed soon after one another, while the machine is the same, and others spoil less with each visit."""
_TIMED, _TIMED_BLOCK_S, _TIMED_SHARE = 3, 0.1, 0.03
"""How often the original is timed, for how many seconds each, and the part of the time budget after which no more."""
_SESSIONS = 8
"""Sessions that one candidate takes: it and the original with ONNX Runtime's optimiser off and on, raced, confirmed."""


@dataclass(frozen=True, slots=True)
class Original:
    """What the original takes, in seconds."""

    seconds: float | None
    """One run; None when nothing is timed."""
    opening_s: float
    """Making its session."""
    setting: Subject
    """With other inputs, where it does not run with those that were made up for it first."""


def time_original(worker: Worker, setting: Subject, options: Options) -> Original:
    """Times the original; opening it tells whether ONNX Runtime can run it at all.

    ModelError if it cannot, WorkerTimeoutError if it takes too long to tell.
    """
    patience = _patience(options)
    try:
        worker.info()  # so that its start is not taken for the session's
        begin = time.monotonic()
        handle = worker.open(setting.reference, timeout=patience)
        opening = time.monotonic() - begin
        try:
            if not setting.feeds:  # it will be left as it is
                return Original(None, opening, setting)
            setting = _running(worker, handle, setting, options)
            if not options.race:
                return Original(None, opening, setting)
            return Original(_run_seconds(worker, handle, setting, options.time_budget_s), opening, setting)
        finally:
            worker.close(handle)
    except WorkerTimeoutError:
        raise
    except WorkerError as error:
        raise ModelError(f"{setting.reference.name}: ONNX Runtime fails on the original: {error}") from None


def _run_seconds(worker: Worker, handle: int, setting: Subject, budget_s: float) -> float:
    """Seconds of one run, the least of a few; of one alone where that takes a good part of the time budget."""
    found, feeds = list[float](), setting.feeds[0]
    while len(found) < _TIMED and sum(found) < _TIMED_SHARE * budget_s:
        blocks = worker.time_blocks([handle], [feeds], rounds=1, block_s=_TIMED_BLOCK_S, warm=False)
        found.append(blocks[0][0])
    return min(found)


def _running(worker: Worker, handle: int, setting: Subject, options: Options) -> Subject:
    """The subject with inputs that its model runs with; `ModelError` where there are none."""
    patience = _patience(options)
    try:
        worker.run(handle, setting.feeds[0], timeout=patience)
        return setting
    except ModelError as error:
        told = advice(setting.facts.inputs, setting.assignments[0], setting.overrides)
        refusal = ModelError(f"{error} ({told})")
    share = _FIT_SHARE if options.race else 1.0  # without a race the search is bounded by counts
    seconds = min(FIT_S, max(_LEAST_FIT_S, share * options.time_budget_s))
    other = fitting(setting, options, worker, seconds)
    if other is None:
        raise refusal
    worker.run(handle, other.feeds[0], timeout=patience)
    return other


def require_same_values(job: Run) -> None:
    """NotLosslessError where another provider makes something else of the original than the CPU provider does.

    What ONNX Runtime's own optimiser changes on the CPU provider is not ours to repair; where else to run is a choice.
    ModelError where it does not run the original on other inputs of the check.
    """
    config = job.setting.config
    if is_plain(config):
        return
    limits = OracleLimits(max_cases=ALWAYS)  # all others are for the check of candidates: the search shall not wait
    try:
        with checker_of(job.setting, job.options, limits=limits) as checker:
            wrong = difference_at(checker, job.worker, timeout=_patience(job.options))
    except WorkerError as error:
        raise ModelError(f"{job.setting.reference.name}: ONNX Runtime fails on the original: {error}") from None
    job.clock.lap("check")
    if wrong is not None:
        called = spelled("ep", short_name(config.ep))
        raise NotLosslessError(f"{called} gives other values for this model than ONNX Runtime's CPU provider: {wrong}")


def _patience(options: Options) -> float:
    return max(_PATIENCE_S, 2 * options.time_budget_s)


def refused(job: Run, original: Original) -> Result | None:
    """The model unchanged, where it cannot be rewritten or the time is too short for a race."""
    unsupported, clock = job.setting.loaded.unsupported, job.clock
    if unsupported is not None:
        return unchanged(job, "unsupported", "unsupported", unsupported)
    if not job.options.race or original.seconds is None:
        return None
    race_s = race_seconds(original.seconds, job.setting) + _SESSIONS * original.opening_s
    if clock.left() >= race_s:
        return None
    return too_little(job, clock.elapsed() + race_s, "too little time to race")


def too_slow(job: Run) -> Result:
    """The model unchanged, because ONNX Runtime took longer over the original than anybody would wait."""
    elapsed = job.clock.elapsed()
    return too_little(job, elapsed, f"ONNX Runtime neither opened nor ran the model in {elapsed:.0f} s")


def too_little(job: Run, needed_s: float, words: str) -> Result:
    """The model unchanged, because so many seconds were needed before anything could be found."""
    budget = whole_budget(4 * needed_s)
    told = f"{words}: use {spelled('time_budget_s', f'{budget:g}')} or more"
    result = unchanged(job, StopReason.TIME.value, "too little time", told)
    return replace(result, suggested_budget_s=budget)


def race_seconds(baseline: float, setting: Subject) -> float:
    """What the shortest race and confirmation of one candidate take, whose gain is clear where runs are long."""
    rounds, block_s = (2 * FEW_ROUNDS, baseline) if is_long(baseline) else (30, max(0.02, 2 * baseline))
    return 2 * rounds * block_s * len(setting.feeds)


def race_block_seconds(job: Run) -> float:
    """What a model's block of race and confirmation is to take."""
    return min(_LONGEST_BLOCK_S, max(_SHORTEST_BLOCK_S, _BLOCK_RUNS * job.run_s))


def confirmation_seconds(job: Run, rounds: int) -> float:
    """What a confirmation of so many rounds takes, and the profile of the winner after it."""
    round_s = 2 * len(job.setting.feeds) * block_seconds(race_block_seconds(job), job.run_s)
    return rounds * round_s + 2 * GROUPS * job.opening_s + job.clock.phases.get("profile", 0.0)

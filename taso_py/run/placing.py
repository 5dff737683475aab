"""`superopt optimize --ep auto`: the original raced across providers, then the search on the best of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from taso_py.backend.interpreters import runtime_of
from taso_py.backend.statistics import Interval
from taso_py.backend.timing import MIN_CONFIRM_ROUNDS
from taso_py.check.oracle import OracleLimits
from taso_py.errors import ModelError, NotLosslessError, RuntimeMissingError, TooLateError, WorkerError
from taso_py.options import Options
from taso_py.options.providers import short_name
from taso_py.progress import Progress
from taso_py.providers.contenders import Contender, at_home, contenders
from taso_py.providers.race import ProviderRace
from taso_py.providers.record import Placement, RacedProvider
from taso_py.result import Result
from taso_py.run import pipeline
from taso_py.run.run import Clock
from taso_py.run.subject import Subject, checker_of, prepare, refitted, require_runnable
from taso_py.stop import Interrupted, StopFlag

_RACE_ROUNDS = 6
_RACE_SHARE = 0.1
"""Part of the time budget for the rounds of the race, once all sessions are made, and for those of a confirmation."""
_LEAST_RACE_S = 2.0
"""And what they have in any case."""
_PATIENCE_S, _PATIENCE_SHARE = 20.0, 0.1
"""How long one request to a provider may take: so many seconds, or this share of the budget where that is more."""
_CASES = 4
"""Sets of inputs on which a provider is compared with the oracle."""
_WITHIN = 0.8
"""A second provider is searched on, too, if it runs the original at this part of the best one's speed, or faster."""
_LEAST_SEARCH_S = 45.0
"""And if each search has so much time."""
_FAILURES = (ModelError, NotLosslessError, RuntimeMissingError, WorkerError)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A provider to search on, and how many times faster than the baseline it runs the original."""

    contender: Contender
    gain: Interval


_AT_HOME = Interval(1.0, 1.0, 1.0)


def optimize(source: Path | onnx.ModelProto, options: Options, *, progress: Progress, stop: StopFlag) -> Result:
    """The fastest checked rewrite of ``source`` on the provider that runs it fastest.

    A provider that fails, gives other values or does not compute in float32 is left out, and said so in `placement`.
    """
    clock = Clock(options.time_budget_s)
    require_runnable(source)
    progress.phase("load")
    found, record = at_home(options), tuple[RacedProvider, ...]()
    chosen = list[_Placed]()
    try:
        with stop.abandoning():
            found = contenders(options)
            setting = prepare(source, found.all[0].options)
            clock.lap("load")
            chosen, record = _raced(found.all, setting, clock, progress)
    except (Interrupted, TooLateError):
        pass  # the search below ends at once, and says why
    clock.lap("providers")
    home = _Placed(found.all[0], _AT_HOME)
    chosen = chosen or [home]
    placed, result = _best(_searched(source, chosen, home, clock, progress, stop))
    result = replace(result, notes=(*found.left_out, *result.notes), phases_s={**clock.phases, **result.phases_s})
    placement = _placement(placed, found.all[0], result, record)
    return replace(result, placement=placement, elapsed_s=clock.elapsed())


def _raced(
    everybody: Sequence[Contender], setting: Subject, clock: Clock, progress: Progress
) -> tuple[list[_Placed], tuple[RacedProvider, ...]]:
    """The providers to search on, the best first, and what the race found of all."""
    least = 1 + everybody[0].options.min_gain
    progress.phase(f"race {len(everybody)} providers")
    progress.update(remaining_s=clock.left())
    patience = max(_PATIENCE_S, _PATIENCE_SHARE * clock.budget)
    limits = OracleLimits(until=clock.at(1.0), max_cases=_CASES)
    configs = [one.config for one in everybody]
    with checker_of(setting, everybody[0].options, limits=limits) as checker:
        setting = refitted(setting, everybody[0].options, checker.fit())
        with ProviderRace(configs, setting.reference, setting.feeds, patience_s=patience) as race:
            race.admit(checker)
            race.time(_RACE_ROUNDS, deadline=_deadline(clock))
            record = race.record()
    order = sorted(range(len(record)), key=lambda i: -(record[i].speedup or 0.0))
    best = [i for i in order if i == 0 or (record[i].speedup or 0.0) >= least]
    near = [i for i in best[:2] if (record[i].speedup or 1.0) >= _WITHIN * (record[best[0]].speedup or 1.0)]
    enough = clock.budget - clock.elapsed() >= len(near) * _LEAST_SEARCH_S
    wanted = near if enough else near[:1]
    placed = []
    for number in wanted:
        gain = _AT_HOME if number == 0 else _confirmed([everybody[0], everybody[number]], setting, clock, patience)
        if gain is not None and (number == 0 or (gain.low > 1 and gain.median >= least)):
            placed.append(_Placed(everybody[number], gain))
        else:
            base, name = short_name(everybody[0].config.ep), short_name(everybody[number].config.ep)
            words = "but a fresh measurement does not confirm it: run on a quieter machine, or with more time"
            progress.log("warning", f"{name} was faster than {base} in the race of providers, {words}")
    return placed or [_Placed(everybody[0], _AT_HOME)], record


def _deadline(clock: Clock) -> float:
    return time.monotonic() + max(_LEAST_RACE_S, _RACE_SHARE * clock.budget)


def _confirmed(pair: Sequence[Contender], setting: Subject, clock: Clock, patience: float) -> Interval | None:
    """The best against the baseline once more, in new processes; None where too few rounds counted."""
    configs = [one.config for one in pair]
    with ProviderRace(configs, setting.reference, setting.feeds, patience_s=patience) as race:
        try:
            race.admit()
            race.time(MIN_CONFIRM_ROUNDS, deadline=_deadline(clock))
        except _FAILURES:
            return None
        enough = len(race.entrants[1].seconds) >= MIN_CONFIRM_ROUNDS
        return race.interval(race.entrants[1]) if enough else None


def _searched(
    source: Path | onnx.ModelProto,
    chosen: Sequence[_Placed],
    home: _Placed,
    clock: Clock,
    progress: Progress,
    stop: StopFlag,
) -> list[tuple[_Placed, Result]]:
    """The search on each provider, in equal parts of the time that is left; one that fails costs its own part alone."""
    results: list[tuple[_Placed, Result]] = []
    for number, placed in enumerate(chosen):
        if results and stop:
            break
        try:
            results.append((placed, _search(source, placed, clock, len(chosen) - number, progress=progress, stop=stop)))
        except _FAILURES as error:
            if placed.contender is home.contender:
                raise
            progress.log("warning", f"{short_name(placed.contender.config.ep)} is left out: {error}")
    return results or [(home, _search(source, home, clock, 1, progress=progress, stop=stop))]


def _search(
    source: Path | onnx.ModelProto, placed: _Placed, clock: Clock, parts: int, *, progress: Progress, stop: StopFlag
) -> Result:
    """The search on one provider, in one of so many parts of the time that is left."""
    options = replace(placed.contender.options, time_budget_s=max(1.0, clock.left()) / parts)
    return pipeline.optimize(source, options, progress=progress, stop=stop)


def _best(results: Sequence[tuple[_Placed, Result]]) -> tuple[_Placed, Result]:
    """By what placement and rewriting gain together."""
    return max(results, key=lambda item: item[0].gain.median * _rewriting(item[1]))


def _rewriting(result: Result) -> float:
    return result.speedup if result.improved and result.speedup is not None else 1.0


def _placement(placed: _Placed, base: Contender, result: Result, record: tuple[RacedProvider, ...]) -> Placement:
    config = placed.contender.config
    distribution, version = runtime_of(config.python)
    return Placement(
        ep=config.ep, python=config.python, options=dict(config.ep_options), threads=config.threads,
        ort_level=config.ort_level, distribution=distribution, ort_version=version, baseline=base.config.ep,
        placement_speedup=placed.gain.median, placement_low=placed.gain.low, placement_high=placed.gain.high,
        rewriting_speedup=_rewriting(result), providers=record,
    )  # fmt: skip

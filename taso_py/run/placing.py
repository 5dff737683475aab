"""`superopt optimize --ep auto`: the original raced across providers, searches on the best, the race of the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from taso_py.backend.interpreters import runtime_of
from taso_py.backend.statistics import Interval
from taso_py.check.oracle import OracleLimits
from taso_py.errors import (
    ModelError,
    NotLosslessError,
    RuntimeMissingError,
    SuperoptError,
    TooLateError,
    WorkerError,
)
from taso_py.options import Options
from taso_py.options.providers import short_name
from taso_py.progress import Progress
from taso_py.providers.contenders import Contender, at_home, contenders
from taso_py.providers.race import ProviderRace
from taso_py.providers.record import Placement, RacedProvider
from taso_py.result import Result
from taso_py.run import pipeline
from taso_py.run.candidates import work_folder
from taso_py.run.crossing import HERE, Crossing, Entry, Placed
from taso_py.run.run import Clock
from taso_py.run.subject import Subject, checker_of, prepare, refitted, require_runnable
from taso_py.stop import Interrupted, StopFlag

_RACE_ROUNDS, _MOST_PLACES = 6, 2
"""Rounds of the race, and providers that are searched on."""
_RACE_SHARE = 0.1
"""Part of the time budget for the rounds of the race, once all sessions are made, and for those of a confirmation."""
_LEAST_RACE_S = 2.0
"""And what they have in any case."""
_PATIENCE_S, _PATIENCE_SHARE = 20.0, 0.1
"""How long one request to a provider may take: so many seconds, or this share of the budget where that is more."""
_CASES = 4
"""Sets of inputs on which a provider is compared with the oracle."""
_WITHIN = 0.25
"""A second provider is searched on, too, if it runs the original at this part of the best one's speed, or faster:
rewriting has gained four times the speed, hardly more.
"""
_LEAST_SEARCH_S = 30.0
"""And if each search has so much time; the first one may take all but that."""
_AT_HOME_FIRST = 0.5
"""At home is searched first, where prices are read from kernels, if it runs the original at this part of the best one's
speed, or faster: what is found there is raced on the others, too.
"""
_CROSSING_SHARE, _MOST_CROSSING = 0.15, 0.45
"""What is left for the race of the results, beside its sessions and runs: a part of the time budget; most of all."""
_OPENINGS, _RUNS = 4, 200
"""Sessions on each provider in the race of the results and its confirmation, and runs that these take."""
_FAILURES = (ModelError, NotLosslessError, RuntimeMissingError, WorkerError)


@dataclass(frozen=True, slots=True)
class _Raced:
    """What the race of the original found."""

    setting: Subject
    places: list[Contender]
    """The providers that a result may run on, the fastest first; without those that a search failed on."""
    gains: Sequence[Interval]
    """How many times faster than at home each of them ran the original."""
    record: tuple[RacedProvider, ...]
    crossing_s: float
    """What sessions and runs of the race of the results take."""
    fastest: Contender
    """The one that ran the original fastest, with the first of ``gains``."""


def optimize(source: Path | onnx.ModelProto, options: Options, *, progress: Progress, stop: StopFlag) -> Result:
    """The fastest checked rewrite of ``source`` on the provider that runs it fastest.

    A provider that fails, gives other values or does not compute in float32 is left out, and said so in `placement`.
    """
    clock = Clock.since(stop.begun(), options.time_budget_s)
    require_runnable(source)
    progress.phase("load")
    found, raced = at_home(options), None
    try:
        with stop.abandoning():
            found = contenders(options)
            setting = prepare(source, found.all[0].options)
            clock.lap("load")
            raced = _raced(found.all, setting, clock, progress)
    except (Interrupted, TooLateError):
        pass  # the search below ends at once, and says why
    clock.lap("providers")
    home = found.all[0]
    searched = _searched(source, home, raced, clock, progress, stop)
    clock.lap("searches")
    placed = _placed(searched, home, raced, clock, progress, stop)
    placed, result = _with_result(
        source, placed or Placed(Entry(home, None)), searched, home, clock=clock, progress=progress, stop=stop
    )
    clock.lap("crossing")
    result = replace(result, notes=(*found.left_out, *result.notes), phases_s=dict(clock.phases))
    placement = _placement(placed, result, home, () if raced is None else raced.record)
    return replace(result, placement=placement, elapsed_s=clock.elapsed())


def _raced(everybody: Sequence[Contender], setting: Subject, clock: Clock, progress: Progress) -> _Raced:
    """How fast each provider runs the original, and which of them are worth a search."""
    progress.phase(f"race {len(everybody)} providers")
    progress.update(remaining_s=clock.left())
    limits = OracleLimits(until=clock.at(1.0), max_cases=_CASES)
    configs = [one.config for one in everybody]
    with checker_of(setting, everybody[0].options, limits=limits) as checker:
        setting = refitted(setting, everybody[0].options, checker.fit())
        with ProviderRace(configs, setting.reference, setting.feeds, patience_s=_patience(clock)) as race:
            race.admit(checker)
            race.time(_RACE_ROUNDS, deadline=_deadline(clock))
            intervals, record = [race.interval(one) for one in race.entrants], race.record()
            openings = [one.opening_s for one in race.entrants]
            run_s = min(race.entrants[0].seconds.values(), default=0.0) * len(setting.feeds)
    gains = [HERE, *intervals[1:]]
    running = sorted((k for k, gain in enumerate(gains) if gain is not None), key=lambda k: -_speed(gains[k]))
    places = [k for k in running[:_MOST_PLACES] if _speed(gains[k]) >= _WITHIN * _speed(gains[running[0]])]
    crossing_s = _OPENINGS * sum(openings[k] for k in places) + _RUNS * run_s
    return _Raced(
        setting, [everybody[k] for k in places], [gains[k] or HERE for k in places], record, crossing_s,
        everybody[places[0]],
    )  # fmt: skip


def _speed(gain: Interval | None) -> float:
    return 0.0 if gain is None else gain.median


def _patience(clock: Clock) -> float:
    return max(_PATIENCE_S, _PATIENCE_SHARE * clock.budget)


def _deadline(clock: Clock) -> float:
    return time.monotonic() + max(_LEAST_RACE_S, _RACE_SHARE * clock.budget)


def _crossing_s(raced: _Raced, clock: Clock) -> float:
    """What the race of the results may take."""
    return min(_CROSSING_SHARE * clock.budget + raced.crossing_s, _MOST_CROSSING * clock.budget)


def _searched(
    source: Path | onnx.ModelProto, home: Contender, raced: _Raced | None, clock: Clock, progress: Progress,
    stop: StopFlag,
) -> list[tuple[Contender, Result]]:  # fmt: skip
    """The search on each provider, the second in what the first leaves; one that fails costs its own part alone."""
    if raced is None or list(raced.places) == [home]:
        return [(home, _search(source, home, clock.left(), progress=progress, stop=stop))]
    order = _search_order(raced, home)
    left = clock.left() - _crossing_s(raced, clock)
    chosen = order if left >= len(order) * _LEAST_SEARCH_S else order[:1]
    results: list[tuple[Contender, Result]] = []
    for number, place in enumerate(chosen):
        if results and stop:
            break
        seconds = clock.left() - _crossing_s(raced, clock) - _LEAST_SEARCH_S * (len(chosen) - number - 1)
        try:
            results.append((place, _search(source, place, seconds, progress=progress, stop=stop)))
        except _FAILURES as error:
            if place is home:
                raise
            progress.log("warning", f"{short_name(place.config.ep)} is left out: {error}")
            raced.places.remove(place)
    return results


def _with_result(
    source: Path | onnx.ModelProto, placed: Placed, searched: Sequence[tuple[Contender, Result]], home: Contender,
    *, clock: Clock, progress: Progress, stop: StopFlag,
) -> tuple[Placed, Result]:  # fmt: skip
    """What was placed; where that is the original on a provider that was not searched on, what is found there yet."""
    place, result = placed.entry.contender, placed.entry.result
    if result is not None:
        return placed, result
    try:
        return placed, _search(source, place, clock.left(), progress=progress, stop=stop)
    except _FAILURES as error:
        if place is home:
            raise
        progress.log("warning", f"{short_name(place.config.ep)} is left out: {error}")
    known = next((found for where, found in searched if where is home), None)
    return Placed(Entry(home, known)), known or _search(source, home, clock.left(), progress=progress, stop=stop)


def _search_order(raced: _Raced, home: Contender) -> list[Contender]:
    """The providers to search on, the most promising first."""
    order, best = list(raced.places), raced.gains[0].median
    if home in order and best * _AT_HOME_FIRST <= HERE.median:
        order.remove(home)
        order.insert(0, home)
    return order


def _search(
    source: Path | onnx.ModelProto, place: Contender, seconds: float, *, progress: Progress, stop: StopFlag
) -> Result:
    """The search on one provider."""
    options = replace(place.options, time_budget_s=max(1.0, seconds))
    return pipeline.optimize(source, options, progress=progress, stop=stop)


def _placed(
    searched: Sequence[tuple[Contender, Result]], home: Contender, raced: _Raced | None, clock: Clock,
    progress: Progress, stop: StopFlag,
) -> Placed | None:  # fmt: skip
    """The fastest of what was found, where it was confirmed; None where nothing is, and nothing was found at home."""
    at_home = next((Placed(Entry(place, result)) for place, result in searched if place is home), None)
    if raced is None or not searched or list(raced.places) == [home]:
        return at_home
    if stop:
        return at_home or _as_raced(searched, raced, home.options.min_gain)
    progress.phase("race the results")
    progress.update(remaining_s=clock.left())
    try:
        with stop.abandoning(), work_folder() as folder:
            crossing = Crossing(
                home=home, places=raced.places, setting=raced.setting, folder=folder, patience_s=_patience(clock),
                end=clock.at(1.0), progress=progress, least=1 + home.options.min_gain,
            )  # fmt: skip
            return crossing.best(searched)
    except (Interrupted, SuperoptError, OSError):  # a full disk, for one: what was found is there all the same
        return at_home or _as_raced(searched, raced, home.options.min_gain)


def _as_raced(searched: Sequence[tuple[Contender, Result]], raced: _Raced, least_gain: float) -> Placed | None:
    """Where no time is left to confirm a placement: what was found on the best, if the race is clear."""
    gain = raced.gains[0]
    found = next((Entry(place, result) for place, result in searched if place is raced.fastest), None)
    return Placed(found, gain) if found is not None and gain.low > 1 and gain.median >= 1 + least_gain else None


def _rewriting(result: Result) -> float:
    return result.speedup if result.improved and result.speedup is not None else 1.0


def _placement(placed: Placed, result: Result, base: Contender, record: tuple[RacedProvider, ...]) -> Placement:
    config = placed.entry.contender.config
    distribution, version = runtime_of(config.python)
    return Placement(
        ep=config.ep, python=config.python, options=dict(config.ep_options), threads=config.threads,
        ort_level=config.ort_level, distribution=distribution, ort_version=version, baseline=base.config.ep,
        placement_speedup=placed.gain.median, placement_low=placed.gain.low, placement_high=placed.gain.high,
        rewriting_speedup=_rewriting(result), providers=record,
    )  # fmt: skip

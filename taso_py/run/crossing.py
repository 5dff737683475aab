"""What the searches on several providers found, raced on each of them: which model on which provider is fastest.

A rewrite is proved whatever runs it, so that what was found on one provider may be the best model for another one.
Only what a fresh measurement confirms in new processes, against the original at home and against what was found there,
is placed away from home.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.backend.statistics import Interval, bootstrap_interval
from taso_py.backend.timing import MIN_CONFIRM_ROUNDS, Confirmation, confirmation_of
from taso_py.check.oracle import OracleLimits
from taso_py.check.report import CheckReport
from taso_py.errors import ModelError, NotLosslessError, RuntimeMissingError, TooLateError, WorkerError
from taso_py.options.providers import short_name
from taso_py.paths import exists
from taso_py.progress import Progress
from taso_py.providers.contenders import Contender
from taso_py.providers.race import Entrant, ProviderRace
from taso_py.result import Result
from taso_py.run.conclude import output_errors
from taso_py.run.subject import Subject, checker_of, weight_bytes

_RACE_ROUNDS = 8
_CHECK_SHARE, _RACE_SHARE = 0.25, 0.4
"""Of the time that is left, for comparing models on other providers; of what is left then, for the race; the
confirmation has the rest.
"""
_CASES = 4
"""Sets of inputs on which a rewritten model is compared on a provider where it was not searched for."""
_MOST_CONFIRMED = 2
"""Entries that are measured once more, the fastest first, until one is confirmed."""
_MOST_WEIGHTS = 2**31
"""Bytes of weights in all the sessions of a race together: beyond, only what was searched for where it runs takes part.
"""
_FAILURES = (ModelError, NotLosslessError, RuntimeMissingError, WorkerError, TooLateError)
HERE = Interval(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Entry:
    """A result on a provider: the one that it was searched on, or another; None: the original, nothing was searched."""

    contender: Contender
    result: Result | None
    report: CheckReport | None = None
    """Of its comparison on a provider where it was not searched for."""

    @property
    def improved(self) -> bool:
        """Whether it is another model than the original."""
        return self.result is not None and bool(self.result.improved)


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry that was chosen, and how many times faster than at home the original runs on its provider."""

    entry: Entry
    gain: Interval = HERE


@dataclass(slots=True, kw_only=True)
class Crossing:
    """One decision among the results of searches; ``folder`` is for their files."""

    home: Contender
    places: Sequence[Contender]
    """The providers that results may be placed on; others than home's are confirmed against that."""
    setting: Subject
    folder: Path
    patience_s: float
    end: float
    """When the confirmation has to be done, as time.monotonic() has it."""
    progress: Progress
    least: float
    """The least speed-up that counts."""

    def best(self, searched: Sequence[tuple[Contender, Result]]) -> Placed | None:
        """The fastest of these results on any of the places, confirmed; None where home has none and nothing is."""
        own = [Entry(place, result) for place, result in searched]
        own += [Entry(place, None) for place in self.places if all(place is not one.contender for one in own)]
        at_home = next((one for one in own if one.contender is self.home and one.result is not None), None)
        crossed = [] if self._is_large(own) else list(self._crossed(own))
        for one in self._fastest_first([*own, *crossed])[:_MOST_CONFIRMED]:
            if one is at_home:  # confirmed by its own search
                return Placed(one)
            plain = next((other for other in own if other.contender is one.contender and not other.improved), None)
            placed = self._confirmed(one, at_home, plain)
            if placed is not None:
                return placed
            name = short_name(one.contender.config.ep)
            words = "was faster in the race of results, but a fresh measurement does not confirm it"
            self.progress.log("warning", f"{name} {words}: run on a quieter machine, or with more time")
        return None if at_home is None else Placed(at_home)

    def _is_large(self, own: Sequence[Entry]) -> bool:
        return len(own) * len(self.places) * weight_bytes(self.setting.loaded.proto) > _MOST_WEIGHTS

    def _crossed(self, own: Sequence[Entry]) -> Iterator[Entry]:
        """Rewritten models on the other places, where they compute the original's values there, too."""
        until = time.monotonic() + _CHECK_SHARE * max(0.0, self.end - time.monotonic())
        for one in own:
            for place in self.places:
                if place is one.contender or not one.improved:
                    continue
                limits = OracleLimits(until=until, max_cases=_CASES)
                setting = replace(self.setting, config=place.config)
                try:
                    with checker_of(setting, place.options, limits=limits) as checker:
                        report = checker.check(self._model(one))
                except _FAILURES:
                    continue  # it runs where it was made; nothing is lost
                if report.passed:
                    yield Entry(place, one.result, report)

    def _model(self, one: Entry | None) -> ModelRef:
        """What an entry runs; None: the original."""
        if one is None or not one.improved:
            return self.setting.reference
        assert one.result is not None
        target = self.folder / f"{short_name(one.result.ep)}.onnx"
        if not exists(target):
            one.result.artifact.write(self.folder, target)
        return ModelRef.of(target)

    def _race(self, configs: Sequence[WorkerConfig], models: Sequence[ModelRef]) -> ProviderRace:
        setting = self.setting
        return ProviderRace(configs, setting.reference, setting.feeds, patience_s=self.patience_s, models=models)

    def _fastest_first(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that could be timed, and are faster than the original at home, which takes part in any case."""
        still = [one for one in entries if one.contender is self.home and not one.improved]
        moving = [one for one in entries if one.contender is not self.home or one.improved]
        configs = [self.home.config, *(one.contender.config for one in moving)]
        deadline = time.monotonic() + _RACE_SHARE * max(0.0, self.end - time.monotonic())
        with self._race(configs, [self._model(None), *map(self._model, moving)]) as race:
            race.admit()
            race.time(_RACE_ROUNDS, deadline=deadline)
            timed = [(race.interval(entrant), one) for entrant, one in zip(race.entrants[1:], moving, strict=True)]
        found = [(interval.median, one) for interval, one in timed if interval is not None and interval.median > 1]
        order = [one for _, one in sorted(found, key=lambda item: -item[0])]
        return order + [one for one in still if one.result is not None]

    def _confirmed(self, one: Entry, at_home: Entry | None, plain: Entry | None) -> Placed | None:
        """An entry in new processes, against the original at home and on its provider, and what was found at home.

        The original there, ``plain``, is confirmed by the same measurement where it does as well as the entry.
        """
        rival = at_home if at_home is not None and at_home.improved else None
        there = one.contender.config
        runs = {"home": (self.home.config, None), "there": (there, None), "one": (there, one)}
        if one.contender is self.home:
            del runs["there"]
        if not one.improved:
            del runs["one"]
        if rival is not None:
            runs["rival"] = (self.home.config, rival)
        configs, models = [config for config, _ in runs.values()], [self._model(run) for _, run in runs.values()]
        with self._race(configs, models) as race:
            try:
                race.admit()
                race.time(MIN_CONFIRM_ROUNDS, deadline=max(self.end, time.monotonic() + 1.0))
            except _FAILURES:
                return None
            timed = dict(zip(runs, race.entrants, strict=True))
        return self._judged(one, plain, timed)

    def _judged(self, one: Entry, plain: Entry | None, timed: dict[str, Entrant]) -> Placed | None:
        """What the confirmation says of an entry; None where it is not faster than all that it has to beat."""
        home, there = timed["home"], timed.get("there", timed["home"])
        runs = timed.get("one", there)
        gain = _ratio(home, there)
        if gain is None:
            return None
        if self._beats(runs, timed):
            if one.report is None:
                return Placed(one, gain)
            if self._is_faster(_ratio(there, runs)):
                return Placed(replace(one, result=_as_run_there(one, _confirmation(there, runs))), gain)
        return Placed(plain, gain) if plain is not None and self._beats(there, timed) else None

    def _beats(self, runs: Entrant, timed: dict[str, Entrant]) -> bool:
        """Whether something is faster than the original at home, and than what was found there."""
        if not self._is_faster(_ratio(timed["home"], runs)):
            return False
        return "rival" not in timed or self._is_faster(_ratio(timed["rival"], runs), least=1.0)

    def _is_faster(self, found: Interval | None, least: float | None = None) -> bool:
        return found is not None and found.low > 1 and found.median >= (least or self.least)


def _pairs(before: Entrant, after: Entrant) -> list[tuple[float, float]]:
    """Seconds of both in the rounds in which both were timed; none where one failed, or too few rounds counted."""
    common = sorted(before.seconds.keys() & after.seconds.keys())
    if before.failure is not None or after.failure is not None or len(common) < MIN_CONFIRM_ROUNDS:
        return []
    return [(before.seconds[k], after.seconds[k]) for k in common]


def _ratio(before: Entrant, after: Entrant) -> Interval | None:
    pairs = _pairs(before, after)
    return bootstrap_interval([one / other for one, other in pairs]) if pairs else None


def _confirmation(before: Entrant, after: Entrant) -> Confirmation:
    return confirmation_of(_pairs(before, after), 0)


def _as_run_there(one: Entry, confirmed: Confirmation) -> Result:
    """The result with the figures of a provider that it was not searched on."""
    assert one.report is not None
    assert one.result is not None
    config, report = one.contender.config, one.report
    where, here = short_name(one.result.ep), short_name(config.ep)
    return replace(
        one.result,
        ep=config.ep,
        threads=config.threads or one.result.threads,
        speedup=confirmed.speedup,
        speedup_low=confirmed.low,
        speedup_high=confirmed.high,
        latency_before_ms=confirmed.before_ms,
        latency_after_ms=confirmed.after_ms,
        rounds_ms=confirmed.rounds_ms,
        max_abs_error=report.max_abs_error,
        max_rel_error=report.max_rel_error,
        tolerance=report.tolerance,
        errors=output_errors(report),
        predicted_speedup=None,
        profile=None,
        profile_after=None,
        notes=(*one.result.notes, f"its rewrites were searched for on {where}; on {here} they are faster still"),
    )

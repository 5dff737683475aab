"""The zoo across providers and, with an error budget, across approximations: everybody in one race of blocks in turn.

Each contestant has a worker process of its own, for two providers in one disturb each other.  Sessions are made anew
three times, in new processes: where one lies in memory can favour it by a percent while it lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scripts.bench import samples as drawn
from scripts.bench.contest_report import markdown
from scripts.bench.contest_rows import Entry, ModelRow, load, write
from scripts.bench.contestants import PATIENCE_S, Contest, Contestant, Given, Who, contestants
from scripts.bench.feeds import feeds_for
from taso_py.approximate.judge import Judge, Verdict
from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.runtime import cpu_name, require_runtime
from taso_py.errors import SuperoptError
from taso_py.options import CheckOptions
from taso_py.providers.race import ProviderRace
from taso_py.run.budget import Data, data_of
from taso_py.version import VERSION

GROUPS = 3
_TURN_S = 4.0
"""What one contestant's turn in a round may take: a block of 0.25 s, pools that come to rest, and rounds that do not
count."""
_LONG = 10**6
"""More rounds than any group tries: rounds of different groups have different numbers."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Timed:
    """Seconds of a run by entrant and round; a round has all entrants that were alive then."""

    seconds: list[dict[int, float]]
    failures: dict[int, str] = field(default_factory=dict)


def race_together(
    entrants: Sequence[tuple[WorkerConfig, Path]], feeds: Feeds, *, rounds: int, turn_s: float = _TURN_S
) -> Timed:
    """Everybody timed in the same rounds; SuperoptError where the first, the baseline, does not run.

    One that fails is out of the race from then on, and what it ran before counts for nothing.
    """
    found = Timed([{} for _ in entrants])
    for group in range(GROUPS):
        alive = [number for number in range(len(entrants)) if number not in found.failures]
        alive *= 2 if len(alive) == 1 else 1  # a race of one times nothing
        wanted = rounds // GROUPS + (group < rounds % GROUPS)
        configs, files = zip(*(entrants[number] for number in alive), strict=True)
        models = [ModelRef.of(file) for file in files]
        with ProviderRace(configs, models[0], [feeds], patience_s=PATIENCE_S, models=models) as race:
            race.admit()
            race.time(wanted, deadline=time.monotonic() + wanted * len(models) * turn_s)
            for number, one in zip(alive, race.entrants, strict=True):
                if one.failure is not None:
                    found.failures[number] = one.failure
                found.seconds[number] |= {_LONG * group + k: seconds for k, seconds in one.seconds.items()}
    return found


def judge_together(
    original: Path, entrants: Sequence[tuple[WorkerConfig, Path]], data: Data, threads: int
) -> list[Verdict | str]:
    """The error of each on the samples that made and chose none of them, by the product's measure; or why it has none.

    The first is the original as it is deployed.
    """
    verdicts: list[Verdict | str] = []
    with Worker(WorkerConfig(threads=threads), timeout=PATIENCE_S) as oracle:
        judge = Judge(ModelRef.of(original), data.samples, oracle, oracle, data.metric, PATIENCE_S)
        for config, model in entrants:
            with Worker(config, timeout=PATIENCE_S) as worker:
                judge = judge.on(worker)  # what the original gives goes from one to the next
                try:
                    verdicts.append(judge.verdict(ModelRef.of(model), data.parts.test))
                except SuperoptError as error:
                    verdicts.append(str(error))
    return verdicts


def assess(given: Given, everybody: Sequence[Contestant], data: Data | None, contest: Contest) -> ModelRow:
    """Time and judge all contestants of one model; ``everybody[0]`` is the original.

    Those that run the same bytes in the same session are one entrant, or chance would tell them apart.
    """
    keys = [one.key for one in everybody]
    places: dict[tuple[object, ...], int] = {}
    for key in keys:
        if key is not None:
            places.setdefault(key, len(places))
    firsts = [everybody[keys.index(key)] for key in places]
    entrants = [(one.config, one.model) for one in firsts if one.config is not None and one.model is not None]
    timed = race_together(entrants, feeds_for(given.model), rounds=contest.rounds)
    verdicts = [None] * len(entrants) if data is None else judge_together(given.model, entrants, data, contest.threads)

    def entry(one: Contestant, key: tuple[object, ...] | None) -> Entry:
        if key is None:
            return _entry(one, {}, one.failure, None, None)
        place = places[key]
        same = None if firsts[place] is one else firsts[place].who
        return _entry(one, timed.seconds[place], timed.failures.get(place), verdicts[place], same)

    return ModelRow(
        model=given.model.stem,
        budget=contest.budget,
        rounds=contest.rounds,
        entries={one.who: entry(one, key) for one, key in zip(everybody, keys, strict=True)},
    )


def _entry(
    one: Contestant, seconds: Mapping[int, float], failure: str | None, verdict: Verdict | str | None, same: Who | None
) -> Entry:
    judged = verdict if isinstance(verdict, Verdict) else None
    return Entry(
        ep=None if one.config is None else one.config.ep,
        failure=failure or (verdict if isinstance(verdict, str) else None),
        made_s=one.made_s,
        same_as=same,
        seconds=seconds,
        error=None if judged is None else judged.error,
        samples=0 if judged is None else judged.samples,
        result=one.result,
    )


@contextmanager
def given(model: Path, contest: Contest) -> Iterator[tuple[Given, Data | None]]:
    """The model and, with a budget, its samples; what is drawn is removed afterwards: the seed makes it again."""
    if contest.budget is None:
        yield Given(model), None
        return
    own = None if contest.samples is None else contest.samples / f"{model.stem}.npz"
    file = own if own is not None and own.is_file() else contest.out / f"{model.stem}.npz"
    calibration = contest.out / f"{model.stem}.calibration.npz"
    try:
        if file != own:
            drawn.write(model, file)
        data = data_of(ModelRef.of(model), CheckOptions(error_budget=contest.budget, calibration=file))
        parts = data.parts
        seen = [*parts.calibration, *parts.selection]  # others choose nothing, and may calibrate with all of these
        arrays: dict[str, Any] = {name: array[seen] for name, array in data.samples.arrays.items()}
        np.savez(calibration, **arrays)
        yield Given(model, file, calibration), data
    finally:
        calibration.unlink(missing_ok=True)
        if file != own:
            file.unlink(missing_ok=True)


def contest_model(model: Path, contest: Contest, say: Say) -> ModelRow:
    """Everything about one model; a model that has no samples, or does not run, is a row that says why."""
    try:
        with given(model, contest) as (task, data):
            everybody = []
            for one in contestants(task, contest):
                everybody.append(one)
                say(f"{model.stem}: {one.who} {one.failure or 'made'} ({one.made_s:.1f} s)")
            return assess(task, everybody, data, contest)
    except (SuperoptError, ValueError) as error:
        return ModelRow(model=model.stem, budget=contest.budget, entries={}, failure=str(error))


def environment(contest: Contest) -> dict[str, Any]:
    """Where and how the figures were measured: results of another environment are not mixed with them."""
    distribution, version = require_runtime()
    return {
        "cpu": cpu_name(), "threads": contest.threads, distribution: version, "superopt": VERSION,
        "rounds": contest.rounds, "options": " ".join(contest.options), "ep": contest.ep,
        "budget": contest.budget, "contestants": list(contest.wanted),
    }  # fmt: skip


def run(models: Mapping[str, Callable[[], Path]], contest: Contest, say: Say) -> list[ModelRow]:
    """All models, those of an earlier run into the same folder included, which are not run again.

    ``models``: names, and what gives their files.  Results are written after each model.
    """
    where = environment(contest)
    contest.out.mkdir(parents=True, exist_ok=True)
    rows = load(contest.out, where)
    for name, file in models.items():
        if rows.get(name) is not None and rows[name].failure is None:
            say(f"{name}: kept from an earlier run")
            continue
        rows[name] = contest_model(file(), contest, say)
        write(list(rows.values()), where, contest.out)
        (contest.out / "contest.md").write_text(markdown(list(rows.values()), where), encoding="utf-8")
    return list(rows.values())

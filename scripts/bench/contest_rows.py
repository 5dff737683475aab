"""What a contest found of each model and contestant, as records that a file holds, and ratios of the same rounds.

Each comparison is one of two contestants by themselves: the median over the rounds that both ran in, of one's seconds
over the other's, with its 95 % interval.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from scripts.bench.contestants import Who
from taso_py.backend.statistics import Interval, bootstrap_interval
from taso_py.options.providers import OPENVINO

SCHEMA = "superopt.contest/1"
_FILE = "contest.json"
EXACT = (Who.OURS_CPU, Who.OPENVINO)
"""The better of these is what the lossless result has to keep up with."""
APPROXIMATE = (Who.BF16, Who.ORT_STATIC, Who.ORT_DYNAMIC, Who.NNCF)
"""The best of these that keeps the budget is what a result with a budget has to keep up with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was found of one contestant."""

    ep: str | None = None
    failure: str | None = None
    made_s: float = 0.0
    """Seconds that making its model took."""
    same_as: str | None = None
    """The contestant that runs the same bytes in the same session: both are one entrant, timed once."""
    seconds: Mapping[int, float] = field(default_factory=dict)
    """Round -> seconds of a run."""
    error: float | None = None
    """The worst relative error over the unseen samples; inf for NaN; None: not looked at."""
    samples: int = 0
    """On how many."""
    result: Mapping[str, Any] | None = None
    """The JSON that our own run printed."""

    def over(self, other: Entry) -> Interval | None:
        """How many times faster than the other it is; None where they have no rounds in common."""
        if self.failure is not None or other.failure is not None:
            return None
        ratios = [other.seconds[k] / own for k, own in sorted(self.seconds.items()) if k in other.seconds]
        return bootstrap_interval(ratios) if ratios else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model of the contest."""

    model: str
    budget: float | None
    entries: Mapping[str, Entry]
    failure: str | None = None
    """Why there is nothing at all."""
    rounds: int = 0
    """How many were asked for; those in which something disturbed the timing do not count."""

    def over(self, one: str, other: str) -> Interval | None:
        """How many times faster ``one`` is than ``other``; None where either is missing or failed."""
        pair = [self.entries.get(who) for who in (one, other)]
        return None if pair[0] is None or pair[1] is None else pair[0].over(pair[1])

    def keeps(self, who: str) -> bool:
        """Whether its error is within the budget, as that of an exact one is taken to be where none was measured."""
        entry = self.entries.get(who)
        if entry is None or entry.failure is not None:
            return False
        exact = who not in (*APPROXIMATE, Who.OURS_BUDGET)
        return exact if entry.error is None or self.budget is None else entry.error <= self.budget

    @property
    def ours(self) -> Who:
        """Our result that this contest is about."""
        return Who.OURS_AUTO if self.budget is None else Who.OURS_BUDGET

    @property
    def rival(self) -> Who | None:
        """The fastest of those that ours is compared with; None where none of them runs and keeps the budget.

        Picked by its median: the best of each round would be faster than any of them by chance alone.
        """
        return self.best(self.rivals)

    @property
    def rivals(self) -> tuple[Who, ...]:
        """Those that ours is compared with."""
        return EXACT if self.budget is None else APPROXIMATE

    def best(self, among: Sequence[Who]) -> Who | None:
        """The fastest of these that may be counted."""
        found = {who: self.over(who, Who.ORIGINAL) for who in among if self.keeps(who)}
        speeds = {who: interval.median for who, interval in found.items() if interval is not None}
        return max(speeds, key=lambda who: speeds[who], default=None)

    @property
    def over_rival(self) -> Interval | None:
        """Ours over the rival, from the same rounds; None without a rival, or without a result that counts."""
        return None if self.rival is None or not self.keeps(self.ours) else self.over(self.ours, self.rival)

    @property
    def below(self) -> bool:
        """Whether ours is surely slower than the rival, failed or is beyond the budget; not where it takes no part."""
        if self.ours not in self.entries or (self.rival is None and self.keeps(self.ours)):
            return False
        return self.over_rival is None or self.over_rival.high < 1

    @property
    def rewriting(self) -> Interval | None:
        """What rewriting gains on OpenVINO: our lossless result there over the original there."""
        ours = self.entries.get(Who.OURS_AUTO)
        on_openvino = ours is not None and ours.ep == OPENVINO
        return self.over(Who.OURS_AUTO, Who.OPENVINO) if on_openvino else None


def write(rows: Sequence[ModelRow], environment: Mapping[str, Any], out: Path) -> None:
    """Write ``contest.json`` into ``out``: all else can be made again from it."""
    told = [
        dataclasses.asdict(row)
        | {"rival": row.rival, "over_rival": _asdict(row.over_rival), "below": row.below}
        | {"entries": {who: _told(entry) for who, entry in row.entries.items()}}
        for row in rows
    ]
    document = {"schema": SCHEMA, "environment": dict(environment), "models": told}
    partial = out / f"{_FILE}.partial"
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(out / _FILE)


def _asdict(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else dataclasses.asdict(interval)


def _told(entry: Entry) -> dict[str, Any]:
    """JSON has no infinity."""
    broken = entry.error is not None and math.isinf(entry.error)
    return dataclasses.asdict(entry) | ({"error": "inf"} if broken else {})


def load(out: Path, environment: Mapping[str, Any]) -> dict[str, ModelRow]:
    """Model -> row, of an earlier run into this folder; click.UsageError where that had other settings."""
    file = out / _FILE
    if not file.is_file():
        return {}
    told = _document(file)
    if told.get("environment") != json.loads(json.dumps(dict(environment))):
        raise click.UsageError(f"{file} is of another environment or other settings: give another --out, or remove it")
    return {one["model"]: _row(one) for one in told["models"]}


def rows_of(file: Path) -> dict[str, ModelRow]:
    """Model -> row, of a ``contest.json``; click.UsageError for another file."""
    return {one["model"]: _row(one) for one in _document(file)["models"]}


def _document(file: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if told.get("schema") != SCHEMA:
        raise click.UsageError(f"{file} is no {SCHEMA}: give another, or remove it")
    return told


def _row(told: Mapping[str, Any]) -> ModelRow:
    entries = {who: _entry(entry) for who, entry in told["entries"].items()}
    known = {name: told[name] for name in ("model", "budget", "failure", "rounds")}
    return ModelRow(entries=entries, **known)


def _entry(told: Mapping[str, Any]) -> Entry:
    error = None if told["error"] is None else float(told["error"])
    seconds = {int(number): seconds for number, seconds in told["seconds"].items()}
    return Entry(**{**told, "error": error, "seconds": seconds})

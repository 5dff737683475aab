"""Which rules pay: the measured gains of each rule by itself, over several models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

SCHEMA = "superopt.rank/1"


@dataclass(frozen=True, slots=True)
class Usefulness:
    """One rule in one direction; gains are shares of a model's time."""

    rule: str
    gains: Mapping[str, float]
    """By model; models on which it gains nothing are left out."""

    @property
    def total(self) -> float:
        """What the ranking goes by."""
        return sum(self.gains.values())

    @property
    def best(self) -> tuple[str, float]:
        """The model on which it gains most."""
        return max(self.gains.items(), key=lambda item: item[1])


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rules that gain somewhere, the most useful first, and how many were tried."""

    models: tuple[str, ...]
    rules: tuple[Usefulness, ...]
    tried: int

    def to_json(self) -> str:
        """The same as one JSON object."""
        rules = [{"rule": u.rule, "total": u.total, "gains": dict(u.gains)} for u in self.rules]
        return json.dumps({"schema": SCHEMA, "models": self.models, "tried": self.tried, "rules": rules}, indent=2)


def ranked(gains: Mapping[str, Mapping[str, float]]) -> Ranking:
    """The rules by the sum of their gains; ``gains`` are those of each rule that was tried, by model."""
    found: dict[str, dict[str, float]] = {}
    for model, by_rule in gains.items():
        for rule, gain in by_rule.items():
            found.setdefault(rule, {})[model] = gain
    useful = [Usefulness(r, {m: g for m, g in by.items() if g > 0}) for r, by in found.items() if max(by.values()) > 0]
    return Ranking(tuple(gains), tuple(sorted(useful, key=lambda u: (-u.total, u.rule))), len(found))

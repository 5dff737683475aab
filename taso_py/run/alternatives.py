"""What of the second stage runs in another place than the exact model: on other providers, with or without a hint.

The exact model and the original run there with a provider's hint; models with 8-bit layers run there as well, the rest
of them at the precision of the place.  All of them meet in one race, in processes of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taso_py.approximate import elsewhere
from taso_py.approximate.candidates import GUARD, Candidate
from taso_py.approximate.elsewhere import Elsewhere, Judged
from taso_py.approximate.judge import Judge
from taso_py.approximate.record import TriedApproximation
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.timing import Confirmation, Unconfirmed
from taso_py.options.providers import short_name

_ROUNDS, _LEAST_RACE_S = 6, 2.0
_MOVED = 2
"""Models with 8-bit layers that are tried in each other place, the fastest of them."""


@dataclass(slots=True, kw_only=True)
class Alternatives:
    """Candidates of one stage that run elsewhere; what is found of them goes into ``told``."""

    original: ModelRef
    exact: ModelRef
    differs: bool
    """Whether the exact model is another one than the original."""
    config: WorkerConfig
    """How the exact model runs."""
    places: Sequence[Elsewhere]
    selection: Sequence[int]
    feeds: Sequence[Feeds]
    budget: float
    least: float
    """The least speed-up that counts."""
    told: list[TriedApproximation]

    def by_hint(self, judge: Judge, until: float, begun: Callable[[str], None]) -> list[Candidate]:
        """The exact model and the original on each provider that a hint makes less precise."""
        models = [self.exact, *([self.original] if self.differs else [])]
        found = list[Candidate]()
        for place in self.places:
            if place.hint:
                begun(f"approximate: bfloat16 on {short_name(place.config.ep)}")
                made = elsewhere.hinted(
                    place.config, models, judge, self.selection, beyond=self.budget, until=until
                )  # fmt: skip
                found += self._kept(made)
        return found

    def moved(self, judge: Judge, fastest: Sequence[Candidate], until: float) -> list[Candidate]:
        """The fastest models with 8-bit layers in the other places; only those that keep the budget there."""
        found = list[Candidate]()
        for number, place in enumerate(self.places if fastest else ()):
            now = time.monotonic()
            share = now + (until - now) / (len(self.places) - number)
            made = elsewhere.moved(
                place, fastest[:_MOVED], judge, self.selection, beyond=self.budget, until=share
            )  # fmt: skip
            found += self._kept(made)
        keeping = within(found, self.budget)
        self.told += [one.told() for one in found if one not in keeping]
        return keeping

    def _kept(self, made: Sequence[Judged]) -> list[Candidate]:
        self.told += [one for one in made if isinstance(one, TriedApproximation)]
        return [one for one in made if isinstance(one, Candidate)]

    def raced(self, candidates: Sequence[Candidate], deadline: float) -> list[tuple[float, Candidate]]:
        """Those that are faster there than the exact model is where it runs, with their speed-ups."""
        configs, models = [self._config_of(one) for one in candidates], [one.reference for one in candidates]
        deadline = max(deadline, time.monotonic() + _LEAST_RACE_S)
        timed = elsewhere.raced(
            self.config, configs, self.exact, models, self.feeds, rounds=_ROUNDS, deadline=deadline
        )  # fmt: skip
        self.told += [one.told(t.speedup, t.failure) for one, t in zip(candidates, timed, strict=True)]
        return [
            (found.speedup, one)
            for one, found in zip(candidates, timed, strict=True)
            if found.speedup is not None and found.speedup >= self.least
        ]

    def confirmed(self, winner: Candidate, deadline: float, rounds: int, seed: int) -> Confirmation | Unconfirmed:
        """The winner in its place against what it approximates, where the exact model runs."""
        base = self.original if winner.of_original else self.exact
        models = (base, winner.reference)
        return elsewhere.confirmed(
            self.config, self._config_of(winner), models, self.feeds, deadline=deadline, rounds=rounds, seed=seed
        )  # fmt: skip

    def _config_of(self, one: Candidate) -> WorkerConfig:
        return one.config or self.config


def within(found: Sequence[Candidate], budget: float) -> list[Candidate]:
    """Those that keep the budget on the selection with some room; if there are none, those that keep it."""
    keeping = [one for one in found if one.verdict.error <= GUARD * budget]
    return keeping or [one for one in found if one.verdict.error <= budget]

"""Which layers are made 8-bit: by what each gains for its error, with the error of all together measured every time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from taso_py.approximate.candidates import FAULTS, GUARD, Bench, Candidate
from taso_py.approximate.quantise import Calibrator
from taso_py.errors import TooLateError

_SOME = 4
"""Samples on which a layer alone is looked at."""
_LEAST_ERROR = 1e-9
"""Errors are told apart down to this: a layer without any would gain infinitely much for it."""


@dataclass(slots=True, kw_only=True)
class Chooser:
    """Chooses layers of one model for one calibrator."""

    bench: Bench
    method: Calibrator
    gains: Mapping[str, float]
    """Seconds of one run that a layer saves, by name."""
    until: float
    tell: Callable[[int], None] = lambda _done: None
    alone: dict[str, float] = field(default_factory=dict, init=False)
    """The error with this layer alone made 8-bit, of those that were looked at."""
    measured: list[Candidate] = field(default_factory=list, init=False)
    """The sets that were measured together."""

    def look(self, until: float) -> None:
        """The error of each layer by itself, those that gain most first, as long as there is time."""
        for name in sorted(self.gains, key=lambda name: -self.gains[name]):
            if time.monotonic() >= until:
                return
            try:
                found = self.bench.static(self.method, [name], beyond=float("inf"), some=_SOME)
            except TooLateError:
                return
            except FAULTS:
                found = None
            self.tell(len(self.alone))
            self.alone[name] = float("inf") if found is None else found.verdict.error
            if found is not None:
                self.bench.discard(found)

    def _worth_it(self) -> list[str]:
        """Layers that are faster with 8 bits, those that gain most first."""
        return sorted((name for name, gain in self.gains.items() if gain > 0), key=lambda name: -self.gains[name])

    def order(self) -> list[str]:
        """Layers by gain per error, best first; those that nobody looked at behind them, by gain."""
        seen = [name for name in self._worth_it() if self.alone.get(name, 0.0) < float("inf")]
        known = [name for name in seen if name in self.alone]
        known.sort(key=lambda name: -self.gains[name] / max(self.alone[name], _LEAST_ERROR))
        return known + [name for name in seen if name not in self.alone]

    def chosen(self) -> list[Candidate]:
        """The layers that pay and keep the budget together, and the same with those that do not pay by themselves.

        Where the others keep their precision, values are turned into 8-bit ones and back between layers.
        """
        best = self.greedy()
        if best is None:
            return []
        rest = [name for name in self.gains if name not in best.layers and self.gains[name] <= 0]
        more = self._measured([*sorted(best.layers), *rest]) if rest and time.monotonic() < self.until else None
        return [best] if more is None or not self.bench.keeps(more) else [best, more]

    def greedy(self) -> Candidate | None:
        """The largest set that was found to keep the budget: pieces of the order, added while all together keep it.

        A piece that does not fit is halved; a single layer that does not fit is left out.
        """
        order, kept = self.order(), list[str]()
        best: Candidate | None = None
        size = len(order)
        while order and size and time.monotonic() < self.until:
            piece = order[:size]
            found = self._measured([*kept, *piece])
            if found is not None and self.bench.keeps(found):
                kept, best, order = [*kept, *piece], found, order[size:]
                size = min(len(order), 2 * size)
            elif size == 1:
                order = order[1:]
                size = min(len(order), 1)
            else:
                size //= 2
        return best

    def _measured(self, names: Sequence[str]) -> Candidate | None:
        """All these together; None where that cannot be made, run, or looked at in time."""
        try:
            found = self.bench.static(self.method, names, beyond=GUARD * self.bench.budget)
        except (*FAULTS, TooLateError):
            return None
        self.measured.append(found)
        return found

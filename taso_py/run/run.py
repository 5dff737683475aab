"""What the phases of one run share."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from taso_py.backend.client import Worker
from taso_py.cost.cache import Cache
from taso_py.cost.roofline import Roofline
from taso_py.options import Options
from taso_py.progress import Progress
from taso_py.result import ModelProfile
from taso_py.rules.library import Library
from taso_py.run.candidates import Finalists, shortlist
from taso_py.run.recall import Recalled
from taso_py.run.subject import Subject
from taso_py.stop import StopFlag

PROPOSE_SHARE = 0.35
"""Part of the time budget in which quick searches are judged; the rest of the search's is for measuring places."""
SEARCH_SHARE, SELECT_SHARE, CHECK_SHARE = 0.45, 0.15, 0.1
"""Parts of the time budget; the race has the rest."""
PATIENCE_S = 2.0
"""How long after the end of its time a worker is still waited for."""
MOST_LEFT = 0.3
"""The largest part of the time budget that is left for writing the result."""
_WRITTEN, _SMALL_BYTES = 3e8, 2**26
"""Bytes a second that are hoped for of a file that is written, flushed and hashed; those that need no planning."""
_NODE_S = 3e-4
"""What reading a node takes at least on slow machines."""


@dataclass(slots=True)
class Clock:
    """The time budget and where it went."""

    budget: float
    begin: float = field(default_factory=time.monotonic)
    phases: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)
    _shared: float | None = None
    """What was used before there were shares."""

    @classmethod
    def since(cls, begin: float, budget: float) -> Clock:
        """One that began before there was a clock: that time is a phase of its own."""
        clock = cls(budget, begin, _last=begin)
        clock.lap("start")
        return clock

    def at(self, share: float) -> float:
        """The moment when this share of the budget, less what was used before there were shares, is used up."""
        before = self._shared or 0.0
        return self.begin + before + share * (self.budget - before)

    def share_rest(self) -> None:
        """Shares are those of what is left now: what it took to read and time a model says nothing of the search."""
        if self._shared is None:
            self._shared = min(self.elapsed(), self.budget)

    def left(self) -> float:
        """Seconds until the budget is used up."""
        return self.begin + self.budget - time.monotonic()

    def leave(self, seconds: float) -> None:
        """Keeps time, at most `MOST_LEFT` of all, for what comes behind the run: its files are written then."""
        self.budget -= min(seconds, MOST_LEFT * self.budget)

    def lap(self, phase: str) -> None:
        """The time since the last lap belongs to ``phase``."""
        now = time.monotonic()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begin


@dataclass(slots=True, kw_only=True)
class Run:
    """One run: the model, the options, and the means."""

    source: Path | onnx.ModelProto
    options: Options
    setting: Subject
    library: Library
    """The rules that were chosen; once they are proved, those of them that may rewrite."""
    worker: Worker
    clock: Clock
    progress: Progress
    stop: StopFlag
    baseline: float | None
    """Seconds of one run of the original; None when nothing is timed."""
    opening_s: float = 0.0
    """Seconds that making the original's session took."""
    profile: ModelProfile | None = None
    """Where the original's time goes; None when nothing is timed."""
    unproved: str = ""
    """How many of the chosen rules were left out because nothing is proved of them, in words."""
    shared_worker: bool = False
    """Whether the checker uses the same worker, instead of one that knows nothing of the search."""
    identity: Mapping[str, str] = field(default_factory=dict)
    """What decides which model comes out."""
    recalled: Recalled | None = None
    """What an earlier run like this one found, where that is taken instead of a search."""
    cache: Cache | None = None
    """What earlier runs measured and found, once that was asked for: one that cannot be used is told of once."""
    finalists: Finalists = shortlist
    """Which of the states that were found are checked and raced."""
    roofline: Roofline = field(init=False)

    def __post_init__(self) -> None:
        self.roofline = Roofline(self.setting.sizes)

    def close(self) -> None:
        """Releases the cache."""
        if self.cache is not None:
            self.cache.close()

    def adopt(self, setting: Subject) -> None:
        """The model at other sizes, before anything was searched."""
        self.setting, self.roofline = setting, Roofline(setting.sizes)

    @property
    def run_s(self) -> float:
        """Seconds of one run of the original; 0 where it was not timed."""
        return self.baseline or 0.0

    @property
    def start_cost(self) -> float:
        """Seconds that the search takes the original to cost."""
        return self.baseline or self.roofline.total(self.setting.loaded.table)

    def deadline(self, share: float) -> float:
        """When this share of the time budget is used up; never, where nothing may depend on the clock."""
        return self.clock.at(share) if self.options.race else float("inf")

    def patience(self, share: float) -> float:
        """Until when a worker is waited for whose work is done when this share of the time budget is used up.

        What is bounded by counts has all of the budget: after that there is no result rather than another one.
        """
        return self.clock.at(share if self.options.race else 1.0) + PATIENCE_S

    def stopped(self) -> bool:
        """Whether the user asked to stop."""
        return bool(self.stop)

    def begin(self, phase: str, total: int | None = None) -> None:
        """Tells the user that a phase begins, and what is left of the time budget."""
        self.progress.phase(phase, total)
        self.progress.update(remaining_s=self.clock.left())

    def tell_measured(self, speedup: float) -> None:
        """Tells the user how much faster the best whole model ran; from then on a Ctrl-C finishes with it."""
        self.progress.update(measured=speedup, remaining_s=self.clock.left())
        if speedup > 1:
            self.stop.keep(signal.SIGINT)

    def reporter(self) -> Callable[[int, float], None]:
        """Tells the user how many states there are and what the best one promises."""

        def report(count: int, best: float) -> None:
            promise = self.start_cost / best if best > 0 else None
            self.progress.update(candidates=count, best=promise, remaining_s=self.clock.left())

        return report


def writing_seconds(outside: int, inside: int, loading_s: float, nodes: int = 0) -> float:
    """What writing a model will take: its weights outside its file, and this file, which was read in so long.

    Most of that may have gone into taking its nodes apart.
    """
    read = inside / max(loading_s - _NODE_S * nodes, 1e-3) if inside >= _SMALL_BYTES else _WRITTEN
    total = outside + inside
    return total / min(_WRITTEN, read) if total >= _SMALL_BYTES else 0.0


def whole_budget(seconds: float) -> float:
    """A time budget of at least so many seconds, rounded up to two digits."""
    step = 10 ** max(0, math.floor(math.log10(max(seconds, 1.0))) - 1)
    return float(math.ceil(seconds / step) * step)

"""The gate of a deployment pipeline: conditions on a result, and what a result says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from taso_py.errors import GateError, SpeedupNotReachedError, TooNoisyError, UndecidedError

SPEEDUP, REL_ERROR, SIZE = "min-speedup", "max-rel-error", "max-size"
Verdict = Literal["passed", "missed", "too noisy", "not decided"]

NOISY_WIDTH = 0.2
"""Width of the 95 % interval, relative to the median, from which a speed-up is called noisy."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the gate, and what the result says of it."""

    name: str
    wanted: float
    found: float | None
    """The lower bound of the speed-up, the largest relative error, the ratio of sizes; None: not measured."""
    verdict: Verdict
    words: str
    """The verdict with its figures."""

    def line(self) -> str:
        """``min-speedup 1.1 missed: the speed-up is at least 1.092``."""
        return f"{self.name} {self.wanted:g} {self.verdict}: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a gate looks at; None where it was not measured."""

    speedup: tuple[float, float, float] | None
    """Lower bound, median and upper bound of the confirmed speed-up; 1, 1, 1 for a model that came back as it was."""
    rel_error: float | None
    size: float | None
    """Bytes of the result over those of the model given, both with their external data."""
    doubt: Verdict | None = None
    """What is said of the speed-up of a model that came back although a faster one may have been found."""
    why: str = ""
    """Why the model came back as it was."""


def judge(wanted: Mapping[str, float], measured: Measured) -> tuple[Condition, ...]:
    """One verdict for each condition."""
    judges = {SPEEDUP: _speedup, REL_ERROR: _rel_error, SIZE: _size}
    return tuple(judges[name](limit, measured) for name, limit in wanted.items())


def require(conditions: Sequence[Condition]) -> None:
    """GateError where a condition is missed; else TooNoisyError, else UndecidedError for one that is not passed."""
    open_ = [one for one in conditions if one.verdict != "passed"]
    verdicts = {one.verdict for one in open_}
    lines = "the gate: " + "; ".join(one.line() for one in open_)
    if "missed" in verdicts:
        slow = any(one.name == SPEEDUP and one.verdict == "missed" for one in open_)
        raise SpeedupNotReachedError(lines) if slow else GateError(lines)
    if "too noisy" in verdicts:
        raise TooNoisyError(lines)
    if open_:
        raise UndecidedError(lines)


def _speedup(wanted: float, measured: Measured) -> Condition:
    if measured.speedup is None:
        return Condition(SPEEDUP, wanted, None, "not decided", "the result was not timed")
    low, middle, high = measured.speedup
    words = f"the speed-up is at least {low:.3f}" + (f" ({measured.why})" if measured.why else "")
    if low >= wanted:
        return Condition(SPEEDUP, wanted, low, "passed", words)
    if measured.doubt is not None:
        return Condition(SPEEDUP, wanted, low, measured.doubt, words)
    # An interval that lies below the bound says enough, however wide it is.
    if high >= wanted and (high - low) / middle > NOISY_WIDTH:
        words = f"the speed-up lies between {low:.3f} and {high:.3f}, too wide to say: run on a quieter machine"
        return Condition(SPEEDUP, wanted, low, "too noisy", words)
    return Condition(SPEEDUP, wanted, low, "missed", words)


def _rel_error(wanted: float, measured: Measured) -> Condition:
    words = f"the largest relative error is {measured.rel_error or 0:.3g}"
    return _at_most(REL_ERROR, wanted, measured.rel_error, words)


def _size(wanted: float, measured: Measured) -> Condition:
    words = f"the model written has {measured.size or 0:.3f} times the bytes of the one given"
    return _at_most(SIZE, wanted, measured.size, words)


def _at_most(name: str, wanted: float, found: float | None, words: str) -> Condition:
    if found is None:
        return Condition(name, wanted, None, "not decided", "it was not measured")
    return Condition(name, wanted, found, "passed" if found <= wanted else "missed", words)

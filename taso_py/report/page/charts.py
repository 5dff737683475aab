"""Figures of a result as geometry: bars, strips and dots, ready to be written as SVG.

Places are percent of the picture's width: it grows and shrinks with the page while its letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from taso_py.report.content import three_digits
from taso_py.report.names import clipped
from taso_py.report.page.families import FAMILIES, family
from taso_py.report.table import TextTable
from taso_py.result import ModelProfile, OutputError, Result

_WIDTH = 100.0
_MARGIN = 3.0
_SEGMENTS = 10
"""Operators of a bar; the rest is one segment."""
_LETTER = 1.0
"""Width of a letter on a wide screen; on narrower ones labels are cut off."""
_ROWS = 24
_OUTPUTS = 12
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on an axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The speed-up on an axis with 1.0: its interval, its middle, the ratio of every round."""

    one: float
    low: float
    high: float
    middle: float
    rounds: tuple[float, ...]
    ticks: tuple[Tick, ...]
    words: str


def interval_chart(result: Result) -> Interval | None:
    """None where nothing was confirmed."""
    middle, low, high = result.speedup, result.speedup_low, result.speedup_high
    if middle is None or low is None or high is None or not all(map(math.isfinite, (middle, low, high))):
        return None
    ratios = [before / after for before, after in result.rounds_ms if before > 0 and after > 0]
    scale = _Scale.of([1.0, low, high, middle, *ratios], _MARGIN, _WIDTH - _MARGIN)
    return Interval(
        one=scale.at(1.0),
        low=scale.at(low),
        high=scale.at(high),
        middle=scale.at(middle),
        rounds=tuple(map(scale.at, ratios)),
        ticks=scale.ticks(),
        words=f"{middle:.2f} times as fast as the original; the 95 % interval is {low:.2f} to {high:.2f}.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One operator's part of a bar."""

    family: str
    x: float
    width: float
    label: str
    """Empty where there is no room for it."""
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar with its name and its sum."""

    name: str
    total: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Where the time goes: a bar for the original, one for the result where there is one."""

    bars: tuple[Bar, ...]
    families: tuple[tuple[str, str], ...]
    """Those that the bars show, with what they stand for."""
    words: str


def times_chart(result: Result) -> Times | None:
    """None where nothing was profiled."""
    if result.profile is None:
        return None
    named = [("before", result.profile)]
    if result.profile_after is not None:
        named.append(("after", result.profile_after))
    longest = max(profile.seconds for _, profile in named)
    if not longest > 0:
        return None
    bars = tuple(_bar(name, profile, longest) for name, profile in named)
    used = {segment.family for bar in bars for segment in bar.segments}
    sums = ", ".join(f"{three_digits(1000 * profile.seconds)} ms {name}" for name, profile in named)
    return Times(
        bars=bars,
        families=tuple((key, text) for key, text in FAMILIES.items() if key in used),
        words=f"Kernel times of one run by operator: {sums}.",
    )


def _bar(name: str, profile: ModelProfile, longest: float) -> Bar:
    shown = [(o.operator, family(o.operator), o.seconds, o.kernels) for o in profile.operators[:_SEGMENTS]]
    rest = profile.operators[_SEGMENTS:]
    if rest:
        shown.append(("the rest", "other", sum(o.seconds for o in rest), sum(o.kernels for o in rest)))
    order = list(FAMILIES)
    shown.sort(key=lambda item: (order.index(item[1]), -item[2]))
    unit, x, segments = _WIDTH / longest, 0.0, []
    for operator, kind, seconds, kernels in shown:
        width, label = unit * seconds, clipped(operator, 40)
        fits = _LETTER * (len(label) + 1) <= width
        share = seconds / profile.seconds if profile.seconds > 0 else 0.0
        title = f"{label}: {three_digits(1000 * seconds)} ms, {share:.0%}, {kernels} kernels"
        segments.append(Segment(family=kind, x=x, width=width, label=label if fits else "", title=title))
        x += width
    return Bar(name, f"{three_digits(1000 * profile.seconds)} ms", tuple(segments))


def time_table(result: Result) -> TextTable:
    """The same in numbers, the slowest operators first."""
    one, two = (
        {} if p is None else {o.operator: o for o in p.operators} for p in (result.profile, result.profile_after)
    )
    names = sorted({*one, *two}, key=lambda name: (-max(p[name].seconds for p in (one, two) if name in p), name))
    rows = []
    for name in names[:_ROWS]:
        cells = [(str(p[name].kernels), f"{1000 * p[name].seconds:.3f}") if name in p else ("", "") for p in (one, two)]
        rows.append((clipped(name, 60), *cells[0], *cells[1]))
    if len(names) > _ROWS:
        rows.append((f"{len(names) - _ROWS} more, all faster", "", "", "", ""))
    header = ("kernel", "calls before", "ms before", "calls after", "ms after")
    return TextTable("Kernel times of one run", header, tuple(rows), frozenset(range(1, 5)))


@dataclass(frozen=True, slots=True)
class Strip:
    """The latencies of the rounds of one model, and their median."""

    name: str
    x: tuple[float, ...]
    median: float
    label: str


@dataclass(frozen=True, slots=True)
class Latencies:
    """Strips over one axis in milliseconds."""

    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    words: str


def latency_chart(result: Result) -> Latencies | None:
    """None where nothing was confirmed."""
    if len(result.rounds_ms) < 2:
        return None
    columns = {"before": [b for b, _ in result.rounds_ms], "after": [a for _, a in result.rounds_ms]}
    scale = _Scale.of([v for column in columns.values() for v in column], _MARGIN, _WIDTH - _MARGIN)
    strips = tuple(
        Strip(name, tuple(map(scale.at, column)), scale.at(median(column)), f"{three_digits(median(column))} ms")
        for name, column in columns.items()
    )
    sums = ", ".join(
        f"{name} {three_digits(min(column))} to {three_digits(max(column))} ms, median {three_digits(median(column))}"
        for name, column in columns.items()
    )
    return Latencies(strips, scale.ticks(" ms"), f"{len(result.rounds_ms)} paired rounds: {sums}.")


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One output: its errors on the kinds of input."""

    name: str
    dots: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Relative errors on a logarithmic axis, with the tolerance; an error of zero stands at its left end."""

    rows: tuple[ErrorRow, ...]
    ticks: tuple[Tick, ...]
    tolerance: float | None
    words: str
    left_out: int


def error_chart(result: Result) -> Errors | None:
    """None where nothing was compared."""
    if not result.errors:
        return None
    found = [e.relative for e in result.errors if 0 < e.relative < math.inf]
    bounds = [*found, *([result.tolerance] if result.tolerance else [])] or [1e-7]
    low, high = math.floor(math.log10(min(bounds))) - 1, math.ceil(math.log10(max(bounds)) + 0.2)
    scale = _Scale(low, high, _MARGIN, _WIDTH - _MARGIN)

    def at(value: float) -> float:
        return scale.at(low if value <= 0 else high if not value < math.inf else math.log10(value))

    outputs: dict[str, list[OutputError]] = {}
    for error in result.errors:
        outputs.setdefault(error.output, []).append(error)
    worst = sorted(outputs, key=lambda name: -max(e.relative for e in outputs[name]))
    rows = tuple(
        ErrorRow(clipped(name, 48), tuple((at(e.relative), _error_title(e)) for e in outputs[name]))
        for name in worst[:_OUTPUTS]
    )
    step = max(1, (high - low) // _TICKS)
    ticks = [Tick(scale.at(k), "0" if k == low else f"1e{k:+d}") for k in range(low, high + 1, step)]
    limit = f", the tolerance is {result.tolerance:.1e}" if result.tolerance else ""
    largest = max(e.relative for e in result.errors)
    return Errors(
        rows=rows,
        ticks=tuple(ticks),
        tolerance=at(result.tolerance) if result.tolerance else None,
        words=f"The largest relative error is {largest:.1e}{limit}.",
        left_out=len(outputs) - len(rows),
    )


def _error_title(error: OutputError) -> str:
    figures = f"relative {error.relative:.1e}, absolute {error.absolute:.1e}"
    return f"{clipped(error.output, 60)}, {clipped(error.inputs, 80)}: {figures}"


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places."""

    low: float
    high: float
    left: float
    right: float

    @classmethod
    def of(cls, values: Sequence[float], left: float, right: float) -> _Scale:
        """With room for all of ``values``."""
        low, high = min(values), max(values)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        return cls(low - room, high + room, left, right)

    def at(self, value: float) -> float:
        """The place of a value."""
        return round(self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low), 2)

    def ticks(self, unit: str = "") -> tuple[Tick, ...]:
        """Round numbers, about five of them."""
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / _TICKS))
        step *= next(f for f in (1, 2, 5, 10) if (self.high - self.low) / (step * f) <= _TICKS + 1)
        first = math.ceil(self.low / step)
        count = int((self.high - first * step) / step) + 1
        digits = max(0, -math.floor(math.log10(step)))
        return tuple(Tick(self.at((first + k) * step), f"{(first + k) * step:.{digits}f}{unit}") for k in range(count))

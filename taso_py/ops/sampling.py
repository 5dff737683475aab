"""Which elements of an axis a resampled axis reads: exact positions, rounded positions, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from taso_py.errors import TypingError

_HALF = Fraction(1, 2)
_CORNERS = ("align_corners", "tf_crop_and_resize")
_FINEST = 2**20
"""Largest common denominator of the weights of a position; beyond it they are no simple fractions."""
_MOST_TAPS = 64
_LONGEST = 2**16
"""Most positions of a resampled axis: each is looked at, in fractions."""
_COARSE = 2**10
"""Largest denominator of a region's ends whose multiples float32 computes without error."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of ``dim`` elements resampled to ``result`` by an exact scale, rational or as a float32 has it."""

    dim: int
    result: int
    scale: Fraction
    coordinates: str
    region: tuple[float, float] = (0.0, 1.0)
    """Start and end of ``tf_crop_and_resize``, in units of dim - 1."""

    def __post_init__(self) -> None:
        if self.result > _LONGEST:
            raise TypingError(f"an axis of {self.result} positions has too many to look at each")

    @property
    def blur(self) -> Fraction:
        """How far off a position computed in float32 can be."""
        return Fraction(self.dim + 1, 2**20)

    @property
    def exact(self) -> bool:
        """Whether float32 hits positions that it can represent: it divides by numbers without error."""
        if self.coordinates == "half_pixel_symmetric" and self.result != self.scale * self.dim:
            return False
        if self.coordinates == "tf_crop_and_resize":
            return all(Fraction(end).denominator <= _COARSE for end in self.region)
        return self.coordinates == "align_corners" or Fraction(float(np.float32(float(self.scale)))) == self.scale

    @staticmethod
    def scaled(dim: int, scale: float, coordinates: str, region: tuple[float, float] = (0.0, 1.0)) -> Axis:
        """result = floor(dim · scale)."""
        exact = ratio(scale)
        result = math.floor(dim * exact)
        if coordinates in _CORNERS and dim * exact != result:
            # ONNX aligns with the corner of dim · scale, ONNX Runtime with that of the result.
            raise TypingError(f"corners of an axis of size {dim} scaled by {scale} fall between elements")
        if result < 1 or result != int(np.float32(dim) * np.float32(scale)) or result == dim:
            # Where no size changes ONNX Runtime copies x, whatever the scale is.
            raise TypingError(f"an axis of size {dim} scaled by {scale} has no definite size")
        return Axis(dim, result, exact, coordinates, region)

    @staticmethod
    def sized(dim: int, result: int, coordinates: str, region: tuple[float, float] = (0.0, 1.0)) -> Axis:
        """scale = result / dim."""
        return Axis(dim, result, Fraction(result, dim), coordinates, region)

    @staticmethod
    def rounded(dim: int, scale: Fraction, coordinates: str) -> Axis:
        """result = dim · scale to the nearest, halves up."""
        exact = Fraction(float(np.float32(float(scale)))) == scale
        result = math.floor(dim * scale + _HALF)
        if (dim * scale - _HALF).denominator == 1 and not exact:
            raise TypingError(f"an axis of size {dim} scaled by {scale} has no definite size")
        if coordinates in _CORNERS and dim * scale != result:
            raise TypingError(f"corners of an axis of size {dim} scaled by {scale} fall between elements")
        return Axis(dim, result, scale, coordinates)


def ratio(scale: float) -> Fraction:
    """The simple fraction that a float32 scale stands for; the float itself where there is none."""
    if not math.isfinite(scale):
        raise TypingError(f"{scale} is no scale")
    simple = Fraction(scale).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(scale) else Fraction(scale)


def _positions(axis: Axis) -> list[Fraction]:
    """c(i) for every result position; source: ONNX operator specification, Resize."""
    steps = range(axis.result)
    if axis.coordinates == "asymmetric":
        return [i / axis.scale for i in steps]
    last = axis.result - 1
    if axis.coordinates == "align_corners":
        return [Fraction(i * (axis.dim - 1), max(last, 1)) for i in steps]
    if axis.coordinates == "tf_crop_and_resize":
        start, end = (ratio(bound) * (axis.dim - 1) for bound in axis.region)
        return [start + i * (end - start) / (axis.result - 1) for i in steps] if last else [(start + end) / 2]
    if axis.coordinates == "pytorch_half_pixel" and axis.result == 1:
        return [Fraction(0)]
    shift = Fraction(0)
    if axis.coordinates == "half_pixel_symmetric":
        shift = Fraction(axis.dim, 2) * (1 - axis.result / (axis.scale * axis.dim))
    return [shift + (i + _HALF) / axis.scale - _HALF for i in steps]


@lru_cache(maxsize=4096)
def nearest_table(axis: Axis, nearest_mode: str) -> tuple[int, ...]:
    """The element that each result position reads; an error where float32 could round to another one."""
    positions = _positions(axis)
    for position in positions:
        below, above = (_nearest(position + d, nearest_mode, axis.dim) for d in (-axis.blur, axis.blur))
        if below != above and not (axis.exact and _on_edge(position, nearest_mode)):
            raise TypingError(f"nearest neighbours of {axis.dim} -> {axis.result} depend on rounding")
    return tuple(_nearest(position, nearest_mode, axis.dim) for position in positions)


def _on_edge(position: Fraction, mode: str) -> bool:
    """Whether the position is exactly where one neighbour gives way to the next."""
    return (position if mode in ("floor", "ceil") else position - _HALF).denominator == 1


def _nearest(position: Fraction, mode: str, dim: int) -> int:
    if mode == "floor":
        found = math.floor(position)
    elif mode == "ceil":
        found = math.ceil(position)
    elif mode == "round_prefer_ceil":
        found = math.floor(position + _HALF)
    else:
        found = math.ceil(position - _HALF)
    return min(max(found, 0), dim - 1)


@lru_cache(maxsize=4096)
def inside_table(axis: Axis) -> tuple[int, ...]:
    """Which result positions lie in 0 <= c <= dim - 1, where ``tf_crop_and_resize`` reads x: 1, the others 0."""
    if axis.coordinates != "tf_crop_and_resize":
        return (1,) * axis.result
    ends = (Fraction(0), Fraction(axis.dim - 1))
    positions = _positions(axis)
    if not axis.exact and any(abs(c - end) <= axis.blur for c in positions for end in ends):
        raise TypingError(f"a region of {axis.dim} -> {axis.result} ends where rounding decides")
    return tuple(int(ends[0] <= c <= ends[1]) for c in positions)


@dataclass(frozen=True, slots=True)
class Filter:
    """How x is interpolated: ``linear``, or ``cubic`` with the coefficient ``a``.

    ``antialias`` stretches the filter by 1 / scale where an axis shrinks; with ``exclude_outside`` what lies outside
    of x takes no part, else the elements at its ends are repeated.  The weights of a position sum to 1.
    """

    mode: str = "linear"
    a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    @property
    def radius(self) -> int:
        """The weight is 0 from this distance on."""
        return 2 if self.mode == "cubic" else 1

    def weight(self, distance: Fraction) -> Fraction:
        """Source: ONNX operator specification, Resize."""
        d, a = abs(distance), ratio(self.a)
        if self.mode == "linear" or d >= 2:
            return max(1 - d, Fraction(0))
        if d <= 1:
            return ((a + 2) * d - (a + 3)) * d * d + 1
        return a * (((d - 5) * d + 8) * d - 4)


@dataclass(frozen=True, slots=True)
class Taps:
    """Position i of the result is Σ_{r < count} weights[i·count + r] · x[sources[i·count + r]] / whole[i]."""

    count: int
    sources: tuple[int, ...]
    weights: tuple[int, ...]
    whole: tuple[int, ...]


@lru_cache(maxsize=4096)
def taps(axis: Axis, filter_: Filter) -> Taps:
    """The weighted elements that each result position reads, the weights as whole numbers."""
    if axis.coordinates == "pytorch_half_pixel" and axis.result == 1 and filter_ != Filter():
        # ONNX takes the position -1/2, ONNX Runtime 0; clamped they are the same.
        raise TypingError(f"the position of the one element of {axis.dim} -> 1 is not agreed upon")
    read = [_weights(c, axis, filter_) for c in _positions(axis)]
    count = max(map(len, read))
    if count > _MOST_TAPS:
        raise TypingError(f"{axis.dim} -> {axis.result} reads {count} elements each")
    sources, weights, whole = [], [], []
    for given in read:
        common = math.lcm(*(w.denominator for w in given.values()))
        if common > _FINEST:
            raise TypingError(f"weights of {axis.dim} -> {axis.result} are no simple fractions")
        spare = count - len(given)
        sources += [*given, *[next(iter(given))] * spare]
        weights += [*(int(w * common) for w in given.values()), *[0] * spare]
        whole.append(common)
    return Taps(count, tuple(sources), tuple(weights), tuple(whole))


def _weights(position: Fraction, axis: Axis, filter_: Filter) -> dict[int, Fraction]:
    """Element of the axis -> its weight, for one position of the result."""
    stretch = min(axis.scale, Fraction(1)) if filter_.antialias else Fraction(1)
    reach = filter_.radius / stretch
    found: dict[int, Fraction] = {}
    for i in range(math.floor(position - reach) + 1, math.ceil(position + reach)):
        if filter_.exclude_outside and not 0 <= i < axis.dim:
            continue
        at = min(max(i, 0), axis.dim - 1)
        found[at] = found.get(at, Fraction(0)) + filter_.weight((i - position) * stretch)
    total = sum(found.values())
    if not total:
        raise TypingError(f"a position of {axis.dim} -> {axis.result} reads nothing")
    return {at: w / total for at, w in found.items()}

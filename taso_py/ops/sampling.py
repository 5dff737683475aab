"""Which elements of an axis a resampled axis reads: exact positions, rounded positions, linear weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from taso_py.errors import TypingError

_HALF = Fraction(1, 2)
_FINEST = 2**20
"""Largest common denominator of linear weights; beyond it the weights are no simple fractions."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of ``dim`` elements resampled to ``result`` by an exact scale, rational or as a float32 has it."""

    dim: int
    result: int
    scale: Fraction
    coordinates: str

    @property
    def blur(self) -> Fraction:
        """How far off a position computed in float32 can be."""
        return Fraction(self.dim + 1, 2**20)

    @property
    def exact(self) -> bool:
        """Whether float32 hits positions that it can represent: it divides by numbers without error."""
        if self.coordinates == "half_pixel_symmetric" and self.result != self.scale * self.dim:
            return False
        return self.coordinates == "align_corners" or Fraction(float(np.float32(float(self.scale)))) == self.scale

    @staticmethod
    def scaled(dim: int, scale: float, coordinates: str) -> Axis:
        """result = floor(dim · scale)."""
        exact = ratio(scale)
        result = math.floor(dim * exact)
        if coordinates == "align_corners" and dim * exact != result:
            # ONNX aligns with the corner of dim · scale, ONNX Runtime with that of the result.
            raise TypingError(f"corners of an axis of size {dim} scaled by {scale} fall between elements")
        if result < 1 or result != int(np.float32(dim) * np.float32(scale)) or result == dim:
            # Where no size changes ONNX Runtime copies x, whatever the scale is.
            raise TypingError(f"an axis of size {dim} scaled by {scale} has no definite size")
        return Axis(dim, result, exact, coordinates)

    @staticmethod
    def sized(dim: int, result: int, coordinates: str) -> Axis:
        """scale = result / dim."""
        return Axis(dim, result, Fraction(result, dim), coordinates)


def ratio(scale: float) -> Fraction:
    """The simple fraction that a float32 scale stands for; the float itself where there is none."""
    simple = Fraction(scale).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(scale) else Fraction(scale)


def _positions(axis: Axis) -> list[Fraction]:
    """c(i) for every result position; source: ONNX operator specification, Resize."""
    steps = range(axis.result)
    if axis.coordinates == "asymmetric":
        return [i / axis.scale for i in steps]
    if axis.coordinates == "align_corners":
        last = max(axis.result - 1, 1)
        return [Fraction(i * (axis.dim - 1), last) for i in steps]
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
def linear_weights(axis: Axis) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    """(lower neighbours, upper neighbours, weights of the upper ones, common denominator of the weights)."""
    clamped = [min(max(c, Fraction(0)), Fraction(axis.dim - 1)) for c in _positions(axis)]
    low = tuple(math.floor(c) for c in clamped)
    shares = [c - at for c, at in zip(clamped, low, strict=True)]
    whole = math.lcm(*(s.denominator for s in shares))
    if whole > _FINEST:
        raise TypingError(f"linear weights of {axis.dim} -> {axis.result} are no simple fractions")
    high = tuple(min(at + 1, axis.dim - 1) for at in low)
    return low, high, tuple(int(s * whole) for s in shares), whole

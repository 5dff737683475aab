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
    """An axis of ``dim`` elements resampled to ``result``; scale as an exact fraction and as in float32."""

    dim: int
    result: int
    scale: Fraction
    rounded: float
    coordinates: str

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
        return Axis(dim, result, exact, scale, coordinates)

    @staticmethod
    def sized(dim: int, result: int, coordinates: str) -> Axis:
        """scale = result / dim."""
        return Axis(dim, result, Fraction(result, dim), float(np.float32(result / dim)), coordinates)


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


def _rounded_positions(axis: Axis) -> list[np.float32]:
    """c(i) as runtimes compute it, in float32."""
    one, half, scale = np.float32(1), np.float32(0.5), np.float32(axis.rounded)
    steps = [np.float32(i) for i in range(axis.result)]
    if axis.coordinates == "asymmetric":
        return [i / scale for i in steps]
    if axis.coordinates == "align_corners":
        last = np.float32(max(axis.result - 1, 1))
        return [i * np.float32(axis.dim - 1) / last for i in steps]
    if axis.coordinates == "pytorch_half_pixel" and axis.result == 1:
        return [np.float32(0)]
    shift = np.float32(0)
    if axis.coordinates == "half_pixel_symmetric":
        adjustment = np.float32(axis.result) / (scale * np.float32(axis.dim))
        shift = np.float32(axis.dim) * half * (one - adjustment)
    return [shift + (i + half) / scale - half for i in steps]


@lru_cache(maxsize=4096)
def nearest_table(axis: Axis, nearest_mode: str) -> tuple[int, ...]:
    """The element that each result position reads; an error when float32 would round to another one."""
    exact = [_nearest(c, nearest_mode, axis.dim) for c in _positions(axis)]
    rounded = [_nearest(Fraction(float(c)), nearest_mode, axis.dim) for c in _rounded_positions(axis)]
    if exact != rounded:
        raise TypingError(f"nearest neighbours of {axis.dim} -> {axis.result} depend on rounding")
    return tuple(exact)


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

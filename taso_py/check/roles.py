"""Inputs that are sizes, axes, repeats, scales or counts of some node: what they mean, and legal values for them.

Random numbers are refused by such nodes.  A legal value follows from what the node reads beside it, and from what the
model states of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Dims: TypeAlias = tuple[int | str, ...]
Sizes: TypeAlias = tuple[int, ...]
Resolve: TypeAlias = Callable[[int | str], int | None]
"""The number that a dimension is at some sizes; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Role:
    """What one input of a node is for; shapes as the model states them, None where it does not."""

    kind: str
    data: Dims | None
    """Shape of the node's first operand."""
    results: tuple[Dims | None, ...]
    """Shapes of the node's outputs."""
    attributes: Mapping[str, Any]
    partial: bool = False
    """Whether the input is only a part of what the node reads, joined with others."""
    chosen: tuple[float, ...] | None = None
    """Values that were found by trial; a single one is meant for all elements."""

    def values(self, count: int, resolve: Resolve) -> Sequence[float] | None:
        """``count`` legal values; None where none are known."""
        if self.chosen is not None and len(self.chosen) in (1, count):
            return self.chosen if len(self.chosen) == count else self.chosen * count
        rule = _RULES[self.kind]
        known = _Known(self, _resolved(self.data, resolve), tuple(_resolved(r, resolve) for r in self.results))
        try:
            found = [1] * count if self.partial else rule(known, count)
        except _NO_GUESS:
            return None
        return found if found is not None and len(found) == count else None

    def operand(self, resolve: Resolve) -> Sizes | None:
        """The shape of the node's first operand at some sizes."""
        return _resolved(self.data, resolve)


@dataclass(frozen=True, slots=True)
class _Known:
    """A role at concrete sizes."""

    role: Role
    data: Sizes | None
    results: tuple[Sizes | None, ...]

    @property
    def result(self) -> Sizes | None:
        return self.results[0] if self.results else None

    def axis(self, default: int) -> int:
        return int(self.role.attributes.get("axis", default))

    def extent(self, default: int) -> int | None:
        """The size of the first operand along the node's axis."""
        axis = self.axis(default)
        return self.data[axis] if self.data is not None and -len(self.data) <= axis < len(self.data) else None


_NO_GUESS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a rule may meet where a node cannot run as it stands, or what is stated of its values is wrong."""

Rule: TypeAlias = Callable[[_Known, int], Sequence[float] | None]


def _resolved(dims: Dims | None, resolve: Resolve) -> Sizes | None:
    if dims is None:
        return None
    sizes = [resolve(dim) for dim in dims]
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _fits(sizes: Sizes | None, count: int) -> bool:
    return sizes is not None and len(sizes) == count


# ---- legal values, by what an input is for -------------------------------------------------------------------------


def _reshape(known: _Known, count: int) -> Sequence[float]:
    """The stated result if it has as many elements, the shape as it is, or all elements along the last axis."""
    for sizes in (known.result, known.data):
        same = known.data is None or sizes is None or math.prod(sizes) == math.prod(known.data)
        if sizes is not None and len(sizes) == count and same:
            return sizes
    return [1] * (count - 1) + [-1]


def _result_or(fallback: Callable[[_Known, int], Sequence[float] | None]) -> Rule:
    """The stated shape of the result, or else what ``fallback`` says."""

    def rule(known: _Known, count: int) -> Sequence[float] | None:
        return known.result if _fits(known.result, count) else fallback(known, count)

    return rule


def _all(value: float) -> Rule:
    return lambda known, count: [value] * count


def _counted(_: _Known, count: int) -> Sequence[float]:
    return range(count)


def _ratio(known: _Known, count: int) -> list[float] | None:
    """How often the stated result holds the operand, axis by axis."""
    if known.data is None or known.result is None or len(known.data) != len(known.result) or 0 in known.data:
        return None
    axes = known.role.attributes.get("axes", range(len(known.data)))
    found = [known.result[a] / known.data[a] for a in axes]
    return found if len(found) == count and all(found) else None


def _repeats(known: _Known, count: int) -> Sequence[float]:
    found = _ratio(known, count)
    return found if found is not None and all(r == int(r) for r in found) else [1] * count


def _scales(known: _Known, count: int) -> Sequence[float]:
    """Images, sequences and volumes are scaled along their last axes only."""
    if "axes" in known.role.attributes:
        return _ratio(known, count) or [2.0] * count
    return _ratio(known, count) or [1.0] * min(2, count - 1) + [2.0] * max(1, count - 2)


def _image_sizes(known: _Known, count: int) -> Sequence[float] | None:
    axes = known.role.attributes.get("axes", range(count))
    if known.result is not None and len(axes) == count and len(known.result) > max(axes):
        return [known.result[a] for a in axes]
    if known.data is None or len(known.data) <= max(axes, default=0):
        return None
    first = 0 if "axes" in known.role.attributes else min(2, count - 1)
    return [(1 if k < first else 2) * known.data[a] for k, a in enumerate(axes)]


def _region(_: _Known, count: int) -> Sequence[float]:
    return [0.0] * (count // 2) + [1.0] * (count - count // 2)


def _ends(known: _Known, count: int) -> Sequence[float] | None:
    if known.data is None or count > len(known.data):
        return [2**31 - 1] * count
    return known.data[:count]


def _pads(known: _Known, count: int) -> Sequence[float]:
    """Everything that the stated result has more, at the end."""
    data, result = known.data, known.result
    if data is None or result is None or not len(data) == len(result) == count / 2:
        return [0] * count
    more = [after - before for before, after in zip(data, result, strict=True)]
    return [0] * len(data) + more if min(more, default=0) >= 0 else [0] * count


def _split(known: _Known, count: int) -> Sequence[float] | None:
    axis, extent = known.axis(0), known.extent(0)
    parts = [r[axis] for r in known.results if r is not None and -len(r) <= axis < len(r)]
    if len(parts) == count and extent in (None, sum(parts)):
        return parts
    if extent is None:
        return None
    return [extent // count] * (count - 1) + [extent - extent // count * (count - 1)]


def _sequence_split(known: _Known, count: int) -> Sequence[float] | None:
    return [1] if count == 1 else _split(known, count)


def _some_of_axis(known: _Known, count: int) -> Sequence[float]:
    extent = known.extent(-1)
    return [2 if extent is None else min(2, extent)] * count


def _ones_of(known: _Known, count: int) -> Sequence[float]:
    """Axes of size 1."""
    ones = [axis for axis, size in enumerate(known.data or ()) if size == 1]
    return ones[:count] if len(ones) >= count else range(count)


def _length(known: _Known, count: int) -> Sequence[float] | None:
    """The whole length of every sequence."""
    if known.data is None:
        return None
    axis = int(known.role.attributes.get("time_axis", known.role.attributes.get("layout", 0)))
    return [known.data[axis]] * count if axis < len(known.data) else None


def _divisors(_: _Known, count: int) -> Sequence[float]:
    """Not 0: ONNX Runtime refuses to divide integers by it."""
    return [1 + k % 5 for k in range(count)]


def _limit(known: _Known, count: int) -> Sequence[float]:
    return [known.result[0] if known.result else 8] * count


def _columns(known: _Known, count: int) -> Sequence[float] | None:
    """A picture whose blocks, of one element each, are the columns."""
    return None if known.data is None else [1] * (count - 1) + [known.data[-1]]


def _data(known: _Known, count: int) -> Sequence[float] | None:
    return known.data if _fits(known.data, count) else None


def _grid(known: _Known, count: int) -> Sequence[float] | None:
    """[n, c, h, w] or [n, c, d, h, w], of which the result states all but the channels."""
    if known.result is not None and len(known.result) == count:
        return [known.result[0], 1, *known.result[1:-1]]
    return None if known.data is None else [known.data[0], 1] + [4] * (count - 2)


_RULES: Mapping[str, Rule] = {
    "chosen": lambda known, count: None,
    "reshape": _reshape,
    "expand": _result_or(_all(1)),
    "shape": _result_or(_all(2)),
    "same shape": _result_or(_data),
    "repeats": _repeats,
    "scales": _scales,
    "sizes": _image_sizes,
    "region": _region,
    "starts": _all(0),
    "ends": _ends,
    "axes": _counted,
    "ones": _ones_of,
    "pads": _pads,
    "split": _split,
    "sequence split": _sequence_split,
    "k": _some_of_axis,
    "lengths": _length,
    "limit": _limit,
    "divisor": _divisors,
    "columns": _columns,
    "grid": _grid,
    **{f"{value:g}": _all(value) for value in (0, 0.5, 1, 2, 3, 8, 16, 4096, 8192)},
}


def legal_array(role: Role, shape: Sizes, dtype: np.dtype[Any], resolve: Resolve) -> np.ndarray[Any, Any] | None:
    """A legal value of an input of this shape; None where none is known."""
    values = role.values(math.prod(shape), resolve)
    try:
        return None if values is None else np.array(values, np.float64).astype(dtype).reshape(shape)
    except OverflowError:  # beyond any float
        return None

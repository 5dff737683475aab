"""Padding, with a constant or by repeating what is there; negative pads crop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.constants import require_held
from taso_py.ops.lookup import lookup
from taso_py.ops.meaning import Compare, Index, Number, Operand, Scalar, choose
from taso_py.ops.operator import Constant, Given, OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import concrete, first_operand, integers, normal_axes, text

_REPEATING = ("edge", "reflect", "wrap")
_LONGEST = 2**20
"""Most positions of an axis that repeats elements: each is looked at."""


@dataclass(frozen=True)
class Pad(Operator):
    """out[*i] = x[*(i - begin)] inside x, else ``value``; ``pads`` is (begin..., end...) over all axes.

    The modes edge, reflect and wrap read x at the nearest, mirrored or periodic position instead.
    """

    onnx: ClassVar[str] = "Pad"
    since: ClassVar[int] = 2
    pads: tuple[Size, ...] = ()
    mode: str = "constant"
    value: float = 0.0

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        begins, ends = self._halves(x.rank)
        dims = tuple(d + b + e for d, b, e in zip(x.dims, begins, ends, strict=True))
        if any(at_least(d, 0) is False for d in dims):
            raise TypingError(f"{self} of {x} would have shape {dims}")
        if self.mode not in ("constant", *_REPEATING):
            raise TypingError(f"Pad mode {self.mode!r} has no definition")
        if self.mode != "constant":
            for axis in range(x.rank):
                self._sources(x.dims[axis], begins[axis], ends[axis])
        else:
            require_held(self, x.dtype, (self.value,))
        return TensorType(x.dtype, dims)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        begins, ends = self._halves(x.type.rank)
        if self.mode != "constant":
            tables = [self._sources(*t) for t in zip(x.dims, begins, ends, strict=True)]
            return x[[i if t is None else lookup(t, i) for i, t in zip(index, tables, strict=True)]]
        place = tuple(i - b for i, b in zip(index, begins, strict=True))
        conditions: list[Compare] = []
        for i, dim, begin, end in zip(place, x.dims, begins, ends, strict=True):
            conditions += [Compare(0, "<=", i)] if at_least(0, begin) is not True else []
            conditions += [Compare(i, "<", dim)] if at_least(0, end) is not True else []
        return choose(conditions, x[place], Number(self.value)) if conditions else x[place]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        pads = concrete(self.pads or (0,) * (2 * x.ndim))
        if pads is None:
            return None
        pairs = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
        if self.mode != "constant":
            for axis, (b, e) in enumerate(pairs):
                table = self._sources(x.shape[axis], b, e)
                x = x if table is None else np.take(x, table, axis=axis)
            return x
        # Padding comes first: with a negative and a positive pad the crop may go beyond what was there.
        grown = np.pad(x, [(max(b, 0), max(e, 0)) for b, e in pairs], constant_values=self.value)
        cuts = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(pairs, grown.shape, strict=True))
        return grown[cuts].copy()

    def normal(self, *operands: TensorType) -> Self:
        (x,) = operands
        # A number from a rule's text becomes the one that x's element type can hold.
        rounds = x.dtype in ("float16", "float32") and not isinstance(self.value, Expression)
        with np.errstate(over="ignore"):  # a number beyond the type is its infinity
            value = float(np.array(self.value, dtype=x.dtype)) if rounds else self.value
        pads = self.pads or (0,) * (2 * x.rank)
        return type(self)(pads, self.mode, value if self.mode == "constant" else 0.0)

    def _halves(self, rank: int) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        pads = self.pads or (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise RankError(f"Pad of rank {rank} needs {2 * rank} pads, got {len(pads)}")
        return pads[:rank], pads[rank:]

    def _sources(self, dim: Size, begin: Size, end: Size) -> tuple[int, ...] | None:
        """Source position of each result position of one axis; None when nothing is padded."""
        if begin == 0 and end == 0:
            return None
        if not (isinstance(dim, int) and isinstance(begin, int) and isinstance(end, int)):
            raise TypingError(f"Pad mode {self.mode!r} needs concrete sizes, got {dim}, {begin}, {end}")
        reach = dim - 1 if self.mode == "reflect" else dim
        if min(begin, end) < 0 or dim < 1 or (self.mode != "edge" and max(begin, end) > reach):
            raise TypingError(f"Pad mode {self.mode!r} by {begin} and {end} of size {dim} has no definition")
        if begin + dim + end > _LONGEST:
            raise TypingError(f"Pad mode {self.mode!r} to {begin + dim + end} positions: too many to look at each")
        return tuple(_source(self.mode, i, dim) for i in range(-begin, dim + end))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, *(("mode", "pads", "value") if call.opset < 11 else ("mode",)))
        mode = text(call.attributes.get("mode", "constant"))
        if x is None or mode not in ("constant", *_REPEATING) or (mode == "wrap" and call.opset < 19):
            return None
        pads = _read_pads(call, x.rank)
        value = float(call.attributes.get("value", 0.0)) if call.opset < 11 else _read_value(call, x.dtype)
        if pads is None or len(pads) != 2 * x.rank or value is None or math.isnan(value):
            return None
        return Reading(cls(pads, mode, value if mode == "constant" else 0.0), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        (x,) = operands
        pads = concrete(self.pads or (0,) * (2 * x.rank))
        first = 13 if x.dtype == "bool" else self.since if x.dtype in FLOATS else 11
        if pads is None or opset < first or (self.mode == "wrap" and opset < 19):
            return None
        if opset < 11 and float(np.float32(self.value)) != self.value:
            return None  # the attribute is a float32
        if opset < 11:
            return Writing(self.onnx, (Given(0),), {"mode": self.mode, "pads": pads, "value": self.value})
        inputs: tuple[Given | Constant, ...] = (Given(0), Constant.integers(pads))
        if self.value != 0:
            inputs = (*inputs, Constant(np.array(self.value, dtype=x.dtype)))
        return Writing(self.onnx, inputs, {"mode": self.mode})


def _source(mode: str, i: int, dim: int) -> int:
    if mode == "edge":
        return min(max(i, 0), dim - 1)
    if mode == "wrap":
        return i % dim
    return -i if i < 0 else 2 * (dim - 1) - i if i >= dim else i


def _read_pads(call: OnnxCall, rank: int) -> tuple[Size, ...] | None:
    if call.opset < 11:
        return integers(call.attributes.get("pads")) if len(call.inputs) == 1 else None
    pads = call.integers(1)
    if pads is None or not call.present(3):
        return pads
    axes = call.integers(3) if call.opset >= 18 else None
    numbers = None if axes is None else concrete(axes)
    if numbers is None or len(pads) != 2 * len(numbers):
        return None
    try:
        places = normal_axes(numbers, rank)
    except TypingError:
        return None
    full: list[Size] = [0] * (2 * rank)
    for k, axis in enumerate(places):
        full[axis], full[rank + axis] = pads[k], pads[len(places) + k]
    return tuple(full)


def _read_value(call: OnnxCall, dtype: str) -> float | None:
    """The constant to pad with; None when it is not known or a float cannot hold it."""
    if not call.present(2):
        return 0.0
    value = call.scalar(2)
    exact = call.constants[2] if value is not None else None
    if exact is None or value is None or (dtype not in FLOATS and int(exact.reshape(-1)[0]) != int(value)):
        return None
    return value

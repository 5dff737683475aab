"""Repeating elements: expansion to a broadcast shape, tiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Index, Operand, Scalar
from taso_py.ops.operator import (
    Constant,
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    broadcast,
    broadcast_index,
)
from taso_py.ops.reading import concrete, first_operand


@dataclass(frozen=True)
class Expand(Operator):
    """out[*i] = x[*i] with 0 along x's axes of size 1: x broadcast against ``shape``.

    In normal form ``shape`` is the result's.
    """

    onnx: ClassVar[str] = "Expand"
    since: ClassVar[int] = 8
    shape: tuple[Size, ...] = ()

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if any(at_least(s, 0) is False for s in self.shape):
            raise TypingError(f"Expand to the negative shape {self.shape}")
        return TensorType(x.dtype, broadcast(x.dims, self.shape))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return self.shape

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return x[broadcast_index(x, self.infer(x.type).dims, index)]

    def kernel(self, *operands: Array) -> Array | None:
        shape = concrete(self.shape)
        if shape is None:
            return None
        return np.broadcast_to(operands[0], np.broadcast_shapes(operands[0].shape, shape)).copy()

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self.infer(operands[0]).dims)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        shape = call.integers(1)
        if first_operand(call) is None or shape is None or len(call.inputs) != 2:
            return None
        return Reading(cls(shape), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        (x,) = operands
        if opset < self.since:
            return None
        result = self.infer(x).dims
        dims = (*(1 for _ in result[x.rank :]), *x.dims)
        # x's own symbolic size stays what it is when it is broadcast against 1.
        shape = concrete([1 if s == d else s for s, d in zip(result, dims, strict=True)])
        return None if shape is None else Writing(self.onnx, (Given(0), Constant.integers(shape)), {})


@dataclass(frozen=True)
class Tile(Operator):
    """out[*i] = x[*(i mod dim)]: ``repeats`` copies of x side by side along each axis."""

    onnx: ClassVar[str] = "Tile"
    since: ClassVar[int] = 6
    repeats: tuple[Size, ...] = ()

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if len(self.repeats) != x.rank or any(at_least(r, 0) is False for r in self.repeats):
            raise TypingError(f"Tile of {x} with repeats {self.repeats}")
        return TensorType(x.dtype, tuple(d * r for d, r in zip(x.dims, self.repeats, strict=True)))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return self.repeats

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        place: list[Size] = []
        for i, dim, repeat in zip(index, x.dims, self.repeats, strict=True):
            place.append(i if repeat == 1 or dim == 0 else i - floor_divide(i, dim) * dim)
        return x[place]

    def kernel(self, *operands: Array) -> Array | None:
        repeats = concrete(self.repeats)
        return None if repeats is None else np.tile(operands[0], repeats)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        repeats = call.integers(1)
        if first_operand(call) is None or repeats is None or len(call.inputs) != 2:
            return None
        return Reading(cls(repeats), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        repeats = concrete(self.repeats)
        if opset < self.since or repeats is None:
            return None
        return Writing(self.onnx, (Given(0), Constant.integers(repeats)), {})

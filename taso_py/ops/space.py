"""Blocks of pixels to channels and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, floor_divide
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.meaning import Index, Operand, Scalar
from taso_py.ops.operator import OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import first_operand, text


def _check(operator: Operator, x: TensorType, blocksize: Size) -> None:
    if x.rank != 4 or (isinstance(blocksize, int) and blocksize < 1):
        raise TypingError(f"{operator} of {x}: it needs four axes and a positive block size")


def _part(whole: Size, size: Size) -> Size:
    part = floor_divide(whole, size)
    if part * size != whole:
        raise TypingError(f"{whole} is no multiple of {size}")
    return part


@dataclass(frozen=True)
class DepthToSpace(Operator):
    """out[n, c, h·b + i, w·b + j] = x[n, (i·b + j)·C + c, h, w] (DCR) or x[n, c·b² + i·b + j, h, w] (CRD).

    b is ``blocksize`` and C the number of channels of the result.
    """

    onnx: ClassVar[str] = "DepthToSpace"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    blocksize: Size = 1
    mode: str = "DCR"

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        _check(self, x, self.blocksize)
        if self.mode not in ("DCR", "CRD"):
            raise TypingError(f"DepthToSpace mode {self.mode!r} has no definition")
        n, c, h, w = x.dims
        b = self.blocksize
        return TensorType(x.dtype, (n, _part(c, b * b), h * b, w * b))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return (self.blocksize - 1,)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        n, c, y, z = index
        b = self.blocksize
        h, w = floor_divide(y, b), floor_divide(z, b)
        i, j = y - h * b, z - w * b
        if self.mode == "DCR":
            return x[(n, (i * b + j) * floor_divide(x.dims[1], b * b) + c, h, w)]
        return x[(n, c * b * b + i * b + j, h, w)]

    def kernel(self, *operands: Array) -> Array | None:
        if not isinstance(self.blocksize, int):
            return None
        n, channels, h, w = operands[0].shape
        b, c = self.blocksize, channels // self.blocksize**2
        if self.mode == "DCR":
            moved = operands[0].reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            moved = operands[0].reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return np.asarray(moved.reshape(n, c, h * b, w * b))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        allowed = ("blocksize", "mode") if call.opset >= 11 else ("blocksize",)
        if first_operand(call, *allowed) is None or "blocksize" not in call.attributes:
            return None
        mode = text(call.attributes.get("mode", "DCR"))
        return Reading(cls(int(call.attributes["blocksize"]), mode), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        writing = super().write(opset, operands)
        if writing is None or opset >= 11:
            return writing
        if self.mode != "DCR" or not isinstance(self.blocksize, int):
            return None
        return Writing(writing.op_type, writing.inputs, {"blocksize": self.blocksize})


@dataclass(frozen=True)
class SpaceToDepth(Operator):
    """out[n, (i·b + j)·C + c, h, w] = x[n, c, h·b + i, w·b + j], b the ``blocksize``, C the channels of x."""

    onnx: ClassVar[str] = "SpaceToDepth"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    blocksize: Size = 1

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        _check(self, x, self.blocksize)
        n, c, h, w = x.dims
        b = self.blocksize
        return TensorType(x.dtype, (n, c * b * b, _part(h, b), _part(w, b)))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return (self.blocksize - 1,)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        n, d, h, w = index
        b, channels = self.blocksize, x.dims[1]
        ij = 0 if channels == 0 else floor_divide(d, channels)
        i = floor_divide(ij, b)
        return x[(n, d - ij * channels, h * b + i, w * b + ij - i * b)]

    def kernel(self, *operands: Array) -> Array | None:
        if not isinstance(self.blocksize, int):
            return None
        n, c, height, width = operands[0].shape
        b = self.blocksize
        h, w = height // b, width // b
        moved = operands[0].reshape(n, c, h, b, w, b).transpose(0, 3, 5, 1, 2, 4)
        return np.asarray(moved.reshape(n, c * b * b, h, w))

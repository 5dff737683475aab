"""Constant tensors that rules build: they exist only in weights and are folded on export."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Compare, Index, Number, Operand, Scalar, choose
from taso_py.ops.operator import Operator, Writing


def represents(dtype: str, value: float | Size) -> bool:
    """Whether an element type holds a number: integers and truth values exactly, floats to their rounding."""
    if isinstance(value, Expression) or dtype == "bfloat16":
        return True
    if dtype == "bool":
        return value in (0, 1)
    if dtype.startswith(("int", "uint")):
        bounds = np.iinfo(dtype)
        return math.isfinite(value) and value == int(value) and bounds.min <= int(value) <= bounds.max
    return not math.isfinite(value) or abs(value) <= float(np.finfo(dtype).max)


@dataclass(frozen=True)
class Fill(Operator):
    """out[*i] = value, of a given shape and element type."""

    onnx: ClassVar[str] = "Fill"
    arity: ClassVar[tuple[int, int]] = (0, 0)
    value: float = 0.0
    shape: tuple[Size, ...] = ()
    dtype: str = "float32"

    def infer(self, *operands: TensorType) -> TensorType:
        if not represents(self.dtype, self.value):
            raise TypingError(f"{self.dtype} cannot represent {self.value}")
        return TensorType(self.dtype, self.shape)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        return Number(self.value)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return None


@dataclass(frozen=True)
class Eye(Operator):
    """out[i, j] = 1 if i == j else 0, n by n."""

    onnx: ClassVar[str] = "Eye"
    arity: ClassVar[tuple[int, int]] = (0, 0)
    size: Size = 1
    dtype: str = "float32"

    def infer(self, *operands: TensorType) -> TensorType:
        return TensorType(self.dtype, (self.size, self.size))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        return choose([Compare(index[0], "==", index[1])], Number(1.0), Number(0.0))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return None

"""Constant tensors that rules build: they exist only in weights and are folded on export."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.meaning import Compare, Index, Number, Operand, Scalar, choose
from taso_py.ops.operator import Operator, Writing

_FLOATING: Mapping[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64,
}  # fmt: skip
_EPSILON: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_ROUNDING = 2.0**-8
"""What rounding a number may change of it: in bfloat16 half as much, among the smallest numbers of a type any part."""
_STEPS = 64
"""By how many times the type's rounding of 1 a fraction may change: of a large one that is much."""


def represents(dtype: str, value: float | Fraction | Size) -> bool:
    """Whether an element type holds a number: whole numbers exactly, others to a rounding that is not whole either.

    That 257 becomes 256, 1e-9 becomes 0, or 4194304.375 the next half, is no error of rounding: what a rule says of the
    one is not true of the other.
    """
    if isinstance(value, Expression):
        return True
    if dtype == "bool":
        return value in (0, 1)
    if dtype.startswith(("int", "uint")):
        bounds = np.iinfo(dtype)
        return math.isfinite(value) and value == int(value) and bounds.min <= int(value) <= bounds.max
    if dtype not in _FLOATING:
        return False
    if not math.isfinite(value):
        return True
    held = as_held(dtype, float(value))
    if value == int(value) or held.is_integer():
        return held == value
    error = abs(float(held - value))
    return math.isfinite(held) and error <= min(_ROUNDING * abs(float(value)), _STEPS * _EPSILON[dtype])


def passes(dtype: str, value: float | Fraction | Size, among: Iterable[str]) -> bool:
    """Whether a number becomes one of an element type beside tensors of the types ``among``.

    As `represents`; exactly where one of these is a wider floating type, for which the rounding would be an error.
    """
    narrow = dtype in _FLOATING and any(_EPSILON[other] < _EPSILON[dtype] for other in among if other in _FLOATING)
    if narrow and not isinstance(value, Expression) and math.isfinite(value):
        return as_held(dtype, float(value)) == value
    return represents(dtype, value)


def require_held(operator: Operator, dtype: str, values: Sequence[float]) -> None:
    """TypingError where an integer type, or bool, does not hold an attribute that becomes an element."""
    wrong = [] if dtype in FLOATS else [v for v in values if not represents(dtype, v)]
    if wrong:
        raise TypingError(f"{operator} of {dtype}, which cannot represent {wrong[0]}")


def as_held(dtype: str, value: float) -> float:
    """A number as a floating element type holds it; infinite where it is too large."""
    return float(rounded(dtype, np.asarray(value, np.float64)))


def rounded(dtype: str, values: Array) -> Array:
    """Numbers as an element type holds them, in the type that they were computed in; whole ones wrap."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(values.astype(_FLOATING.get(dtype, dtype)).astype(values.dtype))


def rounded_alike(dtype: str, exact: Array, held: Array) -> bool:
    """Whether numbers that were rounded again and again are as near as a number's rounding may take it."""
    if dtype not in _FLOATING:
        return np.array_equal(exact, held)
    with np.errstate(invalid="ignore"):
        errors = np.where(exact == held, 0.0, np.abs(held - exact))
        near = errors <= np.minimum(_ROUNDING * np.abs(exact), _STEPS * _EPSILON[dtype])
    return bool(np.all(near | (np.isnan(exact) & np.isnan(held))))


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
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise TypingError(f"Fill of the shape {self.shape}")
        return TensorType(self.dtype, self.shape)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        # A law of the default type stands for all types; one that names another is about what that one holds.
        named = self.dtype in FLOATS and self.dtype != "float32" and not isinstance(self.value, Expression)
        return Number(as_held(self.dtype, self.value) if named else self.value)

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

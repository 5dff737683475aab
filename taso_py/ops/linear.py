"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.elementwise import round_attributes
from taso_py.ops.meaning import Index, Number, Operand, Scalar, add, mul, total
from taso_py.ops.operator import (
    OnnxCall,
    Operator,
    Reading,
    Writing,
    broadcast,
    broadcast_index,
    same_dtype,
)
from taso_py.ops.products import product


@dataclass(frozen=True)
class MatMul(Operator):
    """out[*b, i, j] = Σ_k a[*b, i, k] · b[*b, k, j]; batches broadcast, vectors are promoted as in NumPy."""

    onnx: ClassVar[str] = "MatMul"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | (INTEGERS & {"int32", "int64", "uint32", "uint64"})

    def infer(self, *operands: TensorType) -> TensorType:
        a, b = operands
        dtype = same_dtype(a, b)
        if a.rank == 0 or b.rank == 0:
            raise RankError(f"MatMul needs axes, got {a} and {b}")
        left = a.dims if a.rank > 1 else (1, *a.dims)
        right = b.dims if b.rank > 1 else (*b.dims, 1)
        if left[-1] != right[-2]:
            raise TypingError(f"MatMul cannot contract {left[-1]} with {right[-2]}")
        rows = left[-2:-1] if a.rank > 1 else ()
        columns = right[-1:] if b.rank > 1 else ()
        return TensorType(dtype, (*broadcast(left[:-2], right[:-2]), *rows, *columns))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        a, b = operands
        rows, columns = min(a.type.rank - 1, 1), min(b.type.rank - 1, 1)
        batch = index[: len(index) - rows - columns]
        i = index[len(batch) : len(batch) + rows]
        j = index[len(batch) + rows :]

        def batch_of(operand: Operand) -> Index:
            own = operand.dims[:-2]
            mine = batch[len(batch) - len(own) :] if own else ()
            return tuple(0 if d == 1 else x for d, x in zip(own, mine, strict=True))

        return total(
            a.dims[-1],
            lambda k: mul(a[(*batch_of(a), *i, k)], b[(*batch_of(b), k, *j)]),
        )

    def kernel(self, *operands: Array) -> Array | None:
        a, b = operands
        if min(a.ndim, b.ndim) < 2 or a.dtype != np.float64 or b.dtype != np.float64:
            return None
        return product(a, b)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        # Integer matrices came with opset 9.
        return super().write(opset, operands) if opset >= 9 or operands[0].dtype in FLOATS else None


@dataclass(frozen=True)
class Gemm(Operator):
    """out[i, j] = alpha · Σ_k A[i, k] · B[k, j] + beta · C[i, j].

    A and B are transposed on demand; C is optional and broadcasts to the result.
    """

    onnx: ClassVar[str] = "Gemm"
    arity: ClassVar[tuple[int, int]] = (2, 3)
    since: ClassVar[int] = 7
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0  # noqa: N815 ONNX's name
    transB: int = 0  # noqa: N815 ONNX's name

    def __post_init__(self) -> None:
        round_attributes(self, "alpha", "beta")

    def infer(self, *operands: TensorType) -> TensorType:
        dtype = same_dtype(*operands)
        if not 2 <= len(operands) <= 3 or operands[0].rank != 2 or operands[1].rank != 2:
            shapes = ", ".join(map(str, operands))
            raise TypingError(f"Gemm needs two matrices and an optional addend, got {shapes}")
        a, b = (t.dims for t in operands[:2])
        (rows, inner), (other, columns) = (a[::-1] if self.transA else a), (b[::-1] if self.transB else b)
        if inner != other:
            raise TypingError(f"Gemm cannot contract {inner} with {other}")
        result = (rows, columns)
        if len(operands) == 3 and broadcast(result, operands[2].dims) != result:
            raise TypingError(f"Gemm's addend {operands[2]} does not broadcast to [{rows},{columns}]")
        return TensorType(dtype, result)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        a, b = operands[:2]
        i, j = index

        def product(k: Size) -> Scalar:
            return mul(a[(k, i) if self.transA else (i, k)], b[(j, k) if self.transB else (k, j)])

        matrix = _scaled(self.alpha, total(a.dims[0 if self.transA else 1], product))
        if len(operands) == 2:
            return matrix
        result = (a.dims[1 if self.transA else 0], b.dims[0 if self.transB else 1])
        return add(matrix, _scaled(self.beta, operands[2][broadcast_index(operands[2], result, index)]))

    @property
    def may_skip(self) -> Sequence[int]:
        """A product and an addend whose factor is 0 are not read."""
        factors: tuple[float | Size, ...] = (self.alpha, self.alpha, self.beta)
        return [k for k, factor in enumerate(factors) if isinstance(factor, Expression) or factor == 0]

    def normal(self, *operands: TensorType) -> Self:
        beta = self.beta if len(operands) == 3 else 1.0
        return type(self)(self.alpha, beta, int(bool(self.transA)), int(bool(self.transB)))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        present = len(call.inputs) if call.present(2) else 2
        trimmed = replace(call, inputs=call.inputs[:present])
        return super().read(trimmed)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        # The addend became optional at opset 11.
        return super().write(opset, operands) if len(operands) == 3 or opset >= 11 else None


def _scaled(factor: float, value: Scalar) -> Scalar:
    return value if factor == 1.0 else mul(Number(factor), value)

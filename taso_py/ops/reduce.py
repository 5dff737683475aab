"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError
from taso_py.graph.sizes import product
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.elementwise import Identity
from taso_py.ops.meaning import Index, Integer, Operand, Scalar, apply, div, maximum, mul, over, total
from taso_py.ops.operator import (
    AttributeValue,
    Constant,
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    normal_axis,
)


@dataclass(frozen=True)
class Reduction(Operator):
    """out[*i] = reduction of x over ``axes`` (none: all axes), which stay as size 1 when ``keepdims``."""

    axis_fields: ClassVar[Mapping[str, int]] = {"axes": 0}
    axes_input_since: ClassVar[int] = 18
    """First opset at which the axes are an input."""
    of_integers: ClassVar[np.ufunc | None] = None
    """What reduces integers: in whatever order, modulo 2^64."""
    axes: tuple[int, ...] = ()
    keepdims: int = 1

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        reduced = self._axes(x.rank)
        if self.keepdims:
            return TensorType(x.dtype, tuple(1 if a in reduced else d for a, d in enumerate(x.dims)))
        return TensorType(x.dtype, tuple(d for a, d in enumerate(x.dims) if a not in reduced))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        reduced = self._axes(x.type.rank)
        kept = [a for a in range(x.type.rank) if a not in reduced]
        outer = dict(zip(kept, (index[a] for a in kept) if self.keepdims else index, strict=True))

        def read(inner: Index) -> Scalar:
            place = {**outer, **dict(zip(reduced, inner, strict=True))}
            return x[tuple(place[a] for a in range(x.type.rank))]

        return self.reduce(x, reduced, read)

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        """The reduction of ``read(k)`` over the index ranges of ``axes``."""
        raise NotImplementedError

    def kernel(self, *operands: Array) -> Array | None:
        """Of integers; floats are added up as the meaning says, in its order."""
        (x,) = operands
        reduced = self._axes(x.ndim)
        if self.of_integers is None or x.dtype.kind not in "iu" or 0 in (x.shape[a] for a in reduced):
            return None
        return np.asarray(self.of_integers.reduce(x, axis=reduced, keepdims=bool(self.keepdims), dtype=np.int64))

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self._axes(operands[0].rank), int(bool(self.keepdims)))

    def _axes(self, rank: int) -> tuple[int, ...]:
        if not self.axes:
            return tuple(range(rank))
        found = tuple(sorted(normal_axis(a, rank) for a in self.axes))
        if rank == 0 or len(set(found)) != len(found):
            raise RankError(f"{self.onnx} over axes {list(self.axes)} of rank {rank}")
        return found

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        as_input = call.opset >= cls.axes_input_since
        known = {"keepdims", "noop_with_empty_axes"} if as_input else {"keepdims", "axes"}
        if not set(call.attributes) <= known or not 1 <= len(call.inputs) <= 1 + as_input or not call.present(0):
            return None
        axes = call.attributes.get("axes", ())
        if as_input and call.present(1):
            axes = call.integers(1)
        if axes is None or not all(isinstance(a, int) for a in axes):
            return None
        if not axes and call.attributes.get("noop_with_empty_axes", 0):
            return Reading(Identity(), (0,))
        return Reading(cls(tuple(axes), int(bool(call.attributes.get("keepdims", 1)))), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        attributes: dict[str, AttributeValue] = {"keepdims": self.keepdims}
        if not self.axes:
            return Writing(self.onnx, (Given(0),), attributes)
        if opset >= self.axes_input_since:
            return Writing(self.onnx, (Given(0), Constant.integers(self.axes)), attributes)
        return Writing(self.onnx, (Given(0),), {"axes": self.axes, **attributes})


@dataclass(frozen=True)
class ReduceSum(Reduction):
    """out = Σ_k x[k]."""

    onnx: ClassVar[str] = "ReduceSum"
    of_integers: ClassVar[np.ufunc | None] = np.add
    axes_input_since: ClassVar[int] = 13
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32", "int64"}

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        return over(total, [x.dims[a] for a in axes], read)


@dataclass(frozen=True)
class ReduceMean(Reduction):
    """out = Σ_k x[k] / number of elements."""

    onnx: ClassVar[str] = "ReduceMean"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        extents = [x.dims[a] for a in axes]
        return div(over(total, extents, read), Integer(product(extents)))


@dataclass(frozen=True)
class ReduceSumSquare(Reduction):
    """out = Σ_k x[k]²."""

    onnx: ClassVar[str] = "ReduceSumSquare"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        return over(total, [x.dims[a] for a in axes], lambda k: mul(read(k), read(k)))


@dataclass(frozen=True)
class ReduceL2(ReduceSumSquare):
    """out = √(Σ_k x[k]²)."""

    onnx: ClassVar[str] = "ReduceL2"

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        return apply("sqrt", super().reduce(x, axes, read))


@dataclass(frozen=True)
class ReduceL1(Reduction):
    """out = Σ_k |x[k]|."""

    onnx: ClassVar[str] = "ReduceL1"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        return over(total, [x.dims[a] for a in axes], lambda k: apply("abs", read(k)))


@dataclass(frozen=True)
class ReduceMax(Reduction):
    """out = max_k x[k]."""

    onnx: ClassVar[str] = "ReduceMax"
    of_integers: ClassVar[np.ufunc | None] = np.maximum
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32", "int64"}

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        return over(maximum, [x.dims[a] for a in axes], read)


@dataclass(frozen=True)
class ReduceMin(Reduction):
    """out = min_k x[k], stated as -max_k -x[k]."""

    onnx: ClassVar[str] = "ReduceMin"
    of_integers: ClassVar[np.ufunc | None] = np.minimum
    # int64 has a value without a negative.
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32"}

    def reduce(self, x: Operand, axes: tuple[int, ...], read: Callable[[Index], Scalar]) -> Scalar:
        extents = [x.dims[a] for a in axes]
        return mul(Integer(-1), over(maximum, extents, lambda k: mul(Integer(-1), read(k))))

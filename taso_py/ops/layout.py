"""Joining and cutting along one axis: concatenation and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Compare, Index, Operand, Scalar, choose
from taso_py.ops.operator import (
    MANY,
    Constant,
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    normal_axis,
    same_dtype,
)
from taso_py.ops.reading import concrete, first_operand, integers
from taso_py.ops.slicing import Slice


@dataclass(frozen=True)
class Concat(Operator):
    """out[.., i, ..] = x0[.., i, ..] if i < dim(x0) else (the rest)[.., i - dim(x0), ..] along ``axis``."""

    onnx: ClassVar[str] = "Concat"
    arity: ClassVar[tuple[int, int]] = (1, MANY)
    since: ClassVar[int] = 4
    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    axis: int = 0

    def infer(self, *operands: TensorType) -> TensorType:
        first = operands[0]
        if first.rank == 0:
            raise RankError(f"Concat needs an axis, got {first} of rank 0")
        axis = normal_axis(self.axis, first.rank)
        for other in operands[1:]:
            if other.rank != first.rank:
                raise RankError(f"Concat of {first} and {other}: ranks must be equal")
            if _without(other, axis) != _without(first, axis):
                raise TypingError(f"Concat on axis {axis} of {first} and {other}")
        extent: Size = 0
        for t in operands:
            extent = extent + t.dims[axis]
        return TensorType(same_dtype(*operands), (*first.dims[:axis], extent, *first.dims[axis + 1 :]))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        axis = normal_axis(self.axis, len(index))
        first, rest = operands[0], operands[1:]
        if not rest:
            return first[index]
        i, extent = index[axis], first.dims[axis]
        shifted = (*index[:axis], i - extent, *index[axis + 1 :])
        return choose([Compare(i, "<", extent)], first[index], self.element(rest, shifted))

    def kernel(self, *operands: Array) -> Array | None:
        return np.concatenate(operands, axis=self.axis)

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(normal_axis(self.axis, operands[0].rank))

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[object, ...]]]:
        if operands <= 2:
            return ()
        places = tuple(range(operands))
        return ((self, ((self, places[:-1]), places[-1])), (self, (places[0], (self, places[1:]))))


def _without(t: TensorType, axis: int) -> tuple[Size, ...]:
    return t.dims[:axis] + t.dims[axis + 1 :]


@dataclass(frozen=True)
class Split(Operator):
    """out[.., i, ..] = x[.., offset + i, ..], offset = Σ split[:output]: one piece of x along ``axis``.

    An ONNX Split with n outputs is n of these; `read` gives the first one that is used and
    `write` spells all outputs.
    """

    onnx: ClassVar[str] = "Split"
    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    several: ClassVar[bool] = True
    axis: int = 0
    split: tuple[Size, ...] = ()
    output: int = 0

    @property
    def least_outputs(self) -> int:
        return len(self.split)

    @property
    def offset(self) -> Size:
        """Where the piece begins."""
        total: Size = 0
        for size in self.split[: self.output]:
            total = total + size
        return total

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        axis = normal_axis(self.axis, x.rank)
        if x.rank == 0 or not 0 <= self.output < len(self.split):
            raise TypingError(f"output {self.output} of a Split of {x} into {len(self.split)}")
        whole: Size = 0
        for size in self.split:
            whole = whole + size
        if whole != x.dims[axis] or any(at_least(s, 0) is False for s in self.split):
            raise TypingError(f"pieces {self.split} do not make up {x.dims[axis]}")
        return TensorType(x.dtype, (*x.dims[:axis], self.split[self.output], *x.dims[axis + 1 :]))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return self.split

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        axis = normal_axis(self.axis, len(index))
        return operands[0][(*index[:axis], index[axis] + self.offset, *index[axis + 1 :])]

    def kernel(self, *operands: Array) -> Array | None:
        begin, size = self.offset, self.split[self.output]
        if not isinstance(begin, int) or not isinstance(size, int):
            return None
        axis = normal_axis(self.axis, operands[0].ndim)
        return np.take(operands[0], range(begin, begin + size), axis=axis)

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(normal_axis(self.axis, operands[0].rank), self.split, self.output)

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[object, ...]]]:
        begin, size = self.offset, self.split[self.output]
        return ((Slice((self.axis,), (begin,), (begin + size,), (1,)), (0,)),)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "axis", "split", "num_outputs")
        axis = int(call.attributes.get("axis", 0))
        if x is None or not -x.rank <= axis < x.rank or not call.used_outputs:
            return None
        given = _given_split(call)
        if given is None:
            return None
        pieces = given or _equal_split(call, x.dims[axis])
        if pieces is None or len(pieces) != len(call.used_outputs):
            return None
        return Reading(cls(axis % x.rank, pieces, call.first_output), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        sizes, attributes = concrete(self.split), {"axis": self.axis}
        if sizes is not None and opset < 13:
            return Writing(self.onnx, (Given(0),), {**attributes, "split": sizes})
        if sizes is not None:
            return Writing(self.onnx, (Given(0), Constant.integers(sizes)), attributes)
        if any(s != self.split[0] for s in self.split):
            return None
        count = {"num_outputs": len(self.split)} if opset >= 18 else {}
        return Writing(self.onnx, (Given(0),), {**attributes, **count})


def _given_split(call: OnnxCall) -> tuple[Size, ...] | None:
    """The sizes that the node states; () when it states none, None when they are not known."""
    if "split" in call.attributes and call.opset >= 13:
        return None
    if "num_outputs" in call.attributes and call.opset < 18:
        return None
    if call.opset < 13:
        return None if len(call.inputs) > 1 else integers(call.attributes.get("split"))
    if not call.present(1):
        return ()
    return None if "num_outputs" in call.attributes else call.integers(1) or None


def _equal_split(call: OnnxCall, dim: Size) -> tuple[Size, ...] | None:
    """Equal pieces; from opset 18 on the last may be smaller, before that it is an error."""
    count = len(call.used_outputs)
    each = floor_divide(dim, count)
    if each * count == dim and (call.opset < 18 or call.attributes.get("num_outputs") == count):
        return (each,) * count
    if call.opset < 18 or call.attributes.get("num_outputs") != count or not isinstance(dim, int):
        return None
    chunk = -(-dim // count)
    last = dim - chunk * (count - 1)
    return (*(chunk,) * (count - 1), last) if last >= 0 else None

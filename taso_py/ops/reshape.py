"""The same elements under other shapes: transposition, reshape, flatten, squeeze, unsqueeze."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide, product
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Index, Operand, Scalar
from taso_py.ops.operator import Constant, Given, OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import axis_list, concrete, first_operand, normal_axes
from taso_py.ops.regroup import regroup


@dataclass(frozen=True)
class Transpose(Operator):
    """out[i_0, i_1, ...] = x[j], j[perm[k]] = i_k; no ``perm``: the axes in reverse order."""

    onnx: ClassVar[str] = "Transpose"
    axis_fields: ClassVar[Mapping[str, int]] = {"perm": 0}
    perm: tuple[int, ...] = ()

    def _perm(self, rank: int) -> tuple[int, ...]:
        perm = self.perm or tuple(reversed(range(rank)))
        if len(perm) != rank:
            raise RankError(f"perm {perm} of rank {rank}")
        return normal_axes(perm, rank)

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        return TensorType(x.dtype, tuple(x.dims[a] for a in self._perm(x.rank)))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        place = dict(zip(self._perm(x.type.rank), index, strict=True))
        return x[[place[axis] for axis in range(x.type.rank)]]

    def kernel(self, *operands: Array) -> Array | None:
        return np.transpose(operands[0], self._perm(operands[0].ndim)).copy()

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self._perm(operands[0].rank))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        writing = super().write(opset, operands)
        return writing if self.perm or writing is None else Writing(self.onnx, writing.inputs, {})


@dataclass(frozen=True)
class Reshape(Operator):
    """out[*i] = x[*j] with the same flat position, row-major.

    ``shape`` holds the result's sizes; one may be -1 for what is left.  A 0 is a size of 0: ONNX's "copy from
    x" is resolved by `read` and used by `write` for symbolic sizes.
    """

    onnx: ClassVar[str] = "Reshape"
    since: ClassVar[int] = 5
    shape: tuple[Size, ...] = ()

    def dims(self, x: TensorType) -> tuple[Size, ...]:
        """The result's shape with -1 resolved."""
        return _completed(self.shape, x)

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        dims = self.dims(x)
        if product(dims) != x.elements or any(at_least(d, 0) is False for d in dims):
            raise TypingError(f"Reshape of {x} to {dims}")
        return TensorType(x.dtype, dims)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return x[regroup(index, self.dims(x.type), x.dims)]

    def kernel(self, *operands: Array) -> Array | None:
        shape = concrete(self.shape)
        return None if shape is None else operands[0].reshape(shape)

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self.dims(operands[0]))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "allowzero") if call.opset >= 14 else first_operand(call)
        given = call.integers(1)
        if x is None or given is None or len(call.inputs) != 2:
            return None
        copies = not call.attributes.get("allowzero", 0)
        shape: list[Size] = []
        for axis, size in enumerate(given):
            if size == 0 and copies and axis >= x.rank:
                return None
            shape.append(x.dims[axis] if size == 0 and copies else size)
        try:
            return Reading(cls(_completed(tuple(shape), x)), (0,))
        except TypingError:
            return None

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        (x,) = operands
        spelled = _spelled(self.dims(x), x)
        if opset < self.since or spelled is None:
            return None
        shape, literal = spelled
        if literal and opset < 14:
            return None
        return Writing(self.onnx, (Given(0), Constant.integers(shape)), {"allowzero": 1} if literal else {})


def _completed(shape: tuple[Size, ...], x: TensorType) -> tuple[Size, ...]:
    if shape.count(-1) > 1:
        raise TypingError(f"Reshape to {shape} leaves more than one size open")
    if -1 not in shape:
        return shape
    others = product(s for s in shape if s != -1)
    if at_least(others, 1) is False:
        raise TypingError(f"Reshape of {x} to {shape} leaves a size undetermined")
    rest = floor_divide(x.elements, others)
    if rest * others != x.elements:
        raise TypingError(f"Reshape of {x} to {shape}: {x.elements} is no multiple of {others}")
    return tuple(rest if s == -1 else s for s in shape)


def _spelled(dims: Sequence[Size], x: TensorType) -> tuple[tuple[int, ...], bool] | None:
    """The shape input, and whether a 0 in it is a size (``allowzero``) rather than ONNX's "copy from x".

    A symbolic size is copied when x has it at the same axis; else one may be -1, when nothing else can be 0
    at run time.
    """
    sizes = concrete(dims)
    if sizes is not None:
        return sizes, any(d == 0 and x.dims[a : a + 1] != (0,) for a, d in enumerate(sizes))
    if 0 in dims:
        return None
    found: list[int] = []
    for axis, size in enumerate(dims):
        if isinstance(size, int):
            found.append(size)
        else:
            found.append(0 if axis < x.rank and x.dims[axis] == size else -1)
    opens = found.count(-1)
    return None if opens > 1 or (opens and 0 in found) else (tuple(found), False)


@dataclass(frozen=True)
class Flatten(Operator):
    """out[i, j] = x[*p, *q], p and q having the flat positions i and j; q begins at ``axis``."""

    onnx: ClassVar[str] = "Flatten"
    axis: int = 1

    def _axis(self, rank: int) -> int:
        if not -rank <= self.axis <= rank:
            raise RankError(f"Flatten at axis {self.axis} of rank {rank}")
        return self.axis + rank if self.axis < 0 else self.axis

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        axis = self._axis(x.rank)
        return TensorType(x.dtype, (product(x.dims[:axis]), product(x.dims[axis:])))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        axis = self._axis(x.type.rank)
        head = regroup(index[:1], (product(x.dims[:axis]),), x.dims[:axis])
        return x[(*head, *regroup(index[1:], (product(x.dims[axis:]),), x.dims[axis:]))]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        axis = self._axis(x.ndim)
        return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self._axis(operands[0].rank))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        axis = int(call.attributes.get("axis", 1))
        if first_operand(call, "axis") is None or len(call.inputs) != 1 or (axis < 0 and call.opset < 11):
            return None
        return Reading(cls(axis), (0,))


@dataclass(frozen=True)
class Squeeze(Operator):
    """out = x without ``axes``, which have size 1; none given: without every axis of size 1."""

    onnx: ClassVar[str] = "Squeeze"
    axis_fields: ClassVar[Mapping[str, int]] = {"axes": 0}
    axes: tuple[int, ...] = ()

    def _axes(self, x: TensorType) -> tuple[int, ...]:
        if self.axes:
            return tuple(sorted(normal_axes(self.axes, x.rank)))
        if concrete(x.dims) is None:
            raise TypingError(f"Squeeze of {x} without axes: a symbolic size may be 1")
        return tuple(axis for axis, d in enumerate(x.dims) if d == 1)

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        axes = self._axes(x)
        if x.rank == 0 or any(x.dims[a] != 1 for a in axes):
            raise TypingError(f"Squeeze of {x} without axes {axes}, which must have size 1")
        return TensorType(x.dtype, tuple(d for a, d in enumerate(x.dims) if a not in axes))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return x[_inserted(index, self._axes(x.type), x.type.rank)]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        return np.squeeze(x, self._axes(TensorType(str(x.dtype), x.shape)))

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self._axes(operands[0]))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        axes = axis_list(call, since=13, position=1)
        if first_operand(call, "axes") is None or axes is None or len(call.inputs) > 2:
            return None
        return Reading(cls(axes), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return _with_axes(self.onnx, self.axes, opset)


@dataclass(frozen=True)
class Unsqueeze(Operator):
    """out = x with axes of size 1 inserted; ``axes`` are the result's."""

    onnx: ClassVar[str] = "Unsqueeze"
    axis_fields: ClassVar[Mapping[str, int]] = {"axes": -1}
    axes: tuple[int, ...] = ()

    def _axes(self, rank: int) -> tuple[int, ...]:
        return tuple(sorted(normal_axes(self.axes, rank + len(self.axes))))

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        dims = _inserted(x.dims, self._axes(x.rank), x.rank + len(self.axes), 1)
        return TensorType(x.dtype, dims)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        axes = self._axes(x.type.rank)
        return x[[i for a, i in enumerate(index) if a not in axes]]

    def kernel(self, *operands: Array) -> Array | None:
        return np.expand_dims(operands[0], self._axes(operands[0].ndim))

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(self._axes(operands[0].rank))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        axes = axis_list(call, since=13, position=1)
        if first_operand(call, "axes") is None or not axes or len(call.inputs) > 2:
            return None
        return Reading(cls(axes), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return _with_axes(self.onnx, self.axes, opset) if self.axes else None


def _inserted(sizes: Sequence[Size], axes: Sequence[int], rank: int, value: Size = 0) -> tuple[Size, ...]:
    rest = iter(sizes)
    return tuple(value if axis in axes else next(rest) for axis in range(rank))


def _with_axes(op_type: str, axes: tuple[int, ...], opset: int) -> Writing:
    if not axes:
        return Writing(op_type, (Given(0),), {})
    if opset < 13:
        return Writing(op_type, (Given(0),), {"axes": axes})
    return Writing(op_type, (Given(0), Constant.integers(axes)), {})

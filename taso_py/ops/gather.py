"""Picking positions along one axis, and replacing places, by constant indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least, proving
from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import TensorType
from taso_py.ops.lookup import LARGEST, lookup
from taso_py.ops.meaning import Compare, Index, Operand, Scalar, choose
from taso_py.ops.operator import (
    Constant,
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    normal_axis,
    same_dtype,
)
from taso_py.ops.reading import concrete, first_operand, text
from taso_py.ops.rows import INDICES, GatherRows


@dataclass(frozen=True)
class Gather(Operator):
    """out[*a, *j, *b] = x[*a, indices[*j], *b] at ``axis``.

    ``indices`` is flat, of shape ``indices_shape``; () is a scalar.
    Only constant indices; a table that is indexed at run time is `GatherRows`.
    """

    onnx: ClassVar[str] = "Gather"
    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    axis: int = 0
    indices: tuple[int, ...] = ()
    indices_shape: tuple[int, ...] = ()

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        axis = normal_axis(self.axis, x.rank)
        if x.rank == 0 or len(self.indices) != math.prod(self.indices_shape):
            raise TypingError(f"Gather of {x} by {len(self.indices)} indices of shape {self.indices_shape}")
        self._indices(x.dims[axis])
        return TensorType(x.dtype, (*x.dims[:axis], *self.indices_shape, *x.dims[axis + 1 :]))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        dim = operands[0].dims[normal_axis(self.axis, operands[0].rank)]
        places: tuple[Size, ...] = self.indices
        return (*(dim - 1 - i for i in places), *(i for i in places if not isinstance(i, int)))

    def _indices(self, dim: Size) -> tuple[int, ...]:
        """The indices counted from the front; names among them, in a proof, are not negative (`nonnegative`)."""
        given: Sequence[Size] = self.indices
        if not proving() and any(isinstance(i, Expression) for i in given):
            raise TypingError("Gather by an index that is not known")
        names = [i for i in given if proving() and isinstance(i, Expression)]
        found = tuple(i + dim if i not in names and i < 0 and isinstance(dim, int) else i for i in self.indices)
        numbers = [i for i in found if i not in names]
        lowest, highest = min(numbers, default=0), max(numbers, default=-1)
        if lowest < 0 or at_least(highest, dim) is True:
            raise TypingError(f"Gather by {lowest}..{highest} along an axis of size {dim}")
        return found

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        axis = normal_axis(self.axis, x.type.rank)
        end = axis + len(self.indices_shape)
        flat: Size = 0
        for i, d in zip(index[axis:end], self.indices_shape, strict=True):
            flat = flat * d + (0 if d == 1 else i)
        return x[(*index[:axis], lookup(self._indices(x.dims[axis]), flat), *index[end:])]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        axis = normal_axis(self.axis, x.ndim)
        table = np.array(self._indices(x.shape[axis]), dtype=np.int64).reshape(self.indices_shape)
        return np.take(x, table, axis=axis)

    def normal(self, *operands: TensorType) -> Self:
        (x,) = operands
        axis = normal_axis(self.axis, x.rank)
        if x.rank == 0:
            raise TypingError(f"Gather of {x}")
        return type(self)(axis, self._indices(x.dims[axis]), self.indices_shape)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "axis")
        indices = call.constants[1] if call.present(1) else None
        if x is None or len(call.inputs) != 2 or not call.present(1):
            return None
        if indices is None or indices.size > LARGEST:
            given = call.inputs[1]
            known = given is not None and given.known and given.dtype in INDICES
            return Reading(GatherRows(int(call.attributes.get("axis", 0))), (0, 1)) if known else None
        numbers = tuple(int(i) for i in indices.reshape(-1))
        return Reading(cls(int(call.attributes.get("axis", 0)), numbers, tuple(indices.shape)), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        table = np.array(self.indices, dtype=np.int64).reshape(self.indices_shape)
        if opset < 11 and any(i < 0 for i in self.indices):
            return None
        return Writing(self.onnx, (Given(0), Constant(table)), {"axis": self.axis})


@dataclass(frozen=True)
class ScatterND(Operator):
    """out[*i, *s] = updates[*j, *s] if indices[*j] = (*i) for some j else x[*i, *s].

    ``indices`` is flat, of shape ``indices_shape``, whose last entry is the number of axes in ``*i``.  Only constant
    indices no two of which are equal: otherwise ONNX leaves open which update stays.
    """

    onnx: ClassVar[str] = "ScatterND"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    since: ClassVar[int] = 11
    indices: tuple[int, ...] = ()
    indices_shape: tuple[int, ...] = (0, 1)

    def infer(self, *operands: TensorType) -> TensorType:
        x, updates = operands
        if len(self.indices) != math.prod(self.indices_shape) or not self.indices_shape:
            raise TypingError(f"ScatterND by {len(self.indices)} indices of shape {self.indices_shape}")
        *batch, depth = self.indices_shape
        if not 0 < depth <= x.rank or updates.shape != (*batch, *x.dims[depth:]):
            raise TypingError(f"ScatterND of {updates} into {x} by indices of shape {self.indices_shape}")
        self._places(x.dims)
        return TensorType(same_dtype(*operands), x.dims)

    def _places(self, dims: Sequence[Size]) -> npt.NDArray[np.int64]:
        """The indices counted from the front, one row per update."""
        if not self.indices_shape:
            raise TypingError("ScatterND by indices without an axis")
        depth = self.indices_shape[-1]
        extents = concrete(dims[:depth])
        if extents is None or math.prod(extents) > LARGEST:
            raise TypingError(f"ScatterND into axes of sizes {dims[:depth]}")
        given = np.array(self.indices, dtype=np.int64).reshape(-1, depth)
        places = given + np.where(given < 0, extents, 0)
        if ((places < 0) | (places >= extents)).any() or len(np.unique(places, axis=0)) < len(places):
            raise TypingError(f"ScatterND at equal or outer places of axes of sizes {extents}")
        return places

    def _sources(self, dims: Sequence[Size]) -> list[list[int]]:
        """By axis of the updates' batch: its index for each place of x, row-major; -1 where x stays."""
        *batch, depth = self.indices_shape
        places = self._places(dims)
        table = np.full((max(len(batch), 1), *(concrete(dims[:depth]) or ())), -1)
        table[:, *places.T] = np.indices(batch).reshape(len(batch), -1) if batch else 0
        found: list[list[int]] = table.reshape(len(table), -1).tolist()
        return found

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, updates = operands
        *batch, depth = self.indices_shape
        flat: Size = 0
        for i, d in zip(index[:depth], x.dims, strict=False):
            flat = flat * d + i
        sources = [lookup(row, flat) for row in self._sources(x.dims)]
        update = updates[(*sources[: len(batch)], *index[depth:])]
        return choose([Compare(0, "<=", sources[0])], update, x[index])

    def kernel(self, *operands: Array) -> Array | None:
        x, updates = operands
        out = np.array(x)
        out[tuple(self._places(x.shape).T)] = updates.reshape(-1, *x.shape[self.indices_shape[-1] :])
        return out

    def normal(self, *operands: TensorType) -> Self:
        places = self._places(operands[0].dims)
        return type(self)(tuple(map(int, places.reshape(-1))), self.indices_shape)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "reduction") if call.opset >= 16 else first_operand(call)
        indices = call.constants[1] if len(call.inputs) == 3 else None
        if x is None or indices is None or indices.size > LARGEST or not call.present(2):
            return None
        if text(call.attributes.get("reduction", "none")) != "none":
            return None
        return Reading(cls(tuple(int(i) for i in indices.reshape(-1)), tuple(indices.shape)), (0, 2))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        table = np.array(self.indices, dtype=np.int64).reshape(self.indices_shape)
        return Writing(self.onnx, (Given(0), Constant(table), Given(1)), {}) if opset >= self.since else None

"""Picking positions along one axis that are computed at run time: rows of a table, as an embedding does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Index, Integer, Number, Operand, Scalar, apply, div, total
from taso_py.ops.operator import Given, OnnxCall, Operator, Reading, Writing, normal_axis
from taso_py.ops.reading import first_operand

INDICES = frozenset({"int32", "int64"})
"""Element types that ONNX allows for the indices of Gather; GatherND has 64 bits only."""


@dataclass(frozen=True)
class Picking(Operator):
    """Base: one axis of a table is read where integers say, from its end where they are negative.

    With n the size of that axis, an index i names position p when i = p or i = p - n.  An element is the sum over all
    positions that its index names, divided by how many these are: one, or none for an index outside -n <= i < n, with
    which ONNX refuses to run at all.  What no index names need not be defined.
    """

    arity: ClassVar[tuple[int, int]] = (2, 2)

    positions: ClassVar[int | None] = 1

    def axis_of(self, table: TensorType) -> int:
        """The axis that is read where the indices say, counted from the front."""
        raise NotImplementedError

    def place(self, table: TensorType, indices: TensorType, index: Index) -> tuple[Index, Index, Index]:
        """For an element of the result: the table's index before and behind that axis, and the indices' own index."""
        raise NotImplementedError

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, indices = operands
        before, behind, at = self.place(x.type, indices.type, index)
        rows, chosen = x.dims[self.axis_of(x.type)], indices[at]

        def named(position: Size, value: Scalar) -> Scalar:
            front, end = (apply("equal", chosen, Integer(p)) for p in (position, position - rows))
            return apply("where", apply("or", front, end), value, Number(0.0))

        read = total(rows, lambda p: named(p, x[(*before, p, *behind)]))
        return div(read, total(rows, lambda p: named(p, Number(1.0))))

    def counted(self, x: Array, indices: Array, axis: int) -> Array | None:
        """The indices counted from the front; None when one is outside of the axis."""
        rows = x.shape[axis]
        if indices.size and (indices.min() < -rows or indices.max() >= rows):
            return None
        return np.asarray(np.where(indices < 0, indices + rows, indices).astype(np.int64))


@dataclass(frozen=True)
class GatherRows(Picking):
    """out[*a, *j, *b] = x[*a, indices[*j], *b] at ``axis``: ONNX's Gather by indices that are no constant."""

    onnx: ClassVar[str] = "GatherRows"
    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    axis: int = 0

    def infer(self, *operands: TensorType) -> TensorType:
        x, indices = operands
        axis = normal_axis(self.axis, x.rank)
        if x.rank == 0:
            raise TypingError(f"GatherRows of {x}")
        if indices.dtype not in INDICES:
            raise TypingError(f"indices of Gather are int32 or int64, got {indices}")
        return TensorType(x.dtype, (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]))

    def axis_of(self, table: TensorType) -> int:
        return normal_axis(self.axis, table.rank)

    def place(self, table: TensorType, indices: TensorType, index: Index) -> tuple[Index, Index, Index]:
        axis = self.axis_of(table)
        end = axis + indices.rank
        return index[:axis], index[end:], index[axis:end]

    def kernel(self, *operands: Array) -> Array | None:
        x, indices = operands
        counted = self.counted(x, indices, self.axis)
        return None if counted is None else np.take(x, counted, axis=self.axis)

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(normal_axis(self.axis, operands[0].rank))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return Writing("Gather", (Given(0), Given(1)), {"axis": self.axis})


@dataclass(frozen=True)
class GatherND(Picking):
    """out[*g, *j, *b] = x[*g, indices[*g, *j, 0], *b] with ``batch_dims`` axes in ``*g``: rows of a batch of tables.

    ``indices`` ends in an axis of size 1.  ONNX's GatherND also reads several axes at once; that stays opaque.
    """

    onnx: ClassVar[str] = "GatherND"
    since: ClassVar[int] = 12
    batch_dims: int = 0

    def infer(self, *operands: TensorType) -> TensorType:
        x, indices = operands
        batch = self.batch_dims
        if indices.dtype != "int64":
            raise TypingError(f"indices of GatherND are int64, got {indices}")
        if not 0 <= batch < min(x.rank, indices.rank) or indices.dims[-1] != 1:
            raise TypingError(f"GatherND of {x} by {indices} with {batch} batch axes")
        if x.dims[:batch] != indices.dims[:batch]:
            raise TypingError(f"GatherND of {x} by {indices}: the first {batch} axes differ")
        return TensorType(x.dtype, (*indices.dims[:-1], *x.dims[batch + 1 :]))

    def axis_of(self, table: TensorType) -> int:
        return self.batch_dims

    def place(self, table: TensorType, indices: TensorType, index: Index) -> tuple[Index, Index, Index]:
        end = indices.rank - 1
        return index[: self.batch_dims], index[end:], (*index[:end], 0)

    def kernel(self, *operands: Array) -> Array | None:
        x, indices = operands
        batch = self.batch_dims
        counted = self.counted(x, indices, batch)
        if counted is None:
            return None
        grid = np.indices(indices.shape[:-1], sparse=True)[:batch]
        return np.asarray(x[(*grid, counted[..., 0])])

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "batch_dims")
        if x is None or call.opset < cls.since or len(call.inputs) != 2:
            return None
        indices = call.inputs[1]
        if indices is None or not indices.known or not indices.rank or indices.dims[-1] != 1:
            return None
        return Reading(cls(int(call.attributes.get("batch_dims", 0))), (0, 1))

"""Picking positions along one axis by constant indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, at_least
from taso_py.graph.types import TensorType
from taso_py.ops.lookup import LARGEST, lookup
from taso_py.ops.meaning import Index, Operand, Scalar
from taso_py.ops.operator import Constant, Given, OnnxCall, Operator, Reading, Writing, normal_axis
from taso_py.ops.reading import Array, first_operand


@dataclass(frozen=True)
class Gather(Operator):
    """out[*a, *j, *b] = x[*a, indices[*j], *b] at ``axis``.

    ``indices`` is flat, of shape ``indices_shape``; () is a scalar.
    Only constant indices: a table that is indexed at run time stays opaque.
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

    def _indices(self, dim: Size) -> tuple[int, ...]:
        """The indices counted from the front."""
        found = tuple(i + dim if i < 0 and isinstance(dim, int) else i for i in self.indices)
        lowest, highest = min(found, default=0), max(found, default=-1)
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
        if x is None or indices is None or len(call.inputs) != 2 or indices.size > LARGEST:
            return None
        numbers = tuple(int(i) for i in indices.reshape(-1))
        return Reading(cls(int(call.attributes.get("axis", 0)), numbers, tuple(indices.shape)), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        table = np.array(self.indices, dtype=np.int64).reshape(self.indices_shape)
        if opset < 11 and any(i < 0 for i in self.indices):
            return None
        return Writing(self.onnx, (Given(0), Constant(table)), {"axis": self.axis})

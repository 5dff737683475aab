"""Tensor types: element type and shape."""

from __future__ import annotations

from dataclasses import dataclass

from taso_py.graph.sizes import Size, product

HALVES = frozenset({"float16", "bfloat16"})
FLOATS = HALVES | {"float32", "float64"}
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})

BYTES = {
    "float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (numpy's name: ``float32``) and shape; ``shape`` is None when the rank is unknown."""

    dtype: str
    shape: tuple[Size, ...] | None

    @property
    def known(self) -> bool:
        """Whether the rank is known."""
        return self.shape is not None

    @property
    def dims(self) -> tuple[Size, ...]:
        """The shape of a tensor whose rank is known."""
        if self.shape is None:
            raise ValueError("the rank is unknown")
        return self.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def elements(self) -> Size:
        """Number of elements."""
        return product(self.dims)

    def __str__(self) -> str:
        inner = "?" if self.shape is None else ",".join(map(str, self.shape))
        return f"{self.dtype}[{inner}]"


NO_TYPE = TensorType("", None)
"""What is known of a value that is not a tensor, or of an absent one."""

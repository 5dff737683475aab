"""Comparisons, logic, choice by a condition, and changes of the element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.types import BYTES, FLOATS, TensorType
from taso_py.ops.elementwise import NUMBERS, ORDERED, Pointwise
from taso_py.ops.meaning import TYPE_CODES, Index, Operand, Scalar, cast
from taso_py.ops.operator import Given, OnnxCall, Reading, Writing, same_dtype

_BOOL = frozenset({"bool"})


@dataclass(frozen=True)
class Relational(Pointwise):
    """out = whether a relation b."""

    arity: ClassVar[tuple[int, int]] = (2, 2)
    dtypes: ClassVar[frozenset[str] | None] = ORDERED
    all_types_since: ClassVar[int] = 7
    """First opset that compares every numeric type; before it only those in ``early``."""
    early: ClassVar[frozenset[str]] = frozenset()

    def result_dtype(self, *operands: TensorType) -> str:
        same_dtype(*operands)
        return "bool"

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        if opset < self.all_types_since and operands[0].dtype not in self.early:
            return None
        return super().write(opset, operands)


@dataclass(frozen=True)
class Equal(Relational):
    """out = (a == b)."""

    onnx: ClassVar[str] = "Equal"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "equal"
    commutative: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = NUMBERS | _BOOL
    all_types_since: ClassVar[int] = 11
    early: ClassVar[frozenset[str]] = frozenset({"bool", "int32", "int64"})


@dataclass(frozen=True)
class Less(Relational):
    """out = (a < b)."""

    onnx: ClassVar[str] = "Less"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "less"
    all_types_since: ClassVar[int] = 9
    early: ClassVar[frozenset[str]] = FLOATS


@dataclass(frozen=True)
class Greater(Relational):
    """out = (a > b)."""

    onnx: ClassVar[str] = "Greater"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "greater"
    all_types_since: ClassVar[int] = 9
    early: ClassVar[frozenset[str]] = FLOATS


@dataclass(frozen=True)
class LessOrEqual(Relational):
    """out = (a <= b)."""

    onnx: ClassVar[str] = "LessOrEqual"
    since: ClassVar[int] = 12
    function: ClassVar[str] = "lessorequal"


@dataclass(frozen=True)
class GreaterOrEqual(Relational):
    """out = (a >= b)."""

    onnx: ClassVar[str] = "GreaterOrEqual"
    since: ClassVar[int] = 12
    function: ClassVar[str] = "greaterorequal"


@dataclass(frozen=True)
class Not(Pointwise):
    """out = not x."""

    onnx: ClassVar[str] = "Not"
    function: ClassVar[str] = "not"
    dtypes: ClassVar[frozenset[str] | None] = _BOOL


@dataclass(frozen=True)
class And(Pointwise):
    """out = a and b."""

    onnx: ClassVar[str] = "And"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "and"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    commutative: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = _BOOL


@dataclass(frozen=True)
class Or(Pointwise):
    """out = a or b."""

    onnx: ClassVar[str] = "Or"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "or"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    commutative: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = _BOOL


@dataclass(frozen=True)
class Where(Pointwise):
    """out = a where the condition holds, else b."""

    onnx: ClassVar[str] = "Where"
    since: ClassVar[int] = 9
    function: ClassVar[str] = "where"
    arity: ClassVar[tuple[int, int]] = (3, 3)
    dtypes: ClassVar[frozenset[str] | None] = _BOOL

    def result_dtype(self, *operands: TensorType) -> str:
        if operands[0].dtype != "bool":
            raise TypingError(f"Where's condition must be bool, got {operands[0]}")
        return same_dtype(*operands[1:])


@dataclass(frozen=True)
class Cast(Pointwise):
    """out = x as element type ``to``; the same number where that type holds every value of x's type."""

    onnx: ClassVar[str] = "Cast"
    since: ClassVar[int] = 6
    aliases: ClassVar[tuple[str, ...]] = ("CastLike",)
    dtypes: ClassVar[frozenset[str] | None] = frozenset(TYPE_CODES)
    to: str = "float32"

    def __post_init__(self) -> None:
        if self.to not in TYPE_CODES:
            raise TypingError(f"Cast to {self.to} is not defined; choose one of {', '.join(TYPE_CODES)}")

    def result_dtype(self, *operands: TensorType) -> str:
        return self.to

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        if preserves(x.type.dtype, self.to):
            return x[index]
        return cast(x[index], self.to)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        # `saturate` and `round_mode` concern 8-bit floats only, which are no TYPE_CODES.
        names = {code: name for name, code in TYPE_CODES.items()}
        target = names.get(call.attributes.get("to", 0))
        if call.op_type == "CastLike":
            like = call.inputs[1] if call.present(1) else None
            target = like.dtype if like is not None and like.dtype in TYPE_CODES else None
        known = set(call.attributes) <= {"to", "saturate", "round_mode"}
        return Reading(cls(target), (0,)) if target is not None and known else None

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return Writing(self.onnx, (Given(0),), {"to": TYPE_CODES[self.to]})


def preserves(source: str, target: str) -> bool:
    """Whether ``target`` represents every value of ``source``."""
    if source not in BYTES or target not in TYPE_CODES or source == "bfloat16":
        return source == target
    # NumPy calls 64-bit integers to float64 safe, but float64 has 53 bits.
    lossy = source in ("int64", "uint64") and target == "float64"
    return bool(np.can_cast(source, target, "safe")) and not lossy

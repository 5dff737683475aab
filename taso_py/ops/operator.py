"""What every operator is: one class with attributes, a shape rule, one meaning, and its ONNX spelling.

An instance is an operator *with* its attributes, immutable and comparable.  Everything else (numpy values, operation
counts, text, ONNX import and export, matching, proofs) is derived from the members below.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.errors import RankError, TypingError
from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Index, Operand, Scalar

NEWEST_OPSET = 26
"""The newest opset that the operator classes were written for: a later one may change what a name means."""

MANY = sys.maxsize
"""The most operands of an operator that takes any number of them."""

AttributeValue: TypeAlias = int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OnnxCall:
    """One ONNX node of the standard domain as an operator class reads it.

    ``constants[k]`` is the value of input k when it is fixed (never for an overridable initializer); for integer
    tensors computed from shapes ``sizes[k]`` may hold symbolic entries.  ``inputs[k]`` is None where an optional
    input is absent.
    """

    op_type: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[TensorType | None, ...]
    constants: tuple[npt.NDArray[np.generic] | None, ...]
    sizes: tuple[tuple[Size, ...] | None, ...]
    _: KW_ONLY
    used_outputs: tuple[bool, ...]

    def present(self, k: int) -> bool:
        """Whether input k is there."""
        return k < len(self.inputs) and self.inputs[k] is not None

    def integers(self, k: int) -> tuple[Size, ...] | None:
        """The entries of the one-dimensional (or scalar) integer input k, when they are known."""
        return self.sizes[k] if k < len(self.sizes) else None

    @property
    def first_output(self) -> int:
        """The first output that is used; 0 when none is."""
        return self.used_outputs.index(True) if True in self.used_outputs else 0

    def scalar(self, k: int) -> float | None:
        """The value of the one-element constant input k."""
        value = self.constants[k] if k < len(self.constants) else None
        return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class Reading:
    """The operator that an ONNX node means, and which of the node's inputs are its operands."""

    operator: Operator
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """In a `Writing`: operand k of the operator."""

    operand: int


@dataclass(frozen=True, slots=True)
class Constant:
    """In a `Writing`: a small constant tensor that ONNX wants as an input (axes, pads, a shape, a bound)."""

    value: npt.NDArray[np.generic]

    @staticmethod
    def integers(values: Iterable[Size]) -> Constant:
        """An int64 vector."""
        concrete = [v for v in values if isinstance(v, int)]
        return Constant(np.array(concrete, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Writing:
    """How an operator is spelled in ONNX at one opset: op type, attributes, and inputs in order (None: absent)."""

    op_type: str
    inputs: tuple[Given | Constant | None, ...]
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True)
class Operator:
    """Base of all operators; subclasses are frozen dataclasses whose fields are the attributes.

    Attribute fields have ONNX's names and defaults, and types ``int``, ``float``, ``str``, or tuples of sizes.
    ``normal`` brings them into the form in which equal meanings have equal attributes (axes counted from the
    front, pads written out); operators in a graph are always normal.
    """

    onnx: ClassVar[str] = ""
    """ONNX operator type; also the operator's name in rules."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other ONNX operator types that the class reads and writes (Upsample was Resize's name before opset 10)."""
    since: ClassVar[int] = 1
    """First opset at which ``write`` can spell it."""
    commutative: ClassVar[bool] = False
    axis_fields: ClassVar[Mapping[str, int]] = {}
    """Fields that hold axes (an int or a tuple) -> the operand whose rank resolves negative ones (-1: the result's)."""
    pointwise: ClassVar[bool] = False
    """Each output element depends only on the operands' elements at the same (broadcast) index."""
    arity: ClassVar[tuple[int, int]] = (1, 1)
    """The fewest and the most operands that it takes."""
    several: ClassVar[bool] = False
    """Whether its ONNX node may have several outputs: the field ``output`` then says which one the result is."""
    dtypes: ClassVar[frozenset[str] | None] = None
    """Element types of operand 0 for which the meaning holds; None: any."""
    positions: ClassVar[int | None] = None
    """The operand whose integers say at run time which elements of operand 0 the result copies; None: there is none."""

    @classmethod
    def lacks(cls) -> str:
        """What a class must still define to be an operator, in words; empty: nothing."""
        missing = [m for m in ("infer", "element") if getattr(cls, m) is getattr(Operator, m)]
        return f"does not define {' and '.join(f'`{m}`' for m in missing)}" if missing else ""

    @classmethod
    def check_arity(cls, count: int) -> None:
        """`TypingError` when it does not take so many operands."""
        fewest, most = cls.arity
        if not fewest <= count <= most:
            taken = str(fewest) if fewest == most else f"{fewest} or more" if most == MANY else f"{fewest} to {most}"
            raise TypingError(f"{cls.onnx} takes {taken} operand{'s' * (most > 1)}, got {count}")

    def infer(self, *operands: TensorType) -> TensorType:
        """Type of the result; `TypingError` when the operator cannot be applied. Ranks are known."""
        raise NotImplementedError

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        """What must be >= 0 for the operator to be defined, beside the result's sizes; ``infer`` lets symbols pass."""
        return ()

    def assumed(self, *operands: TensorType) -> frozenset[Hashable]:
        """What ``infer`` takes for granted in a proof: a right side may demand only what the left side does."""
        return frozenset()

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        """The meaning: the result's element at ``index`` (one size per axis of the result)."""
        raise NotImplementedError

    @property
    def may_skip(self) -> Sequence[int]:
        """Operands of which ONNX Runtime may leave out elements that `element` names: those may be undefined then."""
        return ()

    @property
    def may_read_more(self) -> bool:
        """Whether ONNX Runtime may multiply elements by 0 that `element` does not name: where those are not finite."""
        return False

    def kernel(self, *operands: npt.NDArray[np.generic]) -> npt.NDArray[np.generic] | None:
        """A faster numpy evaluation of the same meaning, tested against it; None: use the meaning."""
        return None

    def normal(self, *operands: TensorType) -> Self:
        """The same operator with attributes in normal form for these operand types."""
        return self

    @property
    def port(self) -> int:
        """Which output of its ONNX node the result is."""
        return int(getattr(self, "output", 0))

    def at_port(self, port: int) -> Self:
        """The operator whose result is another output of the same ONNX node."""
        change: dict[str, Any] = {"output": port} if self.several else {}
        return replace(self, **change)

    @property
    def least_outputs(self) -> int:
        """How many outputs the ONNX node must have for this one to be among them."""
        return self.port + 1

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[Any, ...]]]:
        """Equivalent applications for operators of variable arity: (operator, arguments), an argument being
        an operand position or a nested (operator, arguments) pair.  Fixed arities are rules in canonical.rules."""
        return ()

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        """The operator that this ONNX node means; None when it is a form that the class does not define.

        By default every input is an operand and every attribute a field of the same name.
        """
        names = field_types(cls).keys()
        if call.opset < cls.since or not set(call.attributes) <= names or not cls.defines_used(call):
            return None
        if not call.inputs or any(t is None for t in call.inputs):
            return None
        values = {k: frozen(v) for k, v in call.attributes.items()}
        return Reading(cls(**values).at_port(call.first_output), tuple(range(len(call.inputs))))

    @classmethod
    def defines_used(cls, call: OnnxCall) -> bool:
        """Whether every output that is used is one of the class."""
        return cls.several or not any(call.used_outputs[1:])

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        """The ONNX spelling at ``opset``; None when there is none."""
        if opset < self.since:
            return None
        attributes = {k: v for k, v in self.attributes().items() if k != "output"}
        if any(not _expressible(v) for v in attributes.values()):
            return None
        return Writing(self.onnx, tuple(Given(k) for k in range(len(operands))), attributes)

    def attributes(self) -> dict[str, Any]:
        """Fields by name."""
        return {name: getattr(self, name) for name in field_types(type(self))}

    def __str__(self) -> str:
        inner = ", ".join(f"{k}={_text(v)}" for k, v in self.attributes().items())
        return f"{self.onnx}({inner})"


_FIELDS: dict[type[Operator], dict[str, str]] = {}


def field_types(operator: type[Operator]) -> Mapping[str, str]:
    """What an operator's attributes are called, in their order, each with the text of its type."""
    if operator not in _FIELDS:
        _FIELDS[operator] = {f.name: str(f.type) for f in fields(operator)}
    return _FIELDS[operator]


def frozen(value: Any) -> Any:
    """Lists as tuples, bytes as text: attribute values as fields hold them."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    return value.decode() if isinstance(value, bytes) else value


def _expressible(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_expressible(v) for v in value)
    return isinstance(value, (int, float, str))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    # ONNX stores float attributes as float32: the shortest text of that float32 is the readable one.
    if isinstance(value, float) and float(np.float32(value)) == value:
        return str(float(str(np.float32(value))))
    return str(value)


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """NumPy's broadcast of shapes; sizes must be equal or the literal 1 (a symbol may be 1 but is not taken to be)."""
    if all(s == shapes[0] for s in shapes[1:]):
        return tuple(shapes[0]) if shapes else ()
    rank = max(map(len, shapes))
    result: list[Size] = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [d for d in sizes if d != 1]
        if any(d != wide[0] for d in wide):
            raise TypingError(f"sizes {' and '.join(map(str, wide))} do not broadcast")
        result.append(wide[0] if wide else 1)
    return tuple(result)


def broadcast_index(operand: Operand, result: Sequence[Size], index: Index) -> Index:
    """The operand's index for the result's ``index`` under NumPy's broadcasting."""
    skip = len(result) - operand.type.rank
    return tuple(
        0 if d == 1 and result[skip + axis] != 1 else index[skip + axis] for axis, d in enumerate(operand.dims)
    )


def same_dtype(*operands: TensorType) -> str:
    """The element type that all operands share."""
    first = operands[0].dtype
    if any(t.dtype != first for t in operands):
        raise TypingError(f"element types {', '.join(t.dtype for t in operands)} differ")
    return first


def normal_axis(axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise RankError(f"axis {axis} is outside rank {rank}")
    return axis % rank if rank else 0

"""ONNX types as tensor types: symbols for named dimensions, fresh symbols for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.types import FLOATS, INTEGERS, NO_TYPE, TensorType
from taso_py.ops.operator import OnnxCall
from taso_py.ops.reduce import ReduceMean

TRANSPARENT = (FLOATS - {"bfloat16"}) | INTEGERS | {"bool"}
"""Element types that operators work on; nodes that touch any other (bfloat16, strings, ...) are opaque.

numpy has no bfloat16, and ONNX Runtime's CPU provider hardly any kernel for it.
"""

_NAMES = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}


def dtype_name(dtype: ir.DataType) -> str:
    """NumPy's name of an ONNX element type where it has one, else ONNX's in lower case."""
    return _NAMES.get(dtype, dtype.name.lower())


def onnx_dtype(name: str) -> ir.DataType:
    """The inverse of `dtype_name`."""
    return next((d for d, n in _NAMES.items() if n == name), None) or ir.DataType[name.upper()]


LIKE_FIRST = frozenset(
    {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BitwiseNot", "Ceil", "Celu", "Clip",
     "Cosh", "CumSum", "Dropout", "Floor", "Gelu", "GroupNormalization", "Hardmax", "InstanceNormalization", "LRN",
     "LayerNormalization", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization",
     "ReverseSequence", "Round", "Scatter", "ScatterElements", "ScatterND", "Shrink", "Sign", "Sinh", "Softmax",
     "Tan", "ThresholdedRelu", "Trilu"}
)  # fmt: skip
"""Operators of ONNX whose first output has the type of the first input, by their specification in every version.

What is known here of the input is more than ONNX's own inference finds: that knows no sizes behind weights that are
computed, and forgets what a Shape said.
"""


REDUCING = frozenset({"ReduceLogSum", "ReduceLogSumExp"})
"""Operators that are not read, and whose output is the first input less some axes."""


def by_first(call: OnnxCall, inferred: TensorType) -> TensorType:
    """The type of an unread operator's first output by what is known of its first input; else what was inferred."""
    x = call.inputs[0] if call.inputs else None
    if x is None or x.shape is None or not x.dtype:
        return inferred
    shape = x.shape if call.op_type in LIKE_FIRST else _reduced(call, x) if call.op_type in REDUCING else None
    if shape is None:
        return inferred
    if inferred.shape is None or len(inferred.shape) != len(shape):
        return TensorType(x.dtype, shape)
    sizes = zip(shape, inferred.shape, strict=True)
    return TensorType(x.dtype, tuple(b if isinstance(b, int) else a for a, b in sizes))


def _reduced(call: OnnxCall, x: TensorType) -> tuple[Size, ...] | None:
    """By the reading of ReduceMean: axes are spelled alike for all of these, in every version."""
    try:
        reading = ReduceMean.read(call)
        return None if reading is None else reading.operator.infer(x).shape
    except TypingError:
        return None


def without_sizes(type_: onnx.TypeProto, *, ranked: bool = True) -> onnx.TypeProto:
    """A type of which nothing but the element type is known, and of a tensor the rank if it is ``ranked``."""
    free = onnx.TypeProto()
    free.CopyFrom(type_)
    inner = free
    while (kind := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
        inner, ranked = getattr(inner, kind).elem_type, False
    if inner.HasField("tensor_type") and not ranked:
        inner.tensor_type.ClearField("shape")
    for dim in inner.tensor_type.shape.dim if inner.HasField("tensor_type") else ():
        dim.Clear()
    return free


_UNKNOWN = frozenset({"?", "-1", "None", "none", "unk", "unknown", "Unknown"})
"""What exporters write for any size they do not know, two of one tensor included."""


def size_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name of a size, the same wherever it is; empty where it has none, or is only called unknown."""
    return "" if dim.dim_param in _UNKNOWN else dim.dim_param


@dataclass(slots=True)
class Symbols:
    """Sizes of dimensions: the same name at graph inputs is the same symbol, and nothing else is."""

    named: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def reserve(self, types: Iterable[onnx.TypeProto]) -> None:
        """Keeps the names that graph inputs give from the sizes that have none, whichever comes first."""
        self.used.update(dim.dim_param for t in types for dim in t.tensor_type.shape.dim if dim.dim_param)

    def declared(self, name: str) -> Size:
        """The symbol of a dimension that a graph input names."""
        self.named.add(name)
        self.used.add(name)
        return symbol(name)

    def fresh(self, hint: str) -> Size:
        """A symbol that nothing else uses, named after ``hint``."""
        name = hint
        while name in self.used:
            name += "'"
        self.used.add(name)
        return symbol(name)

    def of_input(self, name: str, type_: onnx.TypeProto) -> TensorType:
        """Type of a graph input; a size without a name is its own symbol, ``input.axis``."""
        return self._type(name, type_, self.declared)

    def of_opaque(self, name: str, type_: onnx.TypeProto | None, *, trusted: bool) -> TensorType:
        """Type of an opaque node's output; its sizes are kept only when ``trusted``, else all are fresh."""
        if type_ is None:
            return NO_TYPE

        def known(dim: str) -> Size | None:
            return symbol(dim) if trusted and dim in self.named else None

        return self._type(name, type_ if trusted else without_sizes(type_), known)

    def _type(self, name: str, type_: onnx.TypeProto, known: Callable[[str], Size | None]) -> TensorType:
        if not type_.HasField("tensor_type") or not type_.tensor_type.elem_type:
            return NO_TYPE
        dtype = dtype_name(ir.DataType(type_.tensor_type.elem_type))
        if not type_.tensor_type.HasField("shape"):
            return TensorType(dtype, None)
        sizes: list[Size] = []
        for axis, dim in enumerate(type_.tensor_type.shape.dim):
            size = known(size_name(dim)) if size_name(dim) else None
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                size = dim.dim_value
            sizes.append(self.fresh(f"{name}.{axis}") if size is None else size)
        return TensorType(dtype, tuple(sizes))

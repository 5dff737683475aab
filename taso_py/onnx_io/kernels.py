"""Which operands a node may have: of types that ONNX allows at an opset, and that ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from taso_py.graph.types import INTEGERS, TensorType
from taso_py.ops.operator import Given, Writing

_DOUBLE = frozenset({"float64"})
_SHORT = frozenset({"int16", "uint16"})
_UNSIGNED = frozenset({"uint32", "uint64"})
_BLOCKS = INTEGERS - {"int8", "uint8"} | {"bool"}
_LACKING: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "Mean"), _DOUBLE),
    **dict.fromkeys(("Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu"), _DOUBLE),
    **dict.fromkeys(("PRelu", "Softplus", "Softsign"), _DOUBLE),
    **dict.fromkeys(("Max", "Min", "Pad"), _SHORT),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _UNSIGNED),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _BLOCKS),
    **dict.fromkeys(("Resize", "Upsample"), (INTEGERS - {"int8", "uint8", "int32"}) | {"float64", "bool"}),
    "Gemm": frozenset({"int32", "int64", "uint32", "uint64"}),
    "Relu": frozenset({"int16", "int64"}),
    "Where": _SHORT | {"uint64", "bool"},
}
"""By the operator, element types of its data for which the CPU provider of ONNX Runtime has no kernel in some version.

Other providers hand such nodes to it, or have no kernel either.
"""
_NEED_ELEMENTS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
"""Operators whose kernels refuse tensors without elements when they run."""


def computable(writing: Writing, opset: int, types: Sequence[TensorType]) -> bool:
    """Whether a node that is written so, of operands of these types, is one that ONNX Runtime has a kernel for."""
    if writing.op_type in _NEED_ELEMENTS and any(isinstance(size, int) and size == 0 for size in types[0].dims):
        return False
    places = tuple((k, types[w.operand].dtype) for k, w in enumerate(writing.inputs) if isinstance(w, Given))
    return _computable(writing.op_type, opset, places)


@lru_cache(maxsize=4096)
def _computable(op_type: str, opset: int, places: tuple[tuple[int, str], ...]) -> bool:
    import onnx.defs  # which a look at rules on record never needs

    data = [dtype for k, dtype in places if k == (1 if op_type == "Where" else 0)]
    if not _LACKING.get(op_type, frozenset()).isdisjoint(data):
        return False
    if not onnx.defs.has(op_type, opset, ""):
        return True
    formals = onnx.defs.get_schema(op_type, opset, "").inputs
    # The last of many operands stands for all that follow.
    return all(_text(dtype) in formals[min(k, len(formals) - 1)].types for k, dtype in places)


def _text(dtype: str) -> str:
    """An element type as schemas write it."""
    from taso_py.onnx_io.onnx_types import onnx_dtype

    return f"tensor({onnx_dtype(dtype).name.lower()})"

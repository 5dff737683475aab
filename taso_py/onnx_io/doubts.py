"""Nodes of which ONNX's inference may say other sizes than ONNX Runtime gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from taso_py.arrays import Array
from taso_py.onnx_io.read import DEFAULT_DOMAINS, UNREADABLE

Dims: TypeAlias = Sequence[int | str | None]
"""Sizes of a tensor: a number, a name, or unknown."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the values of a graph: types as inferred or given, and what small initializers hold."""

    types: Mapping[str, onnx.TypeProto]
    constants: Mapping[str, onnx.TensorProto]

    def dims(self, name: str) -> Dims | None:
        """The sizes of a tensor; None where not even their number is known."""
        if name in self.constants:
            return list(self.constants[name].dims)
        tensor = self.types[name].tensor_type if name in self.types else None
        if tensor is None or not tensor.HasField("shape"):
            return None
        return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]

    def array(self, name: str) -> Array | None:
        """What a constant holds; None where that lies elsewhere, or is not what its type and sizes say."""
        tensor = self.constants.get(name)
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        try:
            return numpy_helper.to_array(tensor)
        except UNREADABLE:
            return None


def doubted(node: onnx.NodeProto, facts: Facts) -> bool:
    """Whether the sizes that are inferred for a node, of true facts about its operands, may be others than its own.

    What subgraphs and functions state of the values in them is believed by the inference, and by nobody else.
    """
    if node.domain not in DEFAULT_DOMAINS or any(a.HasField("g") or a.graphs for a in node.attribute):
        return True
    doubt = _DOUBTS.get(node.op_type)
    return doubt is not None and doubt(node, facts)


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    return next((a for a in node.attribute if a.name == name), onnx.AttributeProto())


def _slices_back(node: onnx.NodeProto, facts: Facts) -> bool:
    """With a negative step to the greatest number nothing is left, says ONNX; everything, says ONNX Runtime."""
    if len(node.input) < 5 or not node.input[4]:
        return False
    steps = facts.array(node.input[4])
    return steps is None or bool(np.any(steps < 0))


def _dilates(node: onnx.NodeProto, _facts: Facts) -> bool:
    """ONNX Runtime leaves dilations aside where it pads to keep the size."""
    pads = _attribute(node, "auto_pad").s
    return pads.startswith(b"SAME") and any(d != 1 for d in _attribute(node, "dilations").ints)


def _counts_from_the_last(node: onnx.NodeProto, _facts: Facts) -> bool:
    """ONNX's inference does not find negative axes of Resize."""
    return any(axis < 0 for axis in _attribute(node, "axes").ints)


def _enlarges(node: onnx.NodeProto, facts: Facts) -> bool:
    """Whether the slope may be larger than what it is for: ONNX Runtime broadcasts both."""
    x, slope = map(facts.dims, node.input[:2])
    if x is None or slope is None or len(slope) > len(x):
        return True
    behind = x[len(x) - len(slope) :]
    return any(b != 1 and (b is None or a != b) for a, b in zip(behind, slope, strict=True))


def _is_scalar(node: onnx.NodeProto, facts: Facts) -> bool:
    """Of a scalar NonZero gives no row, says ONNX; one, says ONNX Runtime."""
    return not facts.dims(node.input[0])


def _broadcasts(node: onnx.NodeProto, facts: Facts) -> bool:
    """Whether a label of Einsum may be of size 1 in one operand and of another size in the next."""
    labels: dict[str, list[int | str | None]] = {}
    terms = _attribute(node, "equation").s.decode(errors="replace").replace(" ", "").split("->")[0].split(",")
    for term, name in zip(terms, node.input, strict=False):
        dims = facts.dims(name)
        if dims is None or "." in term or len(dims) != len(term):
            return True
        for label, size in zip(term, dims, strict=True):
            labels.setdefault(label, []).append(size)
    return any(map(_may_differ, labels.values()))


def _may_differ(sizes: Sequence[int | str | None]) -> bool:
    known = {size for size in sizes if size is not None}
    if len(known) > 1:
        return True
    # A size of 5 is that of the result, whatever is unknown beside it; one of 1, or of a symbol, may not be.
    return None in sizes and any(not isinstance(size, int) or size == 1 for size in known)


_DOUBTS: Mapping[str, Callable[[onnx.NodeProto, Facts], bool]] = {
    "AveragePool": _dilates,
    "Einsum": _broadcasts,
    "LpPool": _dilates,
    "MaxPool": _dilates,
    "NonZero": _is_scalar,
    "PRelu": _enlarges,
    "Resize": _counts_from_the_last,
    "Slice": _slices_back,
}

"""Nodes of which ONNX's inference may say other sizes than ONNX Runtime gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from taso_py.arrays import Array
from taso_py.onnx_io.onnx_types import size_name
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
        return [d.dim_value if d.HasField("dim_value") else size_name(d) or None for d in tensor.shape.dim]

    def element(self, name: str) -> int | None:
        """The element type of a tensor; None where that is not known."""
        if name in self.constants:
            return self.constants[name].data_type
        type_ = self.types.get(name)
        return None if type_ is None or not type_.HasField("tensor_type") else type_.tensor_type.elem_type

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


def miscounted(node: onnx.NodeProto, facts: Facts) -> bool:
    """Whether the numbers that a node computes may be others than the inference follows.

    It takes them all for int64: it hands sizes through any Cast as they are, and adds and multiplies what wraps
    elsewhere.  It takes a matrix for a list as well, of which row 1 is the second number, and a start of Slice that it
    does not know for 0.
    """
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in _FOLLOWED:
        return False
    if not node.input or not node.output:
        return False
    given, made = facts.dims(node.input[0]), facts.dims(node.output[0])
    if node.op_type in _COUNTED:
        types = {facts.element(name) for name in (*node.input, *node.output) if name}
        return _is_list(made) and bool(types - {onnx.TensorProto.INT64}) and not types <= _FLOATS
    if facts.element(node.input[0]) in _FLOATS:
        return False
    if node.op_type == "Slice" and any(name and name not in facts.constants for name in node.input[1:]):
        return _is_list(made)
    return _is_list(given) and (made is None or not _is_list(made))


def _is_list(dims: Dims | None) -> bool:
    """Whether the inference may follow the numbers of a tensor: of no matrix, unless one is made of a list."""
    return dims is None or len(dims) < 2


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    return next((a for a in node.attribute if a.name == name), onnx.AttributeProto())


def _slices_back(node: onnx.NodeProto, facts: Facts) -> bool:
    """With a negative step to the greatest number nothing is left, says ONNX; everything, says ONNX Runtime."""
    if len(node.input) < 5 or not node.input[4]:
        return False
    steps = facts.array(node.input[4])
    return steps is None or bool(np.any(steps < 0))


def _slides_further(node: onnx.NodeProto, facts: Facts) -> bool:
    """Where a mode says how to pad ONNX Runtime leaves the pads aside; where it is to keep the size, dilations too.

    No window begins behind what it pads.
    """
    mode = _attribute(node, "auto_pad").s
    if mode not in (b"", b"NOTSET") and _attribute(node, "pads").ints:
        return True
    if mode.startswith(b"SAME") and any(d != 1 for d in _attribute(node, "dilations").ints):
        return True
    dims = facts.dims(node.input[0])
    return bool(_attribute(node, "ceil_mode").i) and dims is not None and _begins_behind(node, dims[2:])


def _begins_behind(node: onnx.NodeProto, dims: Dims) -> bool:
    """Whether the last window of some axis, rounded up, may begin behind it."""
    kernel = list(_attribute(node, "kernel_shape").ints)
    strides = list(_attribute(node, "strides").ints) or [1] * len(kernel)
    dilations = list(_attribute(node, "dilations").ints) or [1] * len(kernel)
    pads = list(_attribute(node, "pads").ints) or [0] * (2 * len(kernel))
    if not len(kernel) == len(dims) == len(strides) == len(dilations) == len(pads) // 2 or min(strides, default=1) < 1:
        return True
    for k, dim in enumerate(dims):
        if isinstance(dim, int):
            room = dim + pads[k] + pads[k + len(kernel)] - (kernel[k] - 1) * dilations[k] - 1
            if -(-room // strides[k]) * strides[k] >= dim + pads[k]:
                return True
    return False


def _rounds_a_size(node: onnx.NodeProto, facts: Facts) -> bool:
    """ONNX's inference does not find negative axes of Resize, and computes sizes in more than float32."""
    if _attribute(node, "axes").ints or _attribute(node, "keep_aspect_ratio_policy").s not in (b"", b"stretch"):
        return True
    written, name = _attribute(node, "scales").floats, node.input[min(2, len(node.input) - 1)]
    scales = np.array(written, np.float32) if len(node.input) == 1 else facts.array(name)
    dims = facts.dims(node.input[0])
    if scales is None or scales.dtype.kind != "f" or dims is None:
        return False
    if scales.size != len(dims):
        return False
    known = [(d, s) for d, s in zip(dims, scales.ravel(), strict=True) if isinstance(d, int)]
    with np.errstate(all="ignore"):  # a scale may be no number
        return any(np.floor(np.float32(d) * np.float32(s)) != np.floor(np.float64(d) * np.float64(s)) for d, s in known)


def _adds_where_it_pads(node: onnx.NodeProto, _facts: Facts) -> bool:
    """Where ConvTranspose is to keep the size, ONNX's inference forgets what is to be added to it."""
    return bool(_attribute(node, "auto_pad").s.startswith(b"SAME")) or bool(_attribute(node, "output_shape").ints)


def _drops_no_axis(node: onnx.NodeProto, facts: Facts) -> bool:
    """Of axes that are given and none ONNX's inference drops none, ONNX Runtime all of size 1."""
    if len(node.input) > 1 and node.input[1]:
        axes = facts.array(node.input[1])
        return axes is None or axes.size == 0
    return any(a.name == "axes" and not a.ints for a in node.attribute)


def _drops_the_axis(node: onnx.NodeProto, _facts: Facts) -> bool:
    """Lengths that are given keep the axis, says ONNX; ONNX Runtime drops it where it is told to."""
    return len(node.input) > 1 and bool(node.input[1]) and any(a.name == "keepdims" and not a.i for a in node.attribute)


def _has_a_free_size(node: onnx.NodeProto, facts: Facts) -> bool:
    """ONNX's inference of Attention takes a size that is not a number for 0."""
    dims = [facts.dims(name) for name in node.input if name]
    return any(found is None or not all(isinstance(size, int) for size in found) for found in dims)


def _is_of_other_length(node: onnx.NodeProto, facts: Facts) -> bool:
    """Where a length is computed, the name of the signal's own is left to the result of DFT."""
    return len(node.input) > 1 and bool(node.input[1]) and facts.array(node.input[1]) is None


def _is_one_sided(node: onnx.NodeProto, _facts: Facts) -> bool:
    """ONNX's inference takes `onesided` for 0 where it is not written."""
    return not any(a.name == "onesided" for a in node.attribute)


def _wraps(node: onnx.NodeProto, facts: Facts) -> bool:
    """Whether the ends of a Range of integers may be further apart than their type tells."""
    ends = [facts.array(name) for name in node.input[:2]]
    known = [(int(e.ravel()[0]), e.itemsize) for e in ends if e is not None and e.dtype.kind in "iu" and e.size == 1]
    return len(known) == 2 and abs(known[1][0] - known[0][0]) >= 2 ** (8 * known[0][1] - 1)


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
    "Attention": _has_a_free_size,
    "AveragePool": _slides_further,
    "ConvTranspose": _adds_where_it_pads,
    "DFT": _is_of_other_length,
    "Einsum": _broadcasts,
    "LpPool": _slides_further,
    "MaxPool": _slides_further,
    "NonZero": _is_scalar,
    "PRelu": _enlarges,
    "Range": _wraps,
    "Resize": _rounds_a_size,
    "STFT": _is_one_sided,
    "Slice": _slices_back,
    "SplitToSequence": _drops_the_axis,
    "Squeeze": _drops_no_axis,
    "Upsample": _rounds_a_size,
}
_COUNTED = frozenset({"Add", "Cast", "Div", "Mul", "Sub"})
"""Operators of numbers that the inference follows as far as they are sizes."""
_FOLLOWED = _COUNTED | {"Concat", "Gather", "Slice", "Unsqueeze"}
"""All whose numbers it follows to others, or to a matrix."""
_FLOATS = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
)
"""It follows no floats."""
UNRANKED = frozenset({"SplitToSequence", "Squeeze"})
"""Operators of which, where they are doubted, not even the number of axes is known."""

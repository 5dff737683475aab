"""What ONNX Runtime's fusion of Pad with what reads it gets wrong, and no rewrite may therefore make.

It takes zeros around a tensor for the padding of a convolution or a pool.  A MaxPool pads with -inf, an AveragePool may
not count what it pads with, neither pads with as much as its kernel is wide, and a Conv's weights are no input that it
pads (`onnxruntime/core/optimizer/pad_fusion.cc`; 1.31.1 computes other values, or does not load the model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taso_py.graph.table import Node
from taso_py.ops.convolution import Conv
from taso_py.ops.padding import Pad
from taso_py.ops.pool import AveragePool, MaxPool
from taso_py.search.view import View


def meets_wrong_fusion(view: View, outputs: Iterable[tuple[int, int]], built: Mapping[int, Node]) -> bool:
    """Whether a Pad and what it must not be fused with meet where they did not before.

    ``outputs`` pairs what a match replaces with what takes its place, ``built`` are the new nodes.
    """
    for node in built.values():
        if any(i is not None and _is_fused(view, built, i) and _is_wrong(node, k) for k, i in enumerate(node.inputs)):
            return True
    for output, value in outputs:
        if _is_fused(view, built, value):
            readers = (view.table.nodes.get(user) for user in view.users.get(output, {}))
            if any(_is_wrong(r, k) for r in readers if r is not None for k, i in enumerate(r.inputs) if i == output):
                return True
    return False


def _is_fused(view: View, built: Mapping[int, Node], value: int) -> bool:
    """Whether a value is a tensor with zeros around its spatial axes, made when the model runs."""
    node = built.get(value) or view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Pad) or value in view.values.constant:
        return False
    pad = node.operator
    half = len(pad.pads) // 2
    apart = (*pad.pads[:2], *pad.pads[half : half + 2])
    return pad.mode == "constant" and pad.value == 0 and all(isinstance(size, int) and size == 0 for size in apart)


def _is_wrong(node: Node, position: int) -> bool:
    if isinstance(node.operator, Conv):
        return position > 0
    return isinstance(node.operator, (MaxPool, AveragePool))

"""What ONNX Runtime's fusions get wrong (1.31.1), and no rewrite may therefore make.

`pad_fusion.cc` takes zeros around a tensor for the padding of a pool that reads it.  A MaxPool pads with -inf, an
AveragePool may not count what it pads with, and neither pads with as much as its kernel is wide: other values, or a
model that does not load.

`conv_add_act_fusion.cc` makes a sum of two convolutions one node, whose other operand is the one and whose place the
other's; where that is a result of the graph, nothing computes it any more: the model does not load, and within a
branch the result is whatever the memory holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TypeAlias

from taso_py.graph.table import Node, Opaque
from taso_py.ops.convolution import Conv
from taso_py.ops.elementwise import Add
from taso_py.ops.padding import Pad
from taso_py.ops.pool import AveragePool, MaxPool
from taso_py.search.view import View

_Producer: TypeAlias = Callable[[int | None], Node | None]


def meets_wrong_fusion(view: View, outputs: Iterable[tuple[int, int]], built: Mapping[int, Node]) -> bool:
    """Whether nodes meet that would be fused wrongly.

    ``outputs`` pairs what a match replaces with what takes its place, ``built`` are the new nodes.
    """
    placed = dict(outputs)

    def producer(value: int | None) -> Node | None:
        """What computes a value after the rewrite, when the model runs."""
        if value is None:
            return None
        now = placed.get(value, value)
        if now in view.values.constant:
            return None
        return built.get(now) or view.table.nodes.get(now) or view.inner.get(now)

    users = (view.table.nodes.get(user) for output in placed for user in view.users.get(output, {}))
    readers = [*built.values(), *(node for node in users if node is not None)]
    replacing = {value for output, value in placed.items() if _is_result(view, output)}
    return any(_pads(node, producer) or _loses_result(view, node, producer, replacing) for node in readers)


def _pads(node: Node, producer: _Producer) -> bool:
    """Whether this is a pool, and a Pad of spatial axes with zeros is fused with it."""
    return isinstance(node.operator, (MaxPool, AveragePool)) and _is_fused(producer(node.inputs[0]))


def _is_fused(node: Node | None) -> bool:
    if node is None or not isinstance(node.operator, Pad):
        return False
    pad = node.operator
    half = len(pad.pads) // 2
    apart = (*pad.pads[:2], *pad.pads[half : half + 2])
    return pad.mode == "constant" and pad.value == 0 and all(isinstance(size, int) and size == 0 for size in apart)


def _loses_result(view: View, node: Node, producer: _Producer, replacing: Set[int]) -> bool:
    """Whether a sum of convolutions takes one that is a result of the model or a branch, or is ``replacing`` one."""
    if not isinstance(node.operator, Add):
        return False
    if not any(value is not None and (value in replacing or _is_result(view, value)) for value in node.inputs):
        return False
    operands = (producer(value) for value in node.inputs)
    return all(operand is not None and isinstance(operand.operator, Conv) for operand in operands)


def _is_result(view: View, value: int) -> bool:
    readers = (view.table.nodes.get(user) for user in view.users.get(value, {}))
    return value in view.table.roots or any(r is not None and _is_if(r) for r in readers)


def _is_if(node: Node) -> bool:
    return isinstance(node.operator, Opaque) and node.operator.onnx == "If"

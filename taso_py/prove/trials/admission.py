"""Which instances a match would admit, and what computing one costs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.table import Node
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.algebra import algebra
from taso_py.rules.element_types import indexing
from taso_py.rules.instances import Instance

_TAME = 1e30
_LARGEST = 4096
"""Most elements of any tensor of an instance."""
_NODE, _WINDOW = 0.5, 0.25
"""What computing a node costs, and one place of a window, in draws."""
FAILED = (TypingError, LookupError, ValueError, ArithmeticError, TypeError)
"""What computing an instance may raise."""


def admitted(instance: Instance) -> bool:
    """Whether a match would allow these element types and constants.

    Moves hold for any type, ring laws for floats and integers, all others for floats; outside moves no constant is
    infinite or as good as.
    """
    types = instance.values.types
    if not all(_accepts(node, types) for node in instance.nodes.values()):
        return False
    kinds = set()
    for node in instance.nodes.values():
        try:
            kinds.add(algebra(node.operator, tuple(types[i] for i in node.inputs if i is not None)))
        except FAILED:
            return False
    if kinds <= {"move"}:
        return True
    allowed = (FLOATS if "real" in kinds else FLOATS | INTEGERS) | {"bool"}
    tensors = instance.binding.tensors
    indices = {tensors[name] for name in indexing(instance.rule) if name in tensors}
    leaves = {**instance.feeds, **instance.weights}.keys() - indices
    if any(types[v].dtype not in allowed for v in (*leaves, *instance.left)):
        return False
    given = tensors.values()
    bound = [a.astype(np.float64) for v, a in instance.weights.items() if v in given and a.dtype.kind == "f"]
    return all(np.all(np.isfinite(a)) and np.all(np.abs(a) <= _TAME) for a in bound)


def _accepts(node: Node, types: Mapping[int, TensorType]) -> bool:
    """Whether the operator has a meaning for these element types; in a graph it would be opaque otherwise."""
    operands = [types[i].dtype for i in node.inputs if i is not None]
    return node.operator.dtypes is None or not operands or operands[0] in node.operator.dtypes


def small(instance: Instance) -> bool:
    types = instance.values.types
    placed = (*instance.nodes, *instance.feeds, *instance.weights)
    return all(isinstance(n := types[v].elements, int) and n <= _LARGEST for v in placed)


def cost(instance: Instance) -> float:
    """What computing an instance costs, in draws."""
    types = instance.values.types
    whole = 0.0
    for node in instance.nodes.values():
        window = getattr(node.operator, "kernel_shape", None) or ()
        if node.operator.onnx in ("Conv", "ConvTranspose"):
            window = types[node.inputs[1] or 0].dims[1:]
        whole += _NODE + (_WINDOW * math.prod(window) if window else 0)
    return whole

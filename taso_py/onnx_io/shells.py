"""If nodes whose branches were lifted: of these only what gives the results their names is left."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from taso_py.graph.types import TensorType
from taso_py.onnx_io.branches import BRANCHES
from taso_py.onnx_io.structure import name_of


def branches_in(node: ir.Node) -> dict[str, ir.Graph]:
    """The branches of an If by the names of its attributes; of any other node: none."""
    if node.op_type != "If" or node.domain:
        return {}
    return {name: node.attributes[name].as_graph() for name in BRANCHES if name in node.attributes}


def names_only(branch: ir.Graph) -> bool:
    """Whether a branch only gives values names."""
    return not branch.initializers and all(node.op_type == "Identity" and not node.domain for node in branch)


def shells(node: ir.Node) -> dict[str, ir.Graph]:
    """The branches of an If that was lifted; of any other node: none."""
    found = branches_in(node)
    return found if len(found) == len(BRANCHES) and all(map(names_only, found.values())) else {}


def sources(node: ir.Node, port: int) -> list[str]:
    """The values that may become a result of an If that was lifted, by their names; of any other node: none."""
    makers = [branch.outputs[port].producer() for branch in shells(node).values() if port < len(branch.outputs)]
    values = [None if maker is None else maker.inputs[0] for maker in makers]
    return [name_of(value) for value in values if value is not None] if None not in values else []


def one_of(types: Sequence[TensorType], free: TensorType) -> TensorType:
    """The type of what is one of several values; where these differ in a size or all else, that is as in ``free``."""
    first, *others = types
    if first.shape is None or any(t.shape is None or (t.dtype, t.rank) != (first.dtype, first.rank) for t in others):
        return free
    if all(t == first for t in others):
        return first
    if free.shape is None or free.rank != first.rank:
        return free
    sizes = zip(first.dims, free.dims, *(t.dims for t in others), strict=True)
    return TensorType(first.dtype, tuple(a if all(a == o for o in more) else b for a, b, *more in sizes))

"""Cuts that cover a tensor exactly become one Split: ``Split(x, split=[..], output=k) = Slice(x, k-th part)``."""

from __future__ import annotations

from collections.abc import Iterable

from taso_py.graph.model import Node
from taso_py.ops.layout import Split
from taso_py.ops.slicing import Slice
from taso_py.search.rewriter import Rewrite
from taso_py.search.view import View


def split_of_slices(view: View, value: int) -> Rewrite | None:
    """If the slices of one tensor along one axis are its consecutive parts, the outputs of one Split in their place."""
    model = view.model
    node = model.nodes.get(value)
    if node is None or not isinstance(node.operator, Slice) or len(node.operator.axes) != 1:
        return None
    (source,) = node.inputs
    (axis,) = node.operator.axes
    parts: dict[tuple[int, int], list[int]] = {}
    for user in view.users.get(source if source is not None else -1, ()):
        part = _part(model.nodes.get(user), axis)
        if part is not None:
            parts.setdefault(part, []).append(user)
    extent = model.type(source).dims[axis] if source is not None else 0
    ordered = sorted(parts)
    if len(ordered) < 2 or not _covers(ordered, extent):
        return None
    sizes = tuple(end - start for start, end in ordered)
    new = {
        user: Node(Split(axis=axis, split=sizes, output=k), (source,))
        for k, part in enumerate(ordered)
        for user in parts[part]
    }
    return Rewrite(model.rebind(new), frozenset(new), "split-slices", tuple(new))


def _part(node: Node | None, axis: int) -> tuple[int, int] | None:
    if node is None or not isinstance(node.operator, Slice) or node.operator.axes != (axis,):
        return None
    start, end, step = node.operator.starts[0], node.operator.ends[0], node.operator.steps[0]
    if not (isinstance(start, int) and isinstance(end, int) and step == 1):
        return None
    return start, end


def _covers(parts: Iterable[tuple[int, int]], extent: object) -> bool:
    at = 0
    for start, end in parts:
        if start != at:
            return False
        at = end
    return at == extent

"""Small helpers shared by the operators' `read` and `write`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops.operator import OnnxCall, normal_axis


def first_operand(call: OnnxCall, *allowed: str) -> TensorType | None:
    """Type of input 0 when its rank is known and every attribute is one of ``allowed``."""
    if not set(call.attributes) <= set(allowed) or not call.present(0):
        return None
    first = call.inputs[0]
    return first if first is not None and first.known else None


def integers(value: Any) -> tuple[int, ...]:
    """An integer list attribute; () when it is absent."""
    return () if value is None else tuple(int(v) for v in value)


def text(value: Any) -> str:
    """A string attribute, which ONNX stores as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def normal_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in the given order; a repeated one is a `TypingError`."""
    found = tuple(normal_axis(a, rank) for a in axes)
    if len(set(found)) != len(found):
        raise TypingError(f"axes {found} repeat")
    return found


def concrete(sizes: Sequence[Size]) -> tuple[int, ...] | None:
    """The sizes when none of them is symbolic."""
    found = tuple(s for s in sizes if isinstance(s, int))
    return found if len(found) == len(sizes) else None


def axis_list(call: OnnxCall, *, since: int, position: int) -> tuple[int, ...] | None:
    """The axes of an operator that took an attribute before opset ``since`` and takes an input from it on.

    () when they are absent; None when they are not known or given but empty, which runtimes read differently.
    """
    if call.opset < since:
        if call.present(position):
            return None
        given = call.attributes.get("axes")
        return () if given is None else integers(given) or None
    if "axes" in call.attributes:
        return None
    if not call.present(position):
        return ()
    found = call.integers(position)
    return concrete(found) or None if found is not None else None

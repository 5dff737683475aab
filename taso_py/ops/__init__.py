"""The operators: one class each, one file per family; `OPERATORS` finds a class by its ONNX type."""

from __future__ import annotations

from types import ModuleType

from taso_py.ops import (
    activations,
    comparison,
    constants,
    convolution,
    einsum,
    elementwise,
    expand,
    gather,
    layout,
    linear,
    normalization,
    padding,
    pool,
    reduce,
    reshape,
    resize,
    rows,
    slicing,
    space,
)
from taso_py.ops.operator import Operator

FAMILIES: tuple[ModuleType, ...] = (
    elementwise,
    activations,
    comparison,
    linear,
    einsum,
    reduce,
    normalization,
    convolution,
    pool,
    layout,
    slicing,
    padding,
    reshape,
    expand,
    gather,
    rows,
    resize,
    space,
    constants,
)


def _classes(module: ModuleType) -> list[type[Operator]]:
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Operator)]
    own = [c for c in found if c.onnx and c.__module__ == module.__name__]
    for c in own:
        if c.lacks():
            raise TypeError(f"the operator {c.__module__}.{c.__name__} {c.lacks()}")
    return own


OPERATORS: dict[str, type[Operator]] = {
    name: c for family in FAMILIES for c in _classes(family) for name in (c.onnx, *c.aliases)
}

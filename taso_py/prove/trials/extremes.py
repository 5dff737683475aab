"""Menus of what is easily forgotten: many axes, equal sizes, sizes 0 and 1, odd attributes, zeros and extremes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.types import FLOATS, INTEGERS
from taso_py.ops.operator import Operator
from taso_py.prove.trials.dtypes import MENU
from taso_py.rules.menus import Menus, Shape
from taso_py.rules.term import Predicate

_RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6)
_WIDE, _NARROW = (1, 2, 3, 4, 5), (1, 2, 2, 3)
"""Sizes of tensors of few axes, and of many."""
_REALS = tuple(float(np.float32(v)) for v in (0.25, 0.3, 0.5, 1, 1.5, 2, 2.7, 0, -0.3, -0.5, -1, -2.5, 1e-3, 7))
"""Real attributes, which ONNX keeps as float32."""
_SCALARS: Mapping[str, Sequence[Any]] = {
    "group": (1, 1, 2, 3, 4, 6), "blocksize": (2, 2, 3, 4, 1), "size": (1, 2, 3, 4, 0),
    "exponent": (2.0, 3.0, 1.0, 0.0, 0.5, -1.0, -2.0, 1.5, 4.0),
    "epsilon": (float(np.float32(1e-5)), float(np.float32(1e-3)), 0.125, 1.0, 0.0),
    **dict.fromkeys(("alpha", "beta", "gamma", "min", "max", "value"), _REALS), "to": MENU,
}  # fmt: skip
_SMALL = np.array([0.0, 0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
_DYADIC = np.arange(-32, 33) / 4
_TINY = np.array([0.0, 1e-30, -1e-30, 2.0**-20, 1.0, -1.0, 0.5, -3.0])
_LARGE = np.array([0.0, 1e30, -1e30, 1000.0, -1000.0, 2.0**20, -7.0, 5.0, 0.5, 1.0, -1.0])


@dataclass(slots=True)
class Extremes(Menus):
    """One draw's choices; ``marks`` are the numbers that the rule mentions, around which its functions may bend."""

    marks: tuple[float, ...] = ()
    uniform: int = 0
    """The one size of a draw in which all sizes are equal: mistaken axes then keep the types; 0: there is none."""
    usual: bool = False
    """Whether attributes come from the usual menus: rules with many conditions are met too seldom by odd ones."""

    def __post_init__(self) -> None:
        super(Extremes, self).__post_init__()
        self.usual = self.random.random() < 0.25
        style = self.random.random()
        if style < 0.25:
            self.uniform = self._pick((1, 2, 2, 3))
            self.pool = [self.uniform] * 12
        elif style < 0.45:
            self.pool = [self._pick((1, 1, 2, 2, 3, 4)) for _ in range(12)]
        elif style < 0.6:
            self.pool = [self._pick((0, 1, 2, 3)) for _ in range(12)]
        self.common = self._several_sizes(self._pick(_RANKS))
        self.spatial = self._pick((1, 2, 2, 3))

    def _several_sizes(self, rank: int) -> tuple[int, ...]:
        if self.uniform:
            return (self.uniform,) * rank
        menu = _WIDE if rank < 4 else _NARROW
        if self.random.random() < 0.2:
            return (self._pick(menu),) * rank
        return tuple(0 if self.random.random() < 0.02 else self._pick(menu) for _ in range(rank))

    def block(self) -> Shape:
        """Axes of their own, or some of those that other tensors have."""
        if self.random.random() < 0.5:
            start = int(self.random.integers(0, len(self.common) + 1))
            return tuple(d if self.random.random() < 0.8 else 1 for d in self.common[start:])
        return self._several_sizes(self._pick(_RANKS))

    def operand(
        self, operator: type[Operator], k: int, known: Sequence[Shape | None], given: Mapping[str, Any]
    ) -> Shape:
        """As of `Menus`, with channels for several depth-to-space in a row."""
        if operator.onnx in ("DepthToSpace", "SpaceToDepth"):
            b = given.get("blocksize", 2)
            channels = self._pick((1, 2, 4, 4, 8, 9)) * b * b
            return (self._pick((1, 2)), channels, b * self._pick((1, 2, 4, 3)), b * self._pick((1, 2, 4, 3)))
        return super(Extremes, self).operand(operator, k, known, given)

    # ---- attributes ----------------------------------------------------------------------------------------------

    def _whole(
        self,
        op: str,
        name: str,
        rank: int,
        shapes: Sequence[Shape],
        known: Mapping[str, Any],
        entries: Sequence[Any] | None,
    ) -> Any:
        spatial = max(rank - 2, 0)
        if self.usual:
            return super(Extremes, self)._whole(op, name, rank, shapes, known, entries)
        lists: Mapping[str, Callable[[], Any]] = {
            "strides": lambda: self._several((1, 1, 2, 3, 4), spatial),
            "dilations": lambda: self._several((1, 1, 1, 2, 3), spatial),
            "kernel_shape": lambda: self._several((1, 2, 3, 4, 5), spatial),
            "perm": lambda: self._order(rank),
            "axis": lambda: self._axis(rank),
            "steps": lambda: self._several((1, 1, 2, 3, 4), len(known.get("axes") or ())),
            "indices": lambda: self._indices(rank, shapes, known),
        }
        found = lists[name]() if name in lists else None
        return super(Extremes, self)._whole(op, name, rank, shapes, known, entries) if found is None else found

    def _axis(self, rank: int) -> int:
        """Often the last one."""
        return max(rank, 1) - 1 if self.random.random() < 0.4 else int(self.random.integers(max(rank, 1)))

    def _order(self, rank: int) -> tuple[int, ...]:
        """A permutation: any, or a cycle of some of the last axes."""
        order = [int(a) for a in self.random.permutation(rank)]
        if self.random.random() < 0.5 and rank >= 2:
            length = int(self.random.integers(2, rank + 1))
            head, tail = list(range(rank - length)), list(range(rank - length, rank))
            order = [*head, *tail[1:], tail[0]]
        return tuple(order)

    def _indices(self, rank: int, shapes: Sequence[Shape], known: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Now and then a permutation of all indices."""
        axis, shape = known.get("axis"), known.get("indices_shape")
        if not isinstance(axis, int) or axis >= rank or self.random.random() < 0.5:
            return None
        dim = shapes[0][axis]
        return self._order(dim) if shape is None or shape == (dim,) else None

    def _pads(self, op: str, rank: int, shapes: Sequence[Shape], known: Mapping[str, Any]) -> tuple[int, ...]:
        if op == "Pad":
            return self._several((0, 0, 1, 2, -1, 3), 2 * rank)
        if self.random.random() < 0.2:
            return self._several((0, 1, 2, 3), 2 * max(rank - 2, 0))
        return super(Extremes, self)._pads(op, rank, shapes, known)

    def _scalar(self, name: str) -> Any:
        return (
            self._pick(_SCALARS[name]) if name in _SCALARS and not self.usual else super(Extremes, self)._scalar(name)
        )

    # ---- arrays --------------------------------------------------------------------------------------------------

    def array(self, kind: str, shape: Shape, dtype: str) -> Array:
        """Zeros, equal, tiny, large and small whole values, near the rule's own numbers; mostly few distinct ones."""
        if dtype == "bool":
            return np.asarray(self.random.random(shape) < self._pick((0.5, 0.5, 0.1, 0.9)))
        menu = self._menu(dtype)
        if kind == "positive" and self.random.random() < 0.6:
            menu = np.abs(menu)
        if kind and self.random.random() < 0.3:
            menu = menu[menu != 0]
        return np.asarray(self.random.choice(menu, shape))

    def _menu(self, dtype: str) -> Array:
        if dtype in INTEGERS:
            return self._integers(np.iinfo(dtype))
        if self.random.random() < (0.4 if dtype == "float64" else 0.1):
            return np.asarray(self.random.standard_normal(8))
        style = self.random.random()
        if style < 0.3:
            menu = _SMALL
        elif style < 0.6:
            menu = _DYADIC
        elif style < 0.7:
            menu = self.random.choice(_DYADIC, 2)
        elif style < 0.85:
            menu = _TINY
        elif style < 0.93 and dtype != "float16":
            menu = _LARGE
        else:
            menu = np.array([m + d for m in (*self.marks, 0.0) for d in (0.0, 1.0, -1.0, 0.25, -5.0, 10.0)])
            menu = np.concatenate([menu, -menu])
        limit = 1e30 if dtype not in FLOATS or dtype == "float64" else float(np.finfo(dtype).max)
        return np.asarray(np.clip(menu, -limit, limit))

    def _integers(self, limits: np.iinfo[Any]) -> Array:
        """Small ones, the ends of the range, and for 64 bits what no float64 holds."""
        known = [0, 0, 1, 2, 3, 5, -1, -2, -3]
        if self.random.random() < 0.4:
            known += [limits.max, limits.min, limits.max // 2, 2**53 + 1, 2**31, 2**16]
        kept = [k for k in known if limits.min <= k <= limits.max]
        return np.array(kept, dtype=limits.dtype)

    def passing(self, predicate: Predicate, array: Array) -> Array:
        """The drawn values bent until they satisfy the predicate, in unusual ways too."""
        match predicate.kind:
            case "positive":
                return np.where(array == 0, self._one_of(array, (1, 2, 1e-30)), np.abs(array))
            case "nonnegative":
                return np.abs(array)
            case "nonzero" | "true":
                return np.where(array == 0, self._one_of(array, (1, -1, 3, 0.5, 1e-30)), array)
            case "constant" | "number":
                return array
            case _:
                return np.asarray(super(Extremes, self).passing(predicate, array)).astype(array.dtype)

    def _one_of(self, array: Array, options: Sequence[float]) -> Array:
        """An option that the element type has."""
        if array.dtype.kind == "f":
            return np.asarray(self._pick(options))
        return np.asarray(max(1, int(self._pick(options))), dtype=array.dtype)

"""What the instances of rules are drawn from: shapes that operators accept, attribute values, arrays."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.ops.operator import Operator
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.term import Predicate

Shape: TypeAlias = tuple[Any, ...]

_RANKS = (0.05, 0.2, 0.45, 0.7)
"""How often a common shape has at most 0, 1, 2, 3 axes; else it has 4."""
_SIZES = (1, 2, 3, 4, 5, 6)
_ALL_SIZES = np.array(_SIZES)
_SPATIAL = (4, 5, 6, 7, 3, 2, 1)
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
NEED_AXES = frozenset({
    "Concat", "Split", "Slice", "Pad", "Transpose", "Squeeze", "Gather", "Softmax", "LogSoftmax", "Resize",
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "LayerNormalization", "RMSNormalization",
})  # fmt: skip
"""Operators that need at least one axis."""
_POSITIVE = {("BatchNormalization", 4), ("Power", 0), ("Sqrt", 0), ("Log", 0)}
_NONZERO = {("Div", 1), ("Reciprocal", 0)}


def array_kind(operator: type[Operator], position: int) -> str:
    """Where the operator is defined for its operand at ``position``: everywhere (""), positive or nonzero."""
    key = (operator.onnx, position)
    return "positive" if key in _POSITIVE else "nonzero" if key in _NONZERO else ""


@dataclass(slots=True)
class Menus:
    """One draw's random choices; shapes of undeclared variables are cut from one ``common`` shape."""

    random: np.random.Generator
    pool: list[int] = field(init=False)
    common: Shape = field(init=False)
    spatial: int = field(init=False)

    def __post_init__(self) -> None:
        self.pool = self.random.permutation(_ALL_SIZES).tolist()
        if self.random.random() < 0.25:
            self.pool[: int(self.random.integers(1, 4))] = [1]
        rank = bisect(_RANKS, self.random.random())
        self.common = tuple(self._pick((1, 2, 3, 4, 5)) for _ in range(rank))
        self.spatial = self._pick((1, 2, 2, 2, 3))

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def size(self) -> int:
        """A size, different from the others of this draw while there are some left."""
        return self.pool.pop() if self.pool else self._pick(_SIZES)

    def divisor(self, n: int) -> int:
        """A divisor of ``n``."""
        return int(self._pick([d for d in range(1, n + 1) if n % d == 0] or [1]))

    def ones(self) -> Shape:
        """A shape of one element."""
        return (1,) * int(self._pick((0, 0, 1, 1, 2)))

    def block(self) -> Shape:
        """Sizes of a block of axes."""
        return tuple(self._pick((1, 2, 3, 4, 5)) for _ in range(self._pick((0, 1, 1, 2, 2, 3))))

    def narrowed(self, shape: Shape) -> Shape:
        """A shape that broadcasts to ``shape`` without enlarging it."""
        if self.random.random() < 0.4:
            return shape
        kept = shape[int(self.random.integers(0, len(shape) + 1)) :] if self.random.random() < 0.5 else shape
        return tuple(1 if self.random.random() < 0.3 else d for d in kept)

    # ---- shapes ------------------------------------------------------------------------------------------------

    def operand(
        self, operator: type[Operator], k: int, known: Sequence[Shape | None], given: Mapping[str, Any]
    ) -> Shape:
        """A shape that ``operator`` may accept as operand ``k`` beside the ``known`` ones."""
        name = operator.onnx
        shapes: Mapping[str, Callable[..., Shape]] = {
            "Conv": self._conv, "ConvTranspose": self._conv_transpose, "BatchNormalization": self._norm,
            "MatMul": self._matmul, "Gemm": self._gemm, "Concat": self._concat,
        }  # fmt: skip
        if name in shapes:
            return shapes[name](k, known, given)
        if name in ("LayerNormalization", "RMSNormalization"):
            return known[0][-1:] if k and known[0] else self._ranked()
        if name in _POOLS:
            return self._image(self.spatial)
        if name in ("DepthToSpace", "SpaceToDepth"):
            b = given.get("blocksize", 2)
            return (self._pick((1, 2)), self._pick((1, 2, 3)) * b * b, b * self._pick((1, 2)), b * self._pick((1, 2)))
        others = [s for s in known if s is not None]
        if operator.pointwise and others:
            widest = max(others, key=len)
            return self.narrowed(widest if self.random.random() < 0.8 else (*self.common[: 4 - len(widest)], *widest))
        return self._ranked() if name in NEED_AXES else self.common

    def _ranked(self) -> Shape:
        return self.common or (self._pick(_SIZES),)

    def _image(self, spatial: int, channels: int | None = None) -> Shape:
        c = self._pick((1, 2, 3, 4)) if channels is None else channels
        return (self._pick((1, 2)), c, *(self._pick(_SPATIAL) for _ in range(spatial)))

    def _conv(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        group = given.get("group", 1)
        x, w = known[0], known[1]
        if k == 0:
            free = group * self._pick((1, 2, 3))
            return self._image(len(w) - 2, w[1] * group) if w else self._image(self.spatial, free)
        if k == 1:
            kernel = tuple(self._pick((1, 2, 3)) for _ in x[2:]) if x else ()
            return (group * self._pick((1, 2, 3)), x[1] // group if x else 1, *kernel)
        return (w[0],) if w else (1,)

    def _conv_transpose(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        group = given.get("group", 1)
        x, w = known[0], known[1]
        if k == 0:
            return self._image(len(w) - 2, w[0]) if w else self._image(self.spatial, group * self._pick((1, 2)))
        if k == 1:
            return (x[1] if x else 1, self._pick((1, 2, 3)), *(self._pick((1, 2, 3)) for _ in (x or ())[2:]))
        return (w[1] * group,) if w else (1,)

    def _norm(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        vectors = [s for s in known[1:] if s]
        if k == 0:
            return self._image(self._pick((0, 1, 2, 2)), vectors[0][0] if vectors else None)
        return (known[0][1],) if known[0] and len(known[0]) > 1 else vectors[0] if vectors else (self.size(),)

    def _matmul(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        a, b = known
        if k == 0:
            inner = (b[-2] if len(b) > 1 else b[0]) if b else self._pick(_SIZES)
            return (*self.narrowed(b[:-2] if b else self.common[:2]), self._pick(_SIZES), inner)
        inner = a[-1] if a else self._pick(_SIZES)
        if self.random.random() < 0.1:
            return (inner,)
        return (*(self.narrowed(a[:-2]) if a else ()), inner, self._pick(_SIZES))

    def _gemm(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        swap_a, swap_b = bool(given.get("transA")), bool(given.get("transB"))
        a, b = known[0], known[1]
        if k == 0:
            inner = b[1 if swap_b else 0] if b else self._pick(_SIZES)
            shape = (self._pick(_SIZES), inner)
            return shape[::-1] if swap_a else shape
        if k == 1:
            inner = a[0 if swap_a else 1] if a else 1
            shape = (inner, self._pick(_SIZES))
            return shape[::-1] if swap_b else shape
        return self.narrowed((a[1 if swap_a else 0], b[0 if swap_b else 1])) if a and b else ()

    def _concat(self, k: int, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        other = next((s for s in known if s), None)
        if other is None:
            return self._ranked()
        axis = given.get("axis")
        return tuple(self._pick(_SIZES) if a == axis else d for a, d in enumerate(other))

    # ---- attributes ----------------------------------------------------------------------------------------------

    def attribute(
        self,
        operator: type[Operator],
        name: str,
        shapes: Sequence[Shape],
        known: Mapping[str, Any],
        entries: Sequence[Any] | None,
    ) -> Any:
        """A value of an attribute; ``entries`` are the entries that are given already, None for those that are not."""
        rank = len(shapes[0]) if shapes else 0
        whole = self._whole(operator.onnx, name, rank, shapes, known, entries)
        if entries is None:
            return whole
        if not isinstance(whole, tuple) or len(whole) != len(entries):
            return tuple(self._pick((0, 1, 2)) if e is None else e for e in entries)
        return tuple(w if e is None else e for w, e in zip(whole, entries, strict=True))

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
        match name:
            case "strides" | "dilations":
                return self._several((1, 1, 2, 3), spatial)
            case "kernel_shape":
                return self._several((1, 2, 3), spatial)
            case "output_padding":
                return (0,) * spatial
            case "perm":
                return tuple(int(a) for a in self.random.permutation(rank))
            case "axis":
                return int(self.random.integers(max(rank, 1)))
            case "pads":
                return self._pads(op, rank, shapes, known)
            case "shape":
                return self._shape(op, shapes[0], entries)
            case "axes" | "starts" | "ends" | "steps":
                return self._cut(op, name, rank, shapes, known, entries)
            case "split" | "indices" | "indices_shape" | "sizes" | "scales" | "repeats":
                return self._parts(name, rank, shapes, known, entries)
            case _:
                return self._scalar(name)

    def _several(self, options: Sequence[int], count: int) -> tuple[int, ...]:
        return tuple(int(self._pick(options)) for _ in range(count))

    def _pads(self, op: str, rank: int, shapes: Sequence[Shape], known: Mapping[str, Any]) -> tuple[int, ...]:
        if op == "Pad":
            return self._several((0, 0, 1, 2), 2 * rank)
        if self.random.random() < 0.6 and rank > 2:
            return self._same_pads(op, shapes, known)
        none = self.random.random() < 0.4
        return self._several((0,) if none else (0, 0, 1, 2), 2 * max(rank - 2, 0))

    def _same_pads(self, op: str, shapes: Sequence[Shape], known: Mapping[str, Any]) -> tuple[int, ...]:
        """Pads that keep the size at stride 1, unevenly divided: windows of different sizes then go together."""
        kernel = shapes[1][2:] if op in _CONVOLUTIONS and len(shapes) > 1 else known.get("kernel_shape") or ()
        spread = known.get("dilations") or (1,) * len(kernel)
        room = [d * (k - 1) for k, d in zip(kernel, spread, strict=False)]
        begins = [r // 2 if self.random.random() < 0.5 else int(self.random.integers(0, r + 1)) for r in room]
        return (*begins, *(r - b for r, b in zip(room, begins, strict=True)))

    def _cut(
        self,
        op: str,
        name: str,
        rank: int,
        shapes: Sequence[Shape],
        known: Mapping[str, Any],
        entries: Sequence[Any] | None,
    ) -> tuple[int, ...]:
        dims = shapes[0]
        if name == "axes":
            room = rank + 1 if op == "Unsqueeze" else rank
            options = [a for a in range(room) if op != "Squeeze" or dims[a] == 1]
            count = len(entries) if entries is not None else int(self.random.integers(1, max(len(options), 1) + 1))
            return tuple(sorted(int(options[k]) for k in self.random.permutation(len(options))[:count]))
        axes = known.get("axes") or ()
        sizes = [dims[a] if isinstance(a, int) and a < rank else 1 for a in axes]
        if name == "steps":
            return tuple(self._pick((1, 1, 2)) for _ in sizes)
        if name == "starts":
            return tuple(int(self.random.integers(0, d)) if d else 0 for d in sizes)
        starts = known.get("starts") or (0,) * len(sizes)
        steps = known.get("steps") or (1,) * len(sizes)
        return tuple(self._end(s, d, step) for s, d, step in zip(starts, sizes, steps, strict=True))

    def _end(self, start: int, size: int, step: int) -> int:
        """An end of a cut, of one with steps right behind its last place."""
        if start > size:
            return size
        if step < 2:
            return int(self.random.integers(start, size + 1))
        return start + step * int(self.random.integers(0, max(1, (size - start - 1) // step + 1))) + 1

    def _shape(self, op: str, dims: Shape, entries: Sequence[Any] | None) -> tuple[int, ...]:
        if op == "Expand":
            wide = tuple(self._pick((1, 2, 3)) if d == 1 else d for d in dims)
            return (*(self._pick((1, 2, 3)) for _ in range(self._pick((0, 0, 1)))), *wide)
        if entries is not None:
            return self._filled(math.prod(dims), entries)
        return self.grouped(math.prod(dims))

    def grouped(self, elements: int) -> tuple[int, ...]:
        """A shape of so many elements: their prime factors in any order, some joined, sometimes a leading 1."""
        factors = [int(f) for f in self.random.permutation(_prime_factors(elements))]
        shape: list[int] = [1] * self._pick((0, 0, 0, 1))
        for f in factors:
            if shape and self.random.random() < 0.4:
                shape[-1] *= f
            else:
                shape.append(f)
        return tuple(shape)

    def _filled(self, elements: int, entries: Sequence[Any]) -> tuple[int, ...]:
        """Entries completed so that their product is ``elements`` when that can be."""
        result = list(entries)
        for i, e in enumerate(result):
            if e is not None:
                continue
            rest = elements // max(1, math.prod(x for x in result if x is not None))
            last = result[i + 1 :].count(None) == 0
            result[i] = rest if last else self.divisor(rest)
        return tuple(result)

    def _parts(
        self, name: str, rank: int, shapes: Sequence[Shape], known: Mapping[str, Any], entries: Sequence[Any] | None
    ) -> Any:
        axis = known.get("axis")
        dim = shapes[0][axis] if isinstance(axis, int) and axis < rank else 1
        match name:
            case "split":
                count = len(entries) if entries is not None else self._pick((2, 2, 3))
                cuts = sorted(int(self.random.integers(0, dim + 1)) for _ in range(count - 1))
                return tuple(b - a for a, b in zip([0, *cuts], [*cuts, dim], strict=True))
            case "indices":
                count = math.prod(known.get("indices_shape") or (self._pick((1, 2, 3)),))
                if count <= dim and self.random.random() < 0.3:
                    first = int(self.random.integers(0, dim - count + 1))
                    return tuple(range(first, first + count))
                return tuple(int(self.random.integers(0, dim)) for _ in range(count))
            case "indices_shape":
                return (len(known.get("indices") or range(self._pick((1, 2, 3)))),)
            case "scales":
                return (1.0, 1.0, *(float(self._pick((1, 2, 3))) for _ in range(rank - 2)))
            case _:
                return tuple(self._pick((1, 2)) for _ in range(rank))

    def _scalar(self, name: str) -> Any:
        options: Mapping[str, Sequence[Any]] = {
            "group": (1, 1, 2, 3), "transA": (0, 1), "transB": (0, 1), "keepdims": (0, 1), "count_include_pad": (0, 1),
            "output": (0, 1), "blocksize": (2, 2, 3), "exponent": (2.0, 3.0, 1.0), "approximate": ("none", "tanh"),
            "size": (1, 2, 3), "flatten": (0,), "nearest_mode": ("floor", "round_prefer_floor"),
            "coordinate_transformation_mode": ("asymmetric", "half_pixel"), "min": (-0.75, -0.5, 0.0, 0.25, 1.0),
            "max": (1.5, 0.5, 0.25, 6.0), "epsilon": (1e-5, 1e-3, 0.125), "alpha": (0.25, 0.5, 1.5, 1.0, -0.5),
            "beta": (0.5, 1.0, 2.0), "gamma": (1.0, 1.5), "value": (0.0, 0.5, -1.0), "mode": ("constant", "DCR"),
        }  # fmt: skip
        return self._pick(options.get(name, (0, 1, 2)))

    # ---- arrays --------------------------------------------------------------------------------------------------

    def array(self, kind: str, shape: Shape, dtype: str) -> npt.NDArray[Any]:
        """Values for a tensor: normal ones of both signs, or such that the operator that reads it is defined."""
        if dtype == "bool":
            return np.asarray(self.random.random(shape) < 0.5)
        if kind == "positive":
            return self.random.uniform(0.5, 2.0, shape)
        if kind == "nonzero":
            return np.asarray(self.random.uniform(0.5, 2.0, shape) * self.random.choice((-1.0, 1.0), shape))
        return np.asarray(self.random.standard_normal(shape))

    def positions(self, shape: Shape, rows: int) -> npt.NDArray[Any]:
        """Indices of an axis of so many positions, from both ends; sometimes only the first and last of each."""
        if not rows and 0 not in shape:
            raise ValueError("an axis without positions has no index")
        menu = np.array([-rows, -1, 0, rows - 1]) if self.random.random() < 0.2 else np.arange(-rows, rows)
        return np.asarray(self.random.choice(menu, shape) if rows else np.zeros(shape, np.int64))

    def passing(self, predicate: Predicate, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values that satisfy a predicate, in place of those that were drawn."""
        return np.asarray(PREDICATES[predicate.kind].sample(self.random, array.shape, *predicate.arguments))


def _prime_factors(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found

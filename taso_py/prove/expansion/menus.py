"""The menus over which instances are enumerated: one stated table, reported with every verdict.

Every menu begins with what is most telling, because an enumeration that is cut off draws from its front.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from taso_py.errors import TypingError
from taso_py.ops.operator import Operator, broadcast

Shape = tuple[int, ...]

REALS = (-1.5, 0.375, 2.0, 1.0, 0.0)
"""Exact in float32, and whole and not, negative and zero."""
FLAGS = ("keepdims", "transA", "transB", "count_include_pad", "output", "exclude_outside", "antialias")
POSITIVE_REALS = ("epsilon",)
WINDOWED = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool"})
POOLED = frozenset({"GlobalAveragePool", "GlobalMaxPool", *WINDOWED})
DTYPES = ("float32", "float64", "int64", "int32", "bool")
"""Element types of the tensors of a rule with Cast; all others are float32, or bool where a truth value is asked."""
_MOST_LISTS = 64
_TEXTS: Mapping[str, Sequence[str]] = {
    "approximate": ("none", "tanh"),
    "nearest_mode": ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    "coordinate_transformation_mode": ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"),
    "mode": ("constant", "edge", "reflect", "nearest", "linear", "DCR", "CRD"),
    "to": DTYPES,
    "bounds": ("both", "low", "high"),
}
_CUBIC = ("cubic_coeff_a",)
_LISTS = frozenset({
    "strides", "dilations", "kernel_shape", "output_padding", "pads", "perm", "axis", "axes", "starts", "ends", "steps",
    "split", "indices", "indices_shape", "shape", "scales", "sizes", "repeats", "roi",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """An attribute, or one entry of it, for which values are wanted, beside what is known of its application."""

    operator: type[Operator]
    attribute: str
    shapes: Sequence[Shape]
    known: Mapping[str, Any]
    place: int | None = None
    count: int = 0

    @property
    def rank(self) -> int:
        """Number of axes of the first operand."""
        return len(self.shapes[0]) if self.shapes else 0

    def dim(self, place: int) -> int:
        """Size of the axis that entry ``place`` of axes, or the attribute axis, names; 1 if it is not known."""
        axes = self.known.get("axes") or ()
        axis = axes[place] if place < len(axes) else self.known.get("axis")
        return self.shapes[0][axis] if isinstance(axis, int) and -self.rank <= axis < self.rank else 1


@lru_cache
def _sizes(most: int) -> tuple[int, ...]:
    return (*range(2, most + 1), *(n for n in (1, 0) if n <= most))


@lru_cache
def _shapes(most: int, ranks: tuple[int, ...]) -> tuple[Shape, ...]:
    return tuple(s for r in ranks for s in itertools.product(_sizes(most), repeat=r))


def _ranks(first: tuple[int, ...], most: int) -> tuple[int, ...]:
    return (*(r for r in first if r <= most), *range(max(first) + 1, most + 1))


@dataclass(frozen=True, slots=True)
class SmallMenus:
    """Sizes 0..size, undeclared tensors of up to ``ranks`` axes, blocks of up to ``blocks``, lists of positions.

    With ``deep`` also tensors and blocks of more axes, up to so many, all of size 2: a law about axes may fail there.
    """

    size: int = 2
    ranks: int = 3
    blocks: int = 2
    positions: int = 3
    deep: int = 0

    def sizes(self) -> tuple[int, ...]:
        """The sizes of an axis, 2 and more first."""
        return _sizes(self.size)

    def shapes(self, ranks: tuple[int, ...]) -> tuple[Shape, ...]:
        """All shapes of those ranks."""
        return _shapes(self.size, ranks)

    def block(self) -> tuple[Shape, ...]:
        """Shapes of a block of axes: of one axis first."""
        return self.shapes(_ranks((1, 2, 0), self.blocks)) + self._deep(self.blocks + 1, self.deep - 1)

    def tensor(self) -> tuple[Shape, ...]:
        """Shapes of an undeclared tensor: of two axes first."""
        return self.shapes(_ranks((2, 1, 3, 0), self.ranks)) + self._deep(self.ranks + 1, self.deep)

    def _deep(self, least: int, most: int) -> tuple[Shape, ...]:
        return tuple((2,) * r for r in range(least, most + 1))

    def text(self) -> str:
        """The table in words."""
        rows = [
            f"sizes of axes 0..{self.size}, where a condition or blocksize asks for multiples or more also those",
            f"axes of undeclared tensors 0..{self.ranks} (under windows 1 or 2 spatial ones, 3 where a block has them)",
            f"axes of a block 0..{self.blocks}"
            + (f", and tensors of {self.ranks + 1}..{self.deep} axes of size 2" if self.deep else ""),
            "axis and axes: all; perm: all; literals: of no axes, or of the shape beside them",
            "strides, dilations, kernel_shape, group, blocksize 1..2; repeats 0..2; pads 0..1, of Pad also -1",
            f"indices: all lists of up to {self.positions} positions",
            "starts, ends, split: all; steps 1..2; scales 1, 2",
            "flags 0..1; real attributes " + ", ".join(map(str, REALS)) + "; epsilon positive or 0",
            "exponent 2, 3, -1, 0.5, 1, 0; named modes: all",
            "element types: " + ", ".join(DTYPES) + " in rules with Cast, else float32 and bool",
        ]
        return "; ".join(rows)

    # ---- attributes ------------------------------------------------------------------------------------------------

    def attribute(self, asked: Asked) -> Sequence[Any]:
        """Values of a whole attribute."""
        spatial = max(asked.rank - 2, 0)
        if asked.attribute not in _LISTS:
            return self.scalar(asked.attribute)
        lists: Mapping[str, Callable[[], Sequence[Any]]] = {
            "strides": lambda: _lists((2, 1), spatial),
            "dilations": lambda: _lists((1, 2), spatial),
            "kernel_shape": lambda: _lists((2, 1), spatial),
            "output_padding": lambda: _lists((0, 1), spatial),
            "pads": lambda: _pads(asked, spatial),
            "perm": lambda: list(itertools.permutations(range(asked.rank)))[::-1],
            "axis": lambda: range(max(asked.rank, 1)),
            "axes": lambda: _axes(asked.rank, asked.operator.onnx == "Unsqueeze"),
            "starts": lambda: self._per_axis(asked),
            "ends": lambda: self._per_axis(asked),
            "steps": lambda: self._per_axis(asked),
            "split": lambda: self._splits(asked),
            "indices": lambda: self._indices(asked),
            "indices_shape": lambda: self._indices_shape(asked),
            "shape": lambda: self._new_shape(asked),
            "scales": lambda: [(1.0, 1.0, *s) for s in _lists((2.0, 1.0), spatial)],
            "sizes": lambda: [(*asked.shapes[0][:2], *s) for s in _lists((2, 1, 3), spatial)],
            "repeats": lambda: _lists((2, 1, 0), asked.rank),
            "roi": lambda: [(0.0,) * asked.rank + (1.0,) * asked.rank],
        }
        return lists[asked.attribute]()

    def scalar(self, name: str) -> Sequence[Any]:
        """Values of an attribute that is one number or text."""
        if name in FLAGS:
            return (0, 1)
        if name in _TEXTS:
            return _TEXTS[name]
        if name in ("group", "blocksize"):
            return (2, 1)
        if name == "exponent":
            return (2.0, 3.0, -1.0, 0.5, 1.0, 0.0)
        if name in POSITIVE_REALS:
            return (0.375, 0.0)
        if name in _CUBIC:
            return (-0.75, -0.5)
        if name in ("alpha", "beta", "gamma", "min", "max", "value", "momentum", "extrapolation_value"):
            return REALS
        return self.sizes()

    def entry(self, asked: Asked) -> Sequence[Any]:
        """Values of one entry of a list."""
        place = asked.place or 0
        entries: Mapping[str, Callable[[], Sequence[Any]]] = {
            "strides": lambda: (2, 1),
            "dilations": lambda: (1, 2),
            "kernel_shape": lambda: (2, 1),
            "output_padding": lambda: (0, 1),
            "pads": lambda: (1, 0, -1) if asked.operator.onnx == "Pad" else (1, 0),
            "perm": lambda: range(asked.rank),
            "axes": lambda: range(asked.rank + (asked.count if asked.operator.onnx == "Unsqueeze" else 0)),
            "starts": lambda: range(asked.dim(place) + 1),
            "ends": lambda: range(asked.dim(place), -1, -1),
            "steps": lambda: (1, 2),
            "split": lambda: range(asked.dim(0) + 1),
            "indices": lambda: range(asked.dim(0)),
            "indices_shape": lambda: range(self.positions, -1, -1),
            "shape": lambda: self._shape_entry(asked),
            "scales": lambda: (2.0, 1.0),
            "sizes": lambda: (2, 1, 3),
            "repeats": lambda: (2, 1, 0),
        }
        return entries[asked.attribute]() if asked.attribute in entries else self.sizes()

    def _per_axis(self, asked: Asked) -> list[tuple[int, ...]]:
        axes = range(len(asked.known.get("axes") or ()))
        return list(itertools.product(*(self.entry(_at(asked, place)) for place in axes)))

    def _splits(self, asked: Asked) -> list[tuple[int, ...]]:
        dim = asked.dim(0)
        return [s for n in (2, 1, 3) for s in itertools.product(range(dim + 1), repeat=n) if sum(s) == dim]

    def _indices(self, asked: Asked) -> list[tuple[int, ...]]:
        shape = asked.known.get("indices_shape")
        counts = range(self.positions, -1, -1) if shape is None else (math.prod(shape),)
        return [i for n in counts for i in itertools.product(range(asked.dim(0)), repeat=n)]

    def _indices_shape(self, asked: Asked) -> list[tuple[int, ...]]:
        known = asked.known.get("indices")
        counts = range(self.positions, -1, -1) if known is None else (len(known),)
        flat = [(n,) for n in counts]
        return [*flat, *([()] if 1 in counts else []), *((1, n) for n in counts if n == 1)]

    def _new_shape(self, asked: Asked) -> list[tuple[int, ...]]:
        dims = asked.shapes[0]
        if asked.operator.onnx == "Expand":
            options = [(*self.sizes(), 3) if d == 1 else (d,) for d in dims]
            return [(*front, *s) for front in ((), (1,), (2,)) for s in itertools.product(*options)]
        return regrouped(math.prod(dims), 3)

    def _shape_entry(self, asked: Asked) -> Sequence[int]:
        elements = math.prod(asked.shapes[0]) if asked.shapes else 0
        if asked.operator.onnx != "Reshape" or not elements:
            return self.sizes()
        return [d for d in range(1, elements + 1) if elements % d == 0]


def _at(asked: Asked, place: int) -> Asked:
    return Asked(asked.operator, asked.attribute, asked.shapes, asked.known, place, asked.count)


def regrouped(elements: int, ranks: int) -> list[tuple[int, ...]]:
    """Shapes of so many elements with at most ``ranks`` axes."""
    factors = [d for d in range(1, elements + 1) if elements % d == 0] if elements else [0, 1, 2]
    return [s for r in range(ranks + 1) for s in itertools.product(factors, repeat=r) if math.prod(s) == elements]


def _lists(options: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    return list(itertools.product(options, repeat=count))


def _pads(asked: Asked, spatial: int) -> list[tuple[int, ...]]:
    if asked.operator.onnx != "Pad":
        return _lists((1, 0), 2 * spatial)
    # Three values for every end of three axes would be 729 lists.
    options = (1, 0, -1) if 3 ** (2 * asked.rank) <= 2 * _MOST_LISTS else (1, 0)
    return _lists(options, 2 * asked.rank)


def _axes(rank: int, grows: bool) -> list[tuple[int, ...]]:
    counts = range(1, max(rank, 1) + 1) if not grows else (1, 2)
    return [a for n in counts for a in itertools.combinations(range(rank + (n if grows else 0)), n)]


def operand(
    menus: SmallMenus,
    operator: type[Operator],
    place: int,
    known: Sequence[Shape | None],
    given: Mapping[str, Any],
    blocksizes: tuple[int, int],
) -> Sequence[Shape]:
    """Shapes for an undeclared operand: all that ``operator`` may accept beside the ``known`` ones.

    ``blocksizes`` are the products of those of all DepthToSpace and of all SpaceToDepth.
    """
    others = tuple(s for s in known if s is not None)
    if operator.pointwise:
        return broadcasting(menus.tensor(), others)
    if operator.onnx in POOLED:
        return _windowed(menus, operator.onnx, place, known, given)
    if operator.onnx in ("DepthToSpace", "SpaceToDepth"):
        return _regrouping(menus, *blocksizes)
    if operator.onnx in ("MatMul", "Gemm", "BatchNormalization"):
        return _linear(menus, operator.onnx, place, known)
    if operator.onnx == "Concat" and others and isinstance(given.get("axis"), int):
        axis = given["axis"] % max(len(others[0]), 1)
        return [(*others[0][:axis], n, *others[0][axis + 1 :]) for n in menus.sizes()] if others[0] else []
    return menus.tensor()


@lru_cache(maxsize=4096)
def broadcasting(shapes: tuple[Shape, ...], others: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes that broadcast with all the others."""
    return tuple(s for s in shapes if _broadcast(s, *others))


def _broadcast(*shapes: Shape) -> bool:
    try:
        broadcast(*shapes)
    except TypingError:
        return False
    return True


def _regrouping(menus: SmallMenus, to_space: int, to_depth: int) -> list[Shape]:
    """Channels that all DepthToSpace can divide, sizes that all SpaceToDepth can."""
    channels = dict.fromkeys([n * to_space**2 for n in menus.sizes()] + list(menus.sizes()))
    sizes = dict.fromkeys([n * to_depth for n in menus.sizes()] + list(menus.sizes()))
    return [(n, c, h, w) for c in channels for h in sizes for w in sizes for n in (1, 2, 0)]


def _windowed(
    menus: SmallMenus, name: str, place: int, known: Sequence[Shape | None], given: Mapping[str, Any]
) -> Sequence[Shape]:
    """Images of one and of two spatial axes, weights that fit them, biases."""
    group = given.get("group", 1)
    x, w = known[0], known[1] if len(known) > 1 else None
    if place == 2:
        return [(n,) for n in _bias_sizes(name, w, group)]
    other = w if place == 0 else x
    ranks = (3, 4) if other is None else tuple(r for r in (3, 4, 5) if len(other) == r)
    if isinstance(given.get("kernel_shape"), tuple):
        ranks = tuple(r for r in ranks if r == len(given["kernel_shape"]) + 2)
    if other is None or not isinstance(group, int):
        return menus.shapes(ranks)
    return _fitting(menus.shapes(ranks), name, place, other, group)


@lru_cache(maxsize=1024)
def _fitting(shapes: tuple[Shape, ...], name: str, place: int, other: Shape, group: int) -> tuple[Shape, ...]:
    """Images and weights of equally many channels."""
    found = []
    for shape in shapes:
        x, w = (shape, other) if place == 0 else (other, shape)
        if x[1] == (w[0] if name == "ConvTranspose" else w[1] * group):
            found.append(shape)
    return tuple(found)


def _bias_sizes(name: str, w: Shape | None, group: Any) -> Sequence[int]:
    if w is None or len(w) < 2 or not isinstance(group, int):
        return ()
    return (w[1] * group if name == "ConvTranspose" else w[0],)


def _linear(menus: SmallMenus, name: str, place: int, known: Sequence[Shape | None]) -> Sequence[Shape]:
    if name == "BatchNormalization":
        return _normalised(menus, place, known)
    if name == "Gemm":
        return menus.shapes((2,)) if place < 2 else menus.shapes((1, 2, 0))
    return [s for s in menus.tensor() if s]


def _normalised(menus: SmallMenus, place: int, known: Sequence[Shape | None]) -> Sequence[Shape]:
    vectors = [s for s in known[1:] if s is not None]
    first = known[0]
    if place == 0:
        found = menus.shapes(tuple(range(2, max(menus.ranks, 2) + 1)))
        return [s for s in found if not vectors or s[1:2] == vectors[0]]
    return [first[1:2]] if first is not None else menus.shapes((1,))

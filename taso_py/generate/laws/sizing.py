"""Symbolic types of a law: fresh sizes for every axis, made equal only where a shape rule asks for it.

Which sizes a shape rule wants equal is read off the concrete operands; whether it is content is decided by the
operator's own `infer`.  What is found here need not be true: every law is tested and proved afterwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from taso_py.errors import TypingError
from taso_py.generate.laws.equations import Dims, Equations, Unsized, multiple, single
from taso_py.generate.terms.atoms import DTYPE
from taso_py.graph.sizes import Expression, Size, symbol
from taso_py.graph.types import TensorType
from taso_py.ops.convolution import Conv
from taso_py.ops.layout import Concat
from taso_py.ops.linear import MatMul
from taso_py.ops.normalization import BatchNormalization
from taso_py.ops.operator import Operator
from taso_py.ops.padding import Pad
from taso_py.ops.reshape import Reshape
from taso_py.ops.resize import Resize
from taso_py.ops.slicing import Slice

Amounts: TypeAlias = tuple[Any, ...]
"""How much is added around an image or a kernel: the beginnings of its axes, then the ends."""

Window: TypeAlias = tuple[Amounts, Amounts]
"""A kernel's shape and the pads around the image."""

Solved: TypeAlias = Literal["larger", "smaller", "around", "window", ""]


@dataclass(slots=True)
class Sizing(Equations):
    """The sizes of a law's tensors, and what its attributes become."""

    loose: frozenset[str]
    """Attributes that become variables."""
    solved: Solved = ""
    """Which of pads, smaller pads and what is added around a kernel becomes a sum or difference of the other two;
    "window": a window becomes what two others are together, one after the other."""
    pointwise: bool = False
    """Whether kernels of one pixel stay such, and with them strides of 1 and pads of 0."""
    attributes: dict[tuple[str, Any], Any] = field(default_factory=dict)
    """What each attribute became, by its concrete value."""
    summed: set[str] = field(default_factory=set)
    """Variables of lists whose entries occur in sums."""
    differences: list[Size] = field(default_factory=list)
    """What the other two make of it: it is not negative."""

    def source(self, shape: Sequence[int]) -> Dims:
        """New sizes of a tensor."""
        fixed = self.pointwise and len(shape) == 4 and tuple(shape[2:]) == (1, 1)
        return tuple(1 if fixed and k >= 2 else self.fresh(d) for k, d in enumerate(shape))

    # ---- applications ----------------------------------------------------------------------------------------

    def apply(self, operator: Operator, types: Sequence[TensorType], dims: Sequence[Dims]) -> tuple[Operator, Dims]:
        """The operator with symbolic attributes, and the sizes of its result."""
        rule = _RULES.get(type(operator), _pointwise if operator.pointwise else _plain)
        general = rule(self, operator, types, [self.dims(d) for d in dims])
        scales: Sequence[Any] = general.scales if isinstance(general, Resize) else ()
        if any(isinstance(s, Expression) for s in scales):
            axes = zip(scales, self.dims(dims[0]), strict=True)
            return general, tuple(d * s if isinstance(s, Expression) else d for s, d in axes)
        operands = [TensorType(DTYPE, self.dims(d)) for d in dims]
        try:
            return general, general.infer(*operands).dims
        except TypingError:
            return general, self._searched(general, dims)

    def _searched(self, operator: Operator, dims: Sequence[Dims]) -> Dims:
        """The result under the fewest equalities of sizes that the shape rule accepts."""
        sizes = list(dict.fromkeys(d for ds in dims for d in self.dims(ds) if single(d) is not None))
        pairs = [(a, b) for a, b in itertools.combinations(sizes, 2) if self.concrete(a) == self.concrete(b)]
        pairs += [(d, self.concrete(d)) for d in sizes]
        for count in (1, 2):
            for chosen in itertools.combinations(pairs, count):
                saved = dict(self.found)
                try:
                    for a, b in chosen:
                        self.unify(a, b)
                    return operator.infer(*(TensorType(DTYPE, self.dims(d)) for d in dims)).dims
                except (TypingError, Unsized):
                    self.found = saved
        raise Unsized(f"{operator} of {dims}")

    def cut(self, size: Size, at: int) -> Size:
        """The place in a size that was ``at``: where two of its summands meet; one symbol becomes a sum."""
        size = self.resolved(size)
        name = single(size)
        if name is not None:
            first = self.fresh(at)
            self.unify(size, first + self.fresh(self.values[name] - at))
            return first
        total: Size = 0
        for part in self._terms(size):
            total = total + part
            if self.concrete(total) == at:
                return total
        raise Unsized(f"{size} has no part of {at}")

    def attribute(self, name: str, value: Any) -> Any:
        """The attribute's value: sizes named after its variable where it is loose."""
        if name not in self.loose or (self.pointwise and value == _TRIVIAL.get(name)):
            return value
        if (name, value) not in self.attributes:
            variable = f"{_LETTERS[name]}{len(self.attributes)}"
            self.attributes[name, value] = self._variable(name, variable, value)
        return self.attributes[name, value]

    def _variable(self, attribute: str, name: str, value: Any) -> Any:
        self.attribute_of[name] = attribute
        if not isinstance(value, tuple):
            self.values[name] = value
            return symbol(name)
        entries = {f"{name}.{k}": v for k, v in enumerate(value)}
        self.values.update(entries)
        self.attribute_of.update(dict.fromkeys(entries, attribute))
        return tuple(map(symbol, entries))

    def relate(self, pads: Iterable[Amounts], around: Iterable[Amounts]) -> None:
        """Pads of convolutions that differ by zeros around kernels: ``solved`` become sums or differences."""
        for larger, smaller in itertools.permutations(sorted(set(pads)), 2):
            for zeros in sorted(set(around)):
                enlarged = tuple(a + b for a, b in zip(smaller, zeros, strict=True))
                keys = {"larger": ("pads", larger), "smaller": ("pads", smaller), "around": ("around", zeros)}
                solved = keys.pop(self.solved)
                if larger == enlarged and solved not in self.attributes:
                    one, other = (self.attribute(*key) for key in keys.values())
                    sign = 1 if self.solved == "larger" else -1
                    self.attributes[solved] = tuple(a + sign * b for a, b in zip(one, other, strict=True))
                    self.differences += self.attributes[solved]
                    self._sum(*one, *other)

    def compose(self, windows: Collection[Window]) -> None:
        """A window that is two others, one after the other, becomes their sum."""
        for one, other in itertools.combinations_with_replacement(sorted(set(windows)), 2):
            whole = _composed(one, other)
            known = whole in (one, other) or ("kernel_shape", whole[0]) in self.attributes
            if whole in windows and not known:
                (a, p), (b, q) = parts = [self._window(w) for w in (one, other)]
                self.attributes.update(zip(zip(_WINDOW, whole, strict=True), _composed(*parts), strict=True))
                self._sum(*a, *p, *b, *q)

    def _window(self, window: Window) -> Window:
        kernel, pads = (self.attribute(name, value) for name, value in zip(_WINDOW, window, strict=True))
        return kernel, pads

    def _sum(self, *sizes: Size) -> None:
        """Notes that the variables of these lists occur in sums."""
        self.summed |= {str(size).partition(".")[0] for size in sizes}


_WINDOW = ("kernel_shape", "pads")


def _composed(one: Window, other: Window) -> Window:
    """The window that two are, one after the other, where the first moves by 1: they share one place."""
    (a, p), (b, q) = one, other
    return tuple(x + y - 1 for x, y in zip(a, b, strict=True)), tuple(x + y for x, y in zip(p, q, strict=True))


_TRIVIAL = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
_LETTERS = {"strides": "s", "pads": "p", "kernel_shape": "k", "group": "g", "around": "a", "scales": "t"}


def _plain(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], _dims: Sequence[Dims]) -> Operator:
    """Nothing is asked of the operands' sizes."""
    given = operator.attributes()
    windows = {"kernel_shape", "strides"} <= given.keys()
    return type(operator)(**{k: sizing.attribute(k, v) if windows else v for k, v in given.items()})


def _pointwise(sizing: Sizing, operator: Operator, types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    """Sizes are equal axis by axis from the last; what was 1 beside something else is 1."""
    shapes = [t.dims for t in types]
    for back in range(1, max(map(len, shapes)) + 1):
        beside = [(s[-back], d[-back]) for s, d in zip(shapes, dims, strict=True) if len(s) >= back]
        widest = max(beside, key=lambda pair: sizing.concrete(pair[1]))
        for value, size in beside:
            sizing.unify(size, 1 if value != widest[0] else widest[1])
    return operator


def _matmul(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    sizing.unify(dims[0][-1], dims[1][-2])
    for a, b in zip(dims[0][:-2], dims[1][:-2], strict=False):
        sizing.unify(a, b)
    return operator


def _batchnorm(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    for parameter in dims[1:]:
        sizing.unify(dims[0][1], parameter[0])
    return operator


def _concat(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    axis = operator.attributes()["axis"]
    for other in dims[1:]:
        for k, (a, b) in enumerate(zip(dims[0], other, strict=True)):
            if k != axis:
                sizing.unify(a, b)
    return operator


def _conv(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    given = operator.attributes()
    group = sizing.attribute("group", given["group"])
    x, w = dims[:2]
    sizing.unify(x[1], sizing.resolved(w[1]) * group)
    group = sizing.resolved(group)
    if group != 1 and not multiple(sizing.resolved(w[0]), group):
        sizing.unify(w[0], sizing.fresh(sizing.concrete(w[0]) // given["group"]) * group)
    loose = {k: sizing.attribute(k, given[k]) for k in ("strides", "pads")}
    return Conv(**{**given, **loose, "group": group})


def _resize(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], _dims: Sequence[Dims]) -> Operator:
    """Axes that change do so by variables; which places are read does not matter to the sizes."""
    given = operator.attributes()
    loose = sizing.attribute("scales", tuple(map(round, given["scales"])))
    both = zip(given["scales"], loose, strict=True)
    return Resize(**{**given, "scales": tuple(v if isinstance(v, Expression) and s != 1.0 else s for s, v in both)})


def _pad(sizing: Sizing, operator: Operator, _types: Sequence[TensorType], _dims: Sequence[Dims]) -> Operator:
    given = operator.attributes()
    amounts = around(given["pads"])
    if amounts is None:
        return operator
    loose = sizing.attribute("around", amounts)
    half = len(loose) // 2
    return Pad(**{**given, "pads": (0, 0, *loose[:half], 0, 0, *loose[half:])})


def around(pads: Amounts) -> Amounts | None:
    """What is added to the spatial axes; None when something is added to the others, or nothing at all."""
    half = len(pads) // 2
    rest = (*pads[:2], *pads[half : half + 2])
    return None if half < 3 or any(rest) or not any(pads) else (*pads[2:half], *pads[half + 2 :])


def _slice(sizing: Sizing, operator: Operator, types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    """A cut is where two summands of the size meet; a size that is one symbol becomes a sum."""
    given = operator.attributes()
    (axis,), (start,), (end,) = given["axes"], given["starts"], given["ends"]
    whole = types[0].dims[axis]
    cut = start or end
    place = sizing.cut(dims[0][axis], cut)
    bounds = (0, place) if start == 0 else (place, sizing.resolved(dims[0][axis]))
    if not (start == 0 or end == whole):
        raise Unsized("a cut from the middle")
    return Slice((axis,), (bounds[0],), (bounds[1],), (1,))


def _reshape(sizing: Sizing, operator: Operator, types: Sequence[TensorType], dims: Sequence[Dims]) -> Operator:
    """Axes that stay keep their sizes; what is split becomes a product of sizes, what is joined is one already."""
    old, new = types[0].dims, operator.infer(*types).dims
    shape: list[Size] = [1] * len(new)
    for before, after in _regrouped(old, new):
        if len(after) == 1:
            whole: Size = 1
            for k in before:
                whole = whole * sizing.resolved(dims[0][k])
            shape[after[0]] = whole
        elif len(before) == 1:
            whole = 1
            for k in after:
                shape[k] = sizing.fresh(sizing.concrete(new[k]))
                whole = whole * shape[k]
            sizing.unify(dims[0][before[0]], whole)
        else:
            raise Unsized(f"axes {before} become {after}")
    for k, d in enumerate(old):
        if d == 1:
            sizing.unify(dims[0][k], 1)
    return Reshape(tuple(shape))


def _regrouped(old: Sequence[Size], new: Sequence[Size]) -> Iterator[tuple[list[int], list[int]]]:
    """The axes that become axes, as few together as possible; axes of 1 are left out."""
    waiting = [[k for k, d in enumerate(dims) if d != 1] for dims in (old, new)]
    while waiting[0] and waiting[1]:
        before, after = [waiting[0].pop(0)], [waiting[1].pop(0)]
        while (left := _volume(old, before)) != (right := _volume(new, after)):
            (before if left < right else after).append(waiting[int(left > right)].pop(0))
        yield before, after


def _volume(dims: Sequence[Size], axes: Sequence[int]) -> int:
    sizes = [dims[k] for k in axes]
    assert all(isinstance(d, int) for d in sizes)
    return math.prod(d for d in sizes if isinstance(d, int))


_RULES: Mapping[type[Operator], Callable[[Sizing, Operator, Sequence[TensorType], Sequence[Dims]], Operator]] = {
    MatMul: _matmul,
    BatchNormalization: _batchnorm,
    Concat: _concat,
    Conv: _conv,
    Slice: _slice,
    Pad: _pad,
    Resize: _resize,
    Reshape: _reshape,
}

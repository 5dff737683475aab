"""Resampling along axes of concrete size: nearest neighbour, linear and cubic interpolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Expression, Size, image, product, symbol
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.elementwise import round_attributes, single
from taso_py.ops.lookup import lookup
from taso_py.ops.meaning import Compare, Index, Integer, Number, Operand, Scalar, apply, choose, div, mul, over, total
from taso_py.ops.operator import AttributeValue, Constant, Given, OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import concrete, first_operand, normal_axes, text
from taso_py.ops.sampling import Axis, Filter, Taps, inside_table, nearest_table, ratio, taps
from taso_py.ops.targets import allowed_attributes, old_scales, targets

_COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "tf_crop_and_resize",
)
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")
_WIDEST = 2**60
_WHOLE = frozenset({("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")})
"""Where the nearest of i / s is floor(i / s), for s that float32 divides by without error."""
_FACTORS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Resize(Operator):
    """out[*i] = x[*round(c(i))] (nearest), or the interpolation of x at c(i), axis by axis (linear, cubic).

    c is ``coordinate_transformation_mode``'s map from the result's positions to those of x.  Either ``scales`` or
    ``sizes`` holds one entry per axis; in normal form sizes are scales where float32 has them exactly.  An axis that
    changes has a concrete size, unless it has size 1: then its one element is the nearest of all.  ``roi`` (starts,
    then ends) counts for ``tf_crop_and_resize`` only, and so does ``extrapolation_value``, the value where c(i) lies
    outside of x; ``axes`` only for a policy that keeps the ratio.
    """

    onnx: ClassVar[str] = "Resize"
    aliases: ClassVar[tuple[str, ...]] = ("Upsample",)
    axis_fields: ClassVar[Mapping[str, int]] = {"axes": 0}
    scales: tuple[float, ...] = ()
    sizes: tuple[Size, ...] = ()
    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    _: KW_ONLY
    roi: tuple[float, ...] = ()
    extrapolation_value: float = 0.0
    antialias: int = 0
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    keep_aspect_ratio_policy: str = "stretch"
    axes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        round_attributes(self, "extrapolation_value", "cubic_coeff_a")

    @property
    def may_read_more(self) -> bool:
        """The neighbours of a position that an element lies at exactly."""
        return self.mode != "nearest"

    def repeated(self, dims: Sequence[Size]) -> dict[int, Size]:
        """The axes of size 1 whose element is repeated, and how often: nothing depends on the number, a symbol too."""
        stretched = self.mode == "nearest" and self.keep_aspect_ratio_policy == "stretch"
        if not stretched or self.coordinate_transformation_mode == "tf_crop_and_resize":
            return {}
        return {k: size for k, (size, dim) in enumerate(zip(self.sizes, dims, strict=False)) if dim == 1 != size}

    def multiplied(self, dims: Sequence[Size]) -> dict[int, int]:
        """The axes of unknown size each of whose elements stands so many times in the result, one after the other."""
        known = self.mode == "nearest" and (self.coordinate_transformation_mode, self.nearest_mode) in _WHOLE
        if not known or self.keep_aspect_ratio_policy != "stretch":
            return {}
        axes = enumerate(zip(self.scales, dims, strict=False))
        return {k: int(s) for k, (s, d) in axes if not isinstance(d, int) and s in _FACTORS}

    def resampled(self, dims: Sequence[Size]) -> dict[int, Axis]:
        """The axes that change, but for those that are repeated or multiplied."""
        given = self.scales or self.sizes
        if bool(self.scales) == bool(self.sizes) or len(given) != len(dims):
            raise TypingError(f"{self} needs one scale or size per axis of {tuple(dims)}")
        if self.keep_aspect_ratio_policy != "stretch":
            return self._in_ratio(dims)
        found: dict[int, Axis] = {}
        others = self.repeated(dims).keys() | self.multiplied(dims).keys()
        for k, (target, dim) in enumerate(zip(given, dims, strict=True)):
            if k in others:
                continue
            region = (self.roi[k], self.roi[k + len(dims)]) if self.roi else (0.0, 1.0)
            if target == (1.0 if self.scales else dim):
                if region != (0.0, 1.0):
                    raise TypingError(f"a region of an axis of {dim} that keeps its size is not agreed upon")
                continue
            if not isinstance(dim, int) or dim < 1 or not isinstance(target, (int, float)) or target <= 0:
                raise TypingError(f"Resize of an axis of size {dim} by {target} has no definition")
            mode = self.coordinate_transformation_mode
            if self.scales:
                found[k] = Axis.scaled(dim, float(target), mode, region)
            else:
                found[k] = Axis.sized(dim, int(target), mode, region)
        return found

    def _in_ratio(self, dims: Sequence[Size]) -> dict[int, Axis]:
        """The axes under one common scale, the least or the largest of those that ``sizes`` ask for."""
        scale = self._common_scale(dims)
        if scale is None:
            raise TypingError(f"{self} of {tuple(dims)} has no common scale")
        mode = self.coordinate_transformation_mode
        found = {k: Axis.rounded(d, scale, mode) for k in self._chosen(len(dims)) if isinstance(d := dims[k], int)}
        if scale == 1:
            return {}
        if all(axis.result == axis.dim for axis in found.values()) or any(axis.result < 1 for axis in found.values()):
            # Where no size changes ONNX Runtime copies x, whatever the scale is.
            raise TypingError(f"{self} of {tuple(dims)} changes no size")
        return found

    def _chosen(self, rank: int) -> tuple[int, ...]:
        return self.axes or tuple(range(rank))

    def _common_scale(self, dims: Sequence[Size]) -> Fraction | None:
        pairs = [(self.sizes[k], dims[k]) for k in self._chosen(len(dims))] if len(self.sizes) == len(dims) else []
        scales = [Fraction(w, d) for w, d in pairs if isinstance(w, int) and isinstance(d, int) and d > 0 and w > 0]
        if not scales or len(scales) < len(pairs) or self.keep_aspect_ratio_policy not in _POLICIES:
            return None
        return min(scales) if self.keep_aspect_ratio_policy == "not_larger" else max(scales)

    def _filter(self) -> Filter:
        a = self.cubic_coeff_a if self.mode == "cubic" else Filter().a
        return Filter(self.mode, a, bool(self.antialias), bool(self.exclude_outside))

    @property
    def _symbolic(self) -> bool:
        return any(isinstance(s, Expression) for s in self.scales)

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if x.rank == 0:
            raise RankError(f"{self.onnx} needs an axis, got {x}")
        if self.scales and len(self.scales) != x.rank:
            raise RankError(f"{self.onnx} has {len(self.scales)} scales for {x}")
        known = self.coordinate_transformation_mode in _COORDINATES and self.nearest_mode in _ROUNDING
        known = known or self._symbolic
        if self.mode == "nearest":
            known = known and not self.antialias
        else:
            known = known and self.mode in ("linear", "cubic") and x.dtype in FLOATS
        cropped = self.coordinate_transformation_mode == "tf_crop_and_resize"
        if not known or cropped != (len(self.roi) == 2 * x.rank) or (self.exclude_outside and not self._excludes()):
            raise TypingError(f"{self} of {x} has no definition")
        dims = list(x.dims)
        if self._symbolic and not cropped:
            scaled = zip(x.dims, self.scales, strict=True)
            return TensorType(x.dtype, tuple(d if s == 1.0 else symbol(f"resized({d},{s})") for d, s in scaled))
        for k, axis in self.resampled(x.dims).items():
            dims[k] = axis.result
        for k, size in self.repeated(x.dims).items():
            if at_least(size, 1) is False:
                raise TypingError(f"Resize to the size {size}")
            dims[k] = size
        for k, factor in self.multiplied(x.dims).items():
            dims[k] = factor * dims[k]
        self._check_tables(x.dims)
        return TensorType(x.dtype, tuple(dims))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        """A result has at least one element along an axis that changes."""
        return [size - 1 for size in self.repeated(operands[0].dims).values()]

    def _excludes(self) -> bool:
        return self.mode == "cubic" or (self.mode == "linear" and bool(self.antialias))

    def _check_tables(self, dims: Sequence[Size]) -> None:
        """An error where rounding or precision would decide the result."""
        axes = self.resampled(dims).values()
        for axis in axes:
            inside_table(axis)
            if self.mode == "nearest":
                nearest_table(axis, self.nearest_mode)
        if self.mode != "nearest" and prod(max(taps(axis, self._filter()).whole) for axis in axes) > _WIDEST:
            raise TypingError(f"weights of {self} are no simple fractions")

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        if self._symbolic:
            # In a proof about all scales: whichever places are read, they depend on the axis alone.
            rule = f"{self.coordinate_transformation_mode},{self.nearest_mode}"
            rows = zip(index, x.dims, self.scales, strict=True)
            if self.mode != "nearest":
                return self._interpolated(x, index)
            return x[[i if s == 1.0 else image(f"{rule},{s}", d, i) for i, d, s in rows]]
        axes, repeated, multiplied = self.resampled(x.dims), self.repeated(x.dims), self.multiplied(x.dims)
        if not axes and not repeated and not multiplied:
            return x[index]
        if self.mode == "nearest":
            place = [0 if k in repeated else i // multiplied.get(k, 1) for k, i in enumerate(index)]
            for k, axis in axes.items():
                place[k] = lookup(nearest_table(axis, self.nearest_mode), index[k])
            value: Scalar = x[place]
        else:
            value = _interpolate(x, {k: taps(axis, self._filter()) for k, axis in axes.items()}, index)
        tables = {k: inside_table(axis) for k, axis in axes.items()}
        inside = [Compare(1, "<=", lookup(table, index[k])) for k, table in tables.items() if 0 in table]
        return choose(inside, value, Number(self.extrapolation_value)) if inside else value

    def _interpolated(self, x: Operand, index: Index) -> Scalar:
        """In a proof about all scales: Σ over the axes that change of weights, which know the axis alone, times x."""
        changed = {k: s for k, s in enumerate(self.scales) if s != 1.0}
        sizes = self.infer(x.type).dims
        filter_ = f"{self.mode},{self.coordinate_transformation_mode},{self._filter()}"

        def weight(k: int, at: Size) -> Scalar:
            name = f"resize {filter_},{changed[k]},{x.dims[k]}"

            def where(place: Size) -> Scalar:
                found = apply(name, Integer(place), Integer(at))
                return choose([Compare(place, "==", index[k])], found, Number(0.0))

            return total(sizes[k], where)

        def term(places: tuple[Size, ...]) -> Scalar:
            place = [*index]
            value: Scalar = Number(1.0)
            for k, at in zip(changed, places, strict=True):
                place[k] = at
                value = mul(value, weight(k, at))
            return mul(value, x[place])

        return over(total, [x.dims[k] for k in changed], term)

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        axes = self.resampled(x.shape)
        if self.mode != "nearest" or any(0 in inside_table(axis) for axis in axes.values()):
            return None
        repeated = self.repeated(x.shape)
        for k, axis in axes.items():
            x = np.take(x, nearest_table(axis, self.nearest_mode), axis=k)
        for k, size in repeated.items():
            if not isinstance(size, int):
                return None
            x = np.repeat(x, size, axis=k)
        return x

    def normal(self, *operands: TensorType) -> Self:
        (x,) = operands
        op = replace(self._plain(), scales=tuple(map(single, self.scales)), roi=tuple(map(single, self.roi)))
        if self.keep_aspect_ratio_policy != "stretch":
            scale, axes = self._common_scale(x.dims), normal_axes(self._chosen(x.rank), x.rank)
            results = {k: scale * d for k in axes if scale is not None and isinstance(d := x.dims[k], int)}
            if any(r.denominator != 1 for r in results.values()) or len(results) < len(axes):
                return replace(op, axes=axes)
            sizes = tuple(int(results[k]) if k in results else d for k, d in enumerate(x.dims))
            op = replace(op, keep_aspect_ratio_policy="stretch", sizes=sizes)
        op = replace(op, axes=())
        scales = tuple(_exact_scale(s, d) for s, d in zip(op.sizes, x.dims, strict=False))
        exact = tuple(s for s in scales if s is not None)
        return replace(op, sizes=(), scales=exact) if exact and len(exact) == x.rank else op

    def _plain(self) -> Self:
        """Attributes that play no part at their defaults."""
        op = self
        if self.mode != "nearest":
            op = replace(op, nearest_mode="round_prefer_floor")
        if self.mode != "cubic":
            op = replace(op, cubic_coeff_a=-0.75)
        if self.coordinate_transformation_mode != "tf_crop_and_resize":
            op = replace(op, roi=(), extrapolation_value=0.0)
        return op

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, *allowed_attributes(call))
        mode = text(call.attributes.get("mode", "nearest"))
        if x is None:
            return None
        if call.op_type == "Upsample" or call.opset < 11:
            scales = old_scales(call)
            # Resize took over at opset 10; a smaller result rounds another way there.
            named = call.op_type == ("Upsample" if call.opset < 10 else cls.onnx)
            if scales is None or not named or min(scales, default=0) < 1 or mode == "cubic":
                return None
            return Reading(cls(scales, (), mode, "asymmetric", "floor"), (0,))
        target = targets(call, x)
        if target is None:
            return None
        texts = ("coordinate_transformation_mode", "nearest_mode")
        numbers = ("extrapolation_value", "antialias", "cubic_coeff_a", "exclude_outside")
        given: dict[str, Any] = {k: text(call.attributes[k]) for k in texts if k in call.attributes}
        given |= {k: call.attributes[k] for k in numbers if k in call.attributes}
        if given.get("coordinate_transformation_mode") == "half_pixel_symmetric" and call.opset < 19:
            return None
        return Reading(cls(mode=mode, **given, **target), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        if opset < 11:
            return self._write_old(opset)
        (x,) = operands
        ratio_kept = self.keep_aspect_ratio_policy != "stretch"
        if self.coordinate_transformation_mode == "half_pixel_symmetric" and opset < 19:
            return None
        if opset < 18 and (self.antialias or ratio_kept):
            return None
        attributes = self._attributes()
        absent = Constant(np.zeros(0, dtype=np.float32)) if opset < 13 else None
        if self.scales:
            return Writing(self.onnx, (Given(0), self._region() or absent, _floats(self.scales)), attributes)
        axes: tuple[int, ...] = ()
        if ratio_kept or (concrete(self.sizes) is None and opset >= 18):
            changed = sorted({*self.resampled(x.dims), *self.repeated(x.dims)})
            axes = attributes["axes"] = self._chosen(x.rank) if ratio_kept else tuple(changed)
        sizes = concrete([self.sizes[k] for k in axes or range(x.rank)])
        region = self._region(axes) or absent
        inputs = (Given(0), region, absent, Constant.integers(sizes or ()))
        return Writing(self.onnx, inputs, attributes) if sizes else None

    def _attributes(self) -> dict[str, AttributeValue]:
        """Those that say something at opset 11 and later, without ``axes``."""
        names = ["mode", "coordinate_transformation_mode"]
        names += ["nearest_mode"] if self.mode == "nearest" else []
        names += ["cubic_coeff_a"] if self.mode == "cubic" else []
        names += ["extrapolation_value"] if self.roi else []
        names += [k for k in ("antialias", "exclude_outside") if getattr(self, k)]
        names += ["keep_aspect_ratio_policy"] if self.keep_aspect_ratio_policy != "stretch" else []
        return {k: getattr(self, k) for k in names}

    def _region(self, axes: Sequence[int] = ()) -> Constant | None:
        rank = len(self.roi) // 2
        return _floats([self.roi[k + end] for end in (0, rank) for k in axes or range(rank)]) if self.roi else None

    def _write_old(self, opset: int) -> Writing | None:
        """Before opset 11 there are only enlargements with asymmetric coordinates, rounded down."""
        rounded = self.mode == "linear" or (self.mode == "nearest" and self.nearest_mode == "floor")
        if not self.scales or min(self.scales) < 1 or not rounded or self.antialias:
            return None
        if self.coordinate_transformation_mode != "asymmetric":
            return None
        if opset < 9:
            return Writing("Upsample", (Given(0),), {"mode": self.mode, "scales": self.scales})
        op_type = "Upsample" if opset < 10 else self.onnx
        return Writing(op_type, (Given(0), _floats(self.scales)), {"mode": self.mode})


def _interpolate(x: Operand, read: Mapping[int, Taps], index: Index) -> Scalar:
    """Σ over the taps of every axis of the product of weights · x, over the product of the common denominators."""

    def term(r: tuple[Size, ...]) -> Scalar:
        place: list[Size] = list(index)
        weight: Size = 1
        for at, (k, taps_) in zip(r, read.items(), strict=True):
            entry = index[k] * taps_.count + at
            place[k] = lookup(taps_.sources, entry)
            weight = weight * lookup(taps_.weights, entry)
        return mul(Integer(weight), x[place])

    whole: Size = product(lookup(taps_.whole, index[k]) for k, taps_ in read.items())
    return div(over(total, [taps_.count for taps_ in read.values()], term), Integer(whole))


def _exact_scale(size: Size, dim: Size) -> float | None:
    if size == dim:
        return 1.0
    if not isinstance(size, int) or not isinstance(dim, int) or size < 1 or dim < 1:
        return None
    scale = float(np.float32(size / dim))
    return scale if Fraction(scale) == Fraction(size, dim) and ratio(scale) == Fraction(size, dim) else None


def _floats(values: Sequence[float]) -> Constant:
    return Constant(np.array(values, dtype=np.float32))

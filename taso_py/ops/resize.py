"""Resampling along axes of concrete size: nearest neighbour and linear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.lookup import lookup
from taso_py.ops.meaning import Index, Integer, Operand, Scalar, add, div, mul
from taso_py.ops.operator import AttributeValue, Constant, Given, OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import Array, concrete, first_operand, integers, normal_axes, text
from taso_py.ops.sampling import Axis, linear_weights, nearest_table, ratio

_COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
)
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_NEUTRAL = {"antialias": 0, "exclude_outside": 0}
"""Attributes that are defined here for one value only."""


@dataclass(frozen=True)
class Resize(Operator):
    """out[*i] = x[*round(c(i))] (nearest), or the linear interpolation of x at c(i), axis by axis.

    c is ``coordinate_transformation_mode``'s map from the result's positions to those of x, clamped to x.
    Either ``scales`` or ``sizes`` holds one entry per axis; in normal form sizes are scales where float32 has
    them exactly.  An axis that changes has a concrete size.
    """

    onnx: ClassVar[str] = "Resize"
    aliases: ClassVar[tuple[str, ...]] = ("Upsample",)
    scales: tuple[float, ...] = ()
    sizes: tuple[Size, ...] = ()
    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"

    def axes(self, dims: Sequence[Size]) -> dict[int, Axis]:
        """The axes that change."""
        given = self.scales or self.sizes
        if bool(self.scales) == bool(self.sizes) or len(given) != len(dims):
            raise TypingError(f"{self} needs one scale or size per axis of {tuple(dims)}")
        found: dict[int, Axis] = {}
        for k, (target, dim) in enumerate(zip(given, dims, strict=True)):
            if target == (1.0 if self.scales else dim):
                continue
            if not isinstance(dim, int) or dim < 1 or not isinstance(target, int | float) or target <= 0:
                raise TypingError(f"Resize of an axis of size {dim} by {target} has no definition")
            mode = self.coordinate_transformation_mode
            if self.scales:
                found[k] = Axis.scaled(dim, float(target), mode)
            else:
                found[k] = Axis.sized(dim, int(target), mode)
        return found

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        known = self.coordinate_transformation_mode in _COORDINATES and self.nearest_mode in _ROUNDING
        if not known or not (self.mode == "nearest" or (self.mode == "linear" and x.dtype in FLOATS)):
            raise TypingError(f"{self} of {x} has no definition")
        dims = list(x.dims)
        for k, axis in self.axes(x.dims).items():
            dims[k] = axis.result
            # Either raises when rounding or precision would decide the result.
            nearest_table(axis, self.nearest_mode) if self.mode == "nearest" else linear_weights(axis)
        return TensorType(x.dtype, tuple(dims))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        axes = self.axes(x.dims)
        if self.mode == "linear":
            return _interpolate(x, dict(axes), index)
        place = list(index)
        for k, axis in axes.items():
            place[k] = lookup(nearest_table(axis, self.nearest_mode), index[k])
        return x[place]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        if self.mode == "linear":
            return None
        for k, axis in self.axes(x.shape).items():
            x = np.take(x, nearest_table(axis, self.nearest_mode), axis=k)
        return x

    def normal(self, *operands: TensorType) -> Self:
        (x,) = operands
        nearest = self.nearest_mode if self.mode == "nearest" else "round_prefer_floor"
        op = replace(self, scales=tuple(float(np.float32(s)) for s in self.scales), nearest_mode=nearest)
        scales = tuple(_exact_scale(s, d) for s, d in zip(self.sizes, x.dims, strict=False))
        exact = tuple(s for s in scales if s is not None)
        return replace(op, sizes=(), scales=exact) if exact and len(exact) == x.rank else op

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, *_allowed(call))
        mode = text(call.attributes.get("mode", "nearest"))
        if x is None or any(_plain(call.attributes.get(k, v)) != v for k, v in _NEUTRAL.items()):
            return None
        if call.op_type == "Upsample" or call.opset < 11:
            scales = _old_scales(call)
            # Resize took over at opset 10; a smaller result rounds another way there.
            named = call.op_type == ("Upsample" if call.opset < 10 else cls.onnx)
            if scales is None or not named or min(scales, default=0) < 1:
                return None
            return Reading(cls(scales, (), mode, "asymmetric", "floor"), (0,))
        targets = _targets(call, x)
        if targets is None:
            return None
        coordinates = text(call.attributes.get("coordinate_transformation_mode", "half_pixel"))
        nearest = text(call.attributes.get("nearest_mode", "round_prefer_floor"))
        if coordinates == "half_pixel_symmetric" and call.opset < 19:
            return None
        return Reading(cls(*targets, mode, coordinates, nearest), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        if opset < 11:
            return self._write_old(opset)
        if self.coordinate_transformation_mode == "half_pixel_symmetric" and opset < 19:
            return None
        names = ["mode", "coordinate_transformation_mode"]
        names += ["nearest_mode"] if self.mode == "nearest" else []
        attributes: dict[str, AttributeValue] = {k: getattr(self, k) for k in names}
        absent = Constant(np.zeros(0, dtype=np.float32)) if opset < 13 else None
        if self.scales:
            return Writing(self.onnx, (Given(0), absent, _floats(self.scales)), attributes)
        sizes = concrete(self.sizes)
        if sizes is None and opset >= 18:
            changed = self.axes(operands[0].dims)
            attributes["axes"] = tuple(changed)
            sizes = tuple(axis.result for axis in changed.values())
        inputs = (Given(0), absent, absent, Constant.integers(sizes or ()))
        return Writing(self.onnx, inputs, attributes) if sizes else None

    def _write_old(self, opset: int) -> Writing | None:
        """Before opset 11 there are only enlargements with asymmetric coordinates, rounded down."""
        rounded = self.mode == "linear" or self.nearest_mode == "floor"
        if not self.scales or min(self.scales) < 1 or not rounded:
            return None
        if self.coordinate_transformation_mode != "asymmetric":
            return None
        if opset < 9:
            return Writing("Upsample", (Given(0),), {"mode": self.mode, "scales": self.scales})
        op_type = "Upsample" if opset < 10 else self.onnx
        return Writing(op_type, (Given(0), _floats(self.scales)), {"mode": self.mode})


def _interpolate(x: Operand, axes: dict[int, Axis], index: Index) -> Scalar:
    """Σ over both neighbours per axis of weight · x, the weights over a common denominator."""
    weights = {k: linear_weights(axis) for k, axis in axes.items()}

    def mixed(rest: tuple[int, ...], place: Index) -> Scalar:
        if not rest:
            return x[place]
        k, *others = rest
        low, high, parts, whole = weights[k]
        i = index[k]

        def term(share: Sequence[int], source: Sequence[int]) -> Scalar:
            moved = (*place[:k], lookup(source, i), *place[k + 1 :])
            return mul(Integer(lookup(share, i)), mixed(tuple(others), moved))

        return add(term([whole - p for p in parts], low), term(parts, high))

    return div(mixed(tuple(axes), index), Integer(math.prod(w[3] for w in weights.values())))


def _exact_scale(size: Size, dim: Size) -> float | None:
    if size == dim:
        return 1.0
    if not isinstance(size, int) or not isinstance(dim, int) or size < 1 or dim < 1:
        return None
    scale = float(np.float32(size / dim))
    return scale if Fraction(scale) == Fraction(size, dim) and ratio(scale) == Fraction(size, dim) else None


def _floats(values: Sequence[float]) -> Constant:
    return Constant(np.array(values, dtype=np.float32))


def _plain(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _allowed(call: OnnxCall) -> tuple[str, ...]:
    if call.op_type == "Upsample":
        return ("mode", "scales") if call.opset < 9 else ("mode",)
    if call.opset < 11:
        return ("mode",)
    later = ("antialias", "axes", "keep_aspect_ratio_policy") if call.opset >= 18 else ()
    extra = ("cubic_coeff_a", "exclude_outside", "extrapolation_value")
    return ("mode", "coordinate_transformation_mode", "nearest_mode", *extra, *later)


def _constant_scales(call: OnnxCall, k: int) -> tuple[float, ...] | None:
    value = call.constants[k] if call.present(k) else None
    return None if value is None else tuple(float(np.float32(s)) for s in value.reshape(-1))


def _old_scales(call: OnnxCall) -> tuple[float, ...] | None:
    if "scales" in call.attributes:
        return tuple(float(np.float32(s)) for s in call.attributes["scales"])
    return _constant_scales(call, 1) if len(call.inputs) == 2 else None


def _targets(call: OnnxCall, x: TensorType) -> tuple[tuple[float, ...], tuple[Size, ...]] | None:
    """(scales, ()) or ((), sizes), one entry per axis of x."""
    scales = _constant_scales(call, 2) if call.present(2) else ()
    sizes = call.integers(3) if call.present(3) else ()
    if scales is None or sizes is None or bool(scales) == bool(sizes):
        return None
    given: tuple[Size | float, ...] = scales or sizes
    axes = normal_axes(integers(call.attributes.get("axes")) or range(x.rank), x.rank)
    if len(given) != len(axes):
        return None
    if scales:
        by_axis = dict(zip(axes, scales, strict=True))
        return tuple(by_axis.get(a, 1.0) for a in range(x.rank)), ()
    stated = integers(call.attributes.get("axes")) or axes
    policy = text(call.attributes.get("keep_aspect_ratio_policy", "stretch"))
    # ONNX Runtime keeps another ratio where axes are negative or out of order.
    if policy != "stretch" and (list(stated) != sorted(stated) or min(stated, default=0) < 0):
        return None
    kept = _kept_ratio(policy, sizes, axes, x)
    if kept is None:
        return None
    wanted = dict(zip(axes, kept, strict=True))
    return (), tuple(wanted.get(a, d) for a, d in enumerate(x.dims))


def _kept_ratio(policy: str, sizes: Sequence[Size], axes: Sequence[int], x: TensorType) -> Sequence[Size] | None:
    """The sizes under ``keep_aspect_ratio_policy``; None when one common scale does not give whole sizes."""
    if policy == "stretch":
        return sizes
    dims, wanted = concrete([x.dims[a] for a in axes]), concrete(sizes)
    if policy not in ("not_larger", "not_smaller") or not dims or wanted is None or 0 in dims:
        return None
    scales = [Fraction(w, d) for w, d in zip(wanted, dims, strict=True)]
    scale = min(scales) if policy == "not_larger" else max(scales)
    return None if any((scale * d).denominator != 1 for d in dims) else [int(scale * d) for d in dims]

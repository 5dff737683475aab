"""What a Resize node says of its result: a scale or a size per axis, and the region of x that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taso_py.graph.types import TensorType
from taso_py.ops.operator import OnnxCall
from taso_py.ops.reading import integers, normal_axes, text


def allowed_attributes(call: OnnxCall) -> tuple[str, ...]:
    """Attributes of Resize, or Upsample, at the call's opset."""
    if call.op_type == "Upsample":
        return ("mode", "scales") if call.opset < 9 else ("mode",)
    if call.opset < 11:
        return ("mode",)
    later = ("antialias", "axes", "keep_aspect_ratio_policy") if call.opset >= 18 else ()
    extra = ("cubic_coeff_a", "exclude_outside", "extrapolation_value")
    return ("mode", "coordinate_transformation_mode", "nearest_mode", *extra, *later)


def old_scales(call: OnnxCall) -> tuple[float, ...] | None:
    """The scales before opset 11."""
    if "scales" in call.attributes:
        return tuple(float(np.float32(s)) for s in call.attributes["scales"])
    return _constant_floats(call, 1) if len(call.inputs) == 2 else None


def targets(call: OnnxCall, x: TensorType) -> dict[str, Any] | None:
    """``scales`` or ``sizes``, ``roi``, ``axes`` and the policy from opset 11 on, with one entry per axis of x."""
    scales = _constant_floats(call, 2) if call.present(2) else ()
    sizes = call.integers(3) if call.present(3) else ()
    if scales is None or sizes is None or bool(scales) == bool(sizes):
        return None
    stated = integers(call.attributes.get("axes")) or tuple(range(x.rank))
    axes = normal_axes(stated, x.rank)
    if len(scales or sizes) != len(axes):
        return None
    found = _region(call, axes, x.rank)
    if found is None:
        return None
    if scales:
        return {**found, "scales": _everywhere(axes, scales, (1.0,) * x.rank)}
    policy = text(call.attributes.get("keep_aspect_ratio_policy", "stretch"))
    # ONNX Runtime keeps another ratio where axes are negative or out of order.
    if policy != "stretch" and (list(stated) != sorted(stated) or min(stated, default=0) < 0):
        return None
    kept = {} if policy == "stretch" else {"keep_aspect_ratio_policy": policy, "axes": axes}
    return {**found, **kept, "sizes": _everywhere(axes, sizes, x.dims)}


def _region(call: OnnxCall, axes: Sequence[int], rank: int) -> dict[str, Any] | None:
    """The starts and the ends of the region of x that ``tf_crop_and_resize`` samples; None when they are not known."""
    if text(call.attributes.get("coordinate_transformation_mode", "half_pixel")) != "tf_crop_and_resize":
        return {}
    given = _constant_floats(call, 1)
    if given is None or len(given) != 2 * len(axes):
        return None
    starts = _everywhere(axes, given[: len(axes)], (0.0,) * rank)
    return {"roi": (*starts, *_everywhere(axes, given[len(axes) :], (1.0,) * rank))}


def _everywhere(axes: Sequence[int], values: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
    """``values`` at their axes, ``others`` at all other axes."""
    known = dict(zip(axes, values, strict=True))
    return tuple(known.get(axis, other) for axis, other in enumerate(others))


def _constant_floats(call: OnnxCall, k: int) -> tuple[float, ...] | None:
    value = call.constants[k] if call.present(k) else None
    return None if value is None else tuple(float(np.float32(s)) for s in value.reshape(-1))

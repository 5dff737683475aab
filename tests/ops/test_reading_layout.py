"""Nodes as exporters write them, read and evaluated, against ONNX Runtime with its optimiser off.

Random attributes for each operator: what ONNX Runtime accepts is either opaque or has ONNX Runtime's values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from taso_py.errors import TypingError
from taso_py.ops import OPERATORS
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Reading
from tests.helpers.operator_models import IR_VERSION, call_of, run, type_of


@dataclass(frozen=True)
class Call:
    """One ONNX node: the first inputs are graph inputs, the others constants; None is an absent input."""

    op_type: str
    opset: int
    data: tuple[np.ndarray, ...]
    constants: tuple[np.ndarray | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    @property
    def node(self) -> onnx.NodeProto:
        """The node; its results are y, y1, y2, ..."""
        inputs = [f"x{k}" for k in range(len(self.data))]
        inputs += ["" if c is None else f"c{k}" for k, c in enumerate(self.constants)]
        outputs = ["y", *(f"y{k}" for k in range(1, self.outputs))]
        return helper.make_node(self.op_type, inputs, outputs, **self.attributes)

    def reading(self, *, constant: bool = True) -> Reading | None:
        """The node as its class reads it; None: opaque."""
        fixed = {f"c{k}": c for k, c in enumerate(self.constants) if c is not None}
        types = {f"x{k}": type_of(x) for k, x in enumerate(self.data)}
        types |= {name: type_of(value) for name, value in fixed.items()}
        call = call_of(self.node, self.opset, types, fixed if constant else {})
        try:
            reading = OPERATORS[self.op_type].read(call)
            if reading is None:
                return None
            operands = [types[self.node.input[k]] for k in reading.operands]
            normal = reading.operator.normal(*operands)
            normal.infer(*operands)
        except TypingError:
            return None
        return Reading(normal, reading.operands)

    def actual(self) -> np.ndarray:
        """ONNX Runtime's value."""
        inputs = [
            helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, x in enumerate(self.data)
        ]
        initializers = [numpy_helper.from_array(c, f"c{k}") for k, c in enumerate(self.constants) if c is not None]
        graph = helper.make_graph([self.node], "call", inputs, [onnx.ValueInfoProto(name="y")], initializers)
        imports = [helper.make_opsetid("", self.opset)]
        return run(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION), self.data)

    def value(self) -> np.ndarray | None:
        """Our value; None when the node is opaque."""
        reading = self.reading()
        if reading is None:
            return None
        arrays = [self.data[k] for k in reading.operands]
        return evaluate(reading.operator, arrays, [type_of(a) for a in arrays])


Generator = np.random.Generator


def _floats(rng: Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _ints(rng: Generator, low: int, high: int, count: int) -> list[int]:
    return [int(v) for v in rng.integers(low, high, count)]


def _padding(rng: Generator, axes: int, most: int) -> dict[str, Any]:
    mode = rng.choice(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if mode != "NOTSET":
        return {"auto_pad": str(mode)}
    return {"pads": _ints(rng, 0, most, 2 * axes)} if rng.random() < 0.8 else {}


def _maybe(rng: Generator, **attributes: Any) -> dict[str, Any]:
    return {k: v for k, v in attributes.items() if rng.random() < 0.6}


def _conv(rng: Generator) -> Call:
    axes = int(rng.integers(1, 3))
    group = int(rng.choice([1, 1, 2]))
    kernel = _ints(rng, 1, 4, axes)
    x = _floats(rng, 1, 2 * group, *_ints(rng, 4, 9, axes))
    w = _floats(rng, 2 * group, 2, *kernel)
    given = _maybe(rng, strides=_ints(rng, 1, 4, axes), dilations=_ints(rng, 1, 3, axes), kernel_shape=kernel)
    bias = [_floats(rng, 2 * group)] if rng.random() < 0.5 else []
    opset = int(rng.choice([7, 11, 22]))
    return Call("Conv", opset, (x, w, *bias), (), {**given, **_padding(rng, axes, 3), "group": group})


def _conv_transpose(rng: Generator) -> Call:
    group = int(rng.choice([1, 1, 2]))
    kernel, size = _ints(rng, 1, 4, 2), _ints(rng, 2, 5, 2)
    strides = _ints(rng, 1, 4, 2)
    x, w = _floats(rng, 1, 2 * group, *size), _floats(rng, 2 * group, 2, *kernel)
    given = _maybe(rng, dilations=_ints(rng, 1, 3, 2), output_padding=_ints(rng, 0, 2, 2))
    if rng.random() < 0.3:
        given["output_shape"] = [s * d + int(rng.integers(-1, 3)) for s, d in zip(strides, size, strict=True)]
    attributes = {**given, **_padding(rng, 2, 2), "strides": strides, "group": group}
    return Call("ConvTranspose", int(rng.choice([7, 11, 22])), (x, w), (), attributes)


def _pool(rng: Generator) -> Call:
    op_type = str(rng.choice(["MaxPool", "AveragePool"]))
    axes = int(rng.integers(1, 3))
    opset = int(rng.choice([7, 8, 10, 11, 12, 19, 22]))
    kernel = _ints(rng, 1, 4, axes)
    given = {"kernel_shape": kernel, **_maybe(rng, strides=_ints(rng, 1, 4, axes))}
    if opset >= 10:
        given |= _maybe(rng, ceil_mode=1)
    if opset >= (10 if op_type == "MaxPool" else 19):
        given |= _maybe(rng, dilations=_ints(rng, 1, 3, axes))
    if op_type == "AveragePool":
        given |= _maybe(rng, count_include_pad=1)
    x = _floats(rng, 1, 2, *_ints(rng, 3, 9, axes)) - 1
    return Call(op_type, opset, (x,), (), {**given, **_padding(rng, axes, max(kernel))})


def _slice(rng: Generator) -> Call:
    x = _floats(rng, *_ints(rng, 0 if rng.random() < 0.1 else 1, 7, 3))
    n = int(rng.integers(1, 4))
    axes = [int(a) for a in rng.permutation(3)[:n]]
    axes = [a - 3 if rng.random() < 0.3 else a for a in axes]
    far = [2**63 - 1, -(2**63), 2**31 - 1, 100, -100]
    starts, ends = (
        [int(rng.choice(far)) if rng.random() < 0.25 else int(rng.integers(-8, 9)) for _ in range(n)] for _ in range(2)
    )
    steps = [int(s) for s in rng.choice([1, 1, 1, 2, 3, -1, -2], n)]
    if rng.random() < 0.3:
        return Call("Slice", 9, (x,), (), {"axes": axes, "starts": starts, "ends": ends})
    lists = [np.array(v, dtype=np.int64) for v in (starts, ends, axes, steps)]
    return Call("Slice", int(rng.choice([10, 11, 13])), (x,), tuple(lists))


def _pad(rng: Generator) -> Call:
    x = _floats(rng, *_ints(rng, 1, 5, 2))
    mode = str(rng.choice(["constant", "constant", "edge", "reflect", "wrap"]))
    pads = _ints(rng, -2 if rng.random() < 0.3 else 0, 4, 4)
    opset = int(rng.choice([7, 10, 11, 13, 18, 19, 25]))
    if opset < 11:
        attributes = {"mode": mode, "pads": pads, **_maybe(rng, value=1.5)}
        return Call("Pad", opset, (x,), (), attributes)
    value = np.array(2.5, dtype=np.float32) if rng.random() < 0.5 else None
    if opset >= 18 and rng.random() < 0.5:
        axis = np.array([int(rng.integers(-2, 2))], dtype=np.int64)
        return Call("Pad", opset, (x,), (np.array(pads[:2]), value, axis), {"mode": mode})
    constants = (np.array(pads), *([value] if value is not None else []))
    return Call("Pad", opset, (x,), constants, {"mode": mode})


def _split(rng: Generator) -> Call:
    count = int(rng.integers(1, 4))
    opset = int(rng.choice([7, 11, 13, 18]))
    pieces = _ints(rng, 0, 4, count)
    x = _floats(rng, 2, int(rng.integers(1, 9))) if rng.random() < 0.6 else _floats(rng, 2, max(sum(pieces), 1))
    axis = int(rng.choice([1, -1]))
    if x.shape[1] != sum(pieces) or rng.random() < 0.3:
        equal = {"num_outputs": count} if opset >= 18 else {}
        return Call("Split", opset, (x,), (), {"axis": axis, **equal}, count)
    if opset < 13:
        return Call("Split", opset, (x,), (), {"axis": axis, "split": pieces}, count)
    return Call("Split", opset, (x,), (np.array(pieces),), {"axis": axis}, count)


def _reshape(rng: Generator) -> Call:
    x = _floats(rng, *(int(d) for d in rng.choice([1, 2, 3, 4, 6], 3)))
    shape = [int(s) for s in rng.choice([0, -1, 1, 2, 3, 4, 6, x.size], int(rng.integers(1, 5)))]
    opset = int(rng.choice([7, 13, 14, 21]))
    allow = _maybe(rng, allowzero=int(rng.integers(0, 2))) if opset >= 14 else {}
    return Call("Reshape", opset, (x,), (np.array(shape),), allow)


def _gather(rng: Generator) -> Call:
    x = _floats(rng, 3, 4)
    shape = _ints(rng, 0, 3, int(rng.integers(0, 3)))
    indices = rng.integers(-3, 3, shape)
    opset = int(rng.choice([11, 13]))
    return Call("Gather", opset, (x,), (np.asarray(indices),), _maybe(rng, axis=int(rng.integers(-2, 2))))


def _squeeze(rng: Generator) -> Call:
    op_type = str(rng.choice(["Squeeze", "Unsqueeze"]))
    x = _floats(rng, *(int(d) for d in rng.choice([1, 1, 2, 3], 3)))
    axes = [int(a) for a in rng.permutation(5)[: int(rng.integers(1, 3))]]
    axes = [a - 3 for a in axes]
    if op_type == "Squeeze" and rng.random() < 0.2:
        return Call(op_type, 13, (x,))
    if rng.random() < 0.5:
        return Call(op_type, 11, (x,), (), {"axes": axes})
    return Call(op_type, 13, (x,), (np.array(axes),))


def _flatten(rng: Generator) -> Call:
    x = _floats(rng, *_ints(rng, 1, 4, 3))
    return Call("Flatten", int(rng.choice([9, 11, 13])), (x,), (), _maybe(rng, axis=int(rng.integers(-4, 5))))


def _expand(rng: Generator) -> Call:
    x = _floats(rng, *(int(d) for d in rng.choice([1, 1, 2, 3], 2)))
    shape = [int(s) for s in rng.choice([1, 2, 3], int(rng.integers(0, 4)))]
    return Call("Expand", 13, (x,), (np.array(shape, dtype=np.int64),))


def _resize(rng: Generator) -> Call:
    x = _floats(rng, 1, 2, *_ints(rng, 1, 7, 2))
    opset = int(rng.choice([11, 13, 18, 19]))
    attributes: dict[str, Any] = {"mode": str(rng.choice(["nearest", "linear", "cubic"]))}
    coordinates = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
    attributes |= _maybe(rng, cubic_coeff_a=-0.5, extrapolation_value=3.0)
    attributes |= _maybe(rng, exclude_outside=int(rng.integers(0, 2)))
    attributes |= _maybe(rng, antialias=int(rng.integers(0, 2))) if opset >= 18 else {}
    coordinates += ["half_pixel_symmetric"] * 2 if opset >= 19 else ["tf_half_pixel_for_nn"] if opset < 13 else []
    nearest = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
    attributes |= _maybe(rng, coordinate_transformation_mode=str(rng.choice(coordinates)))
    attributes |= _maybe(rng, nearest_mode=str(rng.choice(nearest)))
    empty = np.zeros(0, dtype=np.float32)
    roi = np.array([0, 0, *rng.choice([0, 0.25, -0.3], 2), 1, 1, *rng.choice([0.75, 1, 1.2], 2)], dtype=np.float32)
    if rng.random() < 0.5:
        scales = [1.0, 1.0, *rng.choice([0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 1 / 3, 1.3], 2)]
        return Call("Resize", opset, (x,), (roi, np.array(scales, dtype=np.float32)), attributes)
    sizes = [1, 2, *_ints(rng, 1, 12, 2)]
    if opset >= 18 and rng.random() < 0.5:
        attributes["axes"] = [[-1, 2], [-2, 3], [2, 3], [2, 3]][int(rng.integers(0, 4))]
        attributes |= _maybe(rng, keep_aspect_ratio_policy=str(rng.choice(["stretch", "not_larger", "not_smaller"])))
        sizes, roi = sizes[2:], roi[[2, 3, 6, 7]]
    return Call("Resize", opset, (x,), (roi, empty, np.array(sizes)), attributes)


def _upsample(rng: Generator) -> Call:
    opset = int(rng.choice([7, 9, 10]))
    x = _floats(rng, 1, 2, *_ints(rng, 1, 7, 2))
    scales = [1.0, 1.0, *(float(s) for s in rng.choice([0.5, 1.0, 1.5, 2.0, 3.0, 1.3], 2))]
    attributes = {"mode": str(rng.choice(["nearest", "linear"]))}
    if opset == 7:
        return Call("Upsample", opset, (x,), (), {**attributes, "scales": scales})
    op_type = "Upsample" if opset < 10 else "Resize"
    return Call(op_type, opset, (x,), (np.array(scales, dtype=np.float32),), attributes)


# Kind of node, and how many of 200 random ones must be compared: neither opaque nor refused by ONNX Runtime.
MAKERS: list[tuple[Callable[[Generator], Call], int]] = [
    (_conv, 100),
    (_conv_transpose, 80),
    (_pool, 80),
    (_slice, 150),
    (_pad, 80),
    (_split, 60),
    (_reshape, 30),
    (_gather, 120),
    (_squeeze, 40),
    (_flatten, 100),
    (_expand, 80),
    (_resize, 80),
    (_upsample, 60),
]


@pytest.mark.parametrize(("make", "enough"), MAKERS, ids=lambda value: getattr(value, "__name__", None))
def test_random_nodes_have_the_values_of_onnx_runtime(make: Callable[[Generator], Call], enough: int) -> None:
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(200):
        call = make(rng)
        value = call.value()
        if value is None:
            continue
        try:
            actual = call.actual()
        except Exception:  # noqa: BLE001  onnxruntime raises classes of its own: a node that it refuses
            continue
        assert value.shape == actual.shape, call
        np.testing.assert_allclose(value, actual, rtol=1e-4, atol=1e-5, err_msg=str(call))
        compared += 1
    assert compared >= enough

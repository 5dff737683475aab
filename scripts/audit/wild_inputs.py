"""Pieces of `wild_models` whose sizes are inputs, computed, or zero."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from scripts.audit.wild_models import FLOAT, INT64, Wild, piece


@piece()
def reshape_to_input(g: Wild) -> None:
    x, shape = g.pick()
    to = (math.prod(shape[:-1]) or 1, shape[-1]) if len(shape) > 1 else (1, *shape)
    g.add(to, "Reshape", x, g.given(to, np.int64))


@piece()
def reshape_computed(g: Wild) -> None:
    x, shape = g.pick()
    sizes = g.one("Shape", x)
    first = g.one("Gather", sizes, g.ints(0), axis=0)
    if g.number(0, 2):
        first = g.one("Cast", g.one("Floor", g.one("Cast", first, to=FLOAT)), to=INT64)
    to = g.one("Concat", first, g.ints(-1), axis=0)
    g.add((shape[0], math.prod(shape[1:])), "Reshape", x, to)


@piece(10)
def slice_by_inputs(g: Wild) -> None:
    x, shape = g.pick()
    given = [g.given([v], np.int64) for v in (0, shape[-1], len(shape) - 1, 1)]
    g.add(shape, "Slice", x, *given[: g.number(3, 5)])


@piece(13)
def split_by_input(g: Wild) -> None:
    x, shape = g.pick()
    if shape[-1] >= 2:
        a, b = g.node("Split", [x, g.given([1, shape[-1] - 1], np.int64)], 2, axis=len(shape) - 1)
        g.values.update({a: (*shape[:-1], 1), b: (*shape[:-1], shape[-1] - 1)})


@piece()
def tile_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Tile", x, g.given([1] * len(shape), np.int64))


@piece(8)
def expand_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Expand", x, g.given(shape, np.int64))


@piece(13)
def reduce_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add((*shape[:-1], 1), "ReduceSum", x, g.given([-1], np.int64))


@piece(13)
def axes_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add((1, *shape), "Unsqueeze", x, g.given([0], np.int64))
    y = g.one("Unsqueeze", x, g.ints(0))
    g.add(shape, "Squeeze", y, g.given([0], np.int64))


@piece(10)
def top_by_input(g: Wild) -> None:
    x, shape = g.pick()
    best, where = g.node("TopK", [x, g.given([1], np.int64)], 2, axis=-1)
    g.values[best] = (*shape[:-1], 1)
    g.output(where, INT64)


@piece(11)
def pad_by_input(g: Wild) -> None:
    x, shape = g.pick()
    pads = [0] * (2 * len(shape))
    pads[-1] = 1
    g.add((*shape[:-1], shape[-1] + 1), "Pad", x, g.given(pads, np.int64))


@piece(11)
def resize_by_input(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) != 4:
        return
    if g.number(0, 2):
        scales = g.given([1, 1, 2, 2])
        g.add((*shape[:2], 2 * shape[2], 2 * shape[3]), "Resize", x, g.const([]), scales, mode="nearest")
    else:
        sizes = g.given([*shape[:2], 3, 3], np.int64)
        g.add((*shape[:2], 3, 3), "Resize", x, g.const([]), g.const([]) if g.opset < 13 else "", sizes, mode="linear")


@piece(11)
def one_hot_by_input(g: Wild) -> None:
    """Indices and depth."""
    indices = g.given([0, 1, 2], np.int64)
    g.add((3, 5), "OneHot", indices, g.given(5, np.int64, []), g.const([0.0, 1.0]))


@piece(11)
def range_by_input(g: Wild) -> None:
    limit = g.given(4, np.int64, [])
    r = g.one("Range", g.const(0, np.int64), limit, g.const(1, np.int64))
    g.add((4,), "Cast", r, to=FLOAT)


@piece(14)
def axis_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "CumSum", x, g.given(0, np.int64, []))
    if len(shape) >= 2:
        g.add(shape, "Trilu", x, g.given(0, np.int64, []))


@piece(9)
def constant_of_input(g: Wild) -> None:
    g.values[g.one("ConstantOfShape", g.given([2, 3], np.int64))] = (2, 3)


@piece(11)
def indices_by_input(g: Wild) -> None:
    x, shape = g.pick()
    n = shape[-1]
    g.add((*shape[:-1], 2), "Gather", x, g.given([0, n - 1], np.int64), axis=len(shape) - 1)
    g.add(shape, "GatherElements", x, g.given(np.zeros(shape), np.int64), axis=len(shape) - 1)
    g.add(shape[1:], "GatherND", x, g.given([0], np.int64))
    g.add(shape, "ScatterElements", x, g.given(np.zeros(shape), np.int64), g.weight(*shape), axis=len(shape) - 1)


@piece(11)
def condition_by_input(g: Wild) -> None:
    """Conditions, masks and bounds."""
    x, shape = g.pick()
    mask = g.given(np.ones(shape[-1:]), bool)
    g.add(shape, "Where", mask, x, g.const(0.0))
    g.add(shape, "Clip", x, g.given(-1.0, dims=[]), g.given(1.0, dims=[]))


@piece(12)
def dropout_by_input(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Dropout", x, g.given(0.3, dims=[]), g.given(False, bool, []))


@piece(11)
def lengths_by_input(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) >= 2:
        lengths = g.given([1] * shape[1], np.int64)
        g.add(shape, "ReverseSequence", x, lengths, batch_axis=1, time_axis=0)


@piece(14)
def normalised_by_input(g: Wild) -> None:
    """Statistics of a normalisation."""
    x, shape = g.pick()
    if len(shape) >= 2:
        given = [g.given(np.full(shape[1], v)) for v in (1.0, 0.0, 0.0, 1.0)]
        g.add(shape, "BatchNormalization", x, *given)


@piece(11)
def recurrent_by_input(g: Wild) -> None:
    lengths = g.given([3, 2], np.int32)
    x, shape = g.pick()
    if len(shape) == 3 and shape[1] == 2:
        g.one("GRU", x, g.weight(1, 12, shape[2]), g.weight(1, 12, 4), "", lengths, hidden_size=4)
    y = g.node("LSTM", [g.given(np.ones((3, 2, 5))), g.weight(1, 16, 5), g.weight(1, 16, 4), "", lengths],
               3, hidden_size=4)  # fmt: skip
    g.values[y[1]] = (1, 2, 4)


@piece(11)
def boxes_by_input(g: Wild) -> None:
    boxes, scores = g.given(g.random.random((1, 4, 4))), g.given(g.random.random((1, 1, 4)))
    most, over, least = g.given([2], np.int64), g.given([0.5]), g.given([0.1])
    g.output(g.one("NonMaxSuppression", boxes, scores, most, over, least), INT64)


@piece(16, 21)
def regions_by_input(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) == 4:
        rois = g.given([[0, 0, 2, 2]], dims=["rois", 4])
        where = g.given([0], np.int64, ["rois"])
        g.values[g.one("RoiAlign", x, rois, where, output_height=2, output_width=2)] = (1, shape[1], 2, 2)


@piece(11)
def compressed(g: Wild) -> None:
    """Sizes that depend on values."""
    x, _ = g.pick()
    g.output(g.one("NonZero", x), INT64)
    flat = g.one("Reshape", x, g.ints(-1))
    mask = g.one("Greater", flat, g.const(0.0))
    g.output(g.one("Exp", g.one("Compress", flat, mask, axis=0)))
    unique = g.node("Unique", [flat], 4, sorted=1)
    g.output(g.one("Neg", unique[0]))


@piece(10)
def empty(g: Wild) -> None:
    """Nothing left of an axis, joined with something."""
    x, shape = g.pick()
    none = g.one("Slice", x, g.ints(0), g.ints(0), g.ints(len(shape) - 1))
    g.output(none)
    g.add(shape, "Concat", x, none, axis=len(shape) - 1)
    g.output(g.one("Relu", none))


@piece(13)
def empty_input(g: Wild) -> None:
    x = g.given(np.zeros((0, 4)), dims=[0, 4])
    y = g.one("MatMul", x, g.weight(4, 3))
    g.output(g.one("ReduceSum", y, g.ints(0), keepdims=0))
    g.output(g.one("Concat", y, g.weight(2, 3), axis=0))


@piece(11)
def sizes_of_expressions(g: Wild) -> None:
    """Symbols with odd names, and sums of them."""
    a = g.given(np.ones((2, 3)), dims=["batch size", 3])
    b = g.given(np.ones((3, 3)), dims=[g.any_of("batch+1", "past_length + 1", "", "x", "N"), 3])
    g.values[g.one("Concat", a, b, axis=0)] = (5, 3)
    bad = g.given(np.ones((2, 2)), dims=[-1, 2])
    g.output(g.one("Tanh", bad))


@piece(13)
def sizes_multiplied(g: Wild) -> None:
    """Repeat and Expand as exporters write them: ConstantOfShape, Mul, Equal, Where, Expand."""
    x, shape = g.pick()
    sizes = g.one("Shape", x)
    ones = g.one("ConstantOfShape", g.one("Shape", sizes), value=_one())
    target = g.one("Where", g.one("Equal", sizes, g.one("Mul", ones, g.ints(-1))), ones, sizes)
    g.add(shape, "Expand", x, target)
    g.output(g.one("ReduceProd", sizes, keepdims=0), TensorProto.INT64)


def _one() -> TensorProto:
    from onnx import helper

    return helper.make_tensor("one", INT64, [1], [1])

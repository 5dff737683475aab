"""Pieces of `wild_models`: operators that few models have, in the forms of many opsets."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from scripts.audit.wild_models import FLOAT, INT64, Wild, piece


@piece()
def image(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) != 4 or min(shape[2:]) < 3:
        return
    channels = shape[1]
    pick = g.number(0, 6)
    if pick == 0:
        g.add((shape[0], 4, *shape[2:]), "Conv", x, g.weight(4, channels, 3, 3), g.weight(4), auto_pad="SAME_UPPER")
    elif pick == 1:
        g.add((shape[0], 2, shape[2] + 2, shape[3] + 2), "ConvTranspose", x, g.weight(channels, 2, 3, 3))
    elif pick == 2:
        y, where = g.node("MaxPool", [x], 2, kernel_shape=[2, 2], storage_order=1) if g.opset >= 8 else (x, "")
        g.values[y] = (*shape[:2], shape[2] - 1, shape[3] - 1) if where else shape
    elif pick == 3:
        g.add(shape, "LRN", x, size=3)
    elif pick == 4:
        g.add(shape, "InstanceNormalization", x, g.weight(channels), g.weight(channels))
    else:
        g.add(shape, "Conv", x, g.weight(channels, 1, 3, 3), group=channels, pads=[2] * 4, dilations=[2, 2])


@piece(7, 12)
def old_forms(g: Wild) -> None:
    """Axes as attributes."""
    x, shape = g.pick()
    g.add((1, *shape), "Unsqueeze", x, axes=[0])
    g.add((*shape[:-1], 1), "ReduceSum", x, axes=[len(shape) - 1])
    g.add((shape[0], math.prod(shape[1:])), "Softmax", g.one("Flatten", x, axis=1) if len(shape) > 1 else x, axis=1) \
        if len(shape) > 1 else None  # fmt: skip


@piece(7, 9)
def older_forms(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Slice", x, starts=[0], ends=[999], axes=[len(shape) - 1])
    g.add(shape, "Pad", x, pads=[0] * (2 * len(shape)))
    best, where = g.node("TopK", [x], 2, k=1)
    g.values[best] = (*shape[:-1], 1)
    g.output(where, INT64)
    if len(shape) == 4:
        g.add((*shape[:2], 2 * shape[2], 2 * shape[3]), "Upsample", x, g.const([1, 1, 2, 2])) if g.opset == 9 else None


@piece(7, 10)
def clip_by_attribute(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Clip", x, min=-1.0, max=g.any_of(1.0, 6.0))
    g.add(shape, "Dropout", x, ratio=0.5)


@piece(12)
def einsum(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) == 3:
        g.add((shape[0], shape[2], shape[2]), "Einsum", x, x, equation="bij,bik->bjk")
    elif len(shape) == 2:
        g.add((shape[0],), "Einsum", x, g.weight(shape[1]), equation="...j,j->...")


@piece()
def vectors(g: Wild) -> None:
    """Products with operands of one axis."""
    x, shape = g.pick()
    g.add(shape[:-1], "MatMul", x, g.weight(shape[-1]))


@piece(18)
def new_reductions(g: Wild) -> None:
    x, shape = g.pick()
    kind = g.any_of("ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd")
    g.add(shape, kind, x, noop_with_empty_axes=1)
    g.add((), kind, x, g.ints(), keepdims=0)
    a, b = g.node("Split", [x], 2, axis=-1, num_outputs=2) if shape[-1] >= 2 else (x, x)
    g.output(a)
    g.output(b) if a != b else None


@piece(18)
def bits(g: Wild) -> None:
    x, shape = g.pick()
    whole = g.one("Cast", g.one("Clip", x, g.const(-100.0), g.const(100.0)), to=TensorProto.INT32)
    mixed = g.one(g.any_of("BitwiseAnd", "BitwiseOr", "BitwiseXor"), whole, g.const(5, np.int32))
    g.add(shape, "Cast", g.one("Mod", mixed, g.const(7, np.int32)), to=FLOAT)


@piece(11)
def wide_types(g: Wild) -> None:
    """Arithmetic in double, and in whole numbers that wrap."""
    x, shape = g.pick()
    wide = g.one("Cast", x, to=TensorProto.DOUBLE)
    g.add(shape, "Cast", g.one("Mul", g.one("Add", wide, wide), g.const(0.5, np.float64)), to=FLOAT)
    whole = g.given([2**62, -(2**62), 5], np.int64)
    g.output(g.one("Mul", g.one("Add", whole, whole), g.const(3, np.int64)), INT64)


@piece(13)
def half(g: Wild) -> None:
    x, shape = g.pick()
    low = g.one("Cast", x, to=TensorProto.FLOAT16)
    doubled = g.one("Mul", low, g.const(2.0, np.float16))
    g.add(shape, "Cast", g.one("Add", doubled, g.const(1.0, np.float16)), to=FLOAT)
    g.output(doubled, TensorProto.FLOAT16)


@piece(13)
def brain_float(g: Wild) -> None:
    x, shape = g.pick()
    low = g.one("Cast", x, to=TensorProto.BFLOAT16)
    g.add(shape, "Cast", low, to=FLOAT)
    if not g.number(0, 8):  # numpy has no such type: few can run it
        g.output(low, TensorProto.BFLOAT16)


@piece(17)
def signal(g: Wild) -> None:
    window = g.one("HannWindow", g.const(8, np.int64))
    g.values[window] = (8,)
    if g.opset < 20:
        g.add((1, 8, 2), "DFT", g.weight(1, 8, 1), axis=1)
    else:
        g.add((1, 8, 2), "DFT", g.weight(1, 8, 1), "", g.const(1, np.int64))


@piece(17)
def layer_norm(g: Wild) -> None:
    x, shape = g.pick()
    n = shape[-1]
    y, mean, _ = g.node("LayerNormalization", [x, g.weight(n), g.weight(n)], 3)
    g.values[y] = shape
    g.output(mean)


@piece(20)
def gelu(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Gelu", x, approximate=g.any_of("none", "tanh"))
    g.output(g.one("IsInf", x), TensorProto.BOOL)


@piece(23)
def attention(g: Wild) -> None:
    q = g.given(g.random.normal(size=(1, 2, 4, 8)), dims=["b", 2, 4, 8])
    g.add((1, 2, 4, 8), "Attention", q, q, q, is_causal=g.number(0, 2))
    x, shape = g.pick()
    g.add(shape, "RMSNormalization", x, g.weight(shape[-1]))


@piece(24)
def swish(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, "Swish", x, alpha=1.5)


@piece(14)
def contributed(g: Wild) -> None:
    """Operators of ONNX Runtime's own."""
    x, shape = g.pick()
    op = g.any_of("Gelu", "QuickGelu")
    g.add(shape, op, x, domain="com.microsoft")
    if len(shape) == 2:
        g.add((shape[0], 3), "FusedMatMul", x, g.weight(3, shape[1]), transB=1, domain="com.microsoft")


@piece(11)
def chosen(g: Wild) -> None:
    """ArgMax, Gather, OneHot, Scatter, EyeLike: indices that are computed."""
    x, shape = g.pick()
    where = g.one("ArgMax", x, axis=-1, keepdims=1)
    g.add((*shape[:-1], 1), "GatherElements", x, where, axis=-1)
    g.output(where, INT64)
    if len(shape) == 2:
        g.add(shape, "Mul", x, g.one("EyeLike", x))


@piece(7, 21)
def drawn(g: Wild) -> None:
    """Random numbers, which no comparison can judge."""
    x, shape = g.pick()
    g.add(shape, "RandomNormalLike", x, seed=1.0)
    if g.opset >= 12:
        g.add(shape, "Dropout", x, g.const(0.5), g.const(True, bool))


@piece()
def constants(g: Wild) -> None:
    """Constant nodes of every kind of attribute, and what is computed of them alone."""
    x, shape = g.pick()
    if g.opset >= 12:
        c = g.any_of({"value_float": 2.0}, {"value_floats": [2.0]})
        g.add(shape, "Add", x, g.one("Constant", **c))
        g.output(g.one("Constant", value_strings=["a", "b"]), TensorProto.STRING)
    held = g.one("Constant", value=helper.make_tensor("c", FLOAT, [1], [3.0]))
    g.add(shape, "Mul", x, g.one("Exp", held))
    g.output(g.one("Sqrt", g.one("Neg", held)))


@piece(16)
def grid(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) == 4:
        at = g.given(g.random.uniform(-1, 1, (shape[0], 3, 3, 2)))
        mode = "bilinear" if g.opset < 20 else "linear"
        g.add((*shape[:2], 3, 3), "GridSample", x, at, mode=mode)


@piece(13)
def loss(g: Wild) -> None:
    scores, labels = g.given(g.random.normal(size=(3, 4))), g.given([0, 1, 3], np.int64)
    g.add((), "SoftmaxCrossEntropyLoss", scores, labels)


@piece(11)
def space(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) == 4 and shape[2] % 2 == shape[3] % 2 == 0:
        n, c, h, w = shape
        y = g.one("SpaceToDepth", x, blocksize=2)
        g.values[y] = (n, 4 * c, h // 2, w // 2)
        g.add(shape, "DepthToSpace", y, blocksize=2, mode="DCR")


@piece(8)
def means(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, g.any_of("Sum", "Max", "Min", "Mean"), x, x, g.weight(*shape[-1:]))
    g.add(shape, "Sum", x)

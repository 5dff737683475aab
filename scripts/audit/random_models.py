"""Random valid models of a small grammar: for runs that must end well whatever the model is.

A model grows from one input by operators drawn from the grammar, each of which keeps the shapes of all values
known at the size 1 of the input's first axis, which is declared symbolic in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from taso_py.arrays import Array

OPSET, IR = 17, 8
MOST_ELEMENTS = 4096
"""Values larger than this are not built upon."""
Shape = tuple[int, ...]

UNARY = (
    *("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos"),
    *("Atan", "Softplus", "Softsign", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish", "Identity"),
    *("ThresholdedRelu", "Dropout", "Sinh", "Asinh"),
)
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "PRelu")
COMPARISONS = ("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
POOLS = ("MaxPool", "AveragePool", "LpPool")
GLOBAL_POOLS = ("GlobalAveragePool", "GlobalMaxPool")


@dataclass(slots=True)
class _Growing:
    """A graph under construction: its values that may still be read, float32 all, with their shapes."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[str, Shape] = field(default_factory=dict)

    def name(self) -> str:
        return f"v{len(self.nodes)}_{len(self.weights)}"

    def pick(self) -> tuple[str, Shape]:
        names = list(self.values)
        name = names[int(self.random.integers(len(names)))]
        return name, self.values[name]

    def weight(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape).astype(np.float32))

    def constant(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op_type: str, inputs: list[str], outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"{self.name()}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names

    def add(self, shape: Shape, op_type: str, inputs: list[str], **attributes: object) -> None:
        (name,) = self.node(op_type, inputs, **attributes)
        if np.prod(shape) <= MOST_ELEMENTS:
            self.values[name] = shape

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))


def _choice(growing: _Growing, among: tuple[str, ...]) -> str:
    return among[growing.number(0, len(among))]


def _unary(g: _Growing) -> None:
    x, shape = g.pick()
    g.add(shape, _choice(g, UNARY), [x])


def _binary(g: _Growing) -> None:
    (x, shape), (y, other) = g.pick(), g.pick()
    if shape != other:
        y = g.weight(*shape[1:])
    g.add(shape, _choice(g, BINARY), [x, y])


def _select(g: _Growing) -> None:
    x, shape = g.pick()
    (mask,) = g.node(_choice(g, COMPARISONS), [x, g.weight(1)])
    if g.number(0, 2):
        (mask,) = g.node("Not", [mask])
    g.add(shape, "Where", [mask, x, g.weight(*shape[-1:])])


def _cast(g: _Growing) -> None:
    x, shape = g.pick()
    (whole,) = g.node("Cast", [x], to=TensorProto.INT64)
    g.add(shape, "Cast", [whole], to=TensorProto.FLOAT)


def _clip(g: _Growing) -> None:
    x, shape = g.pick()
    low, high = (g.constant(np.float32(v).reshape(())) for v in (-0.5, 0.5))
    g.add(shape, "Clip", [x, low, high])


def _matmul(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) >= 2:
        width = g.number(1, 9)
        g.add((*shape[:-1], width), "MatMul", [x, g.weight(shape[-1], width)])


def _gemm(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) == 2:
        width = g.number(1, 9)
        g.add((shape[0], width), "Gemm", [x, g.weight(width, shape[1]), g.weight(width)], transB=1, alpha=0.5)


def _conv(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) == 4 and min(shape[2:]) >= 3:
        channels, size, pad = g.number(1, 9), (1, 3)[g.number(0, 2)], g.number(0, 2)
        after = tuple(d + 2 * pad - size + 1 for d in shape[2:])
        attributes = {"kernel_shape": [size, size], "pads": [pad] * 4}
        g.add((shape[0], channels, *after), "Conv", [x, g.weight(channels, shape[1], size, size)], **attributes)


def _batch_normalization(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) >= 2:
        scale, bias, mean = (g.weight(shape[1]) for _ in range(3))
        variance = g.constant(g.random.uniform(0.5, 1.5, shape[1]).astype(np.float32))
        g.add(shape, "BatchNormalization", [x, scale, bias, mean, variance])


def _layer_normalization(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) >= 2:
        g.add(shape, "LayerNormalization", [x, g.weight(shape[-1]), g.weight(shape[-1])])


def _pool(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) == 4 and min(shape[2:]) >= 2:
        after = tuple(d // 2 for d in shape[2:])
        g.add((*shape[:2], *after), _choice(g, POOLS), [x], kernel_shape=[2, 2], strides=[2, 2])


def _global_pool(g: _Growing) -> None:
    x, shape = g.pick()
    if len(shape) == 4:
        g.add((*shape[:2], 1, 1), _choice(g, GLOBAL_POOLS), [x])


def _reduce(g: _Growing) -> None:
    x, shape = g.pick()
    axis, keep = g.number(0, len(shape)), g.number(0, 2)
    if len(shape) > 1:
        after = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        g.add(after, _choice(g, REDUCTIONS), [x], axes=[axis], keepdims=keep)


def _softmax(g: _Growing) -> None:
    x, shape = g.pick()
    g.add(shape, _choice(g, ("Softmax", "LogSoftmax", "Hardmax")), [x], axis=g.number(0, len(shape)))


def _cumulative_sum(g: _Growing) -> None:
    x, shape = g.pick()
    g.add(shape, "CumSum", [x, g.constant(np.int64(g.number(0, len(shape))).reshape(()))])


def _transpose(g: _Growing) -> None:
    x, shape = g.pick()
    order = [int(axis) for axis in g.random.permutation(len(shape))]
    g.add(tuple(shape[axis] for axis in order), "Transpose", [x], perm=order)


def _reshape(g: _Growing) -> None:
    x, shape = g.pick()
    after = (int(np.prod(shape[:-1])), shape[-1]) if g.number(0, 2) else (*shape, 1)
    target = [-1 if k == 0 else d for k, d in enumerate(after)]
    g.add(after, "Reshape", [x, g.constant(np.array(target, np.int64))])


def _reshape_by_shape(g: _Growing) -> None:
    """As PyTorch writes ``x.view(x.size(0), -1)``."""
    x, shape = g.pick()
    (sizes,) = g.node("Shape", [x])
    (first,) = g.node("Slice", [sizes, *(g.constant(np.array([v], np.int64)) for v in (0, 1))])
    (target,) = g.node("Concat", [first, g.constant(np.array([-1], np.int64))], axis=0)
    g.add((shape[0], int(np.prod(shape[1:]))), "Reshape", [x, target])


def _upsample_by_shape(g: _Growing) -> None:
    """As PyTorch writes ``interpolate(x, scale_factor=2)``: Shape, Cast, Mul, Floor, Cast, Resize."""
    x, shape = g.pick()
    if len(shape) != 4:
        return
    (sizes,) = g.node("Shape", [x])
    first, last = (
        g.node("Slice", [sizes, *(g.constant(np.array([v], np.int64)) for v in ends)])[0] for ends in ((0, 2), (2, 4))
    )
    (real,) = g.node("Cast", [last], to=TensorProto.FLOAT)
    (scaled,) = g.node("Mul", [real, g.constant(np.array([2.0, 2.0], np.float32))])
    (floor,) = g.node("Floor", [scaled])
    (whole,) = g.node("Cast", [floor], to=TensorProto.INT64)
    (target,) = g.node("Concat", [first, whole], axis=0)
    after = (*shape[:2], 2 * shape[2], 2 * shape[3])
    g.add(after, "Resize", [x, "", "", target], mode="nearest", nearest_mode="floor")


def _squeeze(g: _Growing) -> None:
    x, shape = g.pick()
    g.add((1, *shape), "Unsqueeze", [x, g.constant(np.array([0], np.int64))])


def _concat(g: _Growing) -> None:
    x, shape = g.pick()
    axis, number = g.number(0, len(shape)), g.number(2, 4)
    after = (*shape[:axis], number * shape[axis], *shape[axis + 1 :])
    g.add(after, "Concat", [x] * number, axis=axis)


def _split(g: _Growing) -> None:
    x, shape = g.pick()
    if shape[-1] >= 2:
        parts = [1, shape[-1] - 1]
        names = g.node("Split", [x, g.constant(np.array(parts, np.int64))], outputs=2, axis=-1)
        g.values.update({name: (*shape[:-1], part) for name, part in zip(names, parts, strict=True)})


def _slice(g: _Growing) -> None:
    x, shape = g.pick()
    if shape[-1] >= 2:
        starts, ends, axes = (g.constant(np.array([v], np.int64)) for v in (1, shape[-1], -1))
        g.add((*shape[:-1], shape[-1] - 1), "Slice", [x, starts, ends, axes])


def _pad(g: _Growing) -> None:
    x, shape = g.pick()
    pads = [0] * (2 * len(shape))
    pads[-1] = 1
    g.add((*shape[:-1], shape[-1] + 1), "Pad", [x, g.constant(np.array(pads, np.int64))])


def _expand(g: _Growing) -> None:
    x, shape = g.pick()
    repeats = [1] * (len(shape) - 1) + [2]
    g.add((*shape[:-1], 2 * shape[-1]), "Tile", [x, g.constant(np.array(repeats, np.int64))])


def _gather(g: _Growing) -> None:
    x, shape = g.pick()
    places = g.random.integers(0, shape[-1], 3)
    g.add((*shape[:-1], 3), "Gather", [x, g.constant(places.astype(np.int64))], axis=len(shape) - 1)


def _if(g: _Growing) -> None:
    """Both branches capture an outer value."""
    x, shape = g.pick()
    (total,) = g.node("ReduceSum", [x], keepdims=0)
    (positive,) = g.node("Greater", [total, g.constant(np.float32(0).reshape(()))])
    branches = [
        helper.make_graph([helper.make_node(op, [x], [out])], out, [], [_info(out)])
        for op, out in (("Relu", f"{g.name()}_then"), ("Neg", f"{g.name()}_else"))
    ]
    g.add(shape, "If", [positive], then_branch=branches[0], else_branch=branches[1])


GRAMMAR: tuple[Callable[[_Growing], None], ...] = (
    *(_unary, _binary, _select, _cast, _clip, _matmul, _gemm, _conv, _batch_normalization, _layer_normalization),
    *(_pool, _global_pool, _reduce, _softmax, _cumulative_sum, _transpose, _reshape, _reshape_by_shape),
    *(_upsample_by_shape, _squeeze, _concat, _split, _slice, _pad, _expand, _gather, _if),
)


def random_model(seed: int, length: int = 14) -> onnx.ModelProto:
    """The model of a seed: ``length`` draws from the grammar; every value that nothing reads is an output."""
    random = np.random.default_rng(seed)
    growing = _Growing(random)
    shapes: tuple[Shape, ...] = ((1, 3, 8, 8), (1, 4, 6), (1, 5), (1, 2, 5, 5))
    shape = shapes[seed % len(shapes)]
    growing.values["x"] = shape
    while len(growing.nodes) < length:
        GRAMMAR[growing.number(0, len(GRAMMAR))](growing)
    read = {name for node in growing.nodes for name in node.input}
    computed = [name for node in growing.nodes for name in node.output]
    outputs = [_info(n) for n in computed if n not in read]
    graph = helper.make_graph(growing.nodes, f"random{seed}", [_info("x", shape, {0: "n"})], outputs, growing.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def _info(name: str, shape: Shape | None = None, symbols: Mapping[int, str] | None = None) -> onnx.ValueInfoProto:
    dims = None if shape is None else [(symbols or {}).get(axis, size) for axis, size in enumerate(shape)]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

"""Random valid models of what exporters write rarely, with inputs that each of them takes.

A model grows from one input by pieces, as those of `random_models` do: bodies of If, Loop and Scan that capture
outer values, functions, sequences, optionals, strings, sparse and narrow weights, quantisation, empty and computed
sizes, inputs that are sizes or indices, outputs without a type, names that need care, opsets 7 to the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from taso_py.arrays import Array

NEWEST = 24
"""The newest opset that every admitted ONNX Runtime loads."""
Shape = tuple[int, ...]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass(slots=True, kw_only=True)
class Wild:
    """A model under construction."""

    random: np.random.Generator
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    sparse: list[onnx.SparseTensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    feeds: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Shape] = field(default_factory=dict)
    """Float32 values that may still be read, with their shapes at the inputs given."""
    count: int = 0

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def any_of(self, *among: Any) -> Any:
        return among[self.number(0, len(among))]

    def pick(self) -> tuple[str, Shape]:
        name = self.any_of(*(name for name, shape in self.values.items() if shape))
        return name, self.values[name]

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = self.name("w")
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(numbers, np.int64)

    def weight(self, *shape: int) -> str:
        return self.const(self.random.normal(size=shape))

    def given(self, array: Any, dtype: Any = np.float32, dims: list[Any] | None = None) -> str:
        """A further graph input."""
        name, value = self.name("in"), np.asarray(array, dtype)
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, element, dims or list(value.shape)))
        self.feeds[name] = value
        return name

    def node(self, op_type: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names

    def one(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.node(op_type, list(inputs), **attributes)[0]

    def add(self, shape: Shape, op_type: str, *inputs: str, **attributes: Any) -> None:
        name = self.one(op_type, *inputs, **attributes)
        if np.prod(shape) <= 4096:
            self.values[name] = shape

    def output(self, name: str, element: int = FLOAT, dims: list[Any] | None = None) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, element, dims))


Piece = Callable[[Wild], None]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A piece, and the opsets for which it is written."""

    piece: Piece
    low: int
    high: int


_KINDS: list[_Kind] = []


def piece(low: int = 7, high: int = 99) -> Callable[[Piece], Piece]:
    """Makes a function a piece of the grammar for these opsets."""

    def register(function: Piece) -> Piece:
        _KINDS.append(_Kind(function, low, high))
        return function

    return register


def wild_model(seed: int, length: int = 7) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model of a seed, and inputs that it takes; its opset is drawn too, mostly a recent one."""
    from scripts.audit import wild_pieces

    assert wild_pieces.__doc__  # importing it registers the pieces
    random = np.random.default_rng([7, seed])
    g = Wild(random=random, opset=int(random.choice([7, 9, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22, 23, NEWEST])))
    shape = g.any_of((1, 3, 8, 8), (1, 4, 6), (1, 5), (2, 2, 5, 5), (6,))
    dims = [g.any_of("n", 1) if shape[0] == 1 else shape[0], *shape[1:]]  # 1 is what a first axis is by default
    x = "x"
    g.inputs.append(helper.make_tensor_value_info(x, FLOAT, dims))
    g.feeds[x], g.values[x] = random.normal(size=shape).astype(np.float32), shape
    fitting = [kind.piece for kind in _KINDS if kind.low <= g.opset <= kind.high]
    for _ in range(length):
        g.any_of(*fitting)(g)
    return _finished(g, seed), g.feeds


def _finished(g: Wild, seed: int) -> onnx.ModelProto:
    read = {name for node in g.nodes for name in node.input} | {o.name for o in g.outputs}
    for name in g.values:
        if name not in read and name != "x":
            g.output(name)
    if not g.outputs:
        g.output(g.one("Identity", "x"))
    graph = helper.make_graph(g.nodes, f"wild{seed}", g.inputs, g.outputs, g.weights)
    graph.sparse_initializer.extend(g.sparse)
    opsets = [helper.make_opsetid("", g.opset)]
    if g.functions:
        opsets.append(helper.make_opsetid("wild", 1))
    domains = {node.domain for node in g.nodes}
    opsets += [helper.make_opsetid(d, 1) for d in sorted(domains & {"com.microsoft", "ai.onnx.ml"})]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=11 if g.opset >= 23 else 10, functions=g.functions
    )
    model.ir_version = 8 if g.opset < 19 else model.ir_version
    return model


def body(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto],
         weights: list[onnx.TensorProto] | None = None) -> onnx.GraphProto:  # fmt: skip
    """A subgraph."""
    return helper.make_graph(nodes, "body", inputs, outputs, weights or [])


def info(name: str, element: int = FLOAT, dims: list[Any] | None = None) -> onnx.ValueInfoProto:
    """A value of a subgraph; without dims its shape is left open."""
    return helper.make_tensor_value_info(name, element, dims)


def tensor(array: Array, name: str) -> onnx.TensorProto:
    """A weight of a subgraph."""
    return numpy_helper.from_array(array, name)

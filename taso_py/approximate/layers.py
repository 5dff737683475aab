"""The layers of a model that can be made 8-bit, which of them are in another model, and what their kernels take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from taso_py.backend.kernels import Kernel

LAYERS = ("Conv", "MatMul", "Gemm")
_PASSES_ON = frozenset({"Relu", "Clip"})
"""Operators that ONNX Runtime fuses into the layer before, whose kernel is then named after their output."""
_INTEGER = frozenset(
    {
        *("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
        *("QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits"),
    }
)
_SUFFIXES = re.compile(r"(_nchwc|_token_\d+|_MatMul|_quant)$")


@dataclass(frozen=True, slots=True)
class Layer:
    """One Conv, MatMul or Gemm in float32 with constant weights."""

    name: str
    operator: str
    elements: int
    """Of its weights."""
    aliases: frozenset[str]
    """What ONNX Runtime may call its kernel."""


def layers_of(model: onnx.ModelProto) -> tuple[Layer, ...]:
    """In the order of the graph; layers in branches and loops stay as they are."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    overridable = {value.name for value in model.graph.input}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = []
    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type in LAYERS and len(node.input) > 1 else None
        if node.domain or weight is None or weight.name in overridable or weight.data_type != onnx.TensorProto.FLOAT:
            continue
        elements = 1
        for size in weight.dims:
            elements *= size
        found.append(Layer(node.name, node.op_type, elements, frozenset({node.name, *_made(node, readers)})))
    return tuple(found)


def _made(node: onnx.NodeProto, readers: Mapping[str, Sequence[onnx.NodeProto]]) -> Iterator[str]:
    """The outputs after which a kernel with this layer in it may be called."""
    name = node.output[0]
    yield name
    following = readers.get(name, [])
    if len(following) == 1 and following[0].op_type in _PASSES_ON:
        yield following[0].output[0]
        yield following[0].name


def approximate_nodes(model: onnx.ModelProto) -> tuple[str, ...]:
    """Names of the nodes that compute with fewer bits than float32, each by what stands in the model itself.

    Products of 8-bit numbers, and products whose second operand, the weights, is rounded to 8 bits first; a first one
    that is rounded may be there for the sake of what comes before.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    found = []
    for node in model.graph.node:
        weights = makers.get(node.input[1]) if len(node.input) > 1 else None
        rounded = weights is not None and weights.op_type == "DequantizeLinear"
        if node.op_type in _INTEGER or (node.op_type in LAYERS and rounded):
            found.append(node.name or node.output[0])
    return tuple(found)


def quantised_layers(layers: Iterable[Layer], model: onnx.ModelProto) -> frozenset[str]:
    """Names of those layers that a model of them computes with 8 bits."""
    bare = {bare_name(name) for name in approximate_nodes(model)}
    return frozenset(layer.name for layer in layers if bare_name(layer.name) in bare)


def bare_name(name: str) -> str:
    """A kernel's or node's name without what ONNX Runtime adds when it fuses, moves or quantises."""
    while True:
        shorter = _SUFFIXES.sub("", name)
        if shorter == name or not shorter:
            return name
        name = shorter


def seconds_of(layers: Iterable[Layer], kernels: Sequence[Kernel]) -> dict[str, float]:
    """Seconds of one run in each layer's kernels; a layer whose kernels cannot be told is left out."""
    took: dict[str, float] = {}
    for kernel in kernels:
        name = bare_name(kernel.name)
        took[name] = took.get(name, 0.0) + kernel.seconds
    found = {}
    for layer in layers:
        names = {bare_name(alias) for alias in layer.aliases} & took.keys()
        if names:
            found[layer.name] = sum(took[name] for name in names)
    return found


def gains(layers: Sequence[Layer], before: Sequence[Kernel], after: Sequence[Kernel]) -> dict[str, float]:
    """Seconds of one run that each layer saves when it is 8-bit, by the profiles of both models.

    Where a layer's kernel cannot be told, its part of what the whole model saves, by the elements of its weights.
    """
    old, new = seconds_of(layers, before), seconds_of(layers, after)
    whole = sum(kernel.seconds for kernel in before) - sum(kernel.seconds for kernel in after)
    weights = sum(layer.elements for layer in layers) or 1
    return {
        layer.name: old[layer.name] - new[layer.name]
        if layer.name in old and layer.name in new
        else whole * layer.elements / weights
        for layer in layers
    }

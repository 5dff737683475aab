"""The layers of a model that can be made 8-bit, which of them are in another model, and what their kernels take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from taso_py.approximate.model import every_node
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
_ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear"})
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


def approximate_nodes(model: onnx.ModelProto, exact: onnx.ModelProto) -> tuple[str, ...]:
    """Names of all nodes that compute with 8-bit numbers, or through them, where the exact model does not.

    Those are products of integers, what reads a value that was rounded to 8 bits, and what computes one that is
    rounded; in branches, loops and functions too.
    """
    before = {(place, node.output[0]) for place, node in every_node(exact) if _is_8_bit(node)}
    nodes = tuple(every_node(model))
    new = [(place, node) for place, node in nodes if _is_8_bit(node) and (place, node.output[0]) not in before]
    read = {(place, node.output[0]) for place, node in new if node.op_type == "DequantizeLinear"}
    made = {(place, node.input[0]) for place, node in new if node.op_type == "QuantizeLinear"}
    made |= {(place, name) for place, node in new if node.op_type not in _ROUNDING for name in node.output}
    found = (
        node.name or node.output[0]
        for place, node in nodes
        if node.op_type not in _ROUNDING
        and (any((place, name) in read for name in node.input) or any((place, name) in made for name in node.output))
    )
    return tuple(dict.fromkeys(found))


def _is_8_bit(node: onnx.NodeProto) -> bool:
    return node.op_type in _ROUNDING or node.op_type in _INTEGER or node.op_type.startswith("QLinear")


def _products(model: onnx.ModelProto) -> Iterator[str]:
    """Names of the products of 8-bit numbers, and of those whose second operand, the weights, is rounded to 8 bits.

    A first operand that is rounded may be there for the sake of what comes before.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        weights = makers.get(node.input[1]) if len(node.input) > 1 else None
        rounded = weights is not None and weights.op_type == "DequantizeLinear"
        if node.op_type in _INTEGER or (node.op_type in LAYERS and rounded):
            yield node.name or node.output[0]


def quantised_layers(layers: Iterable[Layer], model: onnx.ModelProto) -> frozenset[str]:
    """Names of those layers that a model of them computes with 8 bits."""
    found = map(_finder(layers), _products(model))
    return frozenset(layer for layer in found if layer is not None)


def _shortened(name: str) -> Iterator[str]:
    """A kernel's or node's name, then ever less of what ONNX Runtime adds when it fuses, moves or quantises."""
    while True:
        yield name
        shorter = _SUFFIXES.sub("", name)
        if shorter == name or not shorter:
            return
        name = shorter


def bare_name(name: str) -> str:
    """A kernel's or node's name without what ONNX Runtime adds."""
    return list(_shortened(name))[-1]


def _finder(layers: Iterable[Layer]) -> Callable[[str], str | None]:
    """Which layer a kernel or node is of, by its name; None for one that is of none, or of one of several.

    A layer's own name counts before a shorter one: `fc_MatMul` may be a layer beside `fc`.
    """
    known = {alias: layer.name for layer in layers for alias in layer.aliases}
    bare: dict[str, set[str]] = {}
    for alias, layer in known.items():
        bare.setdefault(bare_name(alias), set()).add(layer)

    def found(name: str) -> str | None:
        own = next((known[short] for short in _shortened(name) if short in known), None)
        similar = bare.get(bare_name(name), set())
        return own or (next(iter(similar)) if len(similar) == 1 else None)

    return found


def seconds_of(layers: Iterable[Layer], kernels: Sequence[Kernel]) -> dict[str, float]:
    """Seconds of one run in each layer's kernels; a layer whose kernels cannot be told is left out."""
    layer_of, took = _finder(layers), dict[str, float]()
    for kernel in kernels:
        layer = layer_of(kernel.name)
        if layer is not None:
            took[layer] = took.get(layer, 0.0) + kernel.seconds
    return took


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

"""Many small layers beside each other become few wide ones, however many there are and whatever stands between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from scripts.bench.networks import NETWORKS, REFERENCES
from scripts.bench.networks.convolution import random_linear
from scripts.bench.networks.graph import GraphWriter
from taso_py.onnx_io.load import load
from taso_py.search.moves import Moved
from tests.helpers.graphs import model, rewriter, running, view_of

PRODUCTS = ("Gemm", "MatMul")
SMALL: list[tuple[str, dict[str, Any]]] = [
    ("gru", {"steps": 6, "hidden": 16}),
    ("gru", {"steps": 5, "hidden": 8, "batch": 8}),
    ("multi_gate_experts", {"experts": 5, "gates": 3, "inputs": 16, "width": 16}),
    ("multi_gate_experts", {"experts": 10, "gates": 2, "inputs": 16, "width": 8, "batch": 8}),
]

Layer = Callable[[GraphWriter, str, str, int, int], str]


def gemm(graph: GraphWriter, name: str, value: str, inputs: int, outputs: int) -> str:
    layer = random_linear(np.random.default_rng(len(name)), inputs, outputs)
    weight, bias = graph.weight(f"{name}.weight", layer.weight), graph.weight(f"{name}.bias", layer.bias)
    return graph.op("Gemm", name, value, weight, bias, transB=1)


def matmul(graph: GraphWriter, name: str, value: str, inputs: int, outputs: int) -> str:
    weight = random_linear(np.random.default_rng(len(name)), inputs, outputs).weight.T
    return graph.op("MatMul", name, value, graph.weight(f"{name}.weight", weight))


def silu(graph: GraphWriter, name: str, value: str) -> str:
    return graph.op("Mul", name, value, graph.op("Sigmoid", f"{name}.sigmoid", value))


def gelu(graph: GraphWriter, name: str, value: str) -> str:
    """As exporters write it, with constants of its own."""
    scaled = graph.op("Div", f"{name}.scaled", value, graph.scalar(f"{name}.root", float(np.sqrt(2.0))))
    erf = graph.op("Erf", f"{name}.erf", scaled)
    shifted = graph.op("Add", f"{name}.shifted", erf, graph.scalar(f"{name}.one", 1.0))
    half = graph.scalar(f"{name}.half", 0.5)
    return graph.op("Mul", name, graph.op("Mul", f"{name}.product", value, shifted), half)


def relu(graph: GraphWriter, name: str, value: str) -> str:
    return graph.op("Relu", name, value)


def fields(layer: Layer, count: int, batch: int, stack: bool) -> onnx.ModelProto:
    """A recommender's inputs, each with a layer of its own, side by side or stacked."""
    graph = GraphWriter("fields")
    axis = graph.weight("axis", np.array([1], np.int64))
    found = [layer(graph, f"field{k}", graph.input(f"x{k}", (batch, 8)), 8, 4) for k in range(count)]
    if stack:
        found = [graph.op("Unsqueeze", f"stacked{k}", value, axis) for k, value in enumerate(found)]
    joined = graph.op("Concat", "joined", *found, axis=1)
    return graph.model({joined: (batch, count, 4) if stack else (batch, 4 * count)})


def deep_experts(layer: Layer, activation: Callable[[GraphWriter, str, str], str]) -> onnx.ModelProto:
    """Experts of three layers, side by side."""
    graph = GraphWriter("deep_experts")
    x = graph.input("x", (1, 16))
    found = []
    for k in range(6):
        value = x
        for depth, (inputs, outputs) in enumerate([(16, 12), (12, 8), (8, 4)]):
            value = layer(graph, f"expert{k}.{depth}", value, inputs, outputs)
            value = activation(graph, f"expert{k}.{depth}.activation", value)
        found.append(value)
    return graph.model({graph.op("Concat", "joined", *found, axis=1): (1, 24)})


def optimized(proto: onnx.ModelProto) -> Counter[str]:
    """Operators of what the library makes of a model, by the roofline alone; it is compared with the model."""
    result = taso_py.optimize(proto, race=False, cache=None)
    return Counter(n.op_type for n in result.model.graph.node)


def products(operators: Counter[str]) -> int:
    return sum(operators[name] for name in PRODUCTS)


@pytest.mark.parametrize(("name", "sizes"), SMALL)
def test_hardly_more_products_than_in_the_reference(name: str, sizes: dict[str, Any]) -> None:
    reference = Counter(n.op_type for n in REFERENCES[name](**sizes).graph.node)
    # Two wide products where the reference has one cost the roofline the same as one that is cut in two.
    assert products(optimized(NETWORKS[name](**sizes))) <= products(reference) + 1


@pytest.mark.parametrize(
    ("layer", "count", "batch", "stack"), [(gemm, 6, 1, False), (matmul, 12, 1, True), (gemm, 20, 8, True)]
)
def test_layers_of_different_inputs_are_one_product(layer: Layer, count: int, batch: int, stack: bool) -> None:
    operators = optimized(fields(layer, count, batch, stack))
    assert products(operators) == 1
    assert operators["Unsqueeze"] == 0


@pytest.mark.parametrize(("layer", "activation"), [(gemm, relu), (matmul, silu), (gemm, gelu)])
def test_experts_of_any_depth_are_one_product_a_layer(
    layer: Layer, activation: Callable[[GraphWriter, str, str], str]
) -> None:
    operators = optimized(deep_experts(layer, activation))
    assert products(operators) == 3


def moved(proto: onnx.ModelProto, rules: str, *names: str) -> Moved:
    """All matches of the first rule that matches, in one move."""
    found, canonical = rewriter(rules, *names)
    view = view_of(load(proto), canonical)
    outcome = found.apply(view, found.groups(view, found.all_matches(view))[0])
    assert outcome is not None
    return outcome


SIDE_BY_SIDE = """
rule outside:
  Concat(Tanh(x), Tanh(y), axis=a) => Tanh(Concat(x, y, axis=a))
"""


@pytest.mark.parametrize("count", [2, 3, 9, 40])
def test_all_that_a_concat_joins_is_merged_in_one_move(count: int) -> None:
    graph = GraphWriter("joined")
    parts = [graph.op("Tanh", f"t{k}", graph.input(f"x{k}", (1, 4))) for k in range(count)]
    outcome = moved(graph.model({graph.op("Concat", "y", *parts, axis=1): (1, 4 * count)}), SIDE_BY_SIDE)
    assert running(outcome.view.table) == {"Tanh": 1, "Concat": 1}
    assert len(outcome.sites) == count - 1


PAIR_AND_MORE = """
rule mirrored:
  Concat(Neg(x), Neg(y), axis=1) => Reshape(Abs(Concat(x, y, axis=1)), shape=[1, 2 * k]) for x[1, k], y[1, k]
rule mirrored-further:
  Concat(Reshape(Abs(x), shape=[1, m]), Neg(y), axis=1) => Reshape(Abs(Concat(x, y, axis=1)), shape=[1, m + k])
  for x[1, m], y[1, k]
"""


def test_a_rule_goes_on_with_the_one_of_its_name() -> None:
    graph = GraphWriter("further")
    parts = [graph.op("Neg", f"n{k}", graph.input(f"x{k}", (1, 4))) for k in range(5)]
    outcome = moved(graph.model({graph.op("Concat", "y", *parts, axis=1): (1, 20)}), PAIR_AND_MORE)
    assert running(outcome.view.table)["Abs"] == 1
    assert [site.rule for site in outcome.sites] == ["mirrored", *["mirrored-further"] * 3]


def names(outcome: Moved, outputs: Sequence[int]) -> list[str]:
    known = outcome.view.values.names
    return [known[o] for o in outputs if o in known]


def test_what_was_merged_inside_composites_is_not_merged_again() -> None:
    text = """agraph (float[1,8] x, float[1,8] y, float[1,8] z) => (float[1,4] p, float[1,4] q, float[1,4] r) {
      p = Gemm(x, A, B) q = Gemm(y, A, B) r = Gemm(z, A, B)}"""
    found, canonical = rewriter(None, "matmul-shared-weight")
    view = view_of(load(model(text, A=(8, 4), B=(4,))), canonical)
    outcome = found.apply(view, found.groups(view, found.all_matches(view))[0])
    assert outcome is not None
    assert len(outcome.sites) == 2
    assert running(outcome.view.table)["MatMul"] == 1


def test_siblings_merge_in_the_order_of_the_file() -> None:
    graph = GraphWriter("order")
    x = graph.input("x", (1, 8))
    parts = [gemm(graph, f"layer{k}", x, 8, 4) for k in range(4)]
    last = graph.op("Add", "sum", parts[3], parts[0])
    proto = graph.model({last: (1, 4), parts[1]: (1, 4), parts[2]: (1, 4)})
    found, canonical = rewriter(None, "matmul-bias-shared-input")
    view = view_of(load(proto), canonical)
    outcome = found.apply(view, found.groups(view, found.all_matches(view))[0])
    assert outcome is not None
    assert names(outcome, [o for site in outcome.sites for o in site.outputs]) == parts


@pytest.mark.parametrize(("second", "merged"), [(2.0, True), (3.0, False), (-2.0, False)])
def test_copies_of_a_number_are_one_number(second: float, merged: bool) -> None:
    graph = GraphWriter("numbers")
    parts = [
        graph.op("Mul", f"m{k}", graph.input(f"x{k}", (1, 4)), graph.scalar(f"c{k}", value))
        for k, value in enumerate([2.0, second])
    ]
    proto = graph.model({graph.op("Concat", "y", *parts, axis=1): (1, 8)})
    found, canonical = rewriter(None, "scaled-concat")
    assert bool(found.all_matches(view_of(load(proto), canonical))) is merged


@pytest.mark.parametrize(
    ("place", "other", "merged"), [(0, 1.0, True), (3, 1.5, False), (3, -0.0, False), (0, np.nan, False)]
)
def test_copies_of_a_mask_are_one_mask(place: int, other: float, merged: bool) -> None:
    """Bit for bit: what differs in one element, or in the sign of a zero, is another mask."""
    graph = GraphWriter("masks")
    mask = np.array([1, 2, 3, 0], np.float32)
    copy = mask.copy()
    copy[place] = other
    parts = [
        graph.op("Add", f"s{k}", graph.input(f"x{k}", (1, 4)), graph.weight(f"m{k}", array))
        for k, array in enumerate([mask, copy])
    ]
    proto = graph.model({graph.op("Concat", "y", *parts, axis=0): (2, 4)})
    found, canonical = rewriter(None, "masked-concat")
    assert bool(found.all_matches(view_of(load(proto), canonical))) is merged

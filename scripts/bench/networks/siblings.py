"""Networks of many small layers beside each other, written apart as people write them: one Linear for each.

The references compute the same with one product where there were many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from .convolution import Linear, random_linear
from .graph import GraphWriter

_GATES = ("reset", "update", "new")


def _linear(graph: GraphWriter, name: str, value: str, weight: tuple[str, str]) -> str:
    """A Linear on ``[rows, inputs]`` as exporters write it: its weight is ``[outputs, inputs]``."""
    return graph.op("Gemm", name, value, *weight, transB=1)


def _parameters(graph: GraphWriter, name: str, layers: Sequence[Linear]) -> tuple[str, str]:
    """Weight and bias of one Linear, or of several as one."""
    weight = graph.weight(f"{name}.weight", np.concatenate([layer.weight for layer in layers]))
    return weight, graph.weight(f"{name}.bias", np.concatenate([layer.bias for layer in layers]))


def _gru_layers(hidden: int, seed: int) -> tuple[dict[str, Linear], dict[str, Linear]]:
    rng = np.random.default_rng(seed)
    inputs = {gate: random_linear(rng, hidden, hidden) for gate in _GATES}
    return inputs, {gate: random_linear(rng, hidden, hidden) for gate in _GATES}


def _gru_cell(graph: GraphWriter, scope: str, state: str, x: Mapping[str, str], h: Mapping[str, str]) -> str:
    """``h' = n + z * (h - n)`` with ``n = tanh(x_n + r * h_n)``."""
    gate = {}
    for name in ("reset", "update"):
        gate[name] = graph.op("Sigmoid", f"{scope}.{name}", graph.op("Add", f"{scope}.{name}.sum", x[name], h[name]))
    kept = graph.op("Mul", f"{scope}.kept", gate["reset"], h["new"])
    new = graph.op("Tanh", f"{scope}.new", graph.op("Add", f"{scope}.new.sum", x["new"], kept))
    change = graph.op("Mul", f"{scope}.change", gate["update"], graph.op("Sub", f"{scope}.gap", state, new))
    return graph.op("Add", f"{scope}.h", new, change)


def gru(*, steps: int = 8, hidden: int = 256, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """A gated recurrent unit unrolled, six Linears a step; inputs ``x_1 .. x_steps``, ``h_0``: ``[batch, hidden]``."""
    of_input, of_state = _gru_layers(hidden, seed)
    graph = GraphWriter("gru")
    xs = [graph.input(f"x_{t + 1}", (batch, hidden)) for t in range(steps)]
    h = graph.input("h_0", (batch, hidden))
    w = {gate: _parameters(graph, f"input.{gate}", [of_input[gate]]) for gate in _GATES}
    u = {gate: _parameters(graph, f"state.{gate}", [of_state[gate]]) for gate in _GATES}
    for t, x in enumerate(xs, start=1):
        from_input = {gate: _linear(graph, f"step{t}.{gate}.x", x, w[gate]) for gate in _GATES}
        from_state = {gate: _linear(graph, f"step{t}.{gate}.h", h, u[gate]) for gate in _GATES}
        h = _gru_cell(graph, f"step{t}", h, from_input, from_state)
    return graph.model({h: (batch, hidden)})


def reference_gru(*, steps: int = 8, hidden: int = 256, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """One product for all inputs and gates, and one for the state of each step."""
    of_input, of_state = _gru_layers(hidden, seed)
    graph = GraphWriter("gru_reference")
    xs = [graph.input(f"x_{t + 1}", (batch, hidden)) for t in range(steps)]
    h = graph.input("h_0", (batch, hidden))
    w = _parameters(graph, "input", [of_input[gate] for gate in _GATES])
    u = _parameters(graph, "state", [of_state[gate] for gate in _GATES])
    wide = _linear(graph, "x.gates", graph.op("Concat", "x", *xs, axis=0), w)
    for t, row in enumerate(graph.split("steps", wide, [batch] * steps, axis=0), start=1):
        from_input = graph.split(f"step{t}.x", row, [hidden] * 3, axis=1)
        from_state = graph.split(f"step{t}.h.gates", _linear(graph, f"step{t}.gates", h, u), [hidden] * 3, axis=1)
        x, state = (dict(zip(_GATES, parts, strict=True)) for parts in (from_input, from_state))
        h = _gru_cell(graph, f"step{t}", h, x, state)
    return graph.model({h: (batch, hidden)})


def _projections(layers: int, heads: int, hidden: int, seed: int) -> list[dict[str, list[Linear]]]:
    """Per layer and name the Linears of all heads; ``out`` is one for all of them."""
    rng = np.random.default_rng(seed)
    width = hidden // heads
    found = []
    for _ in range(layers):
        layer = {name: [random_linear(rng, hidden, width) for _ in range(heads)] for name in ("q", "k", "v")}
        found.append({**layer, "out": [random_linear(rng, hidden, hidden)]})
    return found


def _product(graph: GraphWriter, name: str, value: str, layers: Sequence[Linear]) -> str:
    """Linears on ``[batch, rows, inputs]``, side by side: exporters write MatMul and Add."""
    weight = graph.weight(f"{name}.weight", np.concatenate([layer.weight for layer in layers]).T)
    bias = graph.weight(f"{name}.bias", np.concatenate([layer.bias for layer in layers]))
    return graph.op("Add", name, bias, graph.op("MatMul", f"{name}.product", value, weight))


def separate_heads(
    *, layers: int = 2, heads: int = 8, hidden: int = 512, rows: int = 64, batch: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """Attention with three Linears for each head, heads concatenated; ``x`` and output ``[batch, rows, hidden]``."""
    graph = GraphWriter("separate_heads")
    value = graph.input("x", (batch, rows, hidden))
    for number, layer in enumerate(_projections(layers, heads, hidden, seed)):
        outputs = []
        for head in range(heads):
            scope = f"layer{number}.head{head}"
            q, k, v = (_product(graph, f"{scope}.{name}", value, [layer[name][head]]) for name in ("q", "k", "v"))
            scores = graph.op("MatMul", f"{scope}.scores", q, graph.op("Transpose", f"{scope}.k.t", k, perm=[0, 2, 1]))
            root = graph.scalar(f"{scope}.root", float(np.sqrt(hidden // heads)))
            weights = graph.op("Softmax", f"{scope}.weights", graph.op("Div", f"{scope}.scaled", scores, root), axis=-1)
            outputs.append(graph.op("MatMul", scope, weights, v))
        joined = graph.op("Concat", f"layer{number}.heads", *outputs, axis=-1)
        value = graph.op("Add", f"layer{number}", _product(graph, f"layer{number}.out", joined, layer["out"]), value)
    return graph.model({value: (batch, rows, hidden)})


def reference_separate_heads(
    *, layers: int = 2, heads: int = 8, hidden: int = 512, rows: int = 64, batch: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """One Linear for queries, keys and values of all heads, and batched products."""
    graph = GraphWriter("separate_heads_reference")
    value = graph.input("x", (batch, rows, hidden))
    split = graph.weight("split", np.array([batch, rows, heads, hidden // heads], np.int64))
    flat = graph.weight("flat", np.array([batch, rows, hidden], np.int64))
    root = graph.scalar("root", float(np.sqrt(hidden // heads)))
    for number, layer in enumerate(_projections(layers, heads, hidden, seed)):
        scope = f"layer{number}"
        wide = _product(graph, f"{scope}.qkv", value, [*layer["q"], *layer["k"], *layer["v"]])
        q, k, v = (
            graph.op("Transpose", f"{part}.t", graph.op("Reshape", f"{part}.heads", part, split), perm=perm)
            for part, perm in zip(
                graph.split(f"{scope}.parts", wide, [hidden] * 3, axis=2),
                ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]),
                strict=True,
            )
        )
        scores = graph.op("Div", f"{scope}.scaled", graph.op("MatMul", f"{scope}.scores", q, k), root)
        context = graph.op("MatMul", f"{scope}.context", graph.op("Softmax", f"{scope}.weights", scores, axis=-1), v)
        rows_first = graph.op("Transpose", f"{scope}.context.t", context, perm=[0, 2, 1, 3])
        joined = graph.op("Reshape", f"{scope}.heads", rows_first, flat)
        value = graph.op("Add", scope, _product(graph, f"{scope}.out", joined, layer["out"]), value)
    return graph.model({value: (batch, rows, hidden)})


def _experts(experts: int, gates: int, inputs: int, width: int, seed: int) -> dict[str, list[Linear]]:
    rng = np.random.default_rng(seed)
    return {
        "first": [random_linear(rng, inputs, width) for _ in range(experts)],
        "second": [random_linear(rng, width, width // 2) for _ in range(experts)],
        "gate": [random_linear(rng, inputs, experts) for _ in range(gates)],
        "tower": [random_linear(rng, width // 2, 1) for _ in range(gates)],
    }


def multi_gate_experts(
    *, experts: int = 12, gates: int = 4, inputs: int = 256, width: int = 128, batch: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """A multi-task recommender: experts of two Linears, stacked, mixed by a softmax per task; ``[batch, 1]`` each."""
    layers = _experts(experts, gates, inputs, width, seed)
    graph = GraphWriter("multi_gate_experts")
    x = graph.input("x", (batch, inputs))
    axis = graph.weight("stack.axis", np.array([1], np.int64))
    stacked = []
    for k in range(experts):
        inner = x
        for name in ("first", "second"):
            scope = f"expert{k}.{name}"
            biased = _linear(graph, f"{scope}.linear", inner, _parameters(graph, scope, [layers[name][k]]))
            inner = graph.op("Relu", scope, biased)
        stacked.append(graph.op("Unsqueeze", f"expert{k}", inner, axis))
    stack = graph.op("Concat", "stack", *stacked, axis=1)
    outputs = {}
    for k in range(gates):
        scope = f"gate{k}"
        scores = _linear(graph, f"{scope}.scores", x, _parameters(graph, scope, [layers["gate"][k]]))
        weights = graph.op("Softmax", f"{scope}.weights", scores, axis=-1)
        row = graph.op("Unsqueeze", f"{scope}.row", weights, axis)
        mixed = graph.op("Squeeze", f"{scope}.mixed", graph.op("MatMul", f"{scope}.mix", row, stack), axis)
        outputs[_linear(graph, f"task{k}", mixed, _parameters(graph, f"tower{k}", [layers["tower"][k]]))] = (batch, 1)
    return graph.model(outputs)


def reference_multi_gate_experts(
    *, experts: int = 12, gates: int = 4, inputs: int = 256, width: int = 128, batch: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """One Linear for all experts and gates, a batched product for the second layers, one product for all mixtures."""
    layers = _experts(experts, gates, inputs, width, seed)
    graph = GraphWriter("multi_gate_experts_reference")
    x = graph.input("x", (batch, inputs))
    wide = _linear(graph, "first", x, _parameters(graph, "first", [*layers["first"], *layers["gate"]]))
    hidden, scores = graph.split("parts", wide, [experts * width, gates * experts], axis=1)
    by_expert = graph.weight("by_expert", np.array([experts, 1, width] if batch == 1 else [batch, experts, 1, width]))
    rows = graph.op("Reshape", "first.rows", graph.op("Relu", "first.relu", hidden), by_expert)
    second = graph.weight("second.weight", np.stack([layer.weight.T for layer in layers["second"]]))
    bias = graph.weight("second.bias", np.stack([layer.bias[None] for layer in layers["second"]]))
    inner = graph.op(
        "Relu", "second", graph.op("Add", "second.sum", graph.op("MatMul", "second.mm", rows, second), bias)
    )
    stack = graph.op("Reshape", "stack", inner, graph.weight("stack.shape", np.array([batch, experts, width // 2])))
    by_gate = graph.weight("by_gate", np.array([batch, gates, experts]))
    weights = graph.op("Softmax", "weights", graph.op("Reshape", "scores", scores, by_gate), axis=-1)
    mixed = graph.split("mixed", graph.op("MatMul", "mix", weights, stack), [1] * gates, axis=1)
    axis = graph.weight("axis", np.array([1], np.int64))
    outputs = {}
    for k, part in enumerate(mixed):
        row = graph.op("Squeeze", f"task{k}.row", part, axis)
        outputs[_linear(graph, f"task{k}", row, _parameters(graph, f"tower{k}", [layers["tower"][k]]))] = (batch, 1)
    return graph.model(outputs)

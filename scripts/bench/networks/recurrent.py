"""Recurrent networks: NasRNN as TASO measures it (SOSP'19, figure 8), and an LSTM written out in matmuls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from .graph import Array, GraphWriter

GATES = 8
GATE_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Sigmoid", "Sigmoid", "Tanh", "Sigmoid", "Relu")


@dataclass(frozen=True, slots=True)
class GateWeights:
    """Per gate one matrix for the step's input and one for the state, both ``[hidden, hidden]``."""

    input: tuple[Array, ...]
    state: tuple[Array, ...]


def _gate_weights(gates: int, hidden: int, seed: int) -> GateWeights:
    rng = np.random.default_rng(seed)

    def draw() -> tuple[Array, ...]:
        scale = np.float32(hidden**-0.5)
        return tuple(rng.standard_normal((hidden, hidden), np.float32) * scale for _ in range(gates))

    return GateWeights(draw(), draw())


def _nas_combine(graph: GraphWriter, scope: str, gates: list[str]) -> str:
    """The NAS cell of Zoph and Le (2017): eight activated gates combined pairwise, level by level."""

    def op(op_type: str, name: str, *inputs: str) -> str:
        return graph.op(op_type, f"{scope}.{name}", *inputs)

    a = [op(act, f"gate{i}.{act.lower()}", gates[i]) for i, act in enumerate(GATE_ACTIVATIONS)]
    left = op("Add", "level1.0", a[0], a[3])
    add = op("Add", "level1.1", a[1], a[2])
    mul = op("Mul", "level1.2", a[4], a[5])
    right = op("Mul", "level1.3", a[6], a[7])
    middle = op("Add", "level2.0", op("Sigmoid", "level1.1.sigmoid", add), op("Tanh", "level1.2.tanh", mul))
    outer = op("Mul", "level2.1", op("Tanh", "level1.0.tanh", left), op("Tanh", "level1.3.tanh", right))
    top = op("Mul", "level3", op("Tanh", "level2.0.tanh", middle), op("Tanh", "level2.1.tanh", outer))
    return op("Tanh", "h", top)


def nasrnn(*, steps: int = 5, hidden: int = 512, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """NasRNN unrolled over ``steps``: gate i of a step is ``x@W_i + h@U_i``, weights shared by all steps.

    Inputs ``x_1 .. x_steps`` and ``h_0``, each ``[batch, hidden]``; output: the last state, same shape.
    """
    weights = _gate_weights(GATES, hidden, seed)
    graph = GraphWriter("nasrnn")
    xs = [graph.input(f"x_{t + 1}", (batch, hidden)) for t in range(steps)]
    h = graph.input("h_0", (batch, hidden))
    w = [graph.weight(f"W_{i}", value) for i, value in enumerate(weights.input)]
    u = [graph.weight(f"U_{i}", value) for i, value in enumerate(weights.state)]
    for t, x in enumerate(xs, start=1):
        gates = []
        for i in range(GATES):
            from_input = graph.op("MatMul", f"step{t}.gate{i}.x", x, w[i])
            from_state = graph.op("MatMul", f"step{t}.gate{i}.h", h, u[i])
            gates.append(graph.op("Add", f"step{t}.gate{i}", from_input, from_state))
        h = _nas_combine(graph, f"step{t}", gates)
    return graph.model({h: (batch, hidden)})


def reference_nasrnn(*, steps: int = 5, hidden: int = 512, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """NasRNN with one input matmul for all steps and all gates, and one state matmul per step.

    ``concat(x_1 .. x_T) @ [W_1 .. W_8]`` is split into steps; ``h @ [U_1 .. U_8]`` is added to each, and the
    sum is split into gates.
    """
    weights = _gate_weights(GATES, hidden, seed)
    graph = GraphWriter("nasrnn_reference")
    xs = [graph.input(f"x_{t + 1}", (batch, hidden)) for t in range(steps)]
    h = graph.input("h_0", (batch, hidden))
    w = graph.weight("W", np.concatenate(weights.input, axis=1))
    u = graph.weight("U", np.concatenate(weights.state, axis=1))
    stacked = graph.op("Concat", "x", *xs, axis=0)
    halves = graph.split("steps", graph.op("MatMul", "x_gates", stacked, w), [batch] * steps, axis=0)
    for t, half in enumerate(halves, start=1):
        from_state = graph.op("MatMul", f"step{t}.h_gates", h, u)
        wide = graph.op("Add", f"step{t}.gates", half, from_state)
        h = _nas_combine(graph, f"step{t}", graph.split(f"step{t}.split", wide, [hidden] * GATES, axis=1))
    return graph.model({h: (batch, hidden)})


def lstm(*, steps: int = 3, hidden: int = 64, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """A long short-term memory cell written out in matmuls, weights shared by all steps.

    ``i, f, o = sigmoid(x@W + h@U + b)``, ``g = tanh(...)``, ``c' = f*c + i*g``, ``h' = o*tanh(c')``;
    inputs ``x_1 .. x_steps``, ``h_0``, ``c_0`` and both outputs are ``[batch, hidden]``.
    """
    weights = _gate_weights(4, hidden, seed)
    bias = np.random.default_rng(seed + 1).standard_normal((4, hidden), np.float32) * np.float32(0.1)
    graph = GraphWriter("lstm")
    xs = [graph.input(f"x_{t + 1}", (batch, hidden)) for t in range(steps)]
    h, c = graph.input("h_0", (batch, hidden)), graph.input("c_0", (batch, hidden))
    names = "ifog"
    w = [graph.weight(f"W_{n}", value) for n, value in zip(names, weights.input, strict=True)]
    u = [graph.weight(f"U_{n}", value) for n, value in zip(names, weights.state, strict=True)]
    b = [graph.weight(f"b_{n}", value) for n, value in zip(names, bias, strict=True)]
    for t, x in enumerate(xs, start=1):
        gate = {}
        for k, n in enumerate(names):
            scope = f"step{t}.{n}"
            total = graph.op(
                "Add", f"{scope}.sum", graph.op("MatMul", f"{scope}.x", x, w[k]),
                graph.op("MatMul", f"{scope}.h", h, u[k]),
            )  # fmt: skip
            shifted = graph.op("Add", f"{scope}.bias", total, b[k])
            gate[n] = graph.op("Tanh" if n == "g" else "Sigmoid", scope, shifted)
        kept = graph.op("Mul", f"step{t}.keep", gate["f"], c)
        c = graph.op("Add", f"step{t}.c", kept, graph.op("Mul", f"step{t}.write", gate["i"], gate["g"]))
        h = graph.op("Mul", f"step{t}.h", gate["o"], graph.op("Tanh", f"step{t}.c.tanh", c))
    return graph.model({h: (batch, hidden), c: (batch, hidden)})

"""BERT encoders with the attention written out, plain and with unmerged low-rank adapters, and a tiny MLP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from .graph import OPSET, Array, GraphWriter

# Finite, and its exponential is exactly 0 in float32: a masked position costs no denormals.
MASKED = -10000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Sizes of an encoder; ``rank`` 0 means no adapters."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Adapter:
    """A low-rank update ``x@down@up * scale`` beside a projection (Hu et al., 2021)."""

    down: Array
    up: Array
    scale: float


@dataclass(frozen=True, slots=True)
class Projection:
    """``x@weight + bias``, plus the adapter's update if there is one."""

    weight: Array
    bias: Array
    adapter: Adapter | None = None

    def merged(self) -> Array:
        """The weight with the adapter added, computed in float64 and rounded once."""
        if self.adapter is None:
            return self.weight
        a = self.adapter
        update = a.down.astype(np.float64) @ a.up.astype(np.float64) * np.float64(np.float32(a.scale))
        return (self.weight.astype(np.float64) + update).astype(np.float32)


def _projection(rng: np.random.Generator, inputs: int, outputs: int, rank: int = 0) -> Projection:
    weight = rng.standard_normal((inputs, outputs), np.float32) * np.float32(inputs**-0.5)
    bias = rng.standard_normal(outputs, np.float32) * np.float32(0.1)
    if not rank:
        return Projection(weight, bias)
    down = rng.standard_normal((inputs, rank), np.float32) * np.float32(inputs**-0.5)
    up = rng.standard_normal((rank, outputs), np.float32) * np.float32(0.3 * rank**-0.5)
    return Projection(weight, bias, Adapter(down, up, 2.0))


def _project(graph: GraphWriter, name: str, value: str, p: Projection, *, merged: bool) -> str:
    weight = graph.weight(f"{name}.weight", p.merged() if merged else p.weight)
    bias = graph.weight(f"{name}.bias", p.bias)
    out = graph.op("Add", f"{name}.biased", graph.op("MatMul", f"{name}.matmul", value, weight), bias)
    if merged or p.adapter is None:
        return out
    down = graph.weight(f"{name}.lora_A", p.adapter.down)
    up = graph.weight(f"{name}.lora_B", p.adapter.up)
    scale = graph.scalar(f"{name}.lora_scale", p.adapter.scale)
    narrow = graph.op("MatMul", f"{name}.lora_A.matmul", value, down)
    update = graph.op("MatMul", f"{name}.lora_B.matmul", narrow, up)
    return graph.op("Add", f"{name}.adapted", out, graph.op("Mul", f"{name}.lora_scaled", update, scale))


def _norm(graph: GraphWriter, rng: np.random.Generator, name: str, value: str, hidden: int) -> str:
    gamma = graph.weight(f"{name}.weight", rng.uniform(0.6, 1.4, hidden).astype(np.float32))
    beta = graph.weight(f"{name}.bias", rng.standard_normal(hidden, np.float32) * np.float32(0.1))
    return graph.op("LayerNormalization", name, value, gamma, beta, axis=-1, epsilon=1e-12)


def _gelu(graph: GraphWriter, name: str, value: str) -> str:
    """``x * (1 + erf(x / sqrt(2))) / 2``, written out as torch exports it."""
    root = graph.scalar(f"{name}.sqrt2", np.sqrt(2.0))
    one = graph.scalar(f"{name}.one", 1.0)
    half = graph.scalar(f"{name}.half", 0.5)
    erf = graph.op("Erf", f"{name}.erf", graph.op("Div", f"{name}.div", value, root))
    product = graph.op("Mul", f"{name}.mul", value, graph.op("Add", f"{name}.add", erf, one))
    return graph.op("Mul", name, product, half)


def _attention(
    graph: GraphWriter, rng: np.random.Generator, scope: str, value: str, mask: str, size: Size, *, merged: bool
) -> str:
    """``softmax(q k^T / sqrt(d) + mask) v`` per head, then the output projection."""
    hidden, width = size.hidden, size.hidden // size.heads
    shape = np.array([size.batch, size.sequence, size.heads, width], np.int64)
    heads = {}
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        projection = _projection(rng, hidden, hidden, size.rank if name in "qv" else 0)
        flat = _project(graph, f"{scope}.{name}", value, projection, merged=merged)
        rows = graph.weight(f"{scope}.{name}.shape", shape)
        split = graph.op("Reshape", f"{scope}.{name}.heads", flat, rows)
        heads[name] = graph.op("Transpose", f"{scope}.{name}", split, perm=perm)
    root = graph.scalar(f"{scope}.sqrt_d", np.sqrt(width))
    scores = graph.op("MatMul", f"{scope}.scores", heads["q"], heads["k"])
    masked = graph.op("Add", f"{scope}.masked", graph.op("Div", f"{scope}.scaled", scores, root), mask)
    weights = graph.op("Softmax", f"{scope}.softmax", masked, axis=-1)
    context = graph.op("MatMul", f"{scope}.context", weights, heads["v"])
    context = graph.op("Transpose", f"{scope}.context.rows", context, perm=[0, 2, 1, 3])
    flat_shape = graph.weight(f"{scope}.flat", np.array([size.batch, size.sequence, hidden], np.int64))
    flat = graph.op("Reshape", f"{scope}.context.flat", context, flat_shape)
    return _project(graph, f"{scope}.out", flat, _projection(rng, hidden, hidden), merged=merged)


def _layer(
    graph: GraphWriter, rng: np.random.Generator, scope: str, value: str, mask: str, size: Size, *, merged: bool
) -> str:
    """A post-norm transformer layer: attention, then a feed-forward network, each added to its input."""
    attended = _attention(graph, rng, f"{scope}.attention", value, mask, size, merged=merged)
    added = graph.op("Add", f"{scope}.attention.add", attended, value)
    value = _norm(graph, rng, f"{scope}.attention.norm", added, size.hidden)
    up, down = _projection(rng, size.hidden, 4 * size.hidden), _projection(rng, 4 * size.hidden, size.hidden)
    inner = _gelu(graph, f"{scope}.gelu", _project(graph, f"{scope}.up", value, up, merged=merged))
    outer = _project(graph, f"{scope}.down", inner, down, merged=merged)
    return _norm(graph, rng, f"{scope}.norm", graph.op("Add", f"{scope}.add", outer, value), size.hidden)


def _mask(graph: GraphWriter, size: Size) -> str:
    """``(1 - attention_mask) * MASKED`` broadcast over heads and rows."""
    mask = graph.input("attention_mask", (size.batch, size.sequence), TensorProto.INT64)
    axes = graph.weight("mask.axes", np.array([1, 2], np.int64))
    wide = graph.op("Unsqueeze", "mask.wide", mask, axes)
    kept = graph.op("Cast", "mask.float", wide, to=TensorProto.FLOAT)
    one = graph.scalar("mask.one", 1.0)
    masked = graph.scalar("mask.masked", MASKED)
    return graph.op("Mul", "mask", graph.op("Sub", "mask.inverted", one, kept), masked)


def _encoder(name: str, size: Size, seed: int, *, merged: bool) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    graph = GraphWriter(name)
    ids = graph.input("input_ids", (size.batch, size.sequence), TensorProto.INT64)
    mask = _mask(graph, size)
    table = graph.weight("embedding.word", rng.standard_normal((size.vocabulary, size.hidden), np.float32))
    places = graph.weight("embedding.position", rng.standard_normal((1, size.sequence, size.hidden), np.float32))
    words = graph.op("Gather", "embedding.lookup", table, ids, axis=0)
    value = graph.op("Add", "embedding.add", words, places)
    value = _norm(graph, rng, "embedding.norm", value, size.hidden)
    for i in range(size.layers):
        value = _layer(graph, rng, f"layer{i}", value, mask, size, merged=merged)
    return graph.model({value: (size.batch, size.sequence, size.hidden)})


def bert(
    *, layers: int = 4, hidden: int = 768, heads: int = 12, sequence: int = 128, vocabulary: int = 30522,
    batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """A BERT encoder (Devlin et al., 2019): ``input_ids``, ``attention_mask`` int64 ``[batch, sequence]``.

    Output: hidden states ``[batch, sequence, hidden]``.
    """
    return _encoder(
        "bert",
        Size(layers=layers, hidden=hidden, heads=heads, sequence=sequence, vocabulary=vocabulary, batch=batch),
        seed,
        merged=False,
    )


def bert_lora(
    *, layers: int = 4, hidden: int = 768, heads: int = 12, sequence: int = 128, vocabulary: int = 30522,
    batch: int = 1, rank: int = 8, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """The same encoder with unmerged adapters of ``rank`` on q and v: ``x@W + b + x@A@B * 2``."""
    size = Size(
        layers=layers, hidden=hidden, heads=heads, sequence=sequence, vocabulary=vocabulary, batch=batch, rank=rank
    )
    return _encoder("bert_lora", size, seed, merged=False)


def reference_bert_lora(
    *, layers: int = 4, hidden: int = 768, heads: int = 12, sequence: int = 128, vocabulary: int = 30522,
    batch: int = 1, rank: int = 8, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """The encoder with every adapter merged: ``W + A@B * 2``."""
    size = Size(
        layers=layers, hidden=hidden, heads=heads, sequence=sequence, vocabulary=vocabulary, batch=batch, rank=rank
    )
    return _encoder("bert_lora_reference", size, seed, merged=True)


def softsign_experts(
    *,
    activation: str = "Softsign",
    layers: int = 6,
    experts: int = 8,
    width: int = 512,
    batch: int = 1,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layers of small experts that read the same input: out = concat of softsign(x @ W_k); all ``[batch, width]``.

    ``activation`` names another operator in the place of Softsign; with Gelu the opset is 20, the first that has it.
    """
    rng = np.random.default_rng(seed)
    graph = GraphWriter("softsign_experts")
    x = graph.input("x", (batch, width))
    for layer in range(layers):
        outputs = []
        for k in range(experts):
            value = rng.standard_normal((width, width // experts), np.float32) * np.float32(2 * width**-0.5)
            product = graph.op("MatMul", f"layer{layer}.{k}.product", x, graph.weight(f"W_{layer}_{k}", value))
            outputs.append(graph.op(activation, f"layer{layer}.{k}", product))
        x = graph.op("Concat", f"layer{layer}", *outputs, axis=1)
    return graph.model({x: (batch, width)}, opset=20 if activation == "Gelu" else OPSET)


def tiny_mlp(*, width: int = 16, hidden: int = 32, batch: int = 2, seed: int = 0) -> onnx.ModelProto:
    """Gemm, two sibling matmuls added, a residual and a Softmax; input and output ``[batch, width]``."""
    rng = np.random.default_rng(seed)
    graph = GraphWriter("tiny_mlp")
    x = graph.input("x", (batch, width))
    first = _projection(rng, width, hidden)
    weight, bias = graph.weight("first.weight", first.weight), graph.weight("first.bias", first.bias)
    value = graph.op("Relu", "first.relu", graph.op("Gemm", "first", x, weight, bias))
    left = _project(graph, "left", value, _projection(rng, hidden, width), merged=False)
    right = _project(graph, "right", value, _projection(rng, hidden, width), merged=False)
    gate, content = graph.op("Sigmoid", "left.gate", left), graph.op("Tanh", "right.tanh", right)
    residual = graph.op("Add", "residual", graph.op("Mul", "gated", gate, content), x)
    return graph.model({graph.op("Softmax", "y", residual, axis=-1): (batch, width)})

"""Attention whose heads are written apart becomes one batch of heads, however masks and scales are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest

from scripts.bench.networks import NETWORKS
from scripts.bench.networks.graph import Array, GraphWriter
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.search.bundles import BUNDLES
from taso_py.search.view import View
from tests.helpers.graphs import rewriter, running, view_of
from tests.helpers.onnx_io_models import run

ROWS, HIDDEN, WIDTH = 6, 12, 4
BUNDLE = BUNDLES["heads side by side"]

Scores = Callable[[GraphWriter, str, str], str]
"""What becomes of the scores of one head, ``[batch, rows, rows]``, before their softmax."""


def divided(graph: GraphWriter, name: str, scores: str) -> str:
    return graph.op("Div", f"{name}.scaled", scores, graph.scalar(f"{name}.root", 2.0))


def multiplied(graph: GraphWriter, name: str, scores: str) -> str:
    return graph.op("Mul", f"{name}.scaled", scores, graph.scalar(f"{name}.root", 0.5))


def _triangle(*before: int) -> Array:
    return np.tril(np.ones((ROWS, ROWS), bool)).reshape(*before, ROWS, ROWS)


def added(graph: GraphWriter, name: str, scores: str, *before: int) -> str:
    """Each head has a mask of its own, as modules that register one have."""
    mask = graph.weight(f"{name}.mask", np.where(_triangle(*before), 0, -1e4).astype(np.float32))
    return graph.op("Add", f"{name}.masked", divided(graph, name, scores), mask)


def added_to_batches(graph: GraphWriter, name: str, scores: str) -> str:
    return added(graph, name, scores, 1)


def filled(graph: GraphWriter, name: str, scores: str) -> str:
    """As ``masked_fill`` is exported."""
    mask = graph.weight(f"{name}.mask", ~_triangle())
    low = graph.scalar(f"{name}.low", -np.inf)
    return graph.op("Where", f"{name}.masked", mask, low, multiplied(graph, name, scores))


def chosen(graph: GraphWriter, name: str, scores: str) -> str:
    mask = graph.weight(f"{name}.mask", _triangle(1))
    low = graph.scalar(f"{name}.low", -1e9)
    return graph.op("Where", f"{name}.masked", mask, divided(graph, name, scores), low)


def attention(scores: Scores, *, heads: int, biased: bool, cut: bool, batch: int | str = 2) -> onnx.ModelProto:
    """Heads one after the other; ``cut``: of one projection each for queries, keys and values."""
    rng = np.random.default_rng(heads)
    graph = GraphWriter("attention")
    x = graph.input("x", (batch, ROWS, HIDDEN))

    def layer(name: str, width: int) -> str:
        weight = graph.weight(f"{name}.weight", rng.standard_normal((HIDDEN, width)).astype(np.float32))
        product = graph.op("MatMul", f"{name}.product", x, weight)
        if not biased:
            return product
        return graph.op("Add", name, product, graph.weight(f"{name}.bias", rng.standard_normal(width).astype("f")))

    parts: dict[str, Sequence[str]] = {}
    for name in "qkv":
        if cut:
            parts[name] = graph.split(f"{name}.heads", layer(name, heads * WIDTH), [WIDTH] * heads, axis=2)
        else:
            parts[name] = [layer(f"{name}{k}", WIDTH) for k in range(heads)]
    outputs = []
    for k, (q, key, v) in enumerate(zip(*parts.values(), strict=True)):
        turned = graph.op("Transpose", f"turned{k}", key, perm=[0, 2, 1])
        weights = scores(graph, f"head{k}", graph.op("MatMul", f"scores{k}", q, turned))
        outputs.append(graph.op("MatMul", f"head{k}", graph.op("Softmax", f"weights{k}", weights, axis=-1), v))
    return graph.model({graph.op("Concat", "y", *outputs, axis=-1): (batch, ROWS, heads * WIDTH)})


def bundled(loaded: Loaded) -> View:
    """What the bundle's rules make of a model, one after the other, as long as any of them matches."""
    canonical = rewriter()[1]
    view = view_of(loaded, canonical)
    for _ in range(20):
        before = view
        for name in (*BUNDLE.leading, *BUNDLE.following):
            rules, _ = rewriter(None, name, f"{name}-further") if name in FURTHER else rewriter(None, name)
            matches = [m for ms in rules.all_matches(view).values() for m in ms if m.rule.name == name]
            moved = rules.apply(view, matches, 3) if matches else None
            view = view if moved is None else moved.view
        if view is before:
            return view
    raise AssertionError("the rules of the bundle go on for ever")


FURTHER = ("heads-side-by-side", "projections-as-batch", "layers-as-batch", "columns-as-batch")


@pytest.mark.parametrize("scores", [divided, multiplied, added, added_to_batches, filled, chosen])
@pytest.mark.parametrize(
    ("heads", "biased", "cut", "batch"), [(2, True, False, 2), (5, False, False, 1), (4, True, True, "n")]
)
def test_heads_become_one_batch(scores: Scores, heads: int, *, biased: bool, cut: bool, batch: int | str) -> None:
    proto = attention(scores, heads=heads, biased=biased, cut=cut, batch=batch)
    loaded = load(proto)
    view = bundled(loaded)
    found = running(view.table)
    assert found["Softmax"] == 1
    assert found["MatMul"] == 5  # queries, keys, values, scores, and what is weighted by them
    after = serialize(export(loaded, view.table))
    x = np.random.default_rng(1).standard_normal((3 if batch == "n" else batch, ROWS, HIDDEN)).astype(np.float32)
    for one, other in zip(run(proto, {"x": x}), run(after, {"x": x}), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_the_separate_heads_of_the_zoo() -> None:
    view = bundled(load(NETWORKS["separate_heads"](layers=2, heads=8, hidden=32, rows=4)))
    assert {n: c for n, c in running(view.table).items() if n in ("Softmax", "MatMul")} == Counter(Softmax=2, MatMul=12)

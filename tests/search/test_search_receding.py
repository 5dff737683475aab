"""What is not read is not computed: cuts go back through everything that nothing else reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
import pytest

from scripts.bench.networks.graph import GraphWriter
from taso_py.graph.table import Table
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.rules.parser import parse_rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from taso_py.search.receding import BEGINNING, recedes
from taso_py.search.strategy import ROUNDS
from tests.helpers.graphs import model, searched, sizes, view_of
from tests.helpers.onnx_io_models import run

TOKENS, WIDTH, HEADS = 12, 16, 4


def receded(proto: onnx.ModelProto) -> Table:
    """The table after the move that begins where something is picked; its model computes the same."""
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    view = view_of(loaded, canonical)
    (group,) = (g for g in rules.groups(view, rules.all_matches(view)) if g[0].rule.name in BEGINNING)
    moved = rules.apply(view, group, ROUNDS)
    assert moved is not None
    after = serialize(export(loaded, moved.view.table))
    x = np.random.default_rng(1).standard_normal([d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
    feeds = {proto.graph.input[0].name: x.astype(np.float32)}
    for one, other in zip(run(proto, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    return moved.view.table


class Writer(GraphWriter):
    """With weights that are drawn."""

    def __init__(self) -> None:
        GraphWriter.__init__(self, "network")
        self.rng = np.random.default_rng(0)

    def random(self, name: str, shape: tuple[int, ...]) -> str:
        return self.weight(name, (0.3 * self.rng.standard_normal(shape)).astype(np.float32))

    def integers(self, name: str, value: int | list[int]) -> str:
        return self.op("Constant", name, **({"value_int": value} if isinstance(value, int) else {"value_ints": value}))


def encoder(layers: int, read: Iterable[int] | int) -> onnx.ModelProto:
    """Layers of attention and perceptron, of whose tokens some are read."""
    graph = Writer()
    x = graph.input("x", (1, TOKENS, WIDTH))

    def layer(name: str, y: str, width: int, columns: int) -> str:
        product = graph.op("MatMul", f"{name}.product", y, graph.random(f"{name}.w", (width, columns)))
        return graph.op("Add", name, product, graph.random(f"{name}.b", (columns,)))

    def norm(name: str, y: str) -> str:
        scale, shift = graph.random(f"{name}.scale", (WIDTH,)), graph.random(f"{name}.shift", (WIDTH,))
        return graph.op("LayerNormalization", name, y, scale, shift, axis=-1)

    heads = graph.integers("heads", [1, TOKENS, HEADS, WIDTH // HEADS])
    whole = graph.integers("whole", [1, TOKENS, WIDTH])
    for k in range(layers):
        y = norm(f"n{k}", x)
        parts = {}
        for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            split = graph.op("Reshape", f"{part}{k}.heads", layer(f"{part}{k}", y, WIDTH, WIDTH), heads)
            parts[part] = graph.op("Transpose", f"{part}{k}.turned", split, perm=order)
        scores = graph.op("MatMul", f"scores{k}", parts["q"], parts["k"])
        scaled = graph.op("Div", f"scaled{k}", scores, graph.scalar(f"root{k}", 2.0))
        mixed = graph.op("MatMul", f"mixed{k}", graph.op("Softmax", f"p{k}", scaled, axis=-1), parts["v"])
        joined = graph.op("Reshape", f"joined{k}", graph.op("Transpose", f"back{k}", mixed, perm=[0, 2, 1, 3]), whole)
        x = graph.op("Add", f"a{k}", x, layer(f"o{k}", joined, WIDTH, WIDTH))
        hidden = graph.op("Relu", f"r{k}", layer(f"f{k}", norm(f"m{k}", x), WIDTH, 4 * WIDTH))
        x = graph.op("Add", f"b{k}", x, layer(f"g{k}", hidden, 4 * WIDTH, WIDTH))
    x = norm("last", x)
    if isinstance(read, int):
        picked = graph.op("Gather", "picked", x, graph.integers("place", read), axis=1)
        return graph.model({layer("logits", picked, WIDTH, 3): (1, 3)})
    starts = [graph.op("Gather", f"picked{k}", x, graph.integers(f"place{k}", k), axis=1) for k in read]
    return graph.model({graph.op("Add", "y", *starts): (1, WIDTH)})


def test_the_last_layer_of_a_classifier_is_computed_for_the_token_that_is_read() -> None:
    table = receded(encoder(2, 0))
    rows = [s[-2] for s in sizes(table, "Relu")]
    assert rows == [TOKENS, 1]
    assert [s[-2] for s in sizes(table, "Softmax")] == [TOKENS, 1]
    # queries, scores, what is weighted, its projection, the perceptron's two layers and the classifier are of one row
    products = sizes(table, "MatMul") + sizes(table, "Gemm")
    assert sum(1 for s in products if s[-2] == 1) == 7


def test_two_tokens_are_cut_from_the_range_that_they_share() -> None:
    table = receded(encoder(1, (4, 6)))
    assert [s[-2] for s in sizes(table, "Relu")] == [3]


def test_what_is_read_as_a_whole_too_stays_whole() -> None:
    proto = model(
        """agraph (float[8, 16] x) => (float[1, 16] a, float[8, 16] c) {
          s = Constant<value_ints = [2]>() e = Constant<value_ints = [3]>() z = Constant<value_ints = [0]>()
          y = MatMul(x, w) r = Softplus(y) a = Slice(r, s, e, z) c = Relu(r) }""",
        w=(16, 16),
    )
    _, found = searched(proto)
    assert all(sizes(state.table, "Softplus") == [(8, 16)] for state in found.states)


def stack(dilations: list[int], length: int, *, causal: bool) -> onnx.ModelProto:
    """Dilated convolutions with residual sums, of which the last time step is read."""
    graph = Writer()
    x = graph.input("x", (1, 8, length))
    for k, d in enumerate(dilations):
        w, b = graph.random(f"w{k}", (8, 8, 3)), graph.random(f"b{k}", (8,))
        pads = [2 * d, 2 * d] if causal else [d, d]
        y = graph.op("Conv", f"c{k}", x, w, b, pads=pads, dilations=[d])
        if causal:  # the places behind the last are cut off, as PyTorch's users do
            ends = graph.integers(f"e{k}", [length]), graph.integers(f"z{k}", [2])
            y = graph.op("Slice", f"t{k}", y, graph.integers(f"s{k}", [0]), *ends)
        x = graph.op("Add", f"a{k}", x, graph.op("Relu", f"r{k}", y))
    return graph.model({graph.op("Gather", "y", x, graph.integers("last", length - 1), axis=2): (1, 8)})


def test_a_stack_of_dilated_convolutions_is_computed_under_the_taps_alone() -> None:
    dilations = [1, 2, 4, 8]
    table = receded(stack(dilations, 64, causal=True))
    places = [s[-1] for s in sizes(table, "Conv")]
    # of the last convolution one place; of the one before three, under its taps; then every second of 7, and 15
    assert places == [15, 7, 3, 1]


def test_a_stack_that_reaches_over_the_end_is_padded_there() -> None:
    table = receded(stack([1, 1, 1], 32, causal=False))
    assert [s[-1] for s in sizes(table, "Conv")] == [3, 2, 1]


def test_crops_go_back_along_both_axes() -> None:
    graph = Writer()
    x = graph.input("x", (1, 3, 32, 32))
    for k in range(3):
        w, b = graph.random(f"w{k}", (8, 8 if k else 3, 3, 3)), graph.random(f"b{k}", (8,))
        y = graph.op("Relu", f"r{k}", graph.op("Conv", f"c{k}", x, w, b, pads=[1, 1, 1, 1]))
        x = graph.op("Add", f"a{k}", x, y) if k else y
    x = graph.op("DepthToSpace", "d", x, blocksize=2)
    bounds = [graph.integers(name, v) for name, v in (("s", [16, 20]), ("e", [48, 44]), ("axes", [2, 3]))]
    table = receded(graph.model({graph.op("Slice", "y", x, *bounds): (1, 2, 32, 24)}))
    assert [s[2:] for s in sizes(table, "Conv")] == [(20, 16), (18, 14), (16, 12)]


HOSTILE = {
    "cuts of both axes of one tensor": """agraph (float[4, 10, 12] x)
      => (float[4, 2, 3] y, float[4, 10, 8] a, float[4, 6, 12] b) {
      one = Constant<value_ints = [1]>() two = Constant<value_ints = [2]>() z = Constant<value_ints = [0]>()
      e2 = Constant<value_ints = [2]>() e3 = Constant<value_ints = [3]>() s4 = Constant<value_ints = [4]>()
      e12 = Constant<value_ints = [12]>() e10 = Constant<value_ints = [10]>()
      r = Softplus(x) q = Slice(r, z, e2, one) t = Relu(q) y = Slice(t, z, e3, two)
      a = Slice(r, s4, e12, two) b = Slice(r, s4, e10, one) }""",
    "a cut that nothing reads": """agraph (float[4, 30] x) => (float[4, 1] a) {
      ax = Constant<value_ints = [1]>() s0 = Constant<value_ints = [0]>() s1 = Constant<value_ints = [1]>()
      s2 = Constant<value_ints = [2]>() s5 = Constant<value_ints = [5]>()
      r = Softplus(x) a = Slice(r, s1, s2, ax) dead = Slice(r, s0, s5, ax) }""",
    "many places": "agraph (float[4, 200] x) => (float[4] y) { r = Softplus(x) "
    + " ".join(f"i{k} = Constant<value_int = {2 * k}>() p{k} = Gather<axis = 1>(r, i{k})" for k in range(80))
    + f" y = Sum({', '.join(f'p{k}' for k in range(80))}) }}",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_every_move_ends_soon_and_computes_the_same(text: str) -> None:
    proto = model(text)
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    view = view_of(loaded, canonical)
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(1).standard_normal(dims).astype(np.float32)}
    before = run(proto, feeds)
    for group in rules.groups(view, rules.all_matches(view)):
        moved = rules.apply(view, group, ROUNDS) if rules.receding.begins(group[0].rule) else None
        if moved is not None:
            assert len(moved.tidied) < 500
            for one, other in zip(before, run(serialize(export(loaded, moved.view.table)), feeds), strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("Slice(Relu(x), axes=a, starts=s, ends=e) => Relu(Slice(x, axes=a, starts=s, ends=e))", True),
        ("Slice(Pad(x, pads=[0, 0]), axes=[0], starts=[0], ends=[m], steps=[1]) => x for x[m]", True),
        (
            "Slice(Slice(x, axes=[0], starts=[a], ends=[b], steps=[1]), axes=[0], starts=[c], ends=[d], steps=[1])"
            " => Slice(x, axes=[0], starts=[a + c], ends=[a + d], steps=[1])",
            True,
        ),
        (  # these would change places for ever
            "Slice(Slice(x, axes=[1], starts=[a], ends=[b], steps=[1]), axes=[0], starts=[c], ends=[d], steps=[1])"
            " => Slice(Slice(x, axes=[0], starts=[c], ends=[d], steps=[1]), axes=[1], starts=[a], ends=[b], steps=[1])",
            False,
        ),
        ("Relu(Slice(x, axes=a, starts=s, ends=e)) => Slice(Relu(x), axes=a, starts=s, ends=e)", False),
        ("Slice(Relu(Neg(x)), axes=a, starts=s, ends=e) => Relu(Neg(Slice(x, axes=a, starts=s, ends=e)))", False),
    ],
)
def test_which_laws_let_cuts_go_back(law: str, expected: bool) -> None:
    assert recedes(parse_rule(f"rule a: {law}")) is expected

"""Products that are regrouped, and features that are multiplied once: networks as their authors write them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from taso_py.graph.table import Table
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.rules.library import load as load_library
from taso_py.search.bundles import BUNDLES
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from tests.helpers.graphs import model, running, searched, sizes, together, view_of
from tests.helpers.onnx_io_models import run


def agree(proto: onnx.ModelProto, loaded: Loaded, table: Table) -> None:
    rng = np.random.default_rng(1)
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in proto.graph.input
    }
    after = serialize(export(loaded, table))
    for one, other in zip(run(proto, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


def best(proto: onnx.ModelProto) -> Table:
    """The table of the cheapest state of a search by the roofline, which computes the same."""
    loaded, found = searched(proto)
    assert found.states
    table = found.states[0].table
    agree(proto, loaded, table)
    return table


@pytest.mark.parametrize(
    "divisor", ["d = ReduceSum<keepdims=1>(s, axis)", "e = ReduceSum<keepdims=1>(s, axis) d = Add(e, c)"]
)
def test_linear_attention_makes_no_product_of_queries_and_keys(divisor: str) -> None:
    rows, width = 512, 16
    proto = model(
        f"""agraph (float[2, {rows}, {width}] q, float[2, {rows}, {width}] k, float[2, {rows}, {width}] v)
          => (float[2, {rows}, {width}] y) {{
          axis = Constant<value_ints = [-1]>() c = Constant<value_float = 0.1>()
          p = Sigmoid(q) r = Sigmoid(k) t = Transpose<perm = [0, 2, 1]>(r) s = MatMul(p, t)
          {divisor} a = Div(s, d) y = MatMul(a, v) }}"""
    )
    table = best(proto)
    assert all(dims[-2:] != (rows, rows) for dims in sizes(table, "MatMul"))


@pytest.mark.parametrize("repeated", ["g, x", "x, g"])
def test_a_pooled_vector_beside_points_is_convolved_once(repeated: str) -> None:
    proto = model(
        f"""agraph (float[1, 32, 1024] x) => (float[1, 64, 1024] y) {{
          n = Constant<value_ints = [1, 1, 1024]>() m = ReduceMax<axes = [2], keepdims = 1>(x) g = Tile(m, n)
          c = Concat<axis = 1>({repeated}) z = Conv(c, w, b) y = Relu(z) }}""",
        w=(64, 64, 1),
        b=(64,),
    )
    table = best(proto)
    assert sorted(dims[-1] for dims in sizes(table, "Conv")) == [1, 1024]
    assert not {"Tile", "Expand", "Concat"} & running(table).keys()


def test_a_repeated_query_beside_keys_is_multiplied_once() -> None:
    """The activation unit of a recommender: [query, key, query - key, query * key] times a matrix."""
    proto = model(
        """agraph (float[64, 1, 32] q, float[64, 50, 32] k) => (float[64, 50, 64] y) {
          n = Constant<value_ints = [64, 50, 32]>() e = Expand(q, n) d = Sub(e, k) p = Mul(e, k)
          c = Concat<axis = -1>(e, k, d, p) z = MatMul(c, w) y = Relu(z) }""",
        w=(128, 64),
    )
    assert (64, 1, 64) in sizes(best(proto), "MatMul")


@pytest.mark.parametrize(
    "text",
    [
        # exponentials of 85 over their sum, times 20
        """agraph (float[1, 4, 8] s, float[1, 8, 16] v) => (float[1, 4, 16] y) {
          axis = Constant<value_ints = [-1]>() e = Exp(s) d = ReduceSum(e, axis) q = Div(e, d) y = MatMul(q, v) }""",
        # a difference of large, close numbers is exact; that of their products is not
        """agraph (float[8, 3] s, float[8, 3] v) => (float[8, 5] y) {
          d = Sub(s, v) c = Concat<axis = -1>(s, v, d) y = MatMul(c, w) }""",
    ],
)
def test_what_keeps_numbers_small_stays(text: str) -> None:
    _, found = searched(model(text, w=(9, 5)) if "w)" in text else model(text))
    rules = {step.rule for state in found.states for step in state.trace}
    assert not {r for r in rules if "regrouped" in r or "difference-among" in r or "divided" in r}


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_channels_of_other_scales_are_convolved_before_they_are_resized(mode: str) -> None:
    """A head of segmentation: maps of three scales side by side, fused by a 1x1 convolution."""
    proto = model(
        f"""agraph (float[1, 32, 32, 32] a, float[1, 32, 16, 16] c, float[1, 32, 8, 8] d) => (float[1, 32, 32, 32] y) {{
          two = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() four = Constant<value_floats = [1.0, 1.0, 4.0, 4.0]>()
          e = Resize<mode = "{mode}">(c, , two) f = Resize<mode = "{mode}">(d, , four)
          g = Concat<axis = 1>(f, e, a) z = Conv(g, w, b) y = Relu(z) }}""",
        w=(32, 96, 1, 1),
        b=(32,),
    )
    assert sorted(dims[-1] for dims in sizes(best(proto), "Conv")) == [8, 16, 32]


@pytest.mark.parametrize("experts", [2, 4])
def test_gated_convolutions_are_one_of_the_gated_sum_of_kernels(experts: int) -> None:
    names = [f"u{k}" for k in range(experts)]
    convs = " ".join(
        f"c{k} = Conv<pads = [1, 1, 1, 1]>(x, w{k}, b{k}) u{k} = Unsqueeze(c{k}, one)" for k in range(experts)
    )
    weights = {f"w{k}": (8, 8, 3, 3) for k in range(experts)} | {f"b{k}": (8,) for k in range(experts)}
    proto = model(
        f"""agraph (float[1, 8, 16, 16] x, float[1, {experts}] g) => (float[1, 8, 16, 16] y) {{
          one = Constant<value_ints = [1]>() shape = Constant<value_ints = [1, {experts}, 1, 1, 1]>()
          {convs} s = Concat<axis = 1>({", ".join(names)}) h = Reshape(g, shape) m = Mul(s, h)
          r = ReduceSum<keepdims = 0>(m, one) y = Relu(r) }}""",
        **weights,
    )
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    view = together(rules, view_of(loaded, canonical), BUNDLES["kernels added up"])
    assert running(view.table)["Conv"] == 1
    agree(proto, loaded, view.table)


@pytest.mark.parametrize("joined", ["u", "j = Concat<axis = 1>(u, s)", "j = Concat<axis = 1>(s, u)"])
def test_pixels_that_are_repeated_are_convolved_before_that(joined: str) -> None:
    """Decoders, alone and beside the image of the same size that a U-Net keeps."""
    read, join = ("u", "") if joined == "u" else ("j", joined)
    channels = 8 if joined == "u" else 12
    proto = model(
        f"""agraph (float[1, 8, 5, 6] x, float[1, 4, 10, 12] s) => (float[1, 6, 10, 12] y) {{
          scales = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()
          u = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , scales)
          {join} c = Conv<pads = [1, 1, 1, 1]>({read}, w, b) y = Relu(c) }}""",
        w=(6, channels, 3, 3),
        b=(6,),
    )
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    table = together(rules, view_of(loaded, canonical), BUNDLES["pixels repeated behind convolutions"]).table
    counts = running(table)
    assert counts["Resize"] == 0
    assert counts["DepthToSpace"] == 1
    assert sizes(table, "Conv").count((1, 6, 5, 6)) == 4
    agree(proto, loaded, table)

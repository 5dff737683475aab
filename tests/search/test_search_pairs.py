"""What depends on one member of a pair is not computed for every pair: graph attention, edges, joint networks."""

from __future__ import annotations

import pytest

from tests.helpers.bundles import after
from tests.helpers.graphs import model, running, sizes

ATTENTION = """agraph (float[40,8] x) => (float[40,40,1] y) {
    f = Constant<value_ints = [1, 40]>() g = Constant<value_ints = [40, 1]>() s = Constant<value_ints = [1600, 8]>()
    r = Constant<value_ints = [40, 40, 16]>() h = MatMul(x, w) a = Tile(h, f) b = Reshape(a, s) c = Tile(h, g)
    d = Concat<axis = 1>(b, c) e = Reshape(d, r) y = MatMul(e, v) }"""
JOINT = """agraph (float[2,30,16] x, float[2,5,16] z) => (float[2,30,5,8] y) {
    i = Constant<value_ints = [2]>() j = Constant<value_ints = [1]>() f = Constant<value_ints = [1, 1, 5, 1]>()
    g = Constant<value_ints = [1, 30, 1, 1]>() a = Unsqueeze(x, i) b = Tile(a, f) c = Unsqueeze(z, j) d = Tile(c, g)
    p = Concat<axis = -1>(b, d) q = MatMul(p, w) r = Add(q, v) y = Tanh(r) }"""
TRILINEAR = """agraph (float[2,30,16] x, float[2,5,16] z) => (float[2,30,5,1] y) {
    i = Constant<value_ints = [2]>() j = Constant<value_ints = [1]>() s = Constant<value_ints = [2, 30, 5, 16]>()
    a = Unsqueeze(x, i) b = Expand(a, s) c = Unsqueeze(z, j) d = Expand(c, s) m = Mul(b, d)
    p = Concat<axis = -1>(b, d, m) y = MatMul(p, w) }"""
EDGES = """agraph (float[1,32,16] given, int64[160] n) => (float[1,8,32] y) {
    x = Relu(given)
    s = Constant<value_ints = [32, 16]>() q = Constant<value_ints = [1, 32, 5, 16]>()
    r = Constant<value_ints = [1, 32, 1, 16]>() f = Constant<value_ints = [1, 1, 5, 1]>()
    t = Reshape(x, s) g = Gather<axis = 0>(t, n) h = Reshape(g, q) a = Reshape(x, r) b = Tile(a, f) d = Sub(h, b)
    c = Concat<axis = 3>(d, b) o = Transpose<perm = [0, 3, 1, 2]>(c) k = Conv(o, w, v) l = LeakyRelu<alpha = 0.2>(k)
    y = ReduceMax<axes = [3], keepdims = 0>(l) }"""
INTEREST = """agraph (float[4,1,16] u, float[4,20,16] v1) => (float[4,20,8] y) {
    x = Tanh(u) z = Tanh(v1) s = Constant<value_ints = [4, 20, 16]>() e = Expand(x, s) d = Sub(e, z) m = Mul(e, z)
    p = Concat<axis = -1>(e, z, d, m) q = MatMul(p, w) y = Add(q, v) }"""
RELATION = """agraph (float[2,1,9,16] x, float[2,9,1,16] z) => (float[162,8] y) {
    f = Constant<value_ints = [1, 9, 1, 1]>() g = Constant<value_ints = [1, 1, 9, 1]>()
    s = Constant<value_ints = [162, 32]>() a = Tile(x, f) b = Tile(z, g)
    p = Concat<axis = 3>(a, b) q = Reshape(p, s) r = Gemm<transB = 1>(q, w, v) y = Relu(r) }"""
MESSAGES = """agraph (float[32,16] x, int64[160] n, float[160,4] e) => (float[160,8] y) {
    g = Gather<axis = 0>(x, n) p = Concat<axis = 1>(g, e) q = MatMul(p, w) y = Add(q, v) }"""
DECODER = """agraph (float[1,3,16] x, float[3,20,8] z) => (float[3,20,8] y) {
    f = Constant<value_ints = [20, 1, 1]>() a = Tile(x, f) b = Transpose<perm = [1, 0, 2]>(a)
    p = Concat<axis = 2>(b, z) q = MatMul(p, w) r = Add(q, v) y = Tanh(r) }"""
CENTRES = """agraph (float[1,16,30] x, float[1,4,30] a) => (float[1,4,16] y) {
    s = Constant<value_ints = [4, 1, 16, 30]>() r = Constant<value_ints = [30, 4, 16]>()
    i = Constant<value_ints = [0]>() j = Constant<value_ints = [2]>() k = Constant<value_ints = [3]>() b = Expand(x, s)
    c = Transpose<perm = [1, 0, 2, 3]>(b) d = Expand(w, r) e = Transpose<perm = [1, 2, 0]>(d) f = Unsqueeze(e, i)
    g = Sub(c, f) h = Unsqueeze(a, j) m = Mul(g, h) y = ReduceSum<keepdims = 0>(m, k) }"""


@pytest.mark.parametrize(
    ("text", "weights", "products"),
    [
        (ATTENTION, {"w": (8, 8), "v": (16, 1)}, [(40, 8), (40, 1, 1), (1, 40, 1)]),
        (JOINT, {"w": (32, 8), "v": (8,)}, [(2, 1, 5, 8), (2, 30, 1, 8)]),
        (TRILINEAR, {"w": (48, 1)}, [(2, 1, 5, 1), (2, 30, 1, 1), (2, 30, 5)]),
        (EDGES, {"w": (8, 32, 1, 1), "v": (8,)}, [(1, 32, 1, 8), (32, 8)]),
        (INTEREST, {"w": (64, 8), "v": (8,)}, [(4, 1, 8), (4, 20, 8), (4, 20, 8)]),
        (RELATION, {"w": (8, 32), "v": (8,)}, [(2, 1, 9, 8), (2, 9, 1, 8)]),
        (MESSAGES, {"w": (20, 8), "v": (8,)}, [(32, 8), (160, 8)]),
        (DECODER, {"w": (24, 8), "v": (8,)}, [(3, 1, 8), (3, 20, 8)]),
    ],
    ids=["attention", "joint", "trilinear", "edges", "interest", "relation", "messages", "decoder"],
)
def test_what_one_member_of_a_pair_decides_is_computed_once(
    text: str, weights: dict[str, tuple[int, ...]], products: list[tuple[int, ...]]
) -> None:
    table = after(model(text, **weights), "pairs")
    assert sorted(sizes(table, "MatMul")) == sorted(products)
    assert running(table).keys().isdisjoint({"Tile", "Expand", "Concat", "Conv"})


def test_a_difference_alone_is_not_taken_apart() -> None:
    """Coordinates may be large and their differences small."""
    text = "agraph (float[4,1,16] x, float[4,20,16] z) => (float[4,20,8] y) { d = Sub(z, x) y = MatMul(d, w) }"
    assert sizes(after(model(text, w=(16, 8)), "pairs"), "Sub") == [(4, 20, 16)]


def test_features_are_not_repeated_for_each_centre() -> None:
    table = after(model(CENTRES, w=(4, 16)), "residuals")
    assert sizes(table, "MatMul") == [(1, 4, 16)]
    assert sizes(table, "ReduceSum") == [(1, 4, 1)]
    assert running(table).keys().isdisjoint({"Expand"})


@pytest.mark.parametrize("between", ["", "Relu", "Transpose<perm = [0, 1, 2]>"])
def test_differences_of_inputs_stay_differences(between: str) -> None:
    """Coordinates of a map are 100,000 metres from its origin and a metre apart: multiplied apart they cancel."""
    rows = f"r = {between}(z) s = {between}(x)" if between else "r = Identity(z) s = Identity(x)"
    text = f"""agraph (float[4,1,16] x, float[4,20,16] z) => (float[4,20,8] y) {{
        {rows} d = Sub(r, s) p = MatMul(d, w) q = MatMul(s, v) y = Add(p, q) }}"""
    kept = sizes(after(model(text, w=(16, 8), v=(16, 8)), "pairs"), "Sub") == [(4, 20, 16)]
    assert kept == (between != "Relu")


TUPLES = """agraph (float[32,16] h, int64[40] n, int64[40] o, float[40,1] d) => (float[40,32] y) {
    one = Constant<value_ints = [1]>() i = Unsqueeze(n, one) j = Unsqueeze(o, one) a = GatherND(h, i) b = GatherND(h, j)
    c = Concat<axis = 1>(a, b, d) y = MatMul(c, w) }"""


def test_rows_that_are_looked_up_by_tuples_are_multiplied_before() -> None:
    table = after(model(TUPLES, w=(33, 32)), "pairs")
    assert sorted(sizes(table, "MatMul")) == [(32, 32), (32, 32), (40, 32)]
    assert running(table)["GatherRows"] == 2

"""What can be computed once is: kernels with holes beside others, kernels that a style scales, powers of a matrix."""

from __future__ import annotations

import pytest

from tests.helpers.bundles import after
from tests.helpers.graphs import model, running, searched, sizes

HOLES = """agraph (float[1,4,14,14] x) => (float[1,4,14,14] y) {
    a = Conv<pads = [6,6,6,6], group = 4>(x, w) b = Conv<pads = [2,2,2,2], group = 4>(x, k5)
    c = Conv<pads = [2,2,2,2], dilations = [2,2], group = 4>(x, k3)
    d = Conv<pads = [5,5,5,5], dilations = [5,5], group = 4>(x, l3)
    s = Add(a, b) t = Add(s, c) y = Add(t, d) }"""
KERNELS = {"w": (4, 1, 13, 13), "k5": (4, 1, 5, 5), "k3": (4, 1, 3, 3), "l3": (4, 1, 3, 3)}


def test_kernels_with_holes_join_the_larger_one_beside_them() -> None:
    assert running(after(model(HOLES, **KERNELS), "parallel kernels")) == {"Conv": 1}


def style(batch: int) -> str:
    """As StyleGAN2 is published: a style scales the kernel's inputs, and the norms of that its outputs."""
    return f"""agraph (float[{batch},6,9,9] x, float[{batch},6] w) => (float[{batch},5,9,9] y) {{
        s = Constant<value_ints = [{batch},1,6,1,1]>() o = Constant<value_ints = [{batch},5,1,1,1]>()
        f = Constant<value_ints = [{5 * batch},6,3,3]>() i = Constant<value_ints = [1,{6 * batch},9,9]>()
        e = Constant<value_ints = [{batch},5,9,9]>() axes = Constant<value_ints = [2,3,4]>()
        two = Constant<value = float {{2.0}}>() tiny = Constant<value = float {{0.01}}>()
        a = Reshape(w, s) m = Mul(k, a) p = Pow(m, two) n = ReduceSum<keepdims = 0>(p, axes) q = Add(n, tiny)
        r = Sqrt(q) d = Reciprocal(r) g = Reshape(d, o) l = Mul(m, g) h = Reshape(l, f) z = Reshape(x, i)
        c = Conv<pads = [1,1,1,1], group = {batch}>(z, h) y = Reshape(c, e) }}"""


@pytest.mark.parametrize("batch", [1, 3])
def test_a_kernel_that_a_style_scales_is_constant(batch: int) -> None:
    table = after(model(style(batch), k=(1, 5, 6, 3, 3)), "modulated kernels")
    (conv,) = (node for node in table.nodes.values() if node.operator.onnx == "Conv")
    assert conv.inputs[1] in table.values.constant
    assert sizes(table, "MatMul") == [(batch, 5)]
    assert (batch, 5, 6, 3, 3) not in sizes(table, "Mul")


STEPS = """agraph (float[2,8,3] h) => (float[2,8,3] y) {
    c = Constant<value = float {0.9}>() e = Constant<value = float {0.1}>() t = Mul(h, e)
    a = MatMul(A, h) b = Mul(c, a) z = Add(b, t) d = MatMul(A, z) f = Mul(c, d) u = Add(f, t)
    g = MatMul(A, u) i = Mul(g, c) y = Add(i, t) }"""
LAPLACIAN = """agraph (float[8,3] h) => (float[8,3] y) {
    t = Tanh(h) a = MatMul(A, t) b = Sub(t, a) c = MatMul(A, b) y = Sub(b, c) }"""


@pytest.mark.parametrize("text", [STEPS, LAPLACIAN], ids=["personalised page rank", "two steps of smoothing"])
def test_a_polynomial_of_a_constant_matrix_is_one_matrix(text: str) -> None:
    table = after(model(text, A=(8, 8)), "polynomials of a constant matrix")
    assert running(table)["MatMul"] == 1
    assert running(table).keys() <= {"Tanh", "MatMul"}


SCORES = """agraph (float[4,6] a, float[4,6] b, float[4,6] c, float[4,6] d) => (float[4,9] y) {
    p = MatMul(a, V) q = MatMul(b, W) r = MatMul(c, W) s = MatMul(d, V) t = Add(p, q) u = Add(t, r) y = Sub(u, s) }"""
FEATURES = """agraph (float[2,7,4] x, float[2,7,4] z) => (float[2,7,5] y) {
    a = Tanh(x) b = Tanh(z) d = Sub(a, b) m = Mul(a, b) c = Concat<axis = 2>(a, b, d, m) y = MatMul(c, W) }"""


def test_products_with_one_matrix_meet_past_other_summands() -> None:
    _, found = searched(model(SCORES, V=(6, 9), W=(6, 9)), None, "matmul-sum-beside", "matmul-difference-beside")
    assert running(found.states[0].table) == {"MatMul": 2, "Add": 2, "Sub": 1}


def test_a_layer_of_features_and_their_difference_is_one_of_the_features() -> None:
    _, found = searched(model(FEATURES, W=(16, 5)), None, "layer-of-difference-and-more")
    assert running(found.states[0].table) == {"Tanh": 2, "Mul": 1, "Concat": 1, "MatMul": 1}


MEAN = """agraph (float[4,6] x) => (float[4,9] y) {
    zero = Constant<value_ints = [0]>() a = Gemm<transB = 1>(x, A, p) b = Gemm<transB = 1>(x, B, q)
    c = Gemm<transB = 1>(x, C, r) s = Unsqueeze(a, zero) t = Unsqueeze(b, zero) u = Unsqueeze(c, zero)
    v = Concat<axis = 0>(s, t, u) y = ReduceMean<axes = [0], keepdims = 0>(v) }"""
PRODUCTS = """agraph (float[4,1,8] a, float[4,1,8] b, float[4,1,8] c, float[4,1,8] d) => (float[4,3] y) {
    two = Constant<value_ints = [2]>() p = Mul(a, b) q = Mul(a, c) r = Mul(a, d) s = ReduceSum<keepdims = 0>(p, two)
    t = ReduceSum<keepdims = 0>(q, two) u = ReduceSum<keepdims = 0>(r, two) y = Concat<axis = 1>(s, t, u) }"""


def test_the_mean_of_layers_is_a_layer_of_the_mean_weights() -> None:
    weights = dict.fromkeys("ABC", (9, 6)) | dict.fromkeys("pqr", (9,))
    assert running(after(model(MEAN, **weights), "means of branches")) == {"Gemm": 1, "Div": 1}


def test_dot_products_beside_each_other_are_those_of_joined_rows() -> None:
    _, found = searched(model(PRODUCTS), None, "dots-joined", "dots-with-shared-row")
    assert running(found.states[0].table) == {"Concat": 1, "MatMul": 1, "Reshape": 1, "Squeeze": 1}

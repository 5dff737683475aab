"""Products that are broadcast and added up are products of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from taso_py.onnx_io.export import export, serialize
from tests.helpers.graphs import model, running, searched, sizes
from tests.helpers.onnx_io_models import run

DOTS = """agraph (float[2,30,16] x, float[2,20,16] z) => (float[2,30,20] y) {
    i = Constant<value_ints = [2]>() j = Constant<value_ints = [1]>() k = Constant<value_ints = [3]>()
    a = Unsqueeze(x, i) b = Unsqueeze(z, j) m = Mul(a, b) y = ReduceSum<keepdims = 0>(m, k) }"""
QUERY = """agraph (float[3,30,16] x, float[3,1,16] z) => (float[3,30] y) {
    k = Constant<value_ints = [-1]>() m = Mul(x, z) y = ReduceSum<keepdims = 0>(m, k) }"""
WEIGHTED = """agraph (float[3,5,30,16] x, float[3,5,30,1] z) => (float[3,5,16] y) {
    k = Constant<value_ints = [2]>() m = Mul(x, z) y = ReduceSum<keepdims = 0>(m, k) }"""
KEPT = """agraph (float[3,30,16] x, float[3,30,1] z) => (float[3,1,16] y) {
    k = Constant<value_ints = [1]>() m = Mul(x, z) y = ReduceSum<keepdims = 1>(m, k) }"""


@pytest.mark.parametrize(
    ("text", "product"),
    [(DOTS, (2, 30, 20)), (QUERY, (3, 30, 1)), (WEIGHTED, (3, 5, 1, 16)), (KEPT, (3, 1, 16))],
    ids=["dots", "query", "weighted", "kept"],
)
def test_what_is_broadcast_and_added_up_is_not_written_out(text: str, product: tuple[int, ...]) -> None:
    proto = model(text)
    loaded, found = searched(proto)
    table = found.states[0].table
    assert sizes(table, "MatMul") == [product]
    assert running(table).keys().isdisjoint({"Mul", "ReduceSum"})
    random = np.random.default_rng(0)
    feeds = {
        one.name: random.standard_normal([d.dim_value for d in one.type.tensor_type.shape.dim]).astype(np.float32)
        for one in proto.graph.input
    }
    for before, after in zip(run(proto, feeds), run(serialize(export(loaded, table)), feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)

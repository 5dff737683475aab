"""Rows that are looked up at run time: recommenders and embeddings, rewritten and run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.ops.slicing import Slice
from taso_py.prove.prover import prove_all_sizes
from taso_py.prove.verdict import Proved
from taso_py.rules.location import rules_directory
from taso_py.search.arity import _adjoining_law, adjoined
from tests.helpers.graphs import model, rewriter, running, searched, view_of

RULES = (rules_directory() / "embedding.rules").read_text(encoding="utf-8")
ROWS, BATCH = 7, 3


def recommender(tables: int, *, projected: bool, indices: int = TensorProto.INT64) -> onnx.ModelProto:
    """Tables of which the columns of one tensor choose rows, multiplied each by a matrix or not, joined."""
    rng = np.random.default_rng(0)
    nodes, weights, parts = [], [numpy_helper.from_array(np.array([1], np.int64), "one")], []

    def weight(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
        return name

    for k in range(tables):
        weights.append(numpy_helper.from_array(np.array(k, np.int64), f"k{k}"))
        nodes.append(helper.make_node("Gather", ["c", f"k{k}"], [f"c{k}"], axis=1))
        nodes.append(helper.make_node("Gather", [weight(f"t{k}", ROWS, 4), f"c{k}"], [f"e{k}"]))
        parts.append(f"e{k}")
        if projected:
            nodes.append(helper.make_node("MatMul", [f"e{k}", weight(f"w{k}", 4, 5)], [f"p{k}"]))
            nodes.append(helper.make_node("Unsqueeze", [f"p{k}", "one"], [f"u{k}"]))
            parts[-1] = f"u{k}"
    nodes.append(helper.make_node("Concat", parts, ["y"], axis=1))
    shape = [BATCH, tables, 5] if projected else [BATCH, 4 * tables]
    graph = helper.make_graph(
        nodes, "recommender", [helper.make_tensor_value_info("c", indices, [BATCH, tables])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def best(proto: onnx.ModelProto) -> tuple[Counter[str], onnx.ModelProto]:
    """What runs in the cheapest state of a search, and its model."""
    loaded, found = searched(proto, RULES, alpha=2.0)
    table = min(found.states, key=lambda state: state.cost).table if found.states else loaded.table
    runs = running(table)
    del runs["Identity"]  # what an output is another name of
    return runs, onnx.load_from_string(serialize(export(loaded, table)))


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("projected", [True, False], ids=["projected", "plain"])
@pytest.mark.parametrize("tables", [2, 3, 8])
def test_tables_of_equal_length_become_one_lookup(tables: int, projected: bool) -> None:
    proto = recommender(tables, projected=projected)
    runs, made = best(proto)
    assert runs["GatherND"] == 1
    assert "GatherRows" not in runs
    assert runs["MatMul"] <= projected
    indices = np.random.default_rng(1).integers(-ROWS, ROWS, (BATCH, tables))
    np.testing.assert_allclose(run(made, {"c": indices}), run(proto, {"c": indices}), rtol=1e-5, atol=1e-6)


def test_nothing_is_left_of_many_tables() -> None:
    runs, _ = best(recommender(27, projected=True))
    del runs["Reshape"]  # of a row to a stack of its pieces
    assert runs == {"Transpose": 2, "Unsqueeze": 1, "GatherND": 1}  # the matrices went into the tables


def test_gathernd_has_no_indices_of_32_bits() -> None:
    proto = recommender(4, projected=False, indices=TensorProto.INT32)
    runs, made = best(proto)
    assert "GatherND" not in runs
    indices = np.array([[0, -1, -ROWS, ROWS - 1]] * BATCH, dtype=np.int32)
    np.testing.assert_array_equal(run(made, {"c": indices}), run(proto, {"c": indices}))


def test_an_index_out_of_range_is_refused_before_and_after() -> None:
    proto = recommender(4, projected=False)
    _, made = best(proto)
    indices = np.full((BATCH, 4), ROWS)
    for candidate in (proto, made):
        with pytest.raises(Exception, match=r"(?i)ind(ex|ices)"):
            run(candidate, {"c": indices})


EMBEDDING = """agraph (int64[2,5] i) => (float[2,5,3] y) {
  e = Gather(T, i) p = MatMul(e, W) s = Add(p, B) y = Relu(s)}"""


def test_what_follows_an_embedding_goes_into_its_table() -> None:
    proto = model(EMBEDDING, T=(6, 4), W=(4, 3), B=(3,))
    runs, made = best(proto)
    assert runs == {"GatherRows": 1}
    indices = np.random.default_rng(2).integers(-6, 6, (2, 5))
    np.testing.assert_allclose(run(made, {"i": indices}), run(proto, {"i": indices}), rtol=1e-5, atol=1e-6)


def test_a_table_that_is_an_input_stays_as_it_is() -> None:
    text = "agraph (int64[5] i, float[6,4] T) => (float[5,3] y) {e = Gather(T, i) y = MatMul(e, W)}"
    loaded, found = searched(model(text, W=(4, 3)), RULES, alpha=10.0)
    assert all(running(state.table) == {"GatherRows": 1, "MatMul": 1} for state in found.states)
    assert loaded.values


CUTS = """agraph (float[4,9] x, float[4,2] z) => (float[4,9] y) {
  k0 = Constant<value_ints=[0]>() k1 = Constant<value_ints=[1]>() k2 = Constant<value_ints=[2]>()
  k5 = Constant<value_ints=[5]>() k7 = Constant<value_ints=[7]>()
  a = Slice(x, k0, k2, k1) b = Slice(x, k2, k5, k1) c = Slice(x, k5, k7, k1)
  y = Concat<axis=1>(z, a, b, c)}"""


def test_neighbouring_cuts_are_put_together_among_other_operands() -> None:
    loaded = load(model(CUTS))
    _, canonical = rewriter("")
    view = view_of(loaded, canonical)
    (value,) = loaded.table.outputs
    step = adjoined(view, value)
    assert step is not None
    node = step.table.nodes[value]
    assert len(node.inputs) == 2
    joined = step.table.nodes[node.inputs[1] or 0].operator
    assert joined == Slice((1,), (0,), (7,), (1,))


def test_the_law_of_neighbouring_cuts_is_proved() -> None:
    for whole in (True, False):
        verdict = prove_all_sizes(_adjoining_law(3, 1, 2, whole=whole))
        assert isinstance(verdict, Proved), verdict


def test_of_a_table_only_the_rows_that_are_looked_up_are_read() -> None:
    proto = model("agraph (int64[5] i) => (float[5,4] y) {y = Gather(T, i)}", T=(1000, 4))
    loaded = load(proto)
    ((value, node),) = loaded.table.nodes.items()
    assert Roofline({}).work(loaded.table, value, node).bytes == 5 * 8 + 2 * 5 * 4 * 4

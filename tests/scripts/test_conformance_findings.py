"""What the conformance run has found, each finding as the smallest model that shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime

from taso_py.graph.table import Node, Opaque
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.ops.operator import NEWEST_OPSET
from tests.helpers.graphs import model, rewriter, searched, view_of

RESHAPES = """agraph (float[3,2,4] x) => (float[2,12] y) <int64[3] r = {2, 3, 4}, int64[2] s = {0, -1}> {
    a = Reshape(x, r)
    y = Reshape(a, s)
}"""
LAST_SHAPE = 'rule last "Only the last shape counts.": Reshape(Reshape(x, shape=r), shape=s) => Reshape(x, shape=s)\n'
COMPUTED_SHAPE = """agraph (float[n,4] x) => (float[m] y) <int64[1] two = {2}, int64[1] one = {1}> {
    l = Sub(two, one)
    n = Shape(x)
    k = ReduceProd<keepdims = 1>(n)
    m = Mul(k, l)
    y = Reshape(x, m)
}"""
SHARED_NEGATION = """agraph (float[4] x, float[4] z) => (float[4] y, float[4] w) <float[4] c = {1, 2, 3, 4}> {
    y = Sub(x, c)
    w = Sub(z, c)
}"""


def run(content: bytes, **feeds: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return list(onnxruntime.InferenceSession(content, options).run(None, feeds))


def test_a_spelling_that_is_relative_to_its_operand_stays_only_on_operands_of_that_type() -> None:
    """Reshape(Reshape(x, r), [0, -1]) is not Reshape(x, [0, -1]), though both operators say shape=[2, 12]."""
    loaded, found = searched(model(RESHAPES), LAST_SHAPE)
    content = serialize(export(loaded, found.states[0].table))
    assert [n.op_type for n in onnx.ModelProto.FromString(content).graph.node] == ["Reshape"]
    x = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    np.testing.assert_array_equal(run(content, x=x)[0], x.reshape(2, 12))


def test_the_border_trusts_no_table_that_keeps_such_a_spelling() -> None:
    loaded = load(model(RESHAPES))
    y = loaded.ids["y"]
    nodes = {y: replace(loaded.table.nodes[y], inputs=(loaded.ids["x"],))}
    content = serialize(export(loaded, replace(loaded.table, nodes=nodes)))
    x = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    np.testing.assert_array_equal(run(content, x=x)[0], x.reshape(2, 12))


def test_nodes_that_compute_attributes_are_not_rewritten() -> None:
    """Nor counted: a rewrite that leaves them out of its table would seem to save their cost."""
    loaded = load(model(COMPUTED_SHAPE))
    hidden, y = loaded.ids["m"], loaded.ids["y"]
    assert not isinstance(loaded.table.nodes[y].operator, Opaque)
    rules, canonical = rewriter()
    view = view_of(loaded, canonical)
    assert hidden in loaded.table.nodes
    assert set(view.table.nodes) == {y}
    assert set(rules.all_matches(view)) <= {y}


def test_what_an_expansion_needs_stays_known_when_the_table_drops_it() -> None:
    loaded = load(model(SHARED_NEGATION))
    _, canonical = rewriter()
    view = view_of(loaded, canonical)
    y, w = loaded.ids["y"], loaded.ids["w"]
    (sum_,) = (e for e in view.expansions(y) if e.rule == "subtract-constant")
    ((negated, negation),) = sum_.inner
    real = view.after(view.table.rebind({y: sum_.root, negated: negation}))
    assert negated in real.table.nodes
    back = dict(real.table.nodes) | {y: Node(view.table.nodes[y].operator, view.table.nodes[y].inputs)}
    del back[negated]
    dropped = real.after(replace(real.table, nodes=back))
    assert dropped.constant(negated) is not None
    assert all(dropped.constant(i) is not None for v in (y, w) for e in dropped.expansions(v) for i, _ in e.inner)


def test_a_virtual_value_is_one_again_when_the_table_drops_it() -> None:
    """conv-bias gives a Conv two inner nodes; the sum's left side is virtual, then real, then virtual."""
    proto = model(
        "agraph (float[1,2,4,4] x) => (float[1,3,4,4] y) {y = Conv<kernel_shape = [1, 1]>(x, w, b)}",
        w=(3, 2, 1, 1),
        b=(3,),
    )
    loaded = load(proto)
    view = view_of(loaded, rewriter()[1])
    y = loaded.ids["y"]
    (sum_,) = (e for e in view.expansions(y) if e.rule == "conv-bias")
    virtual = {v for v, _ in sum_.inner if v not in view.values.constant}
    assert virtual
    assert virtual <= set(view.owners)
    real = view.after(view.table.rebind({y: sum_.root, **dict(sum_.inner)}))
    assert not virtual & set(real.owners)
    again = real.after(view.table)
    assert virtual <= set(again.owners)
    assert all(again.definitions(v) for v in virtual)


def test_an_opset_that_no_class_was_written_for_is_opaque() -> None:
    text = "agraph (float[4] x) => (float[4] y) {y = Relu(x)}"
    assert not load(model(text, opset=17)).opaque
    newer = model(text, opset=17)
    newer.opset_import[0].version = NEWEST_OPSET
    assert not load(newer).opaque
    newer.opset_import[0].version = NEWEST_OPSET + 1
    assert load(newer).opaque == {"Relu": 1}


def test_folding_looks_at_shared_operands_once() -> None:
    """A chain of 60 doublings c + c has 2^60 paths."""
    steps = "".join(f"c{k + 1} = Add(c{k}, c{k}) " for k in range(60))
    text = f"agraph (float[2] x) => (float[2] y) <float[2] c0 = {{1, 2}}> {{{steps} y = Mul(x, c60)}}"
    loaded = load(model(text))
    value = loaded.folder.value(loaded.ids["c60"], loaded.table.nodes)
    np.testing.assert_array_equal(value, np.array([2.0**60, 2.0**61], np.float32))

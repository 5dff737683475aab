"""Rewritten tables as ONNX models: same values in ONNX Runtime, and nothing but the rewritten place differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, numpy_helper

import taso_py
from taso_py.graph.table import Node
from taso_py.onnx_io.export import writable
from taso_py.onnx_io.load import load
from taso_py.ops.layout import Split
from tests.helpers.onnx_io_models import half_precision, model, node, old_ir, run, unsorted, value, weight, with_if
from tests.helpers.onnx_io_rewrite import Rewrite, chain, kinds, merged, names, normal, op, same, siblings


def test_merged_siblings() -> None:
    proto = merged().export()
    assert kinds(proto) == ["MatMul", "Split", "Relu", "Neg"]
    split = proto.graph.node[1]
    assert list(split.output) == ["p", "q"]
    assert names(proto) == {"a/folded", split.input[1]}
    assert [i.name for i in proto.graph.value_info] == ["p"]
    assert list(proto.graph.node)[2:] == list(siblings().graph.node)[2:]
    same(siblings(), proto, {"x": normal(2, 4)})


def test_one_piece_of_a_split_may_be_missing() -> None:
    r = merged()
    del r.nodes[r["q"]]
    proto = r.export()
    assert kinds(proto) == ["MatMul", "Split", "MatMul", "Relu", "Neg"]
    assert proto.graph.node[1].output[0] == "p"
    assert names(proto) >= {"a/folded", "b"}
    same(siblings(), proto, {"x": normal(3, 4)})


@pytest.mark.parametrize("kept", [0, 1])
def test_an_output_keeps_its_type_where_its_node_stays_for_the_others(kept: int) -> None:
    before = model(
        [node("Split", "x", "y z", axis=1)], [value("x", [2, 8])], [value("y", [2, 4]), value("z", [2, 4])], opset=17
    )
    r = Rewrite(before)
    name, starts = ("z", 4) if kept == 0 else ("y", 0)
    r.bind(name, op("Slice", axes=(1,), starts=(starts,), ends=(starts + 4,), steps=(1,)), r["x"])
    proto = r.export()
    assert sorted(kinds(proto)) == ["Slice", "Split"]
    assert list(proto.graph.output) == list(before.graph.output)
    same(before, proto, {"x": normal(2, 8)})


def test_names_that_are_taken_are_not_taken_again() -> None:
    before = siblings()
    before.graph.node[2].output[0] = before.graph.output[0].name = "p/MatMul"
    before.graph.node[3].name = "p/Split"
    r = Rewrite(before)
    wide = r.add(op("MatMul"), r["x"], r.add(op("Concat", axis=1), r["a"], r["b"]))
    r.bind("p", Split(1, (3, 5), 0), wide)
    r.bind("q", Split(1, (3, 5), 1), wide)
    proto = r.export()
    same(before, proto, {"x": normal(2, 4)})
    assert len({n.name for n in proto.graph.node}) == 4


def test_folding_is_exact_and_drops_what_nothing_needs() -> None:
    a, b = (numpy_helper.from_array(normal(6, 6), n) for n in "ab")
    before = model(
        [node("MatMul", "x a", "p"), node("MatMul", "p b", "y")], [value("x", [2, 6])], [value("y", [2, 6])], [a, b]
    )
    r = Rewrite(before)
    r.bind("y", op("MatMul"), r["x"], r.add(op("MatMul"), r["a"], r["b"]))
    proto = r.export()
    assert kinds(proto) == ["MatMul"]
    assert names(proto) == {"a/folded"}
    exact = numpy_helper.to_array(a).astype(np.float64) @ numpy_helper.to_array(b).astype(np.float64)
    np.testing.assert_array_equal(numpy_helper.to_array(proto.graph.initializer[0]), exact.astype(np.float32))
    same(before, proto, {"x": normal(2, 6)}, 1e-5)


def test_a_weight_that_takes_too_long_to_fold_is_computed_at_run_time() -> None:
    nodes = [node("Expand", "w shape", "e"), node("ReduceMax", "e", "m", keepdims=0), node("Mul", "x m", "y")]
    constants = [weight("w", np.arange(2048)), weight("shape", [2048, 2048], np.int64)]
    before = model(nodes, [value("x", [2])], [value("y", [2])], constants)
    r = Rewrite(before)
    r.bind("m", op("ReduceMax", axes=(0, 1), keepdims=0), r["e"])
    proto = r.export()
    assert kinds(proto) == ["Expand", "ReduceMax", "Mul"]
    same(before, proto, {"x": normal(2)})


@pytest.mark.parametrize(
    ("number", "dtype"), [(1e30, np.float32), (1e-30, np.float32), (300, np.float16), (1e-4, np.float16)]
)
def test_folding_reports_values_that_overflow_and_vanish(number: float, dtype: type[np.floating[Any]]) -> None:
    weights = [weight("a", [number, 0], dtype), weight("b", [number, 0], dtype)]
    kind = TensorProto.FLOAT16 if dtype is np.float16 else TensorProto.FLOAT
    before = model(
        [node("Mul", "x a", "p"), node("Mul", "p b", "y")], [value("x", [2], kind)], [value("y", [2], kind)], weights
    )
    r = Rewrite(before)
    product = r.add(op("Mul"), r["a"], r["b"])
    r.bind("y", op("Mul"), r["x"], product)
    r.export()
    assert r.loaded.folder.out_of_range == {product}


def test_overridable_initializers_are_never_folded() -> None:
    nodes = [node("Mul", "x a", "p"), node("Mul", "p b", "y")]
    weights = [weight("a", [2.0, 3.0]), weight("b", [4.0, 5.0])]
    before = model(nodes, [value("x", [2]), value("a", [2])], [value("y", [2])], weights)
    r = Rewrite(before)
    r.bind("y", op("Mul"), r["x"], r.add(op("Mul"), r["a"], r["b"]))
    proto = r.export()
    assert kinds(proto) == ["Mul", "Mul"]
    assert names(proto) == {"a", "b"}
    same(before, proto, {"x": normal(2), "a": normal(2)})
    frozen = Rewrite(before, freeze=True)
    frozen.bind("y", op("Mul"), frozen["x"], frozen.add(op("Mul"), frozen["a"], frozen["b"]))
    assert names(frozen.export()) == {"a", "a/folded"}


def test_before_ir_version_4_weights_are_constant_nodes() -> None:
    r = Rewrite(old_ir())
    doubled = r.add(op("Add"), r["w"], r["w"])
    r.bind("m", op("Mul"), r["x"], doubled)
    proto = r.export()
    assert kinds(proto) == ["Constant", "Mul", "Add"]
    x = normal(2)
    (y,) = run(proto, {"x": x})
    np.testing.assert_allclose(y, x * np.float32([2, 4]) + np.float32([3, 4]), rtol=1e-6)


def test_identity_in_the_middle_vanishes() -> None:
    r = Rewrite(chain())
    r.bind("c", op("Identity"), r["a"])
    proto = r.export()
    assert kinds(proto) == ["Relu", "Exp"]
    assert list(proto.graph.node[1].input) == ["a"]
    same(chain(), proto, {"x": normal(3)})


def outputs_model() -> onnx.ModelProto:
    nodes = [node("Neg", "x", "a"), node("Neg", "a", "y"), node("Abs", "x", "b"), node("Abs", "b", "z")]
    return model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3]), value("b", [3])])


def test_an_output_that_becomes_an_input_is_written_through_identity() -> None:
    r = Rewrite(outputs_model())
    r.bind("y", op("Identity"), r["x"])
    proto = r.export()
    assert kinds(proto) == ["Identity", "Abs", "Abs"]
    same(outputs_model(), proto, {"x": normal(3)})


def test_outputs_that_become_one_value_keep_their_names() -> None:
    r = Rewrite(outputs_model())
    r.bind("z", op("Identity"), r["b"])
    proto = r.export()
    assert [(n.op_type, n.output[0]) for n in proto.graph.node][2:] == [("Abs", "b"), ("Identity", "z")]
    same(outputs_model(), proto, {"x": normal(3)})


def test_a_new_value_takes_the_name_of_the_output_that_it_becomes() -> None:
    r = Rewrite(outputs_model())
    shared = r.add(op("Relu"), r.add(op("Abs"), r["x"]))
    r.bind("z", op("Identity"), shared)
    r.bind("b", op("Identity"), shared)
    proto = r.export()
    found = [(n.op_type, n.output[0]) for n in proto.graph.node]
    assert ("Relu", "z") in found
    assert ("Identity", "b") in found
    same(outputs_model(), proto, {"x": normal(3)})


def test_a_constant_output() -> None:
    nodes = [node("Mul", "x zero", "p"), node("Add", "p w", "y"), node("Neg", "y", "z")]
    weights = [weight("zero", [0.0, 0.0]), weight("w", [1.0, 2.0])]
    before = model(nodes, [value("x", [2])], [value("y", [2]), value("z", [2])], weights)
    r = Rewrite(before)
    r.bind("y", op("Add"), r["w"], r["zero"])
    r.loaded.values.constant.add(r["y"])
    proto = r.export()
    assert kinds(proto) == ["Identity", "Neg"]
    same(before, proto, {"x": normal(2)})


def test_captured_values_can_be_rewritten() -> None:
    r = Rewrite(with_if())
    r.bind("a", op("Max"), r["x"], r.add(op("Sub"), r["x"], r["x"]))
    proto = r.export()
    assert kinds(proto) == ["Sub", "Max", "If", "Neg"]
    for flag in (True, False):
        same(with_if(), proto, {"x": normal(3), "flag": np.array(flag)})


def test_branches_read_what_a_captured_value_becomes() -> None:
    r = Rewrite(with_if())
    r.bind("a", op("Identity"), r.add(op("Relu"), r["x"]))
    proto = r.export()
    assert kinds(proto) == ["Relu", "If", "Neg"]
    same(with_if(), proto, {"x": normal(3), "flag": np.array(True)})


def split_model() -> onnx.ModelProto:
    nodes = [
        node("Split", "x sizes", "a b c", axis=0, name="cut"),
        node("Neg", "a", "p"),
        node("Add", "p b", "q"),
        node("Add", "q c", "y"),
    ]
    return model(nodes, [value("x", [6])], [value("y", [2])], [weight("sizes", [2, 2, 2], np.int64)])


def test_one_output_of_an_original_split_is_rewritten() -> None:
    r = Rewrite(split_model())
    halves = r.add(Split(0, (3, 3), 0), r["x"])
    r.bind(
        "b",
        op("Concat", axis=0),
        r.add(Split(0, (2, 1), 1), halves),
        r.add(Split(0, (1, 2), 0), r.add(Split(0, (3, 3), 1), r["x"])),
    )
    proto = r.export()
    (cut,) = (n for n in proto.graph.node if n.name == "cut")
    assert [o for o in cut.output if o in "abc"] == ["a", "c"]
    assert kinds(proto).count("Split") == 4
    same(split_model(), proto, {"x": normal(6)})


def test_a_node_with_other_inputs_keeps_all_else() -> None:
    nodes = [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Add", "a b", "y", name="sum", doc_string="adds")]
    before = model(nodes, [value("x", [2])], [value("y", [2])])
    r = Rewrite(before)
    r.nodes[r["y"]] = Node(r.loaded.table.nodes[r["y"]].operator, (r["a"], r["a"]), 2)
    proto = r.export()
    assert kinds(proto) == ["Relu", "Add"]
    assert (proto.graph.node[1].name, proto.graph.node[1].doc_string) == ("sum", "adds")
    assert list(proto.graph.node[1].input) == ["a", "a"]


def test_an_opaque_node_reads_a_renamed_value() -> None:
    before = half_precision(TensorProto.BFLOAT16)
    r = Rewrite(before)
    r.bind("f", op("Relu"), r["x"])
    proto = r.export()
    assert kinds(proto) == ["Relu", "Relu"]


def test_unsorted_graphs_are_written_sorted_once_rewritten() -> None:
    r = Rewrite(unsorted())
    r.bind("b", op("Exp"), r.add(op("Relu"), r["x"]))
    proto = r.export()
    assert kinds(proto) == ["Relu", "Exp", "Neg"]
    same(unsorted(), proto, {"x": normal(2)})


def test_shapes_that_the_table_does_not_show_are_kept() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Shape", "a", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Concat", "batch minus", "target", axis=0),
        node("Reshape", "a target", "b"),
        node("Neg", "b", "y"),
    ]
    weights = [weight("zero", [1, 0], np.int64), weight("minus", [-1], np.int64)]
    before = model(nodes, [value("x", ["n", "m", 3])], [value("y", ["m", "n", 3])], weights)
    r = Rewrite(before)
    r.bind("y", op("Mul"), r["b"], r.add(op("Neg"), r.add(op("Exp"), r.add(op("Sub"), r["b"], r["b"]))))
    proto = r.export()
    assert kinds(proto)[:5] == kinds(before)[:5]
    same(before, proto, {"x": normal(4, 2, 3)})


def test_small_constants_are_shared() -> None:
    nodes = [node("Neg", "x", "a"), node("Neg", "a", "y"), node("Abs", "x", "z")]
    before = model(nodes, [value("x", [4, 6])], [value("y", [4, 6]), value("z", [4, 6])])
    r = Rewrite(before)
    slices = [r.add(op("Reshape", shape=(24,)), r[n]) for n in ("x", "a")]
    r.bind("y", op("Reshape", shape=(4, 6)), r.add(op("Neg"), slices[1]))
    r.bind("z", op("Reshape", shape=(4, 6)), r.add(op("Abs"), slices[0]))
    proto = r.export()
    assert kinds(proto).count("Reshape") == 4
    assert sorted(tuple(numpy_helper.to_array(t)) for t in proto.graph.initializer) == [(4, 6), (24,)]
    same(before, proto, {"x": normal(4, 6)})


def test_what_cannot_be_written() -> None:
    loaded = load(chain())
    assert writable(loaded.table.nodes[loaded.ids["a"]], loaded.table)
    fill = Node(op("Fill", value=1.0, shape=(3,)), ())
    assert writable(fill, loaded.table)  # folded
    assert not writable(Node(op("Fill", value=1.0, shape=loaded_symbol()), ()), loaded.table)
    assert not writable(Node(op("HardSwish"), (loaded.ids["x"],)), load(_at_opset(chain(), 13)).table)


def loaded_symbol() -> tuple[object, ...]:
    loaded = load(model([node("Neg", "x", "y")], [value("x", ["n"])], [value("y", ["n"])]))
    return loaded.values.types[loaded.ids["x"]].dims


def _at_opset(proto: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    proto.opset_import[0].version = opset
    return proto


def test_an_output_that_gets_another_definition_leaves_nothing_said_of_the_old_one() -> None:
    """One piece of a Split is computed otherwise, and still a graph output: the node keeps a blank in its place."""
    nodes = [node("Split", "x sizes", "p q", axis=0)]
    constants = [weight("sizes", [1, 1], np.int64)]
    before = model(nodes, [value("x", [2])], [value("p", [1]), value("q", [1])], constants)
    r = Rewrite(before)
    r.bind("p", op("Slice", axes=(0,), starts=(0,), ends=(1,), steps=(1,)), r["x"])
    proto = r.export()  # which asks for the contract
    assert sorted(kinds(proto)) == ["Slice", "Split"]
    same(before, proto, {"x": normal(2)})


def test_a_bound_that_a_rule_writes_without_a_point_is_a_float_where_it_is_an_attribute() -> None:
    text = "g (float[4] x) => (float[4] y) { c = Clip<min = -1.0, max = 6.0>(x) y = Relu(c) }"
    old = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 7]>\n{text}')
    result = taso_py.optimize(old, race=False, only=["relu-of-clip"], strict=True)
    assert [rule.name for rule in result.rules] == ["relu-of-clip"]
    (node,) = result.model.graph.node
    assert {a.name: (a.type, a.f) for a in node.attribute} == {
        "min": (onnx.AttributeProto.FLOAT, 0.0),
        "max": (onnx.AttributeProto.FLOAT, 6.0),
    }

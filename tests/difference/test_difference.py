"""What differs between two graphs is found where it is, whatever values are called and however nodes are ordered."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from taso_py.difference.compare import Difference, compare
from taso_py.difference.reading import read_graph
from taso_py.errors import ModelError
from tests.helpers.graphs import model

UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs")
BINARY = ("Add", "Mul", "Sub", "Max")


def differ(before: onnx.ModelProto, after: onnx.ModelProto, *, ignore_names: bool = False) -> Difference:
    return compare(read_graph(before), read_graph(after), ignore_names=ignore_names)


def places(found: Difference) -> list[tuple[list[str], list[str]]]:
    """The operators of each region, before and after."""
    sides = [(region.before, region.after) for region in found.regions]
    return [([node.operator for node in one.nodes], [node.operator for node in two.nodes]) for one, two in sides]


def network(seed: int, size: int = 30) -> onnx.ModelProto:
    """A random graph of element-wise nodes and products; every value that nothing reads is an output."""
    rng = random.Random(seed)
    values, nodes, weights = ["x", "y"], [], []
    for k in range(size):
        kind = rng.choice(["unary", "binary", "product"])
        if kind == "unary":
            node = helper.make_node(rng.choice(UNARY), [rng.choice(values)], [f"v{k}"])
        elif kind == "binary":
            node = helper.make_node(rng.choice(BINARY), rng.choices(values, k=2), [f"v{k}"])
        else:
            weights.append(np.random.default_rng(seed * 1000 + k).normal(size=(4, 4)).astype(np.float32))
            node = helper.make_node("MatMul", [rng.choice(values), f"w{len(weights)}"], [f"v{k}"])
        nodes.append(node)
        values.append(f"v{k}")
    read = {name for node in nodes for name in node.input}
    ends = [name for name in values[2:] if name not in read]
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ends],
        [numpy_helper.from_array(array, f"w{k}") for k, array in enumerate(weights, start=1)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    return found


def renamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Every value but the outputs of the graph and its inputs gets the name of another one."""
    found = copied(proto)
    kept = {value.name for value in (*found.graph.input, *found.graph.output)}
    names = [name for node in found.graph.node for name in node.output if name not in kept]
    names += [tensor.name for tensor in found.graph.initializer]
    other = dict(zip(names, names[1:] + names[:1], strict=True))
    for node in found.graph.node:
        node.name = ""
        for side in (node.input, node.output):
            side[:] = [other.get(name, name) for name in side]
    for tensor in found.graph.initializer:
        tensor.name = other[tensor.name]
    return found


def reordered(proto: onnx.ModelProto) -> onnx.ModelProto:
    found = copied(proto)
    nodes = list(found.graph.node)[::-1]
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    weights = list(found.graph.initializer)[::-1]
    del found.graph.initializer[:]
    found.graph.initializer.extend(weights)
    return found


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_graph_does_not_differ_from_itself_renamed_or_reordered(seed: int) -> None:
    proto = network(seed)
    for other in (proto, renamed(proto), reordered(proto), renamed(reordered(proto))):
        found = differ(proto, other)
        assert found.same
        assert found.unchanged == len(proto.graph.node)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), place=st.integers(0, 29), rename=st.booleans())
@example(seed=5588, place=0, rename=True)  # nothing is surely the same, and every name is of another value
def test_one_edited_node_is_the_one_region(seed: int, place: int, rename: bool) -> None:
    """Not one node more is called changed where names are kept; without names the change is within the one region."""
    proto = network(seed)
    other = copied(proto)
    node = other.graph.node[place]
    was = node.op_type
    if was in UNARY or was in BINARY:
        node.op_type = "Softsign" if was in UNARY else "Min"  # which nothing else computes
    else:
        tensor = next(t for t in other.graph.initializer if t.name == node.input[1])
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))
    found = differ(proto, renamed(other) if rename else other)
    assert len(found.regions) == 1
    region = found.regions[0]
    assert proto.graph.node[place].output[0] in [value for n in region.before.nodes for value in n.outputs]
    if not rename:
        assert places(found) == [([was], [node.op_type])]


LAYERS = (
    "agraph (float[1,4] x) => (float[1,4] y) { a = Relu(x) b = Mul(a, s) c = MatMul(b, w) d = Tanh(c) y = Add(d, x) }"
)


@pytest.mark.parametrize("rename", [False, True])
def test_what_a_tool_folds_is_one_place(rename: bool) -> None:
    before = model(LAYERS, s=(4,), w=(4, 4))
    after = model(LAYERS.replace("b = Mul(a, s) c = MatMul(b, w)", "c = MatMul(a, v)"), v=(4, 4))
    after = renamed(after) if rename else after
    assert places(differ(before, after)) == [(["Mul", "MatMul"], ["MatMul"])]


def test_a_node_that_went_leaves_nothing_behind() -> None:
    before = model("agraph (float[4] x) => (float[4] y) { a = Tanh(x) b = Identity(a) y = Relu(b) }")
    after = model("agraph (float[4] x) => (float[4] y) { a = Tanh(x) y = Relu(a) }")
    (region,) = differ(before, after).regions
    assert [node.operator for node in region.before.nodes] == ["Identity"]
    assert not region.after.nodes
    assert region.after.makers["a"].operator == "Tanh"
    assert [node.operator for node in region.after.readers["a"]] == ["Relu"]


def test_places_that_meet_at_a_kept_value_are_apart_and_alike() -> None:
    text = "agraph (float[4] x) => (float[4] y) { a = Neg(x) b = Neg(a) c = Neg(b) y = Neg(c) }"
    before = model(text)
    after = model("agraph (float[4] x) => (float[4] y) { b = Abs(x) y = Abs(b) }")
    found = differ(before, after)
    assert places(found) == [(["Neg", "Neg"], ["Abs"])] * 2
    assert [len(group) for group in found.alike] == [2]


def test_operands_in_another_order_differ_and_trailing_absent_ones_do_not() -> None:
    before = model("agraph (float[4] x) => (float[4] y) { a = Neg(x) b = Tanh(x) y = Sub(a, b) }")
    after = model("agraph (float[4] x) => (float[4] y) { a = Neg(x) b = Tanh(x) y = Sub(b, a) }")
    assert places(differ(before, after)) == [(["Sub"], ["Sub"])]
    clipped = model("agraph (float[4] x) => (float[4] y) { y = Clip(x) }")
    absent = copied(clipped)
    absent.graph.node[0].input.extend(["", ""])
    assert differ(clipped, absent).same


def test_a_default_that_is_written_is_no_difference_and_a_value_is() -> None:
    text = "agraph (float[4] x) => (float[4] y) { y = LeakyRelu(x) }"
    stated, other = (text.replace("LeakyRelu", f"LeakyRelu<alpha = {alpha}>") for alpha in (0.01, 0.02))
    assert differ(model(text), model(stated)).same
    assert places(differ(model(text), model(other))) == [(["LeakyRelu"], ["LeakyRelu"])]


def test_a_constant_is_its_tensor_wherever_it_is_written() -> None:
    initializer = model("agraph (float[2] x) => (float[2] y) <float[2] c = {1.0, 2.0}> { y = Add(x, c) }")
    node = model("agraph (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1.0, 2.0}>() y = Add(x, c) }")
    found = differ(initializer, node)
    assert found.same
    assert found.operators["Constant"] == (0, 1)


def branches(then: str, name: str = "a") -> onnx.ModelProto:
    text = (
        f"agraph (bool c, float[4] x) => (float[4] y) {{ {name} = Neg(x) "
        f"y = If(c) <then_branch = t () => (float[4] p) {{ p = {then}({name}) }}, "
        f"else_branch = e () => (float[4] q) {{ q = Abs({name}) }}> }}"
    )
    return model(text)


def test_subgraphs_count_by_what_they_compute() -> None:
    assert differ(branches("Relu"), branches("Relu", name="b")).same
    assert places(differ(branches("Relu"), branches("Tanh"))) == [(["If"], ["If"])]


def test_other_inputs_and_outputs_are_told() -> None:
    before = model("agraph (float[4] x) => (float[4] y) { y = Relu(x) }")
    after = model("agraph (float[N] x) => (float[N] z) { z = Relu(x) }")
    found = differ(before, after)
    assert not found.interface_same
    assert not found.same


def chain(length: int, every: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Tanh" if k % every == 0 else "Relu", [f"v{k}" if k else "x"], [f"v{k + 1}"])
        for k in range(length)
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", f"v{length}")]
    graph = helper.make_graph(nodes, "chain", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
def test_depth_is_no_limit() -> None:
    before, after = read_graph(chain(50_000, 60_000)), read_graph(chain(50_000, 500))
    assert places(compare(before, after)) == [(["Relu"], ["Tanh"])] * 99
    without = compare(before, after, ignore_names=True)
    assert sum(len(region.before.nodes) for region in without.regions) >= 99


def test_a_circle_is_said_in_one_line() -> None:
    proto = network(0)
    proto.graph.node[3].input[0] = proto.graph.node[3].output[0]
    with pytest.raises(ModelError, match="cycle") as caught:
        differ(proto, proto)
    assert "\n" not in str(caught.value)

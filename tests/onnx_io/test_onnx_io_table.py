"""What the table says of a model: types, symbols, constants, opaque nodes, arithmetic on shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from taso_py.graph.table import Opaque
from taso_py.graph.types import TensorType
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.onnx_io.onnx_types import LIKE_FIRST, REDUCING
from taso_py.ops.operator import NEWEST_OPSET
from tests.helpers import graphs
from tests.helpers.onnx_io_models import (
    FLOAT,
    MODELS,
    half_precision,
    loose_ends,
    model,
    node,
    old_ir,
    run,
    same_in_and_out,
    unsorted,
    value,
    weight,
    with_custom_domain,
    with_functions,
    with_if,
)

INT64 = np.int64


def shown(loaded: Loaded, name: str) -> str:
    return str(loaded.values.types[loaded.ids[name]])


def operator(loaded: Loaded, name: str) -> str:
    return str(loaded.table.nodes[loaded.ids[name]].operator)


def test_symbols_of_inputs() -> None:
    inputs = [value("x", ["n", None, 3]), value("y", ["n", None, 1]), value("z", None), value("w", [])]
    loaded = load(model([node("Add", "x y", "s")], inputs, [value("s", None)]))
    assert [shown(loaded, n) for n in "xyzw"] == [
        "float32[n,x.1,3]",
        "float32[n,y.1,1]",
        "float32[?]",
        "float32[]",
    ]
    assert loaded.opaque == {"Add": 1}  # x.1 and y.1 may differ


@pytest.mark.parametrize("name", ["?", "-1", "None", "unknown"])
def test_what_is_only_called_unknown_is_no_name(name: str) -> None:
    loaded = load(model([node("Transpose", "x", "t")], [value("x", [name, name])], [value("t", None)]))
    assert shown(loaded, "x") == "float32[x.0,x.1]"


def test_sizes_that_are_too_deep_to_be_compared_are_unknown() -> None:
    nodes = []
    for k in range(320):
        pool = helper.make_node("MaxPool", [f"c{k}"], [f"m{k}"], kernel_shape=[2], strides=[3], pads=[1, 1])
        nodes += [pool, helper.make_node("Concat", [f"m{k}", f"m{k}"], [f"c{k + 1}"], axis=2)]
    loaded = load(model(nodes, [value("c0", [1, 1, "n"])], [value("c320", None)]))
    assert loaded.opaque
    assert loaded.table.type(loaded.ids["c320"]).rank == 3


def test_a_fresh_symbol_never_takes_a_given_name() -> None:
    inputs = [value("y", ["x.0"]), value("x", [None])]
    loaded = load(model([node("Mul", "x y", "s")], inputs, [value("s", None)]))
    assert shown(loaded, "x") == "float32[x.0']"


def test_types_are_recomputed_and_stated_ones_ignored() -> None:
    proto = model([node("Relu", "x", "r"), node("Neg", "r", "y")], [value("x", [2, 3])], [value("y", [9])])
    proto.graph.value_info.append(value("r", [7, 7, 7]))
    loaded = load(proto)
    assert shown(loaded, "r") == shown(loaded, "y") == "float32[2,3]"


def test_sizes_of_shapes() -> None:
    inputs = [value("x", ["n", None]), value("y", [4, "n"])]
    loaded = load(model([node("Neg", "x", "s")], inputs, [value("s", None)]))
    assert loaded.sizes_of({"x": (5, 6), "y": (4, 5)}) == {"n": 5, "x.1": 6}


def test_constants_and_overridable_initializers() -> None:
    loaded = load(loose_ends())
    names = {n for n, i in loaded.ids.items() if i in loaded.values.fixed}
    assert names == {"half", "never", "stored", "top", "spare"}
    assert loaded.ids["scale"] in loaded.values.inputs
    frozen = load(loose_ends(), freeze_initializers=True)
    assert frozen.ids["scale"] in frozen.values.fixed
    assert frozen.ids["scale"] not in frozen.values.inputs


def test_old_initializers_are_constants_as_in_onnx_runtime() -> None:
    loaded = load(old_ir())
    assert {loaded.ids["w"], loaded.ids["b"]} <= loaded.values.constant
    assert loaded.values.inputs == {loaded.ids["x"]}


def test_constancy_spreads_through_operators() -> None:
    nodes = [node("Mul", "a b", "c"), node("Neg", "c", "d"), node("Add", "x d", "y")]
    proto = model(nodes, [value("x", [2])], [value("y", [2])], [weight("a", [1, 2]), weight("b", [3, 4])])
    loaded = load(proto)
    assert {loaded.ids[n] for n in "abcd"} == loaded.values.constant
    np.testing.assert_array_equal(loaded.folder.value(loaded.ids["d"], loaded.table.nodes), [-3, -8])


def test_duplicates_are_one_value_and_dead_nodes_are_roots() -> None:
    loaded = load(loose_ends())
    assert loaded.ids["m"] == loaded.ids["m2"]
    outputs = tuple(loaded.ids[n] for n in ("y", "z"))
    assert loaded.table.outputs == outputs
    assert loaded.table.roots == (*outputs, loaded.ids["never"], loaded.ids["deader"])
    assert loaded.ids["dead"] in loaded.table.reachable()
    assert "mask" not in loaded.ids or loaded.ids["mask"] not in loaded.table.roots


def test_opaque_nodes_and_what_they_read() -> None:
    loaded = load(with_if())
    branch = loaded.table.nodes[loaded.ids["y"]]
    assert isinstance(branch.operator, Opaque)
    assert branch.inputs[0] == loaded.ids["flag"]
    assert {loaded.values.names[i] for i in branch.inputs[1:]} <= loaded.scopes.keys()
    assert loaded.opaque["If"] == 1
    assert shown(loaded, "y") == "float32[3]"  # what both branches compute; what they state is not trusted


def test_unknown_operators_are_opaque() -> None:
    loaded = load(with_custom_domain())
    known = {"Relu"} & {n.op_type for n in loaded.proto.graph.node}
    assert sum(loaded.opaque.values()) == len(loaded.proto.graph.node) - len(known)


def test_functions_are_inlined() -> None:
    loaded = load(with_functions())
    assert [node.op_type for node in loaded.proto.graph.node] == ["LeakyRelu", "Add"]
    assert loaded.proto.graph.node[0].attribute[0].f == 0.25
    assert not loaded.opaque


def test_a_function_shadows_a_standard_operator() -> None:
    proto = with_functions()
    proto.functions[1].domain, proto.functions[1].name = "", "Relu"
    proto.graph.node[1].domain, proto.graph.node[1].op_type = "", "Relu"
    assert load(proto).opaque == {"Leak": 1, "Relu": 1}


def test_bfloat16_is_opaque_but_keeps_its_shape() -> None:
    loaded = load(half_precision(onnx.TensorProto.BFLOAT16))
    assert loaded.opaque["Add"] == 1
    assert shown(loaded, "s") == "bfloat16[n,2]"
    assert operator(loaded, "y").startswith("Relu")


def test_half_precision_is_computed_with() -> None:
    loaded = load(half_precision())
    assert not loaded.opaque
    assert shown(loaded, "s") == "float16[n,2]"
    assert operator(loaded, "s").startswith("Add")
    assert operator(loaded, "y").startswith("Relu")


def test_an_unknown_operator_of_a_custom_domain_has_no_type() -> None:
    loaded = load(with_custom_domain())
    assert not loaded.values.types[loaded.ids["s"]].known


@pytest.mark.parametrize(
    "broken",
    [
        node("Add", "x", "a"),
        node("Add", "x -", "a"),
        node("Relu", "x", "a", slope=1.0),
        node("Concat", "x x", "a"),
        node("LeakyRelu", "x", "a", alpha=1),
        node("Concat", "x x", "a", axis=9),
        node("Gelu", "x", "a"),  # younger than the model's opset
        node("Split", "x", "a b", num_outputs=1),
    ],
    ids=str,
)
def test_nodes_that_break_the_standard_are_opaque(broken: onnx.NodeProto) -> None:
    proto = model([broken, node("Neg", "a", "y")], [value("x", [2, 2])], [value("y", None)], opset=18)
    assert load(proto).opaque[broken.op_type] == 1


def test_unsorted_graphs() -> None:
    loaded = load(unsorted())
    assert not loaded.sorted
    assert [operator(loaded, n)[:3] for n in "aby"] == ["Rel", "Exp", "Neg"]


def test_an_output_that_is_an_input_or_an_initializer() -> None:
    loaded = load(same_in_and_out())
    assert loaded.table.outputs == tuple(loaded.ids[n] for n in ("x", "w", "y", "y"))


def test_two_opaque_nodes_are_never_equal() -> None:
    nodes = [node("RandomNormalLike", "x", "a"), node("RandomNormalLike", "x", "b"), node("Add", "a b", "y")]
    loaded = load(model(nodes, [value("x", [2])], [value("y", [2])]))
    assert loaded.table.nodes[loaded.ids["a"]] != loaded.table.nodes[loaded.ids["b"]]


def test_every_value_has_a_type_and_every_node_known_inputs() -> None:
    for build in MODELS.values():
        loaded = load(build())
        for value_id, table_node in loaded.table.order():
            assert value_id in loaded.values.types
            assert all(i in loaded.values.types for i in table_node.inputs if i is not None)


# --- arithmetic on shapes


def follow(nodes: list[onnx.NodeProto], *initializers: onnx.TensorProto, opset: int = 17) -> tuple[object, ...]:
    """The entries found for the value ``s``, of a graph with inputs x[n,3,m] and y[4,3,m]."""
    inputs = [value("x", ["n", 3, "m"]), value("y", [4, 3, "m"])]
    proto = model(nodes, inputs, [value("s", None, TensorProto.INT64)], initializers, opset=opset)
    loaded = load(proto)
    vector = loaded.vectors.get(loaded.ids["s"])
    return () if vector is None else tuple(str(e) for e in vector[0])


one, two, minus = (weight(n, [v], INT64) for n, v in (("one", 1), ("two", 2), ("minus", -1)))
zero = weight("zero", 0, INT64)


@pytest.mark.parametrize(
    ("nodes", "initializers", "expected"),
    [
        ([node("Shape", "x", "s")], (), ("n", "3", "m")),
        ([node("Shape", "x", "s", start=1)], (), ("3", "m")),
        ([node("Shape", "x", "s", start=-2, end=-1)], (), ("3",)),
        ([node("Size", "y", "s")], (), ("12*m",)),
        ([node("Shape", "x", "a"), node("Gather", "a zero", "s")], (zero,), ("n",)),
        ([node("Shape", "x", "a"), node("Gather", "a minus", "s")], (minus,), ("m",)),
        ([node("Shape", "x", "a"), node("Slice", "a one two", "s")], (one, two), ("3",)),
        (
            [node("Shape", "x", "a"), node("Slice", "a minus far zeros minus", "s")],
            (minus, weight("far", [-(2**63)], INT64), weight("zeros", [0], INT64)),
            ("m", "3", "n"),
        ),
        ([node("Shape", "x", "a"), node("Concat", "a minus", "s", axis=0)], (minus,), ("n", "3", "m", "-1")),
        ([node("Shape", "x", "a"), node("Mul", "a two", "s")], (two,), ("2*n", "6", "2*m")),
        ([node("Shape", "x", "a"), node("Div", "a two", "s")], (two,), ("(n)//(2)", "1", "(m)//(2)")),
        ([node("Shape", "x", "a"), node("Add", "a minus", "s")], (minus,), ("n-1", "2", "m-1")),
        ([node("Shape", "x", "a"), node("Mod", "a two", "s")], (two,), ("n-2*(n)//(2)", "1", "m-2*(m)//(2)")),
        ([node("Shape", "x", "a"), node("Cast", "a", "s", to=TensorProto.INT32)], (), ("n", "3", "m")),
        ([node("Shape", "x", "a"), node("Cast", "a", "s", to=FLOAT)], (), ()),
        ([node("Shape", "x", "a"), node("ReduceProd", "a", "s", keepdims=0)], (), ("3*m*n",)),
        ([node("Shape", "x", "a"), node("Squeeze", "a", "s")], (), ()),
        (
            [node("Shape", "x", "a"), node("Gather", "a zero", "b"), node("Unsqueeze", "b z1", "s")],
            (zero, weight("z1", [0], INT64)),
            ("n",),
        ),
        ([node("ConstantOfShape", "two", "s", value=weight("", [7], INT64))], (two,), ("7", "7")),
        ([node("ConstantOfShape", "two", "s")], (two,), ()),
        (
            [node("Range", "zero five three", "s")],
            (zero, weight("five", 5, INT64), weight("three", 3, INT64)),
            ("0", "3"),
        ),
        (
            # torch's expand: where(shape == -1, 1, shape)
            [node("Shape", "x", "a"), node("Equal", "a minus", "e"), node("Where", "e one a", "s")],
            (minus, one),
            ("n", "3", "m"),
        ),
        ([node("Shape", "x", "a"), node("Max", "a one", "s")], (one,), ()),  # n may be 0
    ],
)  # fmt: skip
def test_shape_arithmetic(
    nodes: list[onnx.NodeProto], initializers: tuple[onnx.TensorProto, ...], expected: tuple[str, ...]
) -> None:
    assert follow(nodes, *initializers) == expected


def test_slice_before_opset_10() -> None:
    nodes = [node("Shape", "x", "a"), node("Slice", "a", "s", starts=[0], ends=[-1])]
    assert follow(nodes, opset=9) == ("n", "3")


def test_a_computed_shape_lets_a_reshape_be_read() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Concat", "batch minus", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    initializers = [weight("zero", [0], INT64), minus]
    loaded = load(model(nodes, [value("x", ["n", 2, 3])], [value("y", None)], initializers))
    assert shown(loaded, "y") == "float32[n,6]"
    assert loaded.table.nodes[loaded.ids["y"]].inputs == (loaded.ids["x"],)
    assert loaded.operand_positions[3] == (0,)


@pytest.mark.parametrize("operator", ["InstanceNormalization", "LpNormalization", "MeanVarianceNormalization"])
def test_an_unread_operator_that_keeps_the_shape_hides_no_sizes(operator: str) -> None:
    """A group normalisation behind a convolution of standardised weights, as PyTorch writes it."""
    more = {"InstanceNormalization": ", s, s", "LpNormalization": "", "MeanVarianceNormalization": ""}[operator]
    text = f"""agraph (float[1,4,6,6] x) => (float[1,4,6,6] r)
        <float[4,4,1,1] w, float[4] o, float[2] s> {{
        shape = Constant<value_ints = [0, 2, -1]>()
        m, mean, variance = BatchNormalization<training_mode = 1>(w, o, o, o, o)
        y = Conv(x, m)
        groups = Reshape(y, shape)
        n = {operator}(groups{more})
        was = Shape(y)
        back = Reshape(n, was)
        r = Add(back, x) }}"""
    loaded = load(graphs.model(text, w=(4, 4, 1, 1), o=(4,), s=(2,)))
    assert loaded.opaque == {operator: 1}
    assert loaded.values.types[loaded.ids["n"]] == TensorType("float32", (1, 2, 72))
    assert loaded.values.types[loaded.ids["back"]] == TensorType("float32", (1, 4, 6, 6))


def test_every_operator_of_which_that_is_said_keeps_the_type_by_onnx_too() -> None:
    for name in LIKE_FIRST:
        schema = onnx.defs.get_schema(name, 25)
        assert schema.outputs[0].type_str == schema.inputs[0].type_str, name


@pytest.mark.parametrize("opset", range(7, NEWEST_OPSET + 1))
def test_every_reduction_that_is_not_read_spells_its_axes_as_the_mean_does(opset: int) -> None:
    mean = onnx.defs.get_schema("ReduceMean", opset)
    for name in REDUCING:
        schema = onnx.defs.get_schema(name, opset)
        assert (set(schema.attributes), len(schema.inputs)) == (set(mean.attributes), len(mean.inputs)), name


@pytest.mark.parametrize(
    ("options", "dims"),
    [
        ("<axes = [-1]>", ("n", 2, 1)),
        ("<axes = [-1], keepdims = 0>", ("n", 2)),
        ("<axes = [0, 1], keepdims = 0>", (72,)),
        ("", (1, 1, 1)),
        ("<keepdims = 0>", ()),
    ],
)
def test_a_reduction_that_is_not_read_hides_no_free_size(options: str, dims: tuple[object, ...]) -> None:
    text = f"""agraph (float[n,4,6,6] x) => (float r) {{
        sizes = Shape(x)
        zero = Constant<value_ints = [0]>()
        n = Gather(sizes, zero)
        rest = Constant<value_ints = [2, 72]>()
        all = Concat<axis = 0>(n, rest)
        y = Reshape(x, all)
        r = ReduceLogSumExp{options}(y) }}"""
    loaded = load(graphs.model(text))
    assert loaded.opaque["ReduceLogSumExp"] == 1
    assert tuple(map(str, loaded.values.types[loaded.ids["r"]].dims)) == tuple(map(str, dims))


SHARED = """agraph (float[4,8] x, bool c) => (float[4,8] y, float[4,8] z, float[8,8] u) {
  a = Identity(w) b = Identity(w) d = Identity(a) p = MatMul(x, w) q = MatMul(x, a) r = MatMul(x, d) s = Add(p, q)
  y = Add(s, r) u = Identity(w)
  z = If(c) <then_branch = g1 () => (float[4,8] t) { t = MatMul(x, b) },
             else_branch = g2 () => (float[4,8] e) { e = Identity(x) }> }"""


def test_a_weight_under_another_name_is_that_weight() -> None:
    """PyTorch names a shared layer's weights anew for each use."""
    proto = graphs.model(SHARED, w=(8, 8))
    loaded = load(proto)
    ids = loaded.ids
    assert ids["w"] == ids["a"] == ids["d"] == ids["b"]
    assert ids["w"] != ids["u"]
    sum_of_two = next(v for v, n in loaded.table.order() if n.inputs == (ids["p"], ids["q"]))
    changed = loaded.table.rebind({sum_of_two: loaded.table.nodes[ids["p"]]})
    written = export(loaded, changed)
    feeds = {"x": np.ones((4, 8), np.float32), "c": np.array(True)}
    one, other = run(proto, feeds), run(serialize(written), feeds)
    np.testing.assert_allclose(other[0] * 1.5, one[0], rtol=1e-5)
    for k in (1, 2):
        np.testing.assert_array_equal(other[k], one[k])
    assert {"a", "d"}.isdisjoint(value.name for n in written.graph for value in n.outputs)

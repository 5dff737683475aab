"""What ONNX's own shape inference says is believed only where no caller, file or function can make it false."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto

import taso_py
from taso_py.onnx_io import functions
from taso_py.onnx_io.doubts import Facts, doubted
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model
from tests.helpers.onnx_io_models import model as made
from tests.helpers.onnx_io_models import node, run, value

OVERRIDABLE = [
    ("float[2,6] x, int64[2] s", "int64[2] s = {3, 4}", "Reshape(x, s)"),
    ("float[4,6] x, int64[1] s", "int64[1] s = {1}", "ReduceSum<keepdims = 0>(x, s)"),
    ("float[2,3] x, int64[2] s", "int64[2] s = {1, 1}", "Tile(x, s)"),
    ("float[1,1] x, int64[2] s", "int64[2] s = {2, 3}", "Expand(x, s)"),
    ("float s", "float s = {4.0}, float start = {0.0}, float step = {1.0}", "Range(start, s, step)"),
    ("int64[1] s", "int64[1] s = {3}", "ConstantOfShape(s)"),
    ("float[3] x, int64[2] s", "int64[2] s = {1, 1}", "Pad(x, s)"),
    ("float[1,3,1] x, int64[1] s", "int64[1] s = {0}", "Squeeze(x, s)"),
    ("float[8] x, int64[1] s", "int64[1] s = {8}, int64[1] zero = {0}", "Slice(x, zero, s)"),
]


@pytest.mark.parametrize(("inputs", "initializers", "call"), OVERRIDABLE)
def test_initializers_that_callers_may_override_decide_no_size(inputs: str, initializers: str, call: str) -> None:
    proto = model(f"agraph ({inputs}) => (float[M] y) <{initializers}> {{ v = {call} y = Relu(v) }}")

    def fixed(*, freeze: bool) -> bool:
        loaded = load(proto, freeze_initializers=freeze)
        shape = loaded.table.type(loaded.ids["v"]).shape
        return shape is not None and any(isinstance(size, int) for size in shape)

    assert fixed(freeze=True)
    assert not fixed(freeze=False)


def test_a_slice_that_is_whole_at_the_default_stays() -> None:
    proto = model("""agraph (float[2,6] x, int64[2] s) => (float[M,K] y)
      <int64[2] s = {3, 4}, int64[1] zero = {0}, int64[1] three = {3}> {
      v = Reshape(x, s) c = Slice(v, zero, three, zero) y = Relu(c) }""")
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "s": np.array([4, 3])}
    np.testing.assert_array_equal(run(result.model, feeds)[0], run(proto, feeds)[0])


def sizes_of(proto: onnx.ModelProto, name: str) -> tuple[object, ...] | None:
    loaded = load(proto)
    return loaded.table.type(loaded.ids[name]).shape


def test_a_loop_is_not_believed_what_its_body_says_of_its_operands() -> None:
    truth = TensorProto.BOOL
    body = onnx.helper.make_graph(
        [node("Identity", "go", "on"), node("Identity", "state", "next"), node("Identity", "state", "scan")],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], truth), value("state", [1])],
        [value("on", [], truth), value("next", [None]), value("scan", [None])],
    )
    nodes = [onnx.helper.make_node("Loop", ["m", "", "s"], ["last", "scans"], body=body), node("Sign", "scans", "y")]
    count = onnx.helper.make_tensor("m", TensorProto.INT64, [], [3])
    proto = made(nodes, [value("s", [2])], [value("y", [None, None]), value("last", [None])], [count])
    assert run(proto, {"s": np.ones(2, np.float32)})[0].shape == (3, 2)
    sizes = sizes_of(proto, "y")
    assert sizes is None or not any(isinstance(size, int) for size in sizes)


def test_a_loop_is_not_believed_what_its_body_says_of_the_axes() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[a,b] y) {
      n = Constant<value_int = 2>()
      last, all = Loop (n, , x) <body = b (int64 i, bool go, float[k] v) => (bool on, float[k] w, float[k] o) {
        on = Identity(go) w = Neg(v) o = Abs(v) }>
      f = Flatten<axis = 1>(all) y = Relu(f) }""")
    assert run(proto, {"x": np.ones((2, 3), np.float32)})[0].shape == (2, 6)
    assert len(sizes_of(proto, "all") or (0,) * 3) == 3


def test_a_function_named_like_an_operator_has_no_type_of_that() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
      agraph (float[2,3] x) => (float[M,N] y) { v = Relu(x) y = Sign(v) }
      <opset_import: ["" : 17]> Relu (a) => (b) { b = Transpose<perm = [1, 0]>(a) }""")
    for name in ("v", "y"):
        sizes = sizes_of(proto, name)
        assert sizes is None or not any(isinstance(size, int) for size in sizes)


NESTED = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
  agraph (float[N,3] x) => (float[N,3] y) {{ v = own.Outer(x) a = Relu(v) y = Relu(a) }}
  <domain: "own", opset_import: ["" : {}, "own" : {}]> Outer (a) => (b) {{ c = own.Inner(a) b = Neg(c) }}
  <domain: "own", opset_import: ["" : 17]> Inner (a) => (b) {{ b = Abs(a) }}"""


@pytest.mark.parametrize("version", [1, 21])  # jax2onnx imports functions in the version of the standard operators
def test_functions_that_call_functions_are_rewritten_inside(version: int) -> None:
    """As PyTorch's exporter nests modules, and jax2onnx any part that is marked."""
    proto = onnx.parser.parse_model(NESTED.format(17, version))
    before = proto.SerializeToString()
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    assert [node.op_type for node in result.model.graph.node] == ["Abs", "Neg", "Relu"]
    assert not result.model.functions
    assert proto.SerializeToString() == before


def test_a_function_of_other_standard_operators_stays() -> None:
    proto = onnx.parser.parse_model(NESTED.format(16, 1))
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    assert [node.op_type for node in result.model.graph.node] == ["Outer", "Relu", "Relu"]
    assert len(result.model.functions) == 2


def test_functions_of_too_many_nodes_stay_and_what_they_return_has_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_MOST_REWRITTEN", 3)
    proto = onnx.parser.parse_model(NESTED.format(17, 1))
    assert load(proto).table.type(load(proto).ids["v"]).dtype == "float32"
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    assert [node.op_type for node in result.model.graph.node] == ["Outer", "Relu"]
    proto.functions[1].node[0].input.append("")  # onnx's own inference dies of nodes that do not conform
    assert load(proto).table.type(load(proto).ids["v"]).dtype == ""


def test_weights_of_a_model_with_functions_stay_where_they_are(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
      agraph (float[N,64] x) => (float[N,64] y) { v = own.Layer(x, w) y = Identity(v) }
      <domain: "own", opset_import: ["" : 17]> Layer (a, b) => (d) { c = MatMul(a, b) e = Relu(c) d = Relu(e) }""")
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    result = taso_py.optimize(tmp_path / "m.onnx", apply="all", race=False, strict=True, cache=None)
    result.save(tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in written.graph.node][:2] == ["MatMul", "Relu"]
    assert sum(node.op_type == "Relu" for node in written.graph.node) == 1
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(written.graph.initializer[0]), weight)


def test_a_model_of_two_versions_of_the_standard_operators_is_left_as_it_is() -> None:
    proto = model("agraph (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Relu(a) }", opset=11)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx", 13))
    assert "several versions" in (load(proto).unsupported or "")
    proto.opset_import[1].version = 11
    assert load(proto).unsupported is None


UNLIKE = [
    ("float[5] x", "Slice(x, last, far, zero, back)", 17),
    ("float[1,3] x", "PRelu(x, slopes)", 17),
    ("float[1,3] x", 'Einsum<equation = "ij,ij->ij">(x, slopes)', 17),
    (
        "float[1,1,7,7] x",
        'MaxPool<auto_pad = "SAME_UPPER", dilations = [2,2], kernel_shape = [3,3], strides = [2,2]>(x)',
        17,
    ),
    (
        "float[1,1,7,7] x",
        'MaxPool<auto_pad = "SAME_UPPER", kernel_shape = [2,2], strides = [2,2], pads = [0,0,0,0]>(x)',
        17,
    ),
    ("float[1,1,6] x", 'LpPool<auto_pad = "SAME_LOWER", kernel_shape = [3], pads = [0,0]>(x)', 18),
    ("float[1,1,6,6] x", 'AveragePool<auto_pad = "VALID", kernel_shape = [3,3], pads = [1,1,1,1]>(x)', 11),
    ("float[1,1,4,4] x", 'Resize<keep_aspect_ratio_policy = "not_smaller", axes = [-2,-1]>(x, , , sizes)', 18),
    ("float[1,10] x", 'Resize<mode = "linear">(x, most)', 10),
    ("float[1,1,6] x", "LpPool<kernel_shape = [2], strides = [3], ceil_mode = 1>(x)", 18),
    (
        "float[1,1,6,5] x",
        "AveragePool<kernel_shape=[3,2], strides=[2,3], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1>(x)",
        11,
    ),
    ("float[1,3,1] x", "Squeeze(x, none)", 17),
    ("float[1,21,1] x", "STFT(x, three, window)", 17),
    ("float[4,3] x", "SequenceAt(parts, three) parts = SplitToSequence<axis = 0, keepdims = 0>(x, one)", 17),
    ("float[4,3] x", "SequenceAt(parts, three) parts = SplitToSequence<axis = 0, keepdims = 0>(x, ones)", 17),
    ("float[10,3] x", 'Resize<mode = "linear", axes = [1, 0]>(x, , most)', 18),
    ("float[1,1,4,4] x", 'ConvTranspose<auto_pad="SAME_UPPER", strides=[2,2], output_padding=[1,1]>(x, kernel)', 17),
    ("float[300] x", "ConstantOfShape(n) s = Shape(x) b = Cast<to = 9>(s) n = Cast<to = 7>(b)", 17),
    ("float[300] x", "ConstantOfShape(n) s = Shape(x) b = Cast<to = 2>(s) n = Cast<to = 7>(b)", 17),
    ("float[2] x", "ConstantOfShape(n) p = Mul(large, third) n = Cast<to = 7>(p)", 17),
]


@pytest.mark.parametrize(("given", "call", "opset"), UNLIKE)
def test_sizes_are_those_of_onnx_runtime_where_onnx_says_others(given: str, call: str, opset: int) -> None:
    """Those of what stands behind the node too; nodes before it are written behind it."""
    result, _, before = call.partition(") ")
    node_ = f"{result})" if before else call
    proto = model(
        f"""agraph ({given}) => (float[A] y, float[B] v)
      <int64[1] last = {{-1}}, int64[1] far = {{9223372036854775807}}, int64[1] zero = {{0}}, int64[1] back = {{-1}},
       int64[2] sizes = {{6, 8}}, float[2] most = {{1.0, 0.7}}, int64[0] none = {{}}, int64 three = {{3}},
       int64 one = {{1}}, int64[4] ones = {{1, 1, 1, 1}}, float[8] window = {{1, 1, 1, 1, 1, 1, 1, 1}},
       int32[1] large = {{1431655766}}, int32[1] third = {{3}}, float[1,1,1,1] kernel = {{1}}>
      {{ {before} v = {node_} y = Asinh(v) }}""",
        opset=opset,
        slopes=(4, 3),
    )
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    for name, array in zip(("y", "v"), run(proto, {"x": np.ones(dims, np.float32)}), strict=True):
        sizes = sizes_of(proto, name)
        known = [(a, b) for a, b in zip(sizes or (), array.shape, strict=sizes is not None) if isinstance(a, int)]
        assert all(a == b for a, b in known), (sizes, name)


@pytest.mark.parametrize(
    ("one", "other", "sizes"),
    [
        ("2,3", "3,4", (2, 4)),
        ("N,3", "3,4", ("N", 4)),
        ("2,?", "3,4", (2, 4)),
        ("2,1", "3,4", None),
        ("2,?", "1,4", None),
    ],
)
def test_products_that_cannot_broadcast_keep_their_sizes(
    one: str, other: str, sizes: tuple[object, ...] | None
) -> None:
    proto = model(f"""agraph (float[{one}] a, float[{other}] b) => (float[P,Q] y) {{
      y = Einsum<equation = "ij,jk->ik">(a, b) }}""")
    found = sizes_of(proto, "y")
    assert found is not None
    if sizes is None:
        assert not any(isinstance(size, int) for size in found)
    else:
        assert tuple(map(str, found)) == tuple(map(str, sizes))


def test_steps_that_are_damaged_are_unknown() -> None:
    damaged = onnx.TensorProto(name="s", data_type=TensorProto.INT64, dims=[2], int64_data=[1])
    facts = Facts({}, {"s": damaged, "t": onnx.helper.make_tensor("t", TensorProto.INT64, [1], [2])})
    assert doubted(node("Slice", "x a b - s", "y"), facts)
    assert not doubted(node("Slice", "x a b - t", "y"), facts)


TABLES = "int64[3] table = {3, 5, 7}, int64[1] three = {3}, int64[1] zero = {0}, int64[1] one = {1}, int64 second = {1}"
FOLLOWED = [
    ("float[4] x, int64[1] k", "r = Slice(table, k, three) n = Gather(r, zero)", {"k": [1]}, True),
    ("float[4] x, int64[1] k", "r = Slice(table, zero, k) m = Shape(r) n = Mul(m, one)", {"k": [2]}, True),
    ("float[7,5] x", "s = Shape(x) u = Unsqueeze(s, zero) m = Concat<axis = 0>(u, u) r = Gather(m, second) "
     "n = Gather(r, zero)", {}, True),
    ("float[7,5] x", "s = Shape(x) n = Gather(s, one)", {}, False),
    ("float[7,5] x", "s = Shape(x) a = Slice(s, one, three) n = Concat<axis = 0>(a)", {}, False),
]  # fmt: skip
"""Inputs, how a size is computed, and whether ONNX's inference follows its numbers to others."""


@pytest.mark.parametrize(("given", "nodes", "feeds", "doubtful"), FOLLOWED)
def test_numbers_that_are_followed_wrongly_are_no_sizes(
    given: str, nodes: str, feeds: dict[str, list[int]], *, doubtful: bool
) -> None:
    proto = model(f"agraph ({given}) => (float[M] y) <{TABLES}> {{ {nodes} v = ConstantOfShape(n) y = Asinh(v) }}")
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    (made_,) = run(proto, {"x": np.ones(dims, np.float32), **{k: np.array(v) for k, v in feeds.items()}})
    found = sizes_of(proto, "y")
    assert found is not None
    assert found == made_.shape if isinstance(found[0], int) else doubtful


def test_the_sizes_of_what_is_behind_a_doubt_are_not_kept() -> None:
    """The matrix of sizes is followed wrongly, and has a size itself that hangs on a start that nobody knows."""
    proto = model(f"""agraph (int64[1] k) => (float[M,N] y) <{TABLES}> {{
      r = Slice(table, k, three) n = Gather(r, zero) v = ConstantOfShape(n) s = Shape(v) u = Unsqueeze(s, zero)
      t = Expand(u, n) c = Cast<to = 1>(t) y = Asinh(c) }}""")
    assert not any(isinstance(size, int) and size > 1 for size in sizes_of(proto, "y") or ())


def test_a_length_that_is_computed_is_not_that_of_the_signal() -> None:
    proto = model(
        """agraph (float[1,N,1] x, float[1,M] w) => (float[1,K,2] y) <int64 one = {1}> {
      s = Shape(w) n = Gather(s, one) y = DFT(x, n) }""",
        opset=20,
    )
    sizes = sizes_of(proto, "y")
    assert sizes is not None
    assert str(sizes[1]) != "N"


def test_elements_of_a_sequence_have_sizes_of_their_own() -> None:
    parts = onnx.helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, ["N", 4])
    proto = made([node("SequenceAt", "parts last", "p")], [parts, value("x", ["N", 4])], [value("p", ["K", 4])])
    proto.graph.initializer.append(onnx.helper.make_tensor("last", TensorProto.INT64, [], [1]))
    sizes = sizes_of(proto, "p")
    assert sizes is None or "N" not in map(str, sizes)


def test_the_scales_of_an_old_upsample_are_those_of_float32() -> None:
    proto = model(
        'agraph (int32[1,1,10,4] x) => (int32[1,1,A,B] y) { y = Upsample<mode = "linear", scales = [1.0, 1.0, '
        "1.3, 1.0]>(x) }",
        opset=8,
    )
    (found,) = run(proto, {"x": np.ones((1, 1, 10, 4), np.int32)})
    sizes = sizes_of(proto, "y")
    assert sizes is not None
    assert not isinstance(sizes[2], int) or sizes[2] == found.shape[2]


def test_a_name_is_no_size_of_0_to_attention() -> None:
    """The scores have a column for each key; ONNX's inference counts none where their number has a name."""
    given = [value("q", [1, 2, 3, 4]), value("k", [1, 2, "S", 4]), value("v", [1, 2, "S", 4])]
    attention = node("Attention", "q k v", "o")
    attention.output.extend(["", "", "scores"])
    proto = made([attention], given, [value("o", None), value("scores", None)], opset=23, ir_version=10)
    x = np.ones((1, 2, 5, 4), np.float32)
    found = run(proto, {"q": x[:, :, :3], "k": x, "v": x})
    for name, array in zip(("o", "scores"), found, strict=True):
        sizes = sizes_of(proto, name)
        assert sizes is None or all(a == b for a, b in zip(sizes, array.shape, strict=True) if isinstance(a, int))

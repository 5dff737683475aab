"""Nodes with several outputs, in the table and out of it; constant places that are overwritten; sizes compared."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from scripts.audit.conformance_run import respelled
from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.fragment import fragment
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model
from tests.helpers.onnx_io_rewrite import Rewrite, kinds, op, same

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)

MOMENTS = """agraph (float[2,3,4] x) => (float[2,3,4] y, float[2,1,1] m, float[2,1,1] d) {
    y, m, d = LayerNormalization<axis = 1, epsilon = 0.01>(x, t)
}"""
NO_MEAN = """agraph (float[2,3,4] x) => (float[2,3,4] z, float[2,1,1] e) {
    y, , d = LayerNormalization<axis = 1>(x, t)
    z = Relu(y)
    e = Neg(d)
}"""
TRAINING = """agraph (float[2,3,4] x, float[3] v) => (float[2,3,4] y, float[3] s) {
    y, m, s = BatchNormalization<training_mode = 1, momentum = 0.5>(x, a, b, c, v)
}"""
SAME_PART_TWICE = """agraph (float[4,2] x) => (float[2,2] p, float[2,2] q, float[2,2] r) {
    p = Relu(x)
    q = Neg(x)
    r = Abs(x)
}"""
MASK = """agraph (float[4,3] x) => (float[4,3] y)
<float[1] zero = {0}, int64[2] shape = {4, 3}, int64[2,1] rows = {3, 1}, float[2,3] ones = {1,1,1,1,1,1}> {
    blank = Expand(zero, shape)
    mask = ScatterND(blank, rows, ones)
    y = Add(x, mask)
}"""
COMPARED_SIZES = """agraph (float[n,6,4] x) => (float[n,a,b] y)
<int64[1] two = {2}, int64[1] three = {3}, int64[1] one = {1}, int64[1] rest = {-1}> {
    heads = Shape<start = 1, end = 2>(x)
    more = Greater(heads, three)
    same = Equal(heads, three)
    other = Not(same)
    both = And(more, other)
    few = LessOrEqual(heads, three)
    any = Or(both, few)
    cut = Where(any, two, one)
    batch = Shape<start = 0, end = 1>(x)
    shape = Concat<axis = 0>(batch, cut, rest)
    y = Reshape(x, shape)
}"""


def test_comparisons_of_sizes_are_followed() -> None:
    loaded = load(model(COMPARED_SIZES))
    assert str(loaded.values.types[loaded.ids["y"]]) == "float32[n,2,12]"
    assert loaded.opaque == {"Shape": 1}  # the other is of sizes that the model fixes


def test_every_used_output_is_a_value_of_its_own() -> None:
    loaded = load(model(MOMENTS, t=(3, 4)))
    assert not loaded.opaque
    ports = {name: loaded.table.nodes[loaded.ids[name]].operator.port for name in "ymd"}
    assert ports == {"y": 0, "m": 1, "d": 2}
    partial = load(model(NO_MEAN, t=(3, 4)))
    assert not partial.opaque
    assert [partial.table.nodes[partial.ids[name]].operator.port for name in "yd"] == [0, 2]


@pytest.mark.parametrize(("text", "weights"), [(MOMENTS, {"t": (3, 4)}), (NO_MEAN, {"t": (3, 4)})])
def test_outputs_are_written_as_one_node(text: str, weights: dict[str, tuple[int, ...]]) -> None:
    before = model(text, **weights)
    table, count = respelled(load(before))
    assert count > 1
    after = onnx.ModelProto.FromString(serialize(export(load(before), table)))
    onnx.checker.check_model(after, full_check=True)
    assert kinds(after) == kinds(before)
    same(before, after, {"x": X})


def test_training_outputs_are_read_and_written() -> None:
    before = model(TRAINING, a=(3,), b=(3,), c=(3,))
    loaded = load(before)
    assert not loaded.opaque
    after = onnx.ModelProto.FromString(serialize(export(loaded, respelled(loaded)[0])))
    assert kinds(after) == ["BatchNormalization"]
    assert len(after.graph.node[0].output) == 3
    same(before, after, {"x": X, "v": np.ones(3, dtype=np.float32)})


def test_a_fragment_has_the_node_once() -> None:
    loaded = load(model(MOMENTS, t=(3, 4)))
    outputs = [loaded.ids[name] for name in "dym"]
    part = fragment(list(loaded.table.order()), [loaded.ids["x"]], outputs, loaded.values, 17)
    assert kinds(part) == ["LayerNormalization"]
    onnx.checker.check_model(part, full_check=True)


def test_a_node_is_computed_once_whatever_is_read() -> None:
    three, one = load(model(MOMENTS, t=(3, 4))), load(model(NO_MEAN, t=(3, 4)))
    work = [Roofline({}).flops(loaded.table) for loaded in (three, one)]
    assert work[1] == work[0] + 24 + 2  # the Relu and the Neg


def test_two_values_may_be_the_same_output() -> None:
    r = Rewrite(model(SAME_PART_TWICE))
    for name, part in (("p", 0), ("q", 0), ("r", 1)):
        r.bind(name, op("Split", axis=0, split=(2, 2), output=part), r["x"])
    after = r.export()
    session = onnxruntime.InferenceSession(after.SerializeToString())
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for value, expected in zip(session.run(None, {"x": x}), (x[:2], x[:2], x[2:]), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_a_mask_written_into_a_constant_is_a_constant() -> None:
    loaded = load(model(MASK))
    assert not loaded.opaque
    mask = loaded.ids["mask"]
    assert mask in loaded.values.constant
    value = loaded.folder.value(mask, loaded.table.nodes)
    np.testing.assert_array_equal(value, np.repeat([[0], [1], [0], [1]], 3, axis=1))
    assert value.dtype == np.float32


@pytest.mark.parametrize(
    ("old", "new", "opset"),
    [
        ("rows = {3, 1}", "rows = {1, 1}", 17),
        ("rows = {3, 1}", "rows = {1, -3}", 17),
        ("rows = {3, 1}", "rows = {4, 1}", 17),
        ("ScatterND(", 'ScatterND<reduction = "add">(', 17),
        ("float[4,3] x)", "float[4,3] x, int64[2,1] rows)", 13),
    ],
)
def test_other_forms_of_scattering_stay_opaque(old: str, new: str, opset: int) -> None:
    text = MASK.replace(old, new)
    text = text.replace("int64[2,1] rows = {3, 1}, ", "") if "int64[2,1] rows)" in new else text
    assert load(model(text, opset=opset)).opaque == {"ScatterND": 1}

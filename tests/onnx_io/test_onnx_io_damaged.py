"""Models that contradict themselves: one line, or left for ONNX Runtime to judge; never anything else."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import taso_py
from taso_py.errors import ModelError
from taso_py.onnx_io.carry import LARGE_TENSOR_ELEMENTS, skeleton
from taso_py.onnx_io.load import load
from tests.conftest import tiny_network
from tests.helpers.onnx_io_models import model, node, value, weight

Damage = Callable[[onnx.ModelProto], None]


def network() -> onnx.ModelProto:
    constant = node("Constant", "", "k", value=numpy_helper.from_array(np.ones(4, np.float32), "k"))
    nodes = [constant, node("MatMul", "x w", "m"), node("Add", "m k", "a"), node("Bernoulli", "a", "y")]
    return model(nodes, [value("x", ["N", 4])], [value("y", ["N", 4])], [weight("w", np.ones((4, 4)))])


def wrong_count(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute[0].t.raw_data = b"\0" * 8


def wrong_field(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_type = TensorProto.INT32
    tensor.float_data.extend([1.0] * 4)


def no_type(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute[0].t.data_type = TensorProto.UNDEFINED


def negative_size(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].dims[0] = -4


def endless(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute[0].t.dims[:] = [2**62] * 20


def offset_in_words(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(TensorProto(name="e", dims=[400], data_type=1, data_location=TensorProto.EXTERNAL))
    for key in ("location", "offset"):
        proto.graph.initializer[1].external_data.add(key=key, value="nowhere")


@pytest.mark.parametrize("damage", [wrong_count, wrong_field, no_type, negative_size, endless, offset_in_words])
def test_a_tensor_that_is_none_is_one_line(damage: Damage) -> None:
    proto = network()
    damage(proto)
    with pytest.raises(ModelError) as caught:
        load(proto)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["op_type", "input", "metadata"])
def test_names_are_texts(field: str) -> None:
    proto = network()
    match field:
        case "op_type":
            proto.graph.node[1].op_type = "marker"
        case "input":
            proto.graph.node[1].input[0] = "marker"
        case _:
            proto.metadata_props.add(key="superopt.version", value="marker")
    with pytest.raises(ModelError, match="not UTF-8"):
        load(proto.SerializeToString().replace(b"marker", b"m\xffrker"))


def test_a_makers_name_in_latin_1_refuses_no_model(tmp_path: Path) -> None:
    proto = network()
    proto.metadata_props.add(key="author", value="marker")
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(proto.SerializeToString().replace(b"marker", b"m\xfcrker"))
    taso_py.optimize(path, race=False, cache=None).save(out)
    assert b"m\xfcrker" in out.read_bytes()


@pytest.mark.parametrize("elements", [4, LARGE_TENSOR_ELEMENTS + 1])
@pytest.mark.parametrize("place", ["graph", "its documentation", "producer", "a weight's documentation"])
def test_models_with_texts_in_latin_1_are_looked_at(place: str, elements: int) -> None:
    proto = network()
    proto.graph.initializer.append(weight("v", np.ones(elements)))
    match place:
        case "graph":
            proto.graph.name = "marker"
        case "its documentation":
            proto.graph.doc_string = "marker"
        case "producer":
            proto.producer_name = "marker"
        case _:
            proto.graph.initializer[1].doc_string = "marker"
    strange = onnx.ModelProto.FromString(proto.SerializeToString().replace(b"marker", b"m\xfcrker"))
    assert b"m\xfcrker" in skeleton(strange).SerializeToString()
    assert taso_py.diff(strange, proto).same
    assert taso_py.inspect(strange).nodes == len(proto.graph.node)


def texts_elsewhere(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(TensorProto(name="e", dims=[4], data_type=8, data_location=TensorProto.EXTERNAL))
    proto.graph.initializer[1].external_data.add(key="location", value="weights.bin")


def type_of_no_number(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].data_type = -5


@pytest.mark.parametrize("damage", [no_type, texts_elsewhere, type_of_no_number])
def test_models_with_such_tensors_are_not_compared(damage: Damage) -> None:
    proto = network()
    damage(proto)
    with pytest.raises(ModelError):
        taso_py.diff(proto, network())


def test_a_node_without_name_and_outputs_is_told() -> None:
    proto = network()
    proto.graph.node.append(node("Relu", "nothing", ""))
    proto.graph.node[-1].ClearField("output")
    with pytest.raises(ModelError, match="Relu without outputs reads 'nothing'"):
        load(proto)


def test_a_name_with_a_line_break_makes_no_second_line() -> None:
    proto = network()
    proto.graph.node[1].input[0] = "a\nb" * 5000
    with pytest.raises(ModelError, match=r"nothing computes") as caught:
        load(proto)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def constant_without_output(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(node("Constant", "", "", value=numpy_helper.from_array(np.ones(4, np.float32))))


def identity_without_output(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(node("Identity", "w", ""))
    proto.graph.node[-1].ClearField("output")


def texts_for_numbers(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(node("Constant", "", "c", value_ints=[1]))
    proto.graph.node[-1].attribute[0].CopyFrom(helper.make_attribute("value_ints", "one"))


def backwards_by_constant(proto: onnx.ModelProto) -> None:
    """A Slice whose steps a Constant node holds."""
    backwards_over_nothing(proto)
    proto.graph.node.insert(0, node("Constant", "", "d", value_ints=[-1]))
    del proto.graph.initializer[-1]


def scatter_at_no_axis(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(weight("i", 0, np.int64))
    proto.graph.node.append(node("ScatterND", "w i w", "s"))


def slice_of_no_axis(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.extend(weight(name, [n], np.int64) for name, n in (("a", 0), ("b", 1), ("c", 9)))
    proto.graph.node.append(node("Slice", "w a b c", "s"))


def cast_of_nothing(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(node("Cast", "", "c", to=1))


def rotary_of_nothing(proto: onnx.ModelProto) -> None:
    proto.graph.node.append(helper.make_node("RotaryEmbedding", [], ["r"], domain="com.microsoft"))


def huge_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 2**40


def unknown_type(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].data_type = 10**9


def negative_input(proto: onnx.ModelProto) -> None:
    """onnx's shape inference aborts the process where a Slice meets a negative size."""
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -64
    proto.graph.initializer.extend(weight(name, [1], np.int64) for name in ("one", "axis"))
    proto.graph.node.insert(1, node("Slice", "x one one axis", "s"))


def backwards_over_nothing(proto: onnx.ModelProto) -> None:
    """And where one goes backwards along an axis of size 0."""
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    proto.graph.initializer.extend(
        weight(name, [n], np.int64) for name, n in (("a", 5), ("b", -9), ("c", 0), ("d", -1))
    )
    proto.graph.node.insert(1, node("Slice", "x a b c d", "s"))


@pytest.mark.parametrize(
    "damage",
    [constant_without_output, identity_without_output, texts_for_numbers, cast_of_nothing, rotary_of_nothing,
     huge_opset, unknown_type, negative_input, backwards_over_nothing, backwards_by_constant, scatter_at_no_axis,
     slice_of_no_axis],
)  # fmt: skip
def test_what_onnx_runtime_may_judge_is_read(damage: Damage) -> None:
    proto = network()
    damage(proto)
    assert taso_py.inspect(proto).nodes == len(proto.graph.node)


def test_what_no_onnx_file_can_be_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(3 * 2**30)  # a hole: it takes no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(
            ModelError, match=r"3\.0 GiB, and no \.onnx file may have 2: save it with its weights as ext"
        ):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_large_file_is_read_without_a_copy_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(tiny_network(), tmp_path / "model.onnx")
    monkeypatch.setattr("taso_py.onnx_io.read._LARGE_BYTES", 0)
    monkeypatch.setattr("taso_py.onnx_io.parsing._GATHERED_BYTES", 64)
    assert load(tmp_path / "model.onnx").proto == tiny_network()
    whole = (tmp_path / "model.onnx").read_bytes()
    for length in range(1, len(whole), max(1, len(whole) // 200)):  # read while it is being written
        (tmp_path / "short.onnx").write_bytes(whole[:length])
        with suppress(ModelError):  # cut between two fields it may be a model, with less in it
            assert len(load(tmp_path / "short.onnx").proto.SerializeToString()) < len(whole)
    (tmp_path / "bad.onnx").write_bytes(b"no model" * 100)
    with pytest.raises(ModelError, match="not an ONNX model"):
        load(tmp_path / "bad.onnx")

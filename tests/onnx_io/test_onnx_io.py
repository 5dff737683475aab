"""The border's contract: a model that nothing rewrote leaves as it came; bad files are one-line errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper

from taso_py.errors import ModelError
from taso_py.onnx_io.carry import difference
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.functions import rewritable
from taso_py.onnx_io.load import load
from taso_py.onnx_io.ours import Key
from tests.helpers.onnx_io_models import FLOAT, MODELS, documented, loose_ends, model, node, value, weight, with_if

NEW = "0123456789abcdef"
"""A digest of rules."""


def round_trip(proto: onnx.ModelProto) -> onnx.ModelProto:
    loaded = load(proto)
    assert loaded.unsupported is None
    exported = export(loaded, loaded.table)
    assert check_contract(proto, exported) == []
    return onnx.ModelProto.FromString(serialize(exported))


@pytest.mark.parametrize("name", MODELS)
def test_untouched_model_leaves_as_it_came(name: str) -> None:
    proto = rewritable(MODELS[name]())
    returned = round_trip(proto)
    assert difference(proto, returned) is None
    assert difference(returned, proto) is None
    if name != "same_in_and_out":  # there onnx-ir adds the value_info of an initializer that is an output
        assert returned == proto


def test_original_is_not_changed_by_load_and_export() -> None:
    proto = with_if()
    before = proto.SerializeToString(deterministic=True)
    loaded = load(proto)
    export(loaded, loaded.table, provenance={"superopt.version": "1"})
    assert proto.SerializeToString(deterministic=True) == before


def test_provenance_is_the_only_addition() -> None:
    proto = documented()
    loaded = load(proto)
    exported = export(loaded, loaded.table, provenance={Key.RULES: NEW})
    assert exported.metadata_props == {"author": "somebody", "superopt.rules": NEW}
    assert check_contract(proto, exported) == []


def test_provenance_may_be_replaced() -> None:
    proto = documented()
    proto.metadata_props.add(key="superopt.rules", value="0" * 16)
    proto.metadata_props.add(key="superopt.threads", value="2")
    loaded = load(proto)
    exported = export(loaded, loaded.table, provenance={Key.RULES: NEW})
    assert exported.metadata_props == {"author": "somebody", "superopt.rules": NEW}
    assert check_contract(proto, exported) == []


@pytest.mark.parametrize(
    ("key", "text"), [("superopt.note", "mine"), ("superopt.rules", "of the house"), ("superopt.", "")]
)
def test_what_is_not_recognisably_ours_stays(key: str, text: str) -> None:
    proto = documented()
    proto.metadata_props.add(key=key, value=text)
    loaded = load(proto)
    told = {Key.RULES: NEW, Key.THREADS: "2"}
    exported = export(loaded, loaded.table, provenance=told)
    assert exported.metadata_props == {"author": "somebody", **told, key: text}
    assert check_contract(proto, exported) == []
    exported.metadata_props[key] = "other"
    assert check_contract(proto, exported) != []


@pytest.mark.parametrize("form", ["path", "text path", "bytes", "proto"])
def test_every_kind_of_source(form: str, tmp_path: Path) -> None:
    proto, path = loose_ends(), tmp_path / "m.onnx"
    onnx.save(proto, path)
    source = {"path": path, "text path": str(path), "bytes": path.read_bytes(), "proto": proto}[form]
    loaded = load(source)
    assert loaded.path == (path if "path" in form else None)
    assert onnx_ir.to_proto(export(loaded, loaded.table)) == proto


# --- what cannot be carried


def _sparse(proto: onnx.ModelProto) -> None:
    values, indices = weight("s", [1.0]), weight("", [0], np.int64)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))


def _training(proto: onnx.ModelProto) -> None:
    proto.training_info.add().initialization_binding.add(key="a", value="b")


def _sparse_attribute(proto: onnx.ModelProto) -> None:
    values, indices = weight("s", [1.0]), weight("", [0], np.int64)
    attribute = proto.graph.node[0].attribute.add(name="sparse", type=onnx.AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.CopyFrom(helper.make_sparse_tensor(values, indices, [3]))


def _map_input(proto: onnx.ModelProto) -> None:
    info = proto.graph.input.add(name="table")
    info.type.map_type.key_type = TensorProto.INT64
    info.type.map_type.value_type.tensor_type.elem_type = FLOAT


def _two_opsets(proto: onnx.ModelProto) -> None:
    proto.opset_import.append(helper.make_opsetid("", 13))


def _two_keys(proto: onnx.ModelProto) -> None:
    proto.metadata_props.add(key="author", value="somebody else")


def _old_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_sparse, "it uses graph.sparse_initializer, which onnx-ir does not carry"),
        (_training, "it uses training_info, which onnx-ir does not carry"),
        (_sparse_attribute, "onnx-ir cannot represent it"),
        (_map_input, "onnx-ir cannot represent it"),
        (_two_opsets, "it uses opset_import"),
        (_two_keys, "it uses metadata_props"),
        (_old_opset, "it is written for opset 6, and 7 is the oldest that is optimised"),
    ],
)
def test_unsupported_models_say_why(change: Callable[[onnx.ModelProto], None], reason: str) -> None:
    proto = documented()
    change(proto)
    loaded = load(proto)
    assert loaded.unsupported is not None
    assert loaded.unsupported.startswith(reason)
    assert "\n" not in loaded.unsupported
    assert loaded.table.outputs == ()


# --- bad files


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no\.onnx does not exist: check the path"):
        load(tmp_path / "no.onnx")


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"a text file, and a long one\n" * 20, b"\x08\x08", b"\x00" * 50])
def test_not_a_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not an ONNX model"):
        load(path)


def test_truncated_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    content = loose_ends().SerializeToString()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(ModelError, match="cut short"):
            load(path)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")], "cycle through node"),
        (
            [node("Add", "x nowhere", "y", name="adder")],
            "'adder' .Add. reads 'nowhere', which nothing computes",
        ),
        ([node("Neg", "x", "z")], "graph output 'y' is computed by nothing"),
    ],
)
def test_broken_graphs(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(model(nodes, [value("x", [2])], [value("y", [2])]))


def test_standard_operators_need_an_import() -> None:
    proto = documented()
    del proto.opset_import[:]
    with pytest.raises(ModelError, match="imports no version of the standard operators"):
        load(proto)


# --- the checks themselves must be able to fail


def _rename_input(p: onnx.ModelProto) -> None:
    p.graph.input[0].name = p.graph.node[0].input[0] = "xx"


def _reshape_output(p: onnx.ModelProto) -> None:
    p.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "other"


def _forget_documentation(p: onnx.ModelProto) -> None:
    p.graph.node[0].ClearField("doc_string")


def _forget_node_metadata(p: onnx.ModelProto) -> None:
    del p.graph.node[1].metadata_props[:]


def _forget_denotation(p: onnx.ModelProto) -> None:
    p.graph.input[0].type.tensor_type.shape.dim[0].ClearField("denotation")


def _raise_opset(p: onnx.ModelProto) -> None:
    p.opset_import[0].version = 18


def _raise_ir(p: onnx.ModelProto) -> None:
    p.ir_version += 1


def _drop_metadata(p: onnx.ModelProto) -> None:
    del p.metadata_props[:]


def _add_metadata(p: onnx.ModelProto) -> None:
    p.metadata_props.add(key="onnxsim.version", value="1")


def _change_value_info(p: onnx.ModelProto) -> None:
    p.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value = 3


def _turn_around(p: onnx.ModelProto) -> None:
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in p.graph.node]
    del p.graph.node[:]
    p.graph.node.extend(reversed(nodes))


def _dangle(p: onnx.ModelProto) -> None:
    p.graph.node[1].input[0] = "missing"


def _foreign_node(p: onnx.ModelProto) -> None:
    p.graph.node[1].domain, p.graph.node[1].op_type = "com.microsoft", "Gelu"


@pytest.mark.parametrize(
    "change",
    [
        _rename_input, _reshape_output, _forget_documentation, _forget_node_metadata, _forget_denotation,
        _raise_opset, _raise_ir, _drop_metadata, _add_metadata, _change_value_info, _turn_around, _dangle,
        _foreign_node,
    ],
)  # fmt: skip
def test_contract_notices(change: Callable[[onnx.ModelProto], None]) -> None:
    changed = documented()
    change(changed)
    assert check_contract(documented(), changed) != []


@pytest.mark.parametrize("name", ["scale", "spare", "stored"])
def test_contract_notices_changed_and_lost_initializers(name: str) -> None:
    lost, changed = loose_ends(), loose_ends()
    (tensor,) = (t for t in lost.graph.initializer if t.name == name)
    lost.graph.initializer.remove(tensor)
    (tensor,) = (t for t in changed.graph.initializer if t.name == name)
    tensor.CopyFrom(weight(name, np.full(tuple(tensor.dims), 9)))
    assert check_contract(loose_ends(), changed) == [f"initializer {name!r} holds another value"]
    assert check_contract(loose_ends(), lost) != []


def test_contrib_nodes_are_allowed_on_request() -> None:
    changed = documented()
    _foreign_node(changed)
    assert check_contract(documented(), changed, allow_contrib=True) == []


def test_what_is_told_twice_is_carried_and_leaves_once() -> None:
    """As graph tools leave it that append the types they infer."""
    proto = model([node("Relu", "x", "a"), node("Relu", "a", "y")], [value("x", [2])], [value("y", [2])])
    proto.graph.value_info.extend([value("a", [2]), value("a", [2]), value("nowhere", [2])])
    loaded = load(proto)
    assert loaded.unsupported is None
    written = serialize(export(loaded, loaded.table))
    assert [info.name for info in onnx.ModelProto.FromString(written).graph.value_info] == ["a"]

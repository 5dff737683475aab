"""Proto -> onnx-ir without loss, and the fields of a model for which that is not possible."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from taso_py.errors import ModelError
from taso_py.onnx_io.external import ReadTensor
from taso_py.onnx_io.read import DEFAULT_DOMAINS

LARGE_TENSOR_ELEMENTS = 256


UNREPRESENTED = (ir.serde.SerdeError, NotImplementedError, ValueError, TypeError, AssertionError, KeyError)
"""What onnx-ir raises for a proto that it has no form for."""


def carried(proto: onnx.ModelProto, path: Path | None) -> ir.Model:
    """`carry`; ModelError for a model that onnx-ir has no form for."""
    try:
        return carry(proto, path)
    except UNREPRESENTED as error:
        name = "the given model" if path is None else str(path)
        raise ModelError(f"{name} cannot be taken apart: {_innermost(error)}; export it again") from None


def carry(proto: onnx.ModelProto, path: Path | None) -> ir.Model:
    """A fresh onnx-ir model of ``proto``: tensors refer to the proto's, external ones to their files."""
    model = ir.from_proto(proto)
    if path is not None:
        for graph in model.graphs():
            ir.external_data.set_base_dir(graph, path.parent.absolute())
            _read_external(graph)
    _forget_added_types(proto.graph, model.graph)
    return model


def _read_external(graph: ir.Graph) -> None:
    for value in graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ReadTensor.of(value.const_value)
    for node in graph:
        for name, attribute in list(node.attributes.items()):
            if isinstance(attribute.value, ir.ExternalTensor):
                tensor = ReadTensor.of(attribute.value)
                node.attributes[name] = ir.AttrTensor(name, tensor, doc_string=attribute.doc_string)


def _forget_added_types(proto: onnx.GraphProto, graph: ir.Graph) -> None:
    # onnx-ir gives every initializer a type and would write it as a value_info that was not there.
    stated = {info.name for info in proto.value_info} | {info.name for info in proto.input}
    for name, value in graph.initializers.items():
        if name not in stated and not value.is_graph_output():
            value.type = value.shape = None
    for node_proto, node in zip(proto.node, graph, strict=True):
        for attribute in node_proto.attribute:
            if attribute.HasField("g"):
                _forget_added_types(attribute.g, node.attributes[attribute.name].as_graph())
            for inner, inner_graph in zip(attribute.graphs, _graphs(node, attribute), strict=True):
                _forget_added_types(inner, inner_graph)


def _graphs(node: ir.Node, attribute: onnx.AttributeProto) -> Iterable[ir.Graph]:
    return node.attributes[attribute.name].as_graphs() if attribute.graphs else ()


def skeleton(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which no large initializer of the main graph carries its data: it looks external instead."""
    copy = onnx.ModelProto()
    _copy_fields(proto, copy, "graph")
    _copy_fields(proto.graph, copy.graph, "initializer")
    copy.graph.SetInParent()
    for tensor in proto.graph.initializer:
        target = copy.graph.initializer.add()
        if math.prod(tensor.dims) <= LARGE_TENSOR_ELEMENTS:
            target.CopyFrom(tensor)
        else:
            _copy_without_data(tensor, target)
    return copy


def with_weights_of(proto: onnx.ModelProto, other: onnx.ModelProto) -> onnx.ModelProto:
    """All of ``other`` but the initializers of its main graph, which are those of ``proto``."""
    copy = onnx.ModelProto()
    _copy_fields(other, copy, "graph")
    _copy_fields(other.graph, copy.graph, "initializer")
    copy.graph.initializer.extend(proto.graph.initializer)
    return copy


def _copy_without_data(tensor: onnx.TensorProto, target: onnx.TensorProto) -> None:
    # Field by field: asking protobuf for a list of the fields, or for a size, copies the data.
    target.dims.extend(tensor.dims)
    target.metadata_props.extend(tensor.metadata_props)
    for name in ("data_type", "segment", "name", "doc_string"):
        if not tensor.HasField(name):
            continue
        if name == "segment":
            target.segment.CopyFrom(tensor.segment)
        else:
            _set(target, name, getattr(tensor, name))
    target.data_location = onnx.TensorProto.EXTERNAL
    target.external_data.add(key="location", value="elsewhere")


def _copy_fields(source: Message, target: Message, *omitted: str) -> None:
    for field, value in source.ListFields():
        if field.name in omitted:
            continue
        if isinstance(value, Message):
            getattr(target, field.name).CopyFrom(value)
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        else:
            _set(target, field.name, value)


def _set(target: Message, name: str, value: Any) -> None:
    """Set a plain field; a text that is not UTF-8, which Python's protobuf reads but does not write, by its bytes."""
    if isinstance(value, bytes) and target.DESCRIPTOR.fields_by_name[name].type == FieldDescriptor.TYPE_STRING:
        target.MergeFromString(_wired(target.DESCRIPTOR.fields_by_name[name].number, value))
    else:
        setattr(target, name, value)


def _wired(number: int, content: bytes) -> bytes:
    """A field as protobuf stores it: what it is, its length, its bytes."""
    head = bytearray()
    for count in (number << 3 | 2, len(content)):
        while count > 0x7F:
            head.append(count & 0x7F | 0x80)
            count >>= 7
        head.append(count)
    return bytes(head) + content


def not_carried(proto: onnx.ModelProto) -> str | None:
    """Which field of ``proto`` onnx-ir would lose, found by a round trip of everything but the weights."""
    try:
        bare = skeleton(proto)
        returned = ir.to_proto(carry(bare, None))
    except UNREPRESENTED as error:
        return f"onnx-ir cannot represent it ({_innermost(error)})"
    lost = difference(bare, returned)
    return None if lost is None else f"it uses {lost}, which onnx-ir does not carry"


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:160]


# Lists whose order means nothing, with the field that tells entries apart.
_KEYED = {
    "metadata_props": "key",
    "opset_import": "domain",
    "quantization_annotation": "tensor_name",
    "quant_parameter_tensor_names": "key",
    "value_info": "name",
}


def difference(one: Message, other: Message, at: str = "") -> str | None:
    """Path of the first field in which two protos differ in meaning, None when there is none.

    An absent field equals its default, save for a shape: none says that the rank is unknown, an empty one that it is 0.
    Entries of keyed lists may come in any order, a value_info may be missing on one side, or told twice (it says
    nothing that does not follow; the last one is read), and where external data lies does not matter.
    """
    if one == other:
        return None
    names = dict.fromkeys(f.name for m in (one, other) for f, _ in m.ListFields())
    for name in names:
        if name == "external_data":
            continue
        place = f"{at}.{name}" if at else name
        if name == "shape" and one.HasField(name) != other.HasField(name):
            return place
        found = _field_difference(name, getattr(one, name), getattr(other, name), place)
        if found is not None:
            return found
    return None


def _field_difference(name: str, one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, Message):
        return difference(one, other, place)
    if not hasattr(one, "extend"):
        return None if _scalar(name, one) == _scalar(name, other) or one != one else place
    if name in _KEYED:
        return _keyed_difference(_KEYED[name], one, other, place, optional=name == "value_info")
    left, right = _without_trailing_blanks(one), _without_trailing_blanks(other)
    if len(left) != len(right):
        return place
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        found = _field_difference(name, a, b, f"{place}[{k}]")
        if found is not None:
            return found
    return None


def _keyed_difference(key: str, one: Any, other: Any, place: str, *, optional: bool) -> str | None:
    left = {getattr(entry, key): entry for entry in one}
    right = {getattr(entry, key): entry for entry in other}
    if not optional and (len(left) != len(one) or len(right) != len(other)):
        return place
    for name in [*left, *(n for n in right if n not in left)]:
        if name not in left or name not in right:
            if optional:
                continue
            return f"{place}[{name}]"
        found = difference(left[name], right[name], f"{place}[{name}]")
        if found is not None:
            return found
    return None


def _scalar(name: str, value: Any) -> Any:
    return "" if name == "domain" and value == DEFAULT_DOMAINS[1] else value


def _without_trailing_blanks(values: Any) -> list[Any]:
    # A trailing absent input or output may be left out or written as "".
    kept = list(values)
    while kept and kept[-1] == "":
        kept.pop()
    return kept

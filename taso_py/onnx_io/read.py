"""From a path, bytes or a proto to an onnx-ir model, with one-line errors; weights are not copied."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from taso_py.arrays import Array
from taso_py.errors import ModelError
from taso_py.files import require_model_file
from taso_py.onnx_io.artifact import external_locations
from taso_py.onnx_io.parsing import parse_file
from taso_py.paths import reason_of

# Without a handler Python prints the library's warnings on stderr; whoever wants them configures logging.
logging.getLogger("onnx_ir").addHandler(logging.NullHandler())

UNREADABLE = (OSError, ValueError, TypeError, AssertionError, KeyError, MemoryError, OverflowError)
"""What onnx-ir raises for a tensor whose data are not what its type and shape say."""
_LARGE_BYTES = 2**26
"""From here on a file is read weight by weight."""
_NO_MODEL = "{} is not an ONNX model, or is cut short ({} bytes): export it again"
DEFAULT_DOMAINS = ("", "ai.onnx")
_FIRST_OVERRIDABLE_IR = 4
_OURS = "superopt."
"""Metadata that are read; what a model's maker wrote is only carried along, whatever it is."""


def read_proto(source: str | Path | onnx.ModelProto | bytes) -> tuple[onnx.ModelProto, Path | None]:
    """The model and the file it came from; external data stays where it is."""
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the given model"), None
    if isinstance(source, bytes):
        return _checked(_parse(source, "the given bytes"), "the given model"), None
    path = Path(source)
    return _checked(parsed(path), str(path)), path


def parsed(path: Path) -> onnx.ModelProto:
    """What a file holds, external data aside; `ModelError` where that is no model."""
    require_model_file(path)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            return _parse(file.read(), str(path)) if size < _LARGE_BYTES else parse_file(file, size)
    except DecodeError:
        raise ModelError(_NO_MODEL.format(path, size)) from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {reason_of(error)}") from error


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    try:
        proto = onnx.ModelProto()
        proto.ParseFromString(content)
    except DecodeError:
        raise ModelError(_NO_MODEL.format(name, len(content))) from None
    return proto


def _checked(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    if not proto.HasField("graph") or not (proto.graph.output or proto.graph.node):
        raise ModelError(f"{name} holds no graph: it is not an ONNX model, or was cut short; export it again")
    if default_opset(proto) is None and any(n.domain in DEFAULT_DOMAINS for n in proto.graph.node):
        raise ModelError(f"{name} imports no version of the standard operators: export it again")
    _require_texts(proto, name)
    external_locations(proto)  # which are texts as well
    _require_places(proto)
    return proto


def _require_places(proto: onnx.ModelProto) -> None:
    """`ModelError` for external data that lie at no plain number of bytes: each reader takes that for another one."""
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key in ("offset", "length") and not (entry.value.isascii() and entry.value.isdigit()):
                what = f"the {entry.key} {entry.value[:60]!r}, which is no number of bytes"
                raise ModelError(f"external data of {tensor.name!r} has {what}: export the model again")


def _require_texts(proto: onnx.ModelProto, name: str) -> None:
    """`ModelError` for a name that is not UTF-8: protobuf gives bytes for it, and ONNX Runtime takes only texts."""
    texts: list[str | bytes] = [entry.key for entry in proto.metadata_props]
    texts += [entry.value for entry in proto.metadata_props if str(entry.key).startswith(_OURS)]
    texts += [text for function in proto.functions for text in (function.name, function.domain, function.overload)]
    texts += [text for function in proto.functions for text in (*function.input, *function.output, *function.attribute)]
    texts += [opset.domain for opset in proto.opset_import]
    graphs = [proto.graph]
    nodes = [node for function in proto.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            nodes.extend(graph.node)
            texts += [tensor.name for tensor in graph.initializer]
            for value in (*graph.input, *graph.output, *graph.value_info):
                texts.append(value.name)
                texts += [dim.dim_param for dim in value.type.tensor_type.shape.dim]
            continue
        node = nodes.pop()
        texts += (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        for attribute in node.attribute:
            texts += (attribute.name, attribute.ref_attr_name)
            if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
                graphs.extend((attribute.g, *attribute.graphs))
    strange = next((text for text in texts if isinstance(text, bytes)), None)
    if strange is not None:
        raise ModelError(f"{name} has the name {strange[:60]!r}, which is not UTF-8: export it again")


def default_opset(proto: onnx.ModelProto) -> int | None:
    """The imported version of the standard operators."""
    return next(iter(standard_opsets(proto)), None)


def standard_opsets(proto: onnx.ModelProto) -> dict[int, None]:
    """The imported versions of the standard operators, in order: one, save that their domain has two spellings."""
    return {o.version: None for o in proto.opset_import if o.domain in DEFAULT_DOMAINS}


def overridable_names(proto: onnx.ModelProto, *, freeze: bool) -> frozenset[str]:
    """The graph inputs, if a caller may override the initializers among them: none with ``freeze``.

    Before IR version 4 every initializer had to be listed, and ONNX Runtime overrides none.
    """
    if freeze or proto.ir_version < _FIRST_OVERRIDABLE_IR:
        return frozenset()
    return frozenset(info.name for info in proto.graph.input)


def overridable(proto: onnx.ModelProto, *, freeze: bool = False) -> tuple[str, ...]:
    """Initializers that a caller may override, in the order of the inputs."""
    names, held = overridable_names(proto, freeze=freeze), {tensor.name for tensor in proto.graph.initializer}
    return tuple(info.name for info in proto.graph.input if info.name in names & held)


def content(tensor: ir.TensorProtocol) -> Array:
    """What a tensor holds; `ModelError` where that is not what its type and shape say, or cannot be read."""
    try:
        return tensor.numpy()
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the data of {tensor.name!r} cannot be read: {reason}; export the model again") from error


_MOST_ELEMENTS = 2**60
"""Of any tensor: ONNX's and ONNX Runtime's numbers end at 2**63, and bytes count up to 16 for an element."""


def check_tensors(model: ir.Model) -> None:
    """Raise `ModelError` unless every tensor has a type and sizes, and external ones lie within an existing file."""
    sizes: dict[str, int] = {}
    for tensor in _tensors(model):
        external = isinstance(tensor, ir.ExternalTensor)
        sizes_given = tensor.shape.numpy()
        if (
            not _has_type(tensor, external)
            or min(sizes_given, default=0) < 0
            or math.prod(sizes_given) > _MOST_ELEMENTS
        ):
            raise ModelError(f"tensor {tensor.name!r} has a type or sizes that no tensor has: export the model again")
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        if "\0" in str(tensor.location):
            raise ModelError(f"external data of {tensor.name!r} lies at {tensor.location!r}: no file has such a name")
        location = Path(tensor.location)
        if location.is_absolute() or ".." in location.parts:
            raise ModelError(f"external data {location} of {tensor.name!r} is not in the model's folder: copy it there")
        if tensor.path not in sizes:
            try:
                sizes[tensor.path] = Path(tensor.path).stat().st_size
            except (OSError, UnicodeEncodeError) as error:  # the latter: a C locale, where names are ASCII
                reason = error.strerror if isinstance(error, OSError) else "this locale has no such names"
                raise ModelError(
                    f"external data {tensor.path} of {tensor.name!r} cannot be read: {reason}; put it beside the model"
                ) from None
        end = (tensor.offset or 0) + (tensor.length if tensor.length is not None else tensor.nbytes)
        if end > sizes[tensor.path]:
            raise ModelError(
                f"external data {tensor.path} is cut short: {tensor.name!r} ends at byte {end}, "
                f"the file has {sizes[tensor.path]}; copy it again"
            )


def _has_type(tensor: ir.TensorProtocol, external: bool) -> bool:
    try:
        return tensor.dtype not in (
            (ir.DataType.UNDEFINED, ir.DataType.STRING) if external else (ir.DataType.UNDEFINED,)
        )
    except ValueError:  # a number that is none
        return False


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in model.graphs():
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield attribute.value  # as_tensor asks for sizes, which a tensor without a type has not
                elif attribute.type == ir.AttributeType.TENSORS and not attribute.is_ref():
                    yield from attribute.value

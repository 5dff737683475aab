"""A model into one file, or with its weights in another beside it, without a second copy of them in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx_ir as ir

from taso_py.onnx_io.returned import whole_proto

_LEAST_BYTES_BESIDE = 256
_LENGTH_DELIMITED = 2
"""Wire type of embedded messages (https://protobuf.dev/programming-guides/encoding)."""


def save(model: ir.Model, path: Path) -> None:
    """What `onnx_ir.save` writes, except that the graph's initializers are its last field, and go out one by one.

    Serialising the whole at once would take twice the size of the weights, and ORT's users have models of 2 GB.
    """
    weights = [v for v in model.graph.initializers.values() if v.const_value is not None]
    with _emptied(weights):
        bare = whole_proto(model)
    bare.graph.ClearField("initializer")
    graph = bare.graph.SerializeToString(deterministic=True)
    bare.ClearField("graph")
    sizes = [_proto(w).ByteSize() for w in weights]
    keys = [_key(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, size) for size in sizes]
    total = len(graph) + sum(map(len, keys)) + sum(sizes)
    with path.open("wb") as file:
        file.write(bare.SerializeToString(deterministic=True))
        file.write(_key(onnx.ModelProto.GRAPH_FIELD_NUMBER, total))
        file.write(graph)
        for key, weight in zip(keys, weights, strict=True):
            file.write(key)
            file.write(_proto(weight).SerializeToString(deterministic=True))


def save_beside(model: ir.Model, path: Path, data: str) -> None:
    """`save`, with the weights of more than a few bytes in the file ``data`` beside it; texts have no form there."""
    values = [v for graph in model.graphs() for v in graph.initializers.values() if v.const_value is not None]
    tensors = [v.const_value for v in values]
    try:
        with _emptied([v for v in values if _is_text(v)]):
            ir.external_data.unload_from_model(model, path.parent, data, size_threshold_bytes=_LEAST_BYTES_BESIDE)
        path.write_bytes(whole_proto(model).SerializeToString(deterministic=True))
    finally:
        for value, tensor in zip(values, tensors, strict=True):
            value.const_value = tensor


def _is_text(weight: ir.Value) -> bool:
    return weight.const_value is not None and weight.const_value.dtype is ir.DataType.STRING


@contextmanager
def _emptied(weights: Sequence[ir.Value]) -> Iterator[None]:
    tensors, nothing = [w.const_value for w in weights], ir.tensor([0.0])
    try:
        for weight in weights:
            weight.const_value = nothing
        yield
    finally:
        for weight, tensor in zip(weights, tensors, strict=True):
            weight.const_value = tensor


def _proto(weight: ir.Value) -> onnx.TensorProto:
    assert weight.const_value is not None
    weight.const_value.name = weight.name
    return ir.to_proto(weight.const_value)


def _key(field: int, length: int) -> bytes:
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(length)


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*digits, number))

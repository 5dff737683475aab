"""Protos compared field by field, elements of tensors left out: these are compared by value, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

ELEMENTS = (
    *("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data"),
    *("external_data", "data_location"),
)
"""Fields of a TensorProto that say what its elements are, or where they lie."""


def tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor within a message, in the order of its fields; one that is a tensor itself is the only one."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for inner in _inner(message):
        yield from tensors(inner)


def emptied(message: Message) -> None:
    """Removes the elements of every tensor within a message."""
    for tensor in tensors(message):
        for name in ELEMENTS:
            tensor.ClearField(name)


def unknown(message: Message, at: str = "") -> str | None:
    """The path of the first message within that has fields which ONNX does not define."""
    if len(UnknownFieldSet(message)):
        return at or type(message).__name__
    for name, value in _parts(message):
        entries = [value] if isinstance(value, Message) else value if _holds_messages(value) else ()
        for k, entry in enumerate(entries):
            found = unknown(entry, _path(at, name, k if entries is value else None))
            if found is not None:
                return found
    return None


def _parts(message: Message) -> Iterator[tuple[str, Any]]:
    if isinstance(message, onnx.TensorProto):
        # Listing the fields of a tensor would copy its elements.
        for name in ("segment", "external_data", "metadata_props"):
            if name != "segment" or message.HasField("segment"):
                yield name, getattr(message, name)
        return
    yield from ((field.name, value) for field, value in message.ListFields())


def first_difference(one: Message, other: Message, at: str = "") -> str | None:
    """The path of the first field in which two messages differ: presence, order and trailing blanks count."""
    if one == other:
        return None
    left, right = ({f.name: v for f, v in m.ListFields()} for m in (one, other))
    for name in dict.fromkeys([*left, *right]):
        place = _path(at, name, None)
        if name not in left or name not in right:
            return place
        found = _field_difference(left[name], right[name], place)
        if found is not None:
            return found
    return at or type(one).__name__


def _field_difference(one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, Message):
        return first_difference(one, other, place)
    if not _holds_messages(one) or not _holds_messages(other):
        return None if one == other else place
    if len(one) != len(other):
        return place
    pairs = zip(one, other, strict=True)
    return next((d for k, (a, b) in enumerate(pairs) if (d := first_difference(a, b, f"{place}[{k}]"))), None)


def _inner(message: Message) -> Iterator[Message]:
    for _, value in message.ListFields():
        if isinstance(value, Message):
            yield value
        elif _holds_messages(value):
            yield from value


def _holds_messages(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Message)


def _path(at: str, name: str, index: int | None) -> str:
    place = f"{at}.{name}" if at else name
    return place if index is None else f"{place}[{index}]"

"""A model out of its file, weight by weight.

Protobuf parses what lies in memory.  A large file is not mapped for that, because a file that is cut short meanwhile
ends the process that mapped it (SIGBUS), and not read as a whole, because the weights would be in memory twice.
"""

from __future__ import annotations

from typing import IO

import onnx
from google.protobuf.message import DecodeError

from taso_py.onnx_io.save import varint

_GRAPH, _INITIALIZER = onnx.ModelProto.GRAPH_FIELD_NUMBER, onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_LENGTH_DELIMITED = 2
"""Wire type of embedded messages; below the others, as numbers (https://protobuf.dev/programming-guides/encoding)."""
_GATHERED_BYTES = 2**20
"""Fields that are not weights are parsed so many bytes at a time."""


def parse_file(file: IO[bytes], size: int) -> onnx.ModelProto:
    """The model in a file of ``size`` bytes, from where it is read; DecodeError where it holds none."""
    model = onnx.ModelProto()
    reader = _Reader(file, size)
    while reader.left > 0:
        key = reader.varint()
        if key == (_GRAPH << 3 | _LENGTH_DELIMITED):
            _merge_graph(model.graph, reader, reader.varint())
            model.graph.SetInParent()
        else:
            model.MergeFromString(reader.field(key))
    return model


def _merge_graph(graph: onnx.GraphProto, reader: _Reader, length: int) -> None:
    end = reader.left - length
    if end < 0:
        raise DecodeError("the graph ends behind the file")
    gathered: list[bytes] = []
    count = 0
    while reader.left > end:
        key = reader.varint()
        if key == (_INITIALIZER << 3 | _LENGTH_DELIMITED):
            graph.initializer.add().MergeFromString(reader.read(reader.varint()))
            continue
        gathered.append(reader.field(key))
        count += len(gathered[-1])
        if count > _GATHERED_BYTES:
            graph.MergeFromString(b"".join(gathered))
            gathered, count = [], 0
    graph.MergeFromString(b"".join(gathered))
    if reader.left != end:
        raise DecodeError("a field ends behind the graph")


class _Reader:
    """Reads a file that may hold less than it says, or than it held."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.left = file, size

    def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        found = self.file.read(count) if count <= self.left else b""
        if len(found) != count:
            raise DecodeError("a field ends behind the file")
        self.left -= count
        return found

    def varint(self) -> int:
        """A number of up to ten bytes."""
        number = 0
        for shift in range(0, 70, 7):
            (byte,) = self.read(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise DecodeError("a number of more than ten bytes")

    def field(self, key: int) -> bytes:
        """The whole of a field whose key was read, key included; groups are none that onnx knows."""
        match key & 7:
            case 0:
                return varint(key) + varint(self.varint())
            case 1:
                return varint(key) + self.read(8)
            case 2:
                length = self.varint()
                return varint(key) + varint(length) + self.read(length)
            case 5:
                return varint(key) + self.read(4)
        raise DecodeError("a field of an unknown kind")

"""Where in a model a run ends that fails, and which inputs have a part in that."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs
from taso_py.errors import ModelError, WorkerError

LARGEST_BYTES = 2**28
"""A model file up to this size is copied to be looked into."""
_NODE = re.compile(r"running \S+ node\. Name:'([^']*)'")
_NO_SIZE = re.compile(r"\S+\.(?:h|cc|cpp)\b(?::\d+)?\S*|axis == \d+|other than \d+")
_SHAPE = re.compile(r"[{\[]([\d\s,-]+)[}\]]")
_DIGITS = re.compile(r"-?\d+")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.]*\w)")
_STRICT = {"greater than": 1, "larger than": 1, "less than": -1, "smaller than": -1}
"""What is said of two numbers, and by how much one has to pass the other."""
_LARGEST_HINT = 2**20


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed: what was said, and the node that it came from, where that is known."""

    words: str
    node: int | None

    @property
    def kind(self) -> tuple[int | None, str]:
        """The node, and what was said without its numbers."""
        return self.node, _DIGITS.sub("#", self.words)

    def shapes(self) -> list[tuple[int, ...]]:
        """Those that were said."""
        told = self.words.rpartition("Status Message:")[2]
        return [tuple(map(int, _NUMBER.findall(shape))) for shape in _SHAPE.findall(told)]

    def numbers(self) -> list[int]:
        """Those in what was said, mostly sizes that are and sizes that should be, and how many elements shapes have."""
        told = _NO_SIZE.sub("", self.words.rpartition("Status Message:")[2])
        found = [int(text) for text in _NUMBER.findall(told)]
        found += [math.prod(size for size in shape if size > 0) for shape in self.shapes()]
        found += [n + step for word, step in _STRICT.items() if word in told for n in found]
        return [n for n in dict.fromkeys(found) if abs(n) <= _LARGEST_HINT]


@dataclass(slots=True)
class Traced:
    """A model in which every node of the main graph can be told by its name; a copy, where those are not unique."""

    ref: ModelRef
    proto: onnx.ModelProto
    _names: dict[str, int] = field(default_factory=dict)
    _producer: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, ref: ModelRef) -> Traced | None:
        """None for a model that is too large to be copied."""
        content = ref.model
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        if size > LARGEST_BYTES:
            return None
        proto = onnx.ModelProto.FromString(content.read_bytes() if isinstance(content, Path) else content)
        for number, node in enumerate(proto.graph.node):
            node.name = f"node {number}"
        base = content.absolute().parent if isinstance(content, Path) else ref.base_dir
        made = cls(ModelRef(ref.name, proto.SerializeToString(), base, ref.disabled), proto)
        made._names = {node.name: number for number, node in enumerate(proto.graph.node)}
        made._producer = {name: k for k, node in enumerate(proto.graph.node) for name in node.output if name}
        return made

    def failure(self, error: Exception) -> Failure:
        """What is known of an error of a run."""
        words = str(error)
        found = (self._names.get(name) for name in _NODE.findall(words))
        return Failure(words, next((number for number in found if number is not None), None))

    def above(self, node: int) -> tuple[list[str], set[int]]:
        """The graph inputs that a node depends on, the nearest first, and the nodes between."""
        inputs: dict[str, None] = {}
        seen, waiting = {node}, deque([node])
        while waiting:
            for name in _reads(self.proto.graph.node[waiting.popleft()]):
                producer = self._producer.get(name)
                if producer is None:
                    inputs[name] = None
                elif producer not in seen:
                    seen.add(producer)
                    waiting.append(producer)
        return list(inputs), seen - {node}

    def operands(self, worker: Worker, node: int, feeds: Feeds) -> Outputs:
        """What the node reads at these inputs; nothing where that cannot be run."""
        wanted = [name for name in dict.fromkeys(self.proto.graph.node[node].input) if name in self._producer]
        if not wanted:
            return {}
        part = onnx.ModelProto()
        part.CopyFrom(self.proto)
        _, needed = self.above(node)
        kept = [one for number, one in enumerate(self.proto.graph.node) if number in needed]
        for name in ("node", "output", "value_info"):
            part.graph.ClearField(name)
        part.graph.node.extend(kept)
        part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        try:
            ref = ModelRef(self.ref.name, part.SerializeToString(), self.ref.base_dir, self.ref.disabled)
            handle = worker.open(ref, level="disable", ep=CPU)
            try:
                return worker.run(handle, feeds)
            finally:
                worker.close(handle)
        except (ModelError, WorkerError):
            return {}


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Every name that a node or one of its subgraphs reads; some of the latter are the subgraph's own."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
            yield from (output.name for output in graph.output)

"""Which node reads an input for its sizes, axes or counts, however the values get there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from taso_py.check.roles import Dims, Role

if TYPE_CHECKING:
    import onnx

Readers: TypeAlias = "Mapping[str, Sequence[tuple[onnx.NodeProto, int]]]"
"""For each value the nodes that read it, and at which position."""

WHOLE = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
"""Operators that hand all values of their first operand on, in their order."""
FLAGS = WHOLE | {"Not"}
"""Operators whose result hangs on the truth of their first operand alone."""
_NEGATED = {"0": "1", "1": "0"}
"""What a truth value is to be where its negation is to be the other."""


_KEYS = frozenset({
    "cats_int64s", "cats_strings", "int64_vocabulary", "keys_int64s", "keys_strings", "string_vocabulary",
})  # fmt: skip
"""Attributes that list what a node knows of its first operand."""
_DIGITS = ("0", "1", "2", "7")


def readers_of(nodes: Iterable[onnx.NodeProto]) -> dict[str, list[tuple[onnx.NodeProto, int]]]:
    """For each value the nodes that read it, and at which position."""
    found: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for node in nodes:
        for position, name in enumerate(node.input):
            found.setdefault(name, []).append((node, position))
    return found


def known_values(name: str, readers: Readers, *, text: bool) -> tuple[str | int, ...]:
    """What the nodes that read an input, however its values get there, know of; of texts that are cast, digits."""
    found: dict[str | int, None] = {}
    for value in last_first([name], lambda value: _handed_on(value, readers)):
        for node, position in readers.get(value, ()):
            if position == 0:
                listed = [a for a in node.attribute if a.name in _KEYS]
                values = [
                    k for a in listed for k in ([t.decode(errors="replace") for t in a.strings] if text else a.ints)
                ]
                found.update(dict.fromkeys(_DIGITS if text and node.op_type == "Cast" else values))
    return tuple(found)


def _handed_on(value: str, readers: Readers) -> Iterator[str]:
    for node, position in readers.get(value, ()):
        if node.op_type in WHOLE and node.op_type != "Cast" and position == 0:
            yield from (output for output in node.output if output)


def find_roles(inputs: Mapping[str, bool], readers: Readers, shapes: Mapping[str, Dims]) -> dict[str, Role | None]:
    """What each graph input is for, however its values get there; None where no node asks for anything special.

    ``inputs`` tells of each whether it holds integers.
    """
    found: dict[str, Role | None] = {}
    for integer in (False, True):
        named = [name for name, is_integer in inputs.items() if is_integer is integer]
        nearest = _nearest(named, readers, integer=integer)
        for name in named:
            near = nearest[name]
            found[name] = None if near is None else _role(near.kind, near.node, shapes, partial=near.partial)
    return found


@dataclass(frozen=True, slots=True)
class _Near:
    """The nearest node that asks something special of a value."""

    kind: str
    node: onnx.NodeProto
    distance: int
    partial: bool

    def before(self, operator: str) -> _Near:
        """Of a value that comes through this operator."""
        kind = _NEGATED.get(self.kind, self.kind) if operator == "Not" else self.kind
        return _Near(kind, self.node, self.distance + 1, self.partial or operator == "Concat")


def _nearest(names: Iterable[str], readers: Readers, *, integer: bool) -> dict[str, _Near | None]:
    """Of each value that the named ones reach: each is looked at once, after all that it leads to."""

    def leads_to(value: str) -> Iterator[tuple[str, str]]:
        for node, position in readers.get(value, ()):
            if (node.op_type in WHOLE and position == 0) or node.op_type in ("Concat", "Not"):
                yield from ((output, node.op_type) for output in node.output if output)

    found: dict[str, _Near | None] = {}
    for value in last_first(names, lambda value: (output for output, _ in leads_to(value))):
        kinds = ((_kind(node, position), node) for node, position in readers.get(value, ()))
        own = next((pair for pair in kinds if pair[0] is not None and (integer or pair[0] != "divisor")), None)
        if own is not None and own[0] is not None:
            found[value] = _Near(own[0], own[1], 0, partial=False)
            continue
        behind = [(found.get(output), operator) for output, operator in leads_to(value)]
        reached = [near.before(operator) for near, operator in behind if near is not None]
        found[value] = min(reached, key=lambda near: near.distance, default=None)
    return found


def last_first(starts: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str]:
    """All that the starts lead to, each after its successors; a circle, which no valid graph has, is cut somewhere."""
    order: list[str] = []
    seen = set[str]()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(successors(start)))]
        while path:
            value, left = path[-1]
            following = next((one for one in left if one not in seen), None)
            if following is None:
                order.append(value)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(successors(following))))
    return order


def _kind(node: onnx.NodeProto, position: int) -> str | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type.startswith("Reduce") and position == 1:
        return "axes"
    if node.op_type == "Resize" and len(node.input) == 2:  # before opset 11
        return "scales" if position == 1 else None
    return _KINDS.get((node.op_type, position))


def _role(kind: str, node: onnx.NodeProto, shapes: Mapping[str, Dims], *, partial: bool) -> Role:
    import onnx

    simple = (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)
    attributes = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.type in simple and not a.ref_attr_name
    }
    results = tuple(shapes.get(output) for output in node.output)
    return Role(kind, shapes.get(node.input[0] if node.input else ""), results, attributes, partial)


_KINDS: Mapping[tuple[str, int], str] = {
    ("Reshape", 1): "reshape",
    ("Expand", 1): "expand",
    ("ConstantOfShape", 0): "shape",
    ("RandomNormal", 0): "shape",
    ("CenterCropPad", 1): "same shape",
    ("MaxUnpool", 2): "same shape",
    ("AffineGrid", 1): "grid",
    ("Tile", 1): "repeats",
    ("Resize", 1): "region",
    ("Resize", 2): "scales",
    ("Resize", 3): "sizes",
    ("Upsample", 1): "scales",
    ("Slice", 1): "starts",
    ("Slice", 2): "ends",
    ("Slice", 3): "axes",
    ("Slice", 4): "1",
    ("Squeeze", 1): "ones",
    ("Unsqueeze", 1): "axes",
    ("Pad", 1): "pads",
    ("Pad", 3): "axes",
    ("Split", 1): "split",
    ("SplitToSequence", 1): "sequence split",
    ("TopK", 1): "k",
    ("OneHot", 1): "8",
    ("CumSum", 1): "0",
    ("Div", 1): "divisor",
    ("Mod", 1): "divisor",
    ("Range", 0): "0",
    ("Range", 1): "limit",
    ("Range", 2): "1",
    ("Col2Im", 1): "columns",
    ("Col2Im", 2): "1",
    ("Dropout", 1): "0.5",
    ("Dropout", 2): "0",
    ("Loop", 0): "3",
    ("Loop", 1): "1",
    ("NonMaxSuppression", 2): "3",
    ("NonMaxSuppression", 3): "0.5",
    ("NonMaxSuppression", 4): "0",
    ("SequenceAt", 1): "0",
    ("SequenceInsert", 2): "0",
    ("SequenceErase", 1): "0",
    ("RNN", 4): "lengths",
    ("GRU", 4): "lengths",
    ("LSTM", 4): "lengths",
    ("ReverseSequence", 1): "lengths",
    ("HannWindow", 0): "limit",
    ("HammingWindow", 0): "limit",
    ("BlackmanWindow", 0): "limit",
    ("DFT", 2): "1",
    ("STFT", 1): "2",
    ("MelWeightMatrix", 0): "8",
    ("MelWeightMatrix", 1): "16",
    ("MelWeightMatrix", 2): "8192",
    ("MelWeightMatrix", 3): "0",
    ("MelWeightMatrix", 4): "4096",
}
"""By operator and position: what an input is for."""

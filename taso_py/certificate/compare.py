"""The rebuilt model against the one at hand: alike in every field, computed weights but for a few last bits.

Only where the elements of a tensor lie may differ, in the file or beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import Message
from onnx import numpy_helper

from taso_py.arrays import Array
from taso_py.certificate.elements import Distance
from taso_py.certificate.exact import emptied, first_difference, tensors, unknown
from taso_py.errors import CertificateError
from taso_py.onnx_io.carry import carry, not_carried, skeleton
from taso_py.onnx_io.contract import bare_proto
from taso_py.onnx_io.read import check_tensors, read_proto


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a certificate leads to: the model, the proto that is written for it, and its computed weights by name."""

    model: ir.Model
    proto: onnx.ModelProto
    """The elements of large initializers may be left out."""
    folder: Path | None
    """Where external data of the proto's attributes lies."""
    computed: frozenset[str] = frozenset()

    @staticmethod
    def of(exported: ir.Model, source: Path | None, computed: frozenset[str]) -> Rebuilt:
        """The rewritten model."""
        return Rebuilt(exported, bare_proto(exported), source.parent if source else None, computed)

    @staticmethod
    def unchanged(original: onnx.ModelProto, source: Path | None) -> Rebuilt:
        """The original, as its own file has it."""
        return Rebuilt(carry(original, source), skeleton(original), source.parent if source else None)


def largest_ulp(rebuilt: Rebuilt, optimised: Path | onnx.ModelProto) -> int:
    """How far, in units in the last place, computed weights are from the rebuilt model's at most.

    `CertificateError` names the first other thing in which the two models differ.
    """
    proto, path = read_proto(optimised)
    part = next((t.name for t in proto.graph.initializer if t.HasField("segment")), None)
    if part is not None:  # some readers refuse such a tensor, others read it as a whole
        raise CertificateError(
            f"weight {part} of the optimised model is said to be a part of a tensor: it has a segment"
        )
    strange = unknown(proto)
    if strange is not None:
        raise CertificateError(f"{strange} of the optimised model holds a field that ONNX does not define")
    lost = not_carried(proto)
    if lost is not None:
        raise CertificateError(f"the optimised model cannot be compared: {lost}")
    found = carry(proto, path)
    check_tensors(found)
    comparison = _Comparison(rebuilt, found, path.parent if path else None)
    comparison.graphs(skeleton(proto))
    comparison.weights()
    return comparison.largest


@dataclass(slots=True)
class _Comparison:
    rebuilt: Rebuilt
    found: ir.Model
    folder: Path | None
    largest: int = 0

    def graphs(self, found: onnx.ModelProto) -> None:
        """Everything but the initializers of the main graph."""
        wanted = onnx.ModelProto()
        wanted.CopyFrom(self.rebuilt.proto)
        one, other = wanted.graph, found.graph
        _require_same_nodes(one.node, other.node)
        for node, its_like in zip(one.node, other.node, strict=True):
            self._node(node, its_like)
        _require_names("weight", [t.name for t in one.initializer], [t.name for t in other.initializer])
        _require_names("value_info", [i.name for i in one.value_info], [i.name for i in other.value_info])
        keys = dict.fromkeys(p.key for m in (wanted, found) for p in m.metadata_props)
        for key in keys:
            if _stated(wanted, key) != _stated(found, key):
                raise CertificateError(f"metadata_props[{key}] of the model is not what the certificate leads to")
        for model in (wanted, found):
            model.graph.ClearField("node")
            model.graph.ClearField("initializer")
        self._alike(wanted, found, "the model")

    def weights(self) -> None:
        """The initializers, one by one."""
        others = self.found.graph.initializers
        for name, value in self.rebuilt.model.graph.initializers.items():
            one, other = value.const_value, others[name].const_value
            if one is None or other is None:
                raise CertificateError(f"weight {name} has no elements")
            for what in ("dtype", "shape", "doc_string", "metadata_props"):
                _require_equal(f"the {what} of weight {name}", *(str(getattr(t, what) or "") for t in (one, other)))
            self._elements(name, one.numpy, other.numpy, computed=name in self.rebuilt.computed)

    def _node(self, wanted: onnx.NodeProto, found: onnx.NodeProto) -> None:
        label = _called(wanted)
        if wanted != found:
            for what in ("name", "op_type", "domain"):
                _require_equal(f"the {what} of {label}", getattr(wanted, what), getattr(found, what))
            for k in range(max(len(wanted.input), len(found.input))):
                _require_equal(f"input {k} of {label}", *(_entry(n.input, k) for n in (wanted, found)))
            left, right = [a.name for a in wanted.attribute], [a.name for a in found.attribute]
            for name in dict.fromkeys([*left, *right]):
                if name not in left or name not in right:
                    what = "is missing" if name in left else "was added"
                    raise CertificateError(f"attribute {name} of {label} {what}")
            _require_equal(f"the order of the attributes of {label}", left, right)
        for one, other in zip(wanted.attribute, found.attribute, strict=True):
            self._attribute(one, other, label, wanted.output[0] if wanted.output else "")
        for node in (wanted, found):
            node.ClearField("attribute")
        self._alike(wanted, found, label)

    def _attribute(self, wanted: onnx.AttributeProto, found: onnx.AttributeProto, label: str, output: str) -> None:
        of = f"attribute {wanted.name} of {label}"
        plain = wanted.type == found.type and wanted.type not in _NESTED
        if plain:
            _require_equal(of, *(onnx.helper.get_attribute_value(a) for a in (wanted, found)))
        self._alike(wanted, found, of, output if wanted.type == onnx.AttributeProto.TENSOR else "")

    def _alike(self, wanted: Message, found: Message, of: str, weight: str = "") -> None:
        """Two messages, the tensors within them by value; ``weight`` is what their only tensor is called."""
        pairs = list(zip(tensors(wanted), tensors(found), strict=False))
        kept = [(_copy(a), _copy(b)) for a, b in pairs]
        for message in (wanted, found):
            emptied(message)
        unlike = first_difference(wanted, found)
        if unlike is not None:
            raise CertificateError(f"{unlike} of {of} is not what the certificate leads to")
        for one, other in kept:
            computed = weight in self.rebuilt.computed
            readers = (_reader(one, self.rebuilt.folder), _reader(other, self.folder))
            self._elements(weight or f"{one.name} in {of}".strip(), *readers, computed=computed)

    def _elements(self, name: str, wanted: Callable[[], Array], found: Callable[[], Array], *, computed: bool) -> None:
        distance = Distance(_values(name, wanted), _values(name, found))
        unlike = distance.refused(computed=computed)
        if unlike is not None:
            raise CertificateError(f"weight {name} {unlike}")
        self.largest = max(self.largest, distance.largest)


_NESTED = (
    *(onnx.AttributeProto.TENSOR, onnx.AttributeProto.TENSORS, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS),
    *(onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS),
)
"""Types of attributes that hold tensors, or may."""


def _stated(model: onnx.ModelProto, key: str) -> list[str]:
    return [entry.value for entry in model.metadata_props if entry.key == key]


def _copy(tensor: onnx.TensorProto) -> onnx.TensorProto:
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    return copy


def _reader(tensor: onnx.TensorProto, folder: Path | None) -> Callable[[], Array]:
    return lambda: numpy_helper.to_array(tensor, str(folder or ""))


def _values(name: str, read: Callable[[], Array]) -> Array:
    try:
        return read()
    except (ValueError, TypeError, AssertionError, OSError, onnx.checker.ValidationError) as error:
        raise CertificateError(f"weight {name} cannot be read: {error}") from error


def _called(node: onnx.NodeProto) -> str:
    return f"node {node.name} ({node.op_type})" if node.name else f"the {node.op_type} of {', '.join(node.output)}"


def _entry(names: Sequence[str], position: int) -> str | None:
    """An absent operand in the middle is '', one after the last is None."""
    return names[position] if position < len(names) else None


def _require_same_nodes(wanted: Sequence[onnx.NodeProto], found: Sequence[onnx.NodeProto]) -> None:
    """The same values, computed in the same order: so nodes can be compared one by one."""
    left, right = [tuple(n.output) for n in wanted], [tuple(n.output) for n in found]
    if left == right:
        return
    here, there = set(left), set(right)
    for node in wanted:
        if tuple(node.output) not in there:
            raise CertificateError(f"{_called(node)} is missing")
    for node in found:
        if tuple(node.output) not in here:
            raise CertificateError(f"{_called(node)} is nothing that the certificate leads to")
    for one, other in zip(wanted, found, strict=False):
        if one.output != other.output:
            raise CertificateError(f"{_called(other)} stands where {_called(one)} should stand")
    raise CertificateError(f"{_called(max(wanted, found, key=len)[-1])} stands there twice")


def _require_names(what: str, wanted: Sequence[str], found: Sequence[str]) -> None:
    for name in _missing(wanted, found):
        raise CertificateError(f"{what} {name} is missing")
    for name in _missing(found, wanted):
        raise CertificateError(f"{what} {name} is nothing that the certificate leads to")
    _require_equal(f"the number of entries of {what}", len(wanted), len(found))
    for one, other in zip(wanted, found, strict=True):
        _require_equal(f"the {what} in its place", one, other)


def _missing(names: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    known = set(others)
    return (name for name in names if name not in known)


def _require_equal(what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise CertificateError(f"{what} is {_short(found)}, and the certificate leads to {_short(wanted)}")


def _short(value: object, limit: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."

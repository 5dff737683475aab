"""The rebuilt model against the one at hand: alike in everything, computed weights to a unit in the last place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from taso_py.errors import CertificateError
from taso_py.onnx_io.carry import carry, difference, not_carried
from taso_py.onnx_io.contract import bare_proto
from taso_py.onnx_io.read import check_external_data, read_proto

ULPS = 1
"""How far a computed weight may be from what is computed here: exp and its like differ between machines."""

Array = npt.NDArray[Any]


def largest_ulp(rebuilt: ir.Model, optimised: Path | onnx.ModelProto, computed: Iterable[str]) -> int:
    """How far, in units in the last place, the weights ``computed`` are from the rebuilt model's at most.

    `CertificateError` names the first other thing in which the two models differ.
    """
    proto, path = read_proto(optimised)
    lost = not_carried(proto)
    if lost is not None:
        raise CertificateError(f"the optimised model cannot be compared: {lost}")
    found = carry(proto, path)
    check_external_data(found)
    comparison = _Comparison(frozenset(computed))
    comparison.graphs(bare_proto(rebuilt), bare_proto(found))
    comparison.weights(rebuilt.graph, found.graph)
    return comparison.largest


@dataclass(slots=True)
class _Comparison:
    computed: frozenset[str]
    largest: int = 0

    def graphs(self, wanted: onnx.ModelProto, found: onnx.ModelProto) -> None:
        """Everything but the values of initializers."""
        one, other = wanted.graph, found.graph
        _require_same_nodes(one.node, other.node)
        for node, its_like in zip(one.node, other.node, strict=True):
            self._node(node, its_like)
        _require_names("weight", [t.name for t in one.initializer], [t.name for t in other.initializer])
        _require_names("value_info", sorted(i.name for i in one.value_info), sorted(i.name for i in other.value_info))
        for model in (wanted, found):
            model.graph.ClearField("node")
            model.graph.ClearField("initializer")
        _require_alike(wanted, found, "the model")

    def weights(self, wanted: ir.Graph, found: ir.Graph) -> None:
        """The initializers, one by one."""
        for name, value in wanted.initializers.items():
            one, other = value.const_value, found.initializers[name].const_value
            if one is not None and other is not None:
                self._tensor(name, one, other)

    def _node(self, wanted: onnx.NodeProto, found: onnx.NodeProto) -> None:
        if wanted == found:
            return
        label = _called(wanted)
        for what in ("name", "op_type", "domain"):
            _require_equal(f"the {what} of {label}", getattr(wanted, what), getattr(found, what))
        for k in range(max(len(wanted.input), len(found.input))):
            one, other = (n.input[k] if k < len(n.input) else "" for n in (wanted, found))
            _require_equal(f"input {k} of {label}", one, other)
        left, right = {a.name: a for a in wanted.attribute}, {a.name: a for a in found.attribute}
        for name in dict.fromkeys([*left, *right]):
            if name not in left or name not in right:
                raise CertificateError(f"attribute {name} of {label} {'is missing' if name in left else 'was added'}")
            self._attribute(name, label, wanted.output[0] if wanted.output else "", left[name], right[name])
        for node in (wanted, found):
            node.ClearField("attribute")
        _require_alike(wanted, found, label)

    def _attribute(
        self, name: str, label: str, output: str, wanted: onnx.AttributeProto, found: onnx.AttributeProto
    ) -> None:
        if wanted == found:
            return
        if wanted.type == found.type == onnx.AttributeProto.TENSOR:
            self._tensor(output, *(ir.serde.deserialize_tensor(a.t) for a in (wanted, found)))
            return
        one, other = onnx.helper.get_attribute_value(wanted), onnx.helper.get_attribute_value(found)
        if wanted.type != found.type or isinstance(one, onnx.GraphProto):
            raise CertificateError(f"attribute {name} of {label} is not what the certificate leads to")
        _require_equal(f"attribute {name} of {label}", one, other)

    def _tensor(self, name: str, wanted: ir.TensorProtocol, found: ir.TensorProtocol) -> None:
        for what in ("dtype", "shape"):
            _require_equal(f"the {what} of weight {name}", str(getattr(wanted, what)), str(getattr(found, what)))
        one, other = _values(name, wanted), _values(name, found)
        if _identical(one, other):
            return
        computed = name in self.computed and wanted.dtype.is_floating_point()
        far = _ulps(one, other) if computed else _unlike(one, other)
        at = int(far.argmax())
        worst, place = int(far[at]), [int(k) for k in np.unravel_index(at, tuple(wanted.shape.numpy()))]
        if computed and worst <= ULPS:
            self.largest = max(self.largest, worst)
            return
        value, own = other.reshape(-1)[at], one.reshape(-1)[at]
        told = f"{worst} units in the last place from" if computed else "bit for bit another value than"
        raise CertificateError(f"weight {name} at {place} is {value}, {told} {own}, which the certificate leads to")


def _values(name: str, tensor: ir.TensorProtocol) -> Array:
    try:
        return np.ascontiguousarray(tensor.numpy())
    except (ValueError, TypeError, AssertionError) as error:
        raise CertificateError(f"weight {name} cannot be read: {error}") from error


def _called(node: onnx.NodeProto) -> str:
    return f"node {node.name} ({node.op_type})" if node.name else f"the {node.op_type} of {', '.join(node.output)}"


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
    for name in wanted:
        if name not in found:
            raise CertificateError(f"{what} {name} is missing")
    for name in found:
        if name not in wanted:
            raise CertificateError(f"{what} {name} is nothing that the certificate leads to")
    for one, other in zip(wanted, found, strict=True):
        _require_equal(f"the {what} in its place", one, other)


def _require_equal(what: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise CertificateError(f"{what} is {_short(found)}, and the certificate leads to {_short(wanted)}")


def _require_alike(wanted: onnx.ModelProto | onnx.NodeProto, found: onnx.ModelProto | onnx.NodeProto, of: str) -> None:
    unlike = difference(wanted, found)
    if unlike is not None:
        raise CertificateError(f"{unlike} of {of} is not what the certificate leads to")


def _short(value: object, limit: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _identical(one: Array, other: Array) -> bool:
    if one.dtype.kind in "OSU":
        return bool(np.array_equal(one, other))
    return bool(np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)))


def _unlike(one: Array, other: Array) -> Array:
    """1 where the elements differ in a bit."""
    if one.dtype.kind in "OSU":
        return np.asarray(one.reshape(-1) != other.reshape(-1), dtype=np.uint64)
    rows = [a.reshape(-1).view(np.uint8).reshape(a.size, a.itemsize) for a in (one, other)]
    return np.asarray((rows[0] != rows[1]).any(axis=1), dtype=np.uint64)


def _ulps(one: Array, other: Array) -> Array:
    """How many floats lie between the elements; as good as infinitely many where one of them is no number."""
    a, b = one.reshape(-1), other.reshape(-1)
    ranks = [_rank(x) for x in (a, b)]
    # Modulo 2^64 the difference is right even where it exceeds what int64 holds.
    far = np.maximum(*ranks).view(np.uint64) - np.minimum(*ranks).view(np.uint64)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = [x.astype(np.float64) for x in (a, b)]
    far[np.isfinite(wide[0]) != np.isfinite(wide[1])] = np.iinfo(np.int64).max
    far[np.isnan(wide[0]) & np.isnan(wide[1])] = 0
    return far


def _rank(floats: Array) -> npt.NDArray[np.int64]:
    """Consecutive integers for consecutive floats; both zeros are 0."""
    bits = floats.view(np.dtype(f"int{8 * floats.itemsize}")).astype(np.int64)
    least = np.int64(-(2 ** (8 * floats.itemsize - 1)))
    return np.where(bits < 0, least - bits, bits)

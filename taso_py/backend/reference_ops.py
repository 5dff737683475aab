"""Operators that onnx's evaluator computes otherwise than ONNX says, as nodes of our own domain.

Found by putting every model at hand through it and ONNX Runtime, node by node.  Until opset 13 BatchNormalization is
evaluated as in training; before opset 13 Softmax, LogSoftmax and Hardmax are said over all that follows their axis,
and are evaluated along it alone; LRN fills in as many channels as there are samples; LpNormalization of degree 1 adds
signed numbers up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from taso_py.arrays import Array

DOMAIN = "superopt.reference"
_STANDARD = ("", "ai.onnx")
_INFERENCE_ONLY = 14
"""Opset from which BatchNormalization says whether it is in training."""
_ALONG_AXIS = 13
"""Opset from which softmaxes are along one axis."""


class BatchNormalization(OpRun):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias by channel."""

    op_domain = DOMAIN
    epsilon: float

    def _run(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, **_: Any) -> tuple[Array]:
        numbers = (scale / np.sqrt(variance + self.epsilon), bias, mean)
        factor, shift, centre = (_by_channel(v, x.ndim) for v in numbers)
        return ((x - centre) * factor + shift,)


def _by_channel(values: Array, rank: int) -> Array:
    """One number for each channel, to go with values of that rank; a whole sample's (``spatial`` = 0) as they are."""
    return values.reshape(-1, *(1,) * (rank - 2)) if values.ndim == 1 else values


class LRN(OpRun):
    """x / (bias + alpha / size * the sum of squares of the channels around)**beta."""

    op_domain = DOMAIN
    size: int
    alpha: float
    beta: float
    bias: float

    def _run(self, x: Array, **_: Any) -> tuple[Array]:
        before = (self.size - 1) // 2
        padding = [(0, 0), (before, self.size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
        squares = np.pad(x**2, padding)
        total = sum(squares[:, k : k + x.shape[1]] for k in range(self.size))
        return (x / (self.bias + self.alpha / self.size * total) ** self.beta,)


class LpNormalization(OpRun):
    """x over its p-norm along an axis."""

    op_domain = DOMAIN
    axis: int
    p: int

    def _run(self, x: Array, **_: Any) -> tuple[Array]:
        norm = np.linalg.norm(x, ord=self.p, axis=self.axis, keepdims=True)
        return (np.divide(x, norm, out=np.zeros_like(x), where=norm != 0),)


def _flattened(name: str, rows: Callable[[Array], Array]) -> type[OpRun]:
    def run(self: Any, x: Array, **_: Any) -> tuple[Array]:
        axis = self.axis % max(x.ndim, 1)
        return (rows(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape),)

    return type(name, (OpRun,), {"op_domain": DOMAIN, "_run": run})


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _hardmax(x: Array) -> Array:
    return np.asarray(np.arange(x.shape[1]) == x.argmax(axis=1)[:, None], x.dtype)


_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "BatchNormalization": {"epsilon": 1e-5},
    "LRN": {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, "size": None},
    "LpNormalization": {"axis": -1, "p": 2},
    **{name: {"axis": 1} for name in ("Softmax", "LogSoftmax", "Hardmax")},
}
"""By operator, its attributes and their defaults where it is replaced; None: it must be given."""
OPERATORS: list[type[OpRun]] = [
    BatchNormalization,
    LRN,
    LpNormalization,
    _flattened("Softmax", lambda x: np.exp(_log_softmax(x))),
    _flattened("LogSoftmax", _log_softmax),
    _flattened("Hardmax", _hardmax),
]


def _misread(node: onnx.NodeProto, opset: int) -> bool:
    if node.op_type == "BatchNormalization":
        return opset < _INFERENCE_ONLY and sum(map(bool, node.output)) == 1
    if node.op_type in ("Softmax", "LogSoftmax", "Hardmax"):
        return opset < _ALONG_AXIS
    return node.op_type in ("LRN", "LpNormalization")


def replace_misread(nodes: Iterable[onnx.NodeProto], imports: Iterable[onnx.OperatorSetIdProto]) -> None:
    """Make nodes that would be evaluated otherwise than ONNX says nodes of `OPERATORS`, in place."""
    opset = max((one.version for one in imports if one.domain in _STANDARD), default=0)
    for node in nodes:
        if node.domain in _STANDARD and _misread(node, opset):
            given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            said = {name: given.get(name, default) for name, default in _ATTRIBUTES[node.op_type].items()}
            del node.attribute[:]
            node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in said.items())
            node.domain = DOMAIN

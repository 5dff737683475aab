"""A few table nodes as an ONNX model of their own, for timing a place of a graph or for testing a rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Expression
from taso_py.graph.substitution import substitute
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.onnx_io.onnx_types import onnx_dtype
from taso_py.onnx_io.spell import UsedNames, onnx_node, several, spelling
from taso_py.onnx_io.stored import StoredWeights, normal_values
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Operator

_IR_VERSION = 10
_STORED = 2**14
"""From so many elements on a random weight is read from a file."""


def fragment(
    nodes: Sequence[tuple[int, Node]],
    inputs: Sequence[int],
    outputs: Sequence[int],
    values: Values,
    opset: int,
    *,
    sizes: Mapping[str, int] | None = None,
    weights: Mapping[int, Array] | None = None,
    seed: int = 0,
    fold: bool = False,
    stored: StoredWeights | None = None,
) -> onnx.ModelProto:
    """The model that computes ``outputs`` from ``inputs`` by ``nodes`` (in topological order).

    Graph inputs and outputs are called ``v<id>``; symbols take the ``sizes`` given.  Constant ids that
    ``nodes`` read are initializers: taken from ``weights``, else random, such that roots and quotients stay
    finite.  Nodes that compute constants give way to a random value of their type, with ``fold`` to theirs.
    Large random ones are external data in ``stored``, if it is given, instead (`OSError` when that cannot grow).
    `TypingError` on an opaque node, a symbol without a size, or a form that cannot be written at ``opset``.
    """
    made = _Fragment(nodes, values, opset, sizes or {}, weights or {}, seed=seed, fold=fold, stored=stored)
    return made.build(inputs, outputs)


class _Fragment:
    def __init__(
        self,
        nodes: Sequence[tuple[int, Node]],
        values: Values,
        opset: int,
        sizes: Mapping[str, int],
        weights: Mapping[int, Array],
        *,
        seed: int,
        fold: bool,
        stored: StoredWeights | None,
    ) -> None:
        self.nodes = dict(nodes)
        self.values, self.opset, self.sizes, self.weights, self.fold = values, opset, sizes, weights, fold
        self.stored, self.stored_bytes = stored, 0
        self.random = np.random.default_rng(seed)
        self.names = UsedNames()
        self.found: dict[int, ir.Value] = {}
        self.arrays: dict[int, Array] = {}
        self.initializers: list[ir.Value] = []
        self.written: list[ir.Node] = []

    def build(self, inputs: Sequence[int], outputs: Sequence[int]) -> onnx.ModelProto:
        for value in inputs:
            self.found[value] = self._declared(value)
        for value, node in self.nodes.items():
            if value not in self.found and value not in self.values.constant:
                self._write(value, node)
        for value in outputs:
            self._typed(value)
        graph = ir.Graph(
            [self.found[i] for i in inputs],
            [self._result(i, inputs) for i in outputs],
            nodes=self.written,
            initializers=self.initializers,
            opset_imports={"": self.opset},
            name="fragment",
        )
        return ir.to_proto(ir.Model(graph, ir_version=_IR_VERSION))

    def _result(self, value: int, inputs: Sequence[int]) -> ir.Value:
        if value not in inputs and self.found[value] not in self.initializers:
            return self.found[value]
        # ONNX Runtime wants an output that is computed.
        result = self._declared(value, f"v{value}_out")
        self.written.append(ir.Node("", "Identity", [self.found[value]], outputs=[result]))
        return result

    def _dims(self, value: int) -> tuple[int, ...]:
        return tuple(self._size(d) for d in self.values.types[value].dims)

    def _type(self, value: int) -> TensorType:
        return TensorType(self.values.types[value].dtype, self._dims(value))

    def _size(self, size: Any) -> int:
        concrete = substitute(size, self.sizes)
        if not isinstance(concrete, int):
            raise TypingError(f"size {concrete} has no value: give one to each of its symbols")
        return concrete

    def _declared(self, value: int, name: str = "") -> ir.Value:
        dtype = onnx_dtype(self.values.types[value].dtype)
        chosen = self.names.fresh(name or f"v{value}")
        return ir.Value(name=chosen, type=ir.TensorType(dtype), shape=ir.Shape(self._dims(value)))

    def _typed(self, value: int) -> ir.Value:
        """The ONNX value of an id: an input, a node's output, or else an initializer."""
        if value not in self.found:
            if value not in self.values.constant:
                raise TypingError(f"value {value} is neither an input nor computed by the nodes given")
            self.found[value] = self._read(value) or self._initializer(self._array(value), f"v{value}")
        return self.found[value]

    def _read(self, value: int) -> ir.Value | None:
        """A large random weight, read from the file of such."""
        dims = self._dims(value)
        large = len(dims) > 1 and np.prod(dims) >= _STORED and self.values.types[value].dtype == "float32"
        if self.stored is None or self.fold or value in self.weights or not large:
            return None
        chosen = self.names.fresh(f"v{value}")
        tensor, self.stored_bytes = self.stored.tensor(chosen, dims, self.stored_bytes)
        return self._constant_value(tensor, chosen)

    def _initializer(self, array: Array, name: str) -> ir.Value:
        chosen = self.names.fresh(name)
        return self._constant_value(ir.Tensor(np.asarray(array, order="C"), name=chosen), chosen)

    def _constant_value(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        value = ir.Value(name=name, const_value=tensor)
        self.initializers.append(value)
        return value

    def _array(self, value: int) -> Array:
        if value not in self.arrays:
            self.arrays[value] = self._constant(value)
        return self.arrays[value]

    def _constant(self, value: int) -> Array:
        given = self.weights.get(value)
        if given is not None:
            return given
        node, type_ = self.nodes.get(value), self._type(value)
        if node is None or not self.fold:
            return self._random(type_)
        parts = [i for i in node.inputs if i is not None]
        operands = [self._array(i) for i in parts]
        operator = self._operator(node)
        return evaluate(operator, operands, [self._type(i) for i in parts]).astype(np.dtype(type_.dtype))

    def _random(self, type_: TensorType) -> Array:
        shape = tuple(d for d in type_.dims if isinstance(d, int))
        dtype = np.dtype(type_.dtype).type
        if not issubclass(dtype, np.floating):
            return self.random.integers(0, 2, shape).astype(dtype)
        if len(shape) <= 1:  # biases, scales, variances: keep roots and quotients finite
            return self.random.uniform(0.5, 1.5, shape).astype(dtype)
        fan_in = max(1, int(np.prod(shape)) // max(shape))
        return np.asarray(normal_values(self.random, shape, dtype) * dtype(fan_in**-0.5))

    def _operator(self, node: Node) -> Operator:
        if not isinstance(node.operator, Operator):
            raise TypingError(f"{node.operator} is opaque: cut the fragment there")
        return self._with_sizes(node.operator)

    def _with_sizes(self, operator: Operator) -> Operator:
        changed: dict[str, Any] = {}
        for f in fields(operator):
            old = getattr(operator, f.name)
            if isinstance(old, Expression):
                changed[f.name] = self._size(old)
            elif isinstance(old, tuple) and any(isinstance(v, Expression) for v in old):
                changed[f.name] = tuple(self._size(v) if isinstance(v, Expression) else v for v in old)
        return replace(operator, **changed) if changed else operator

    def _write(self, value: int, node: Node) -> None:
        operator = self._operator(node)
        inputs = [i for i in node.inputs if i is not None]
        writing = spelling(operator, self.opset, [self._type(i) for i in inputs])
        siblings = {operator.port: value}
        if operator.several:
            siblings = self._siblings(node) | siblings
        results: list[ir.Value] = []
        for port in range(max(operator.at_port(k).least_outputs for k in siblings)):
            if port in siblings:
                self.found[siblings[port]] = self._declared(siblings[port])
                results.append(self.found[siblings[port]])
            else:
                results.append(ir.Value(name=self.names.fresh(f"v{value}_{port}")))
        operands = [None if i is None else self._typed(i) for i in node.inputs]
        self.written.append(
            onnx_node(writing, operands, lambda a: self._initializer(a, f"v{value}_constant"), results, f"n{value}")
        )

    def _siblings(self, node: Node) -> dict[int, int]:
        """The outputs of the same ONNX node among the nodes: output number -> id."""
        found: dict[int, int] = {}
        for value, other in self.nodes.items():
            if not several(other.operator) or other.inputs != node.inputs or value in self.found:
                continue
            if other.operator.at_port(0) == node.operator.at_port(0):
                found.setdefault(other.operator.port, value)
        return found

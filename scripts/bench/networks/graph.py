"""A small writer for ONNX graphs: opset 17, IR version 8, weights as initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

OPSET = 17
IR_VERSION = 8


class GraphWriter:
    """Collects inputs, nodes and weights in the order in which they are written.

    Values are named by the node that makes them, so a model reads like its source.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}

    def input(self, name: str, shape: Sequence[int], elem_type: int = TensorProto.FLOAT) -> str:
        """Declare a graph input and return its name."""
        self._inputs.append(helper.make_tensor_value_info(name, elem_type, list(shape)))
        return name

    def weight(self, name: str, value: Array) -> str:
        """Declare an initializer and return its name; the same name twice is an error."""
        if name in self._weights:
            raise ValueError(f"initializer {name!r} is declared twice in {self._name}; rename one")
        self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def scalar(self, name: str, value: float) -> str:
        """Declare a float32 initializer of rank 0."""
        return self.weight(name, np.array(value, np.float32))

    def op(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output, named after the node, and return that output."""
        self._nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def split(self, name: str, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Append a Split into ``sizes`` along ``axis`` and return its outputs."""
        outputs = [f"{name}.{i}" for i in range(len(sizes))]
        lengths = self.weight(f"{name}.sizes", np.asarray(sizes, np.int64))
        self._nodes.append(helper.make_node("Split", [value, lengths], outputs, name=name, axis=axis))
        return outputs

    def model(self, outputs: Mapping[str, Sequence[int]], opset: int = OPSET) -> onnx.ModelProto:
        """The finished float32 model; ``outputs`` gives the shape of each output value."""
        opsets = [helper.make_opsetid("", opset)]
        declared = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs.items()]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, declared, list(self._weights.values()))
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=max(IR_VERSION, helper.find_min_ir_version_for(opsets)),
            producer_name="superopt-networks",
        )

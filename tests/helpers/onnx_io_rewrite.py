"""Rewriting a loaded model by hand, as the search does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from taso_py.arrays import Array
from taso_py.graph.table import Node, Table
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.ops import OPERATORS
from taso_py.ops.layout import Split
from taso_py.ops.operator import Operator
from tests.helpers.onnx_io_models import model, node, run, value


def normal(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def op(name: str, **fields: object) -> Operator:
    return OPERATORS[name](**fields)


def new(loaded: Loaded, operator: Operator, *inputs: int) -> int:
    types = [loaded.values.types[i] for i in inputs]
    return loaded.values.intern(Node(operator, inputs), operator.infer(*types))


class Rewrite:
    """Builds new nodes on a loaded model and rebinds values to them, as the search does."""

    def __init__(self, proto: onnx.ModelProto, *, freeze: bool = False) -> None:
        self.loaded = load(proto, freeze_initializers=freeze)
        self.nodes: dict[int, Node] = {}

    def __getitem__(self, name: str) -> int:
        return self.loaded.ids[name]

    def add(self, operator: Operator, *inputs: int) -> int:
        result = new(self.loaded, operator, *inputs)
        self.nodes[result] = Node(operator, inputs)
        return result

    def bind(self, name: str, operator: Operator, *inputs: int) -> None:
        self.nodes[self[name]] = Node(operator, inputs)

    def model(self) -> Table:
        return self.loaded.table.rebind(self.nodes)

    def export(self) -> onnx.ModelProto:
        """The rewritten model; the contract holds and another export gives the same bytes."""
        exported = export(self.loaded, self.model())
        assert check_contract(self.loaded.proto, exported) == []
        content = serialize(exported)
        assert serialize(export(self.loaded, self.model())) == content
        onnx.checker.check_model(content)
        return onnx.ModelProto.FromString(content)


def same(before: onnx.ModelProto, after: onnx.ModelProto, feeds: Mapping[str, Array], tolerance: float = 1e-6) -> None:
    for a, b in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


def names(proto: onnx.ModelProto) -> set[str]:
    return {t.name for t in proto.graph.initializer}


def siblings() -> onnx.ModelProto:
    """x@a and x@b, each used by a node of its own; some metadata on both."""
    nodes = [
        node("MatMul", "x a", "p", name="first", doc_string="one"),
        node("MatMul", "x b", "q", name="second"),
        node("Relu", "p", "y", name="relu"),
        node("Neg", "q", "z", name="neg"),
    ]
    proto = model(
        nodes,
        [value("x", ["n", 4])],
        [value("y", ["n", 3]), value("z", ["n", 5])],
        [numpy_helper.from_array(normal(4, 3), "a"), numpy_helper.from_array(normal(4, 5), "b")],
    )
    proto.graph.value_info.append(value("p", ["n", 3]))
    return proto


def merged() -> Rewrite:
    r = Rewrite(siblings())
    wide = r.add(op("MatMul"), r["x"], r.add(op("Concat", axis=1), r["a"], r["b"]))
    r.bind("p", Split(1, (3, 5), 0), wide)
    r.bind("q", Split(1, (3, 5), 1), wide)
    return r


def chain() -> onnx.ModelProto:
    nodes = [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Neg", "b", "c"), node("Exp", "c", "y")]
    return model(nodes, [value("x", [3])], [value("y", [3])])

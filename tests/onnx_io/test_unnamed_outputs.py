"""Unnamed outputs behind the last named one stay: ONNX Runtime counts those of a call."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser

import taso_py
from tests.helpers.onnx_io_models import run

CALL = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
agraph (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Relu(a) y, OTHER = local.two(b) }
<domain: "local", opset_import: ["" : 17]> two (x) => (p, q) { p = Neg(x) q = Exp(x) }"""


def unnamed(nodes: list[onnx.NodeProto]) -> None:
    """OTHER, which the parser needs a name for, has none."""
    for node in nodes:
        node.output[:] = ["" if name == "OTHER" else name for name in node.output]


def test_a_rewritten_model_has_all_outputs_of_its_calls() -> None:
    proto = onnx.parser.parse_model(CALL)
    unnamed(list(proto.graph.node))
    result = taso_py.optimize(proto, apply="all", race=False, strict=True, cache=None)
    assert sum(n.op_type == "Relu" for n in result.model.graph.node) == 1
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)}
    for one, other in zip(run(proto, feeds), run(result.model, feeds), strict=True):
        np.testing.assert_array_equal(one, other)

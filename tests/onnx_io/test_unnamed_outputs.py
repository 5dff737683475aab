"""Unnamed outputs behind the last named one stay: ONNX Runtime counts those of a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

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


BESIDE = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
agraph (float[N,16] x, bool flag) => (float[N,32] y, float[M,32] z) {
  m = MatMul(x, w) a = Relu(m) b = Relu(a) y, OTHER = local.two(b)
  z = If (flag) <
    then_branch = one () => (float[A,32] t) { t, OTHER = local.two(b) },
    else_branch = two () => (float[B,32] e) { e = Identity(b) }> }
<domain: "local", opset_import: ["" : 17]> two (x) => (p, q) { p = Neg(x) q = Exp(x) }"""


def test_calls_have_all_their_outputs_where_weights_lie_beside(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(BESIDE)
    weights = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    branch = next(n for n in proto.graph.node if n.op_type == "If").attribute[0].g
    for nodes in (proto.graph.node, branch.node):
        unnamed(list(nodes))
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    result = taso_py.optimize(path, apply="all", race=False, strict=True, cache=None)
    assert sum(n.op_type == "Relu" for n in result.model.graph.node) == 1
    result.save(out)
    assert (tmp_path / "o.onnx.data").exists()
    feeds = {"x": np.ones((2, 16), np.float32), "flag": np.array(True)}
    for one, other in zip(run(onnx.load(path), feeds), run(onnx.load(out), feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)

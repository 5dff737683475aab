"""Graphs with their composite operators written out: what rules that know none of them can do there."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest

import taso_py
from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.search.lowering import lowered
from taso_py.search.state import State
from tests.helpers.graphs import model, rewriter, running, view_of

BLOCK = """agraph (float[1,4,6,6] x) => (float[1,4,6,6] y) {
  c = Conv<pads=[1,1,1,1]>(x, K) n = BatchNormalization(c, s1, b1, m1, v1)
  d = Conv(x, P) o = BatchNormalization(d, s2, b2, m2, v2)
  i = BatchNormalization(x, s3, b3, m3, v3)
  p = Add(n, o) q = Add(i, p) y = Relu(q)}"""
"""A block as RepVGG is trained: two convolutions and the image itself, each normalised."""
STATISTICS = {f"{name}{k}": (4,) for name in "sbmv" for k in (1, 2, 3)}

PLAIN_RULES = """
rule scale-into-kernel:
  Mul(Conv(x, w, strides=s, pads=p, group=g), a)
  => Conv(x, Mul(w, Reshape(a, shape=[o, 1, 1, 1])), strides=s, pads=p, group=g)
  for x[n, c, h, v], w[o, i, k, l], a[o, 1, 1]

rule branches:
  Add(Conv(x, w), Conv(x, v, pads=[1, 1, 1, 1]))
  => Conv(x, Add(v, Pad(w, pads=[0, 0, 1, 1, 0, 0, 1, 1])), pads=[1, 1, 1, 1])
  for x[n, c, h, u], w[o, c, 1, 1], v[o, c, 3, 3]

rule image-as-branch:
  Add(Conv(x, w, pads=[1, 1, 1, 1]), Mul(x, a))
  => let k = Pad(Reshape(Eye(size=c), shape=[c, c, 1, 1]), pads=[0, 0, 1, 1, 0, 0, 1, 1]) in
     Conv(x, Add(w, Mul(k, a)), pads=[1, 1, 1, 1])
  for x[n, c, h, u], w[c, c, 3, 3], a[c, 1, 1]
"""


def block() -> onnx.ModelProto:
    proto = model(BLOCK, K=(4, 4, 3, 3), P=(4, 4, 1, 1), **STATISTICS)
    for tensor in proto.graph.initializer:
        if tensor.name.startswith("v"):
            values = np.abs(onnx.numpy_helper.to_array(tensor)) + np.float32(0.5)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return proto


def written_out(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, State]:
    loaded = load(proto)
    _, canonical = rewriter()
    view = view_of(loaded, canonical)
    state = lowered(view, load_library().canonical, Roofline({}), time.monotonic() + 60)
    assert state is not None
    return onnx.load_from_string(serialize(export(loaded, state.table))), state


def evaluated(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})[0])


def test_normalisations_become_factors_and_what_is_added_comes_last() -> None:
    out, state = written_out(block())
    assert running(state.table) == Counter({"Sum": 1, "Add": 1, "Conv": 2, "Mul": 3, "Relu": 1})
    producers = {o: n for n in out.graph.node for o in n.output}
    (relu,) = (n for n in out.graph.node if n.op_type == "Relu")
    last = producers[relu.input[0]]
    assert [i in producers for i in last.input].count(False) == 1, "the one sum with a constant is the last"
    x = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)
    np.testing.assert_allclose(evaluated(out, x), evaluated(block(), x), rtol=1e-4, atol=1e-5)


def test_nothing_to_write_out() -> None:
    loaded = load(model("agraph (float[2,3] x) => (float[2,3] y) {y = Relu(x)}"))
    _, canonical = rewriter()
    view = view_of(loaded, canonical)
    assert lowered(view, load_library().canonical, Roofline({}), time.monotonic() + 60) is None


def test_three_branches_become_one_convolution_by_rules_without_composites(tmp_path: Path) -> None:
    rules = tmp_path / "plain.rules"
    rules.write_text(PLAIN_RULES)
    result = taso_py.optimize(block(), rules=(rules,), race=False, cache=None)
    assert Counter(n.op_type for n in result.model.graph.node) == Counter({"Conv": 1, "Relu": 1})
    assert {r.name for r in result.rules} >= {"batchnorm-affine", "scale-into-kernel", "branches", "image-as-branch"}
    result.save(tmp_path / "out.onnx")
    result.save_certificate(tmp_path / "steps.json")
    certified = taso_py.certify(block(), tmp_path / "out.onnx", tmp_path / "steps.json")
    assert certified.largest_ulp <= 1
    assert {law.name for law in certified.rules} >= {"batchnorm-affine", "channel-shift-last", "image-as-branch"}


@pytest.mark.parametrize("rules", [None, ()])
def test_the_library_and_no_rules_do_not_write_anything_out(rules: tuple[Path, ...] | None) -> None:
    result = taso_py.optimize(block(), rules=rules, race=False, cache=None)
    assert "batchnorm-affine" not in {r.name for r in result.rules}

"""What ONNX Runtime fuses is one kernel to the roofline too, and only that."""

from __future__ import annotations

import onnx
import onnxruntime as ort
import pytest

from taso_py.cost.fusions import fused
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table
from taso_py.onnx_io.load import Loaded, load
from tests.helpers.graphs import model, rewriter, view_of

NUMBERS = "<float h={0.5}, float[1] s={1.4142135}, float r={0.70710678}, float one={1.0}, float a={1.702}>"
FORMS = {
    "factor-first": ("d = Div(x, s) e = Erf(d) t = Add(e, one) p = Mul(x, h) y = Mul(p, t)", 4),
    "factor-first-turned": ("d = Div(x, s) e = Erf(d) t = Add(one, e) p = Mul(h, x) y = Mul(t, p)", 4),
    "factor-last": ("d = Div(x, s) e = Erf(d) t = Add(e, one) p = Mul(x, t) y = Mul(p, h)", 4),
    "factor-last-turned": ("d = Div(x, s) e = Erf(d) t = Add(e, one) p = Mul(t, x) y = Mul(h, p)", 4),
    "factor-on-the-sum": ("d = Div(x, s) e = Erf(d) t = Add(e, one) p = Mul(t, h) y = Mul(x, p)", 0),
    "without-a-half": ("d = Div(x, s) e = Erf(d) t = Add(e, one) y = Mul(x, t)", 0),
    "by-a-product": ("d = Mul(x, r) e = Erf(d) t = Add(e, one) p = Mul(x, t) y = Mul(p, h)", 0),
    "of-another": ("w = Neg(x) d = Div(w, s) e = Erf(d) t = Add(e, one) p = Mul(x, t) y = Mul(p, h)", 0),
    "read-elsewhere": ("d = Div(x, s) e = Erf(d) t = Add(e, one) p = Mul(x, t) q = Mul(p, h) y = Sub(q, e)", 0),
    "swish": ("d = Sigmoid(x) y = Mul(x, d)", 1),
    "swish-turned": ("d = Sigmoid(x) y = Mul(d, x)", 1),
    "quick": ("q = Mul(x, a) d = Sigmoid(q) y = Mul(x, d)", 2),
    "gate": ("w = Neg(x) d = Sigmoid(w) y = Mul(x, d)", 0),
    "gate-read-elsewhere": ("d = Sigmoid(x) p = Mul(x, d) y = Sub(p, d)", 0),
}


def graph(body: str, width: int = 16) -> onnx.ModelProto:
    return model(f"g (float[2, 8, {width}] x) => (float[2, 8, {width}] y) {NUMBERS} {{ {body} }}")


@pytest.mark.parametrize(("body", "inner"), FORMS.values(), ids=FORMS)
def test_what_is_fused_is_what_onnx_runtime_fuses(body: str, inner: int, tmp_path: object) -> None:
    proto = graph(body)
    assert len(fused(load(proto).table)) == inner
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = f"{tmp_path}/optimised.onnx", 3
    ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kernels = len(onnx.load(f"{tmp_path}/optimised.onnx").graph.node)
    assert kernels == len(proto.graph.node) - inner


def test_the_roofline_counts_a_large_fused_activation_once_and_sees_it_break() -> None:
    loaded = load(graph(FORMS["factor-last"][0], width=4096))
    roofline = Roofline({})
    whole, single = roofline.total(loaded.table), roofline.total(load(graph("y = Mul(x, h)", width=4096)).table)
    assert whole == pytest.approx(single)
    after = broken(loaded)
    assert roofline.difference(loaded.table, after) > 2 * single
    assert roofline.total(after) == pytest.approx(whole + roofline.difference(loaded.table, after))


def test_small_activations_cost_their_calls_so_that_merging_them_step_by_step_gains() -> None:
    loaded = load(graph(FORMS["factor-last"][0]))
    roofline = Roofline({})
    assert roofline.total(loaded.table) > 4 * roofline.machine.call
    assert roofline.difference(loaded.table, broken(loaded)) == pytest.approx(0.0)


def broken(loaded: Loaded) -> Table:
    """The half moved to where ONNX Runtime does not look for it."""
    rules, canonical = rewriter("rule halved-first: Mul(Mul(x, y), k) => Mul(x, Mul(y, k)) when number(k)")
    view = view_of(loaded, canonical)
    moved = rules.apply(view, [m for found in rules.all_matches(view).values() for m in found], 1)
    assert moved is not None
    return moved.view.table

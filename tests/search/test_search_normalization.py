"""Normalisations and Gelus, however a framework spells them, get the form of which ONNX Runtime makes one kernel."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
import pytest

from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.search.bundles import BUNDLES
from tests.helpers.graphs import model, rewriter, together, view_of

SHAPES = {2: "5,16", 3: "2,5,16", 4: "2,3,5,16"}
KERAS = """agraph (float[{s}] x) => (float[{s}] y) {{
  m = ReduceMean<axes = [-1]>(x) n = Neg(m) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q)
  e = Constant<value = float {{0.001}}>() w = Add(v, e) s = Sqrt(w) r = Reciprocal(s) g = Mul(r, t)
  a = Mul(x, g) b = Mul(n, g) c = Add(b, u) y = Add(a, c) }}"""
KERAS_LESS = KERAS.replace("n = Neg(m) ", "").replace("b = Mul(n, g) c = Add(b, u)", "b = Mul(m, g) c = Sub(u, b)")
POOLED = KERAS.replace("ReduceMean<axes = [-1]>", "GlobalAveragePool")
FLAX = """agraph (float[{s}] x) => (float[{s}] y) {{
  m = ReduceMean<axes = [{a}]>(x) d = Sub(x, m) q = Mul(x, x) v = ReduceMean<axes = [{a}]>(q) o = Mul(m, m)
  p = Sub(v, o) zero = Constant<value = float {{0.0}}>() z = Max(p, zero)
  e = Constant<value = float {{0.000001}}>() w = Add(z, e) s = Sqrt(w) a = Div(d, s) b = Mul(a, t) y = Add(b, u) }}"""
FLAX_FACTORS = FLAX.replace("a = Div(d, s) b = Mul(a, t)", "r = Reciprocal(s) g = Mul(r, t) b = Mul(d, g)")
SQUARES = """agraph (float[{s}] x) => (float[{s}] y) {{
  q = Mul(x, x) v = ReduceMean<axes = [-1]>(q) e = Constant<value = float {{0.000001}}>() w = Add(v, e) s = Sqrt(w)
  r = Reciprocal(s) a = Mul(x, r) y = Mul(a, t) }}"""
CHANNELS = """agraph (float[2,16,5,7] x) => (float[2,16,5,7] y) {{
  m = ReduceMean<axes = [1]>(x) d = Sub(x, m) two = Constant<value = float {{2.0}}>() q = {}
  v = ReduceMean<axes = [1]>(q) e = Constant<value = float {{0.000001}}>() w = Add(v, e) s = Sqrt(w)
  a = Div(d, s) b = Mul(t, a) y = Add(b, u) }}"""
HALF, ONE = "h = Constant<value = float {0.5}>()", "one = Constant<value = float {1.0}>()"
ROOT = "c = Constant<value = float {0.70710677}>()"
GELU = f"agraph (float[4,16] x) => (float[4,16] y) {{ {HALF} {ONE} {ROOT} "
GELUS = [
    GELU + "a = Mul(h, x) b = Mul(x, c) f = Erf(b) g = Add(one, f) y = Mul(a, g) }",
    GELU + "b = Mul(x, c) f = Erf(b) g = Add(f, one) a = Mul(x, g) y = Mul(a, h) }",
    GELU + "n = Neg(c) a = Mul(h, x) b = Mul(x, n) f = Erf(b) g = Sub(one, f) y = Mul(a, g) }",
]


def kernels(proto: onnx.ModelProto, folder: Path, bundle: str = "normalisations of rows") -> Counter[str]:
    """The operators that ONNX Runtime runs after the bundle's rules."""
    loaded = load(proto)
    rules, canonical = rewriter()
    table = together(rules, view_of(loaded, canonical), BUNDLES[bundle]).table
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(serialize(export(loaded, table)), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimised.onnx").graph.node)


LAYERS = [(text, rank) for text in (KERAS, KERAS_LESS) for rank in SHAPES]
LAYERS += [
    (text, rank) for text in (FLAX, FLAX_FACTORS) for rank in (2, 3)
]  # of more axes it is proved where it stands


@pytest.mark.parametrize(("text", "rank"), LAYERS)
@pytest.mark.parametrize("flat", [True, False], ids=["one axis", "all axes"])
def test_a_layer_normalisation_is_one_kernel(text: str, flat: bool, rank: int, tmp_path: Path) -> None:
    row = (16,) if flat else (*(1 for _ in range(rank - 1)), 16)
    proto = model(text.format(s=SHAPES[rank], a=rank - 1), t=row, u=row)
    assert kernels(proto, tmp_path) == {"LayerNormalization": 1}


def test_a_global_mean_of_a_signal_is_a_mean(tmp_path: Path) -> None:
    proto = model(POOLED.format(s=SHAPES[3]), t=(1, 1, 16), u=(1, 1, 16))
    assert kernels(proto, tmp_path) == {"LayerNormalization": 1}


@pytest.mark.parametrize("rank", SHAPES)
def test_a_normalisation_by_squares_is_one_kernel(rank: int, tmp_path: Path) -> None:
    assert kernels(model(SQUARES.format(s=SHAPES[rank]), t=(16,)), tmp_path) == {"SimplifiedLayerNormalization": 1}


@pytest.mark.parametrize("square", ["Pow(d, two)", "Mul(d, d)"])
@pytest.mark.parametrize("channels", [(16, 1, 1), (1, 16, 1, 1)], ids=["three axes", "four axes"])
def test_channels_are_normalised_where_they_come_last(square: str, channels: tuple[int, ...], tmp_path: Path) -> None:
    """LayerNorm2d, as image restoration and segmentation have it."""
    proto = model(CHANNELS.format(square), t=channels, u=channels)
    found = kernels(proto, tmp_path, "normalisations of channels")
    assert found == {"Transpose": 2, "LayerNormalization": 1}


@pytest.mark.parametrize("text", GELUS, ids=["half first", "half last", "complement"])
def test_a_gelu_is_one_kernel(text: str, tmp_path: Path) -> None:
    assert kernels(model(text), tmp_path) == {"Gelu": 1}

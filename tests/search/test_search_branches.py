"""Branches of re-parameterised blocks become one convolution by one bundle, without a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import onnx
import pytest

from scripts.bench.networks.reparam import mobileone_s0, repvgg_a0
from taso_py.graph.table import Table
from tests.helpers.bundles import after
from tests.helpers.graphs import model

BUNDLE = "branches of convolutions"
CHANNELS = {"t": (6,), "u": (6,), "m": (6,)}


def kinds(table: Table) -> Counter[str]:
    return Counter(n.operator.onnx for v, n in table.order() if v not in table.values.constant)


@pytest.mark.parametrize("network", [mobileone_s0, repvgg_a0])
def test_training_blocks(network: Callable[..., onnx.ModelProto]) -> None:
    made = kinds(after(network(width=0.25, image=32, blocks=(1, 2, 2, 1)), BUNDLE))
    assert not {"BatchNormalization", "Add"} & set(made)
    assert made["Conv"] == made["Relu"]


MIXER = """agraph (float[1,6,8,8] x) => (float[1,6,8,8] y) {
  v = Mul(q, q) a = Conv<pads = [1, 1, 1, 1], group = 6>(x, k) b = Conv<group = 6>(x, l)
  c = BatchNormalization(x, t, u, m, v) d = Add(a, b) e = Add(d, c) f = BatchNormalization(x, u, t, m, v)
  g = Sub(e, f) h = Mul(g, s) y = Add(x, h) }"""


def test_a_token_mixer_less_its_norm_times_a_layer_scale() -> None:
    """FastViT: x + scale * (mixer(x) - norm(x)), all of it one depthwise convolution."""
    proto = model(MIXER, k=(6, 1, 3, 3), l=(6, 1, 1, 1), q=(6,), s=(6, 1, 1), **CHANNELS)
    assert kinds(after(proto, BUNDLE)) == {"Conv": 1}


GELU = """agraph (float[1,6,8,8] x) => (float[1,6,8,8] y) {{
  a = Conv(x, k) b = Conv(x, l) c = Add(a, b) r = Constant<value_float = 1.4142135>() d = {}(c, r) e = Erf(d)
  o = Constant<value_float = 1.0>() f = Add(e, o) g = Mul(c, f) h = Constant<value_float = 0.5>() y = Mul(g, h) }}"""


@pytest.mark.parametrize("scaling", ["Mul", "Div"])
def test_a_gelu_behind_branches_stays_whole(scaling: str) -> None:
    """A number that goes into the convolution would make two of it: one of each reader."""
    made = kinds(after(model(GELU.format(scaling), k=(6, 6, 1, 1), l=(6, 6, 1, 1)), BUNDLE))
    assert made["Conv"] == 1
    assert made["Erf"] == 1
    assert made.total() == 6


DIVERSE = """agraph (float[1,6,8,8] x, float[1,6,8,8] z) => (float[1,6,8,8] y) {{
  v = Mul(q, q) a = Conv<pads = [0, 1, 0, 1]>(x, k) b = Add(a, z) c = Conv<pads = [1, 1, 1, 1]>(x, l) d = Add(b, c)
  e = Conv(x, n) f = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = {}>(e)
  {} i = Conv<pads = [1, 0, 1, 0]>(x, p) y = Add(h, i) }}"""
KERNELS = {"k": (6, 6, 1, 3), "l": (6, 6, 3, 3), "n": (6, 6, 1, 1), "p": (6, 6, 3, 1)}


@pytest.mark.parametrize("norm", ["g = BatchNormalization(f, t, u, m, v) h = Add(d, g)", "h = Add(d, f)"])
def test_kernels_of_all_sizes_and_a_mean_in_one_sum(norm: str) -> None:
    """Diverse Branch Block (Ding et al., CVPR 2021), with something else between its branches."""
    proto = model(DIVERSE.format(1, norm), q=(6,), **KERNELS, **CHANNELS)
    assert kinds(after(proto, BUNDLE)) == {"Conv": 1, "Add": 1}


def test_a_mean_that_leaves_out_the_padding_is_no_kernel() -> None:
    proto = model(DIVERSE.format(0, "h = Add(d, f)"), q=(6,), **KERNELS, **CHANNELS)
    assert kinds(after(proto, BUNDLE)) == {"Conv": 3, "AveragePool": 1, "Add": 3}

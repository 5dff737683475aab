"""What a layer's kernels are called, and what it saves."""

from __future__ import annotations

import onnx
import pytest

from taso_py.approximate.layers import Layer, approximate_nodes, bare_name, gains, seconds_of
from taso_py.backend.kernels import Kernel

CONV = Layer("conv1", "Conv", 300, frozenset({"conv1", "c1", "r1"}))
HEAD = Layer("head", "Gemm", 100, frozenset({"head", "y"}))


def kernel(name: str, seconds: float) -> Kernel:
    return Kernel(name, "", seconds, 1)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("r1_nchwc", "r1"),
        ("conv1_token_14", "conv1"),
        ("conv1_quant", "conv1"),
        ("head_MatMul_quant", "head"),
        ("conv_quantum", "conv_quantum"),
        ("_quant", "_quant"),
        ("head", "head"),
    ],
)
def test_names_without_what_onnx_runtime_adds(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_a_fused_kernel_is_called_after_the_last_output() -> None:
    kernels = (kernel("r1_nchwc", 0.5), kernel("other", 9), kernel("head", 0.25))
    assert seconds_of((CONV, HEAD), kernels) == {"conv1": 0.5, "head": 0.25}


def test_a_layer_that_is_called_like_a_part_of_another_is_told_from_it() -> None:
    layers = (Layer("fc", "MatMul", 1, frozenset({"fc"})), Layer("fc_MatMul", "MatMul", 1, frozenset({"fc_MatMul"})))
    kernels = (
        kernel("fc", 0.5),
        kernel("fc_MatMul", 0.25),
        kernel("fc_MatMul_quant", 0.125),
        kernel("fc_token_3", 2.0),
    )
    assert seconds_of(layers, kernels) == {"fc": 2.5, "fc_MatMul": 0.375}
    assert seconds_of(layers[1:], (kernel("fc_token_3", 1.0),)) == {"fc_MatMul": 1.0}


def test_a_kernel_that_may_be_of_two_layers_is_of_none() -> None:
    layers = tuple(Layer(name, "Conv", 1, frozenset({name})) for name in ("a_token_1", "a_token_2"))
    assert seconds_of(layers, (kernel("a_nchwc", 1.0),)) == {}


def test_a_layer_saves_what_its_kernels_do_and_may_lose() -> None:
    before = (kernel("r1_nchwc", 0.5), kernel("head", 0.25))
    after = (kernel("conv1_token_2", 0.125), kernel("head", 0.5), kernel("x_QuantizeLinear", 0.0625))
    assert gains((CONV, HEAD), before, after) == {"conv1": 0.375, "head": -0.25}


def test_where_a_kernel_cannot_be_told_weights_share_what_the_model_saves() -> None:
    before, after = (kernel("strange", 1.0),), (kernel("stranger", 0.5),)
    assert gains((CONV, HEAD), before, after) == {"conv1": 0.375, "head": 0.125}


_ROUNDED = "r = QuantizeLinear(t, s, z) e = DequantizeLinear(r, s, z)"
_IN_FUNCTION = "j = QuantizeLinear(v, h, i) k = DequantizeLinear(j, h, i)"


def network(branch: str, function: str) -> onnx.ModelProto:
    """Rounded to 8 bits itself, then whatever a branch and a function do."""
    text = f"""<ir_version: 8, opset_import: ["": 17, "local": 1]>
    agraph (float[4] x, bool c) => (float[4] y) <float s = {{0.1}}, uint8 z = {{0}}> {{
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        t = Tanh(d)
        b = If (c) <
            then_branch = one () => (float[4] o) {{ {branch} o = Neg(e) }},
            else_branch = other () => (float[4] p) {{ p = Abs(t) }}
        >
        y = local.f(b)
    }}
    <domain: "local", opset_import: ["": 17]>
    f (v) => (w) {{
        h = Constant<value_float: float = 0.1>() i = Constant<value = uint8 {{0}}>()
        {function} w = Exp(k)
    }}"""
    return onnx.parser.parse_model(text)


def test_nodes_in_branches_and_functions_are_named_and_those_that_the_exact_model_has_are_not() -> None:
    exact = network("e = Identity(t)", "k = Identity(v)")
    model = network(_ROUNDED, _IN_FUNCTION)
    assert approximate_nodes(model, exact) == ("t", "o", "w")
    assert approximate_nodes(network(_ROUNDED, "k = Identity(v)"), exact) == ("t", "o")
    assert approximate_nodes(model, model) == ()

"""What a layer's kernels are called, and what it saves."""

from __future__ import annotations

import pytest

from taso_py.approximate.layers import Layer, bare_name, gains, seconds_of
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


def test_a_layer_saves_what_its_kernels_do_and_may_lose() -> None:
    before = (kernel("r1_nchwc", 0.5), kernel("head", 0.25))
    after = (kernel("conv1_token_2", 0.125), kernel("head", 0.5), kernel("x_QuantizeLinear", 0.0625))
    assert gains((CONV, HEAD), before, after) == {"conv1": 0.375, "head": -0.25}


def test_where_a_kernel_cannot_be_told_weights_share_what_the_model_saves() -> None:
    before, after = (kernel("strange", 1.0),), (kernel("stranger", 0.5),)
    assert gains((CONV, HEAD), before, after) == {"conv1": 0.375, "head": 0.125}

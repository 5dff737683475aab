"""Kernels that multiply and add, by their names in ONNX Runtime: what rewriting around them cannot save."""

from __future__ import annotations

from taso_py.result import ModelProfile

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
PRODUCTS = _CONVOLUTIONS | {"MatMul", "Gemm", "Einsum"}
_FUSED = ("Nhwc", "Fused", "Quick")
"""What ONNX Runtime writes before the name of an operator that it joined with others, the outermost first."""


def bare(kernel: str) -> str:
    """The operator that a kernel was before others were joined with it."""
    for prefix in _FUSED:
        kernel = kernel.removeprefix(prefix)
    return kernel


def products_words(profile: ModelProfile) -> str:
    """How many products a model has, and of which kind."""
    count = profile.product_kernels
    convolutions = sum(row.kernels for row in profile.operators if bare(row.operator) in _CONVOLUTIONS)
    if 0 < convolutions < count:
        return f"{count} convolutions and matrix products"
    kind = "convolution" if convolutions else "matrix product"
    return f"one {kind}" if count == 1 else f"{count} {kind}s"

"""A generator of images: the residual network of SNGAN, which enlarges by repeating pixels."""

from __future__ import annotations

import numpy as np
import onnx

from .convolution import random_conv_norm, random_linear, random_norm, write_conv, write_conv_norm, write_norm
from .graph import GraphWriter


def sngan(*, channels: int = 64, latent: int = 128, base: int = 4, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """The generator of SNGAN (Miyato et al., ICLR 2018): ``[batch, latent]`` to ``[batch, 3, 32 base, 32 base]``.

    Its shortcuts repeat each pixel four times and then convolve pixel by pixel, as its authors wrote them.
    """
    rng = np.random.default_rng(seed)
    graph = GraphWriter("sngan")
    width = 16 * channels
    layer = random_linear(rng, latent, width * base * base)
    weight, bias = graph.weight("dense.weight", layer.weight), graph.weight("dense.bias", layer.bias)
    flat = graph.op("Gemm", "dense", graph.input("noise", (batch, latent)), weight, bias, transB=1)
    value = graph.op("Reshape", "grid", flat, graph.weight("grid.shape", np.array([batch, width, base, base])))
    scales = graph.weight("scales", np.array([1, 1, 2, 2], np.float32))

    def enlarged(name: str, small: str) -> str:
        return graph.op(
            "Resize", name, small, "", scales,
            mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip

    for i, divisor in enumerate((1, 2, 4, 8, 16)):
        narrow, scope = 16 * channels // divisor, f"block{i}"
        active = graph.op("Relu", f"{scope}.relu1", write_norm(graph, f"{scope}.bn1", value, random_norm(rng, width)))
        first = random_conv_norm(rng, (width, narrow), 3)
        inner = write_conv_norm(graph, f"{scope}.1", enlarged(f"{scope}.resize", active), first)
        second = random_conv_norm(rng, (narrow, narrow), 3, gain=0.7).weight
        branch = write_conv(graph, f"{scope}.2", graph.op("Relu", f"{scope}.relu2", inner), second, np.zeros(narrow))
        straight = random_conv_norm(rng, (width, narrow), 1, gain=0.7).weight
        repeated = enlarged(f"{scope}.enlarged", value)
        shortcut = write_conv(graph, f"{scope}.shortcut", repeated, straight, np.zeros(narrow))
        value, width = graph.op("Add", f"{scope}.add", branch, shortcut), narrow
    last = graph.op("Relu", "relu", write_norm(graph, "bn", value, random_norm(rng, width)))
    pixels = write_conv(graph, "pixels", last, random_conv_norm(rng, (width, 3), 3).weight, np.zeros(3))
    image = graph.op("Tanh", "image", pixels)
    return graph.model({image: (batch, 3, 32 * base, 32 * base)})

"""Convolution + BatchNorm units with random statistics, and their exact folding (float64, rounded once)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph import Array, GraphWriter

EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """``gamma * (x - mean) / sqrt(variance + EPSILON) + beta`` per channel."""

    gamma: Array
    beta: Array
    mean: Array
    variance: Array

    @property
    def scale(self) -> Array:
        """``gamma / sqrt(variance + EPSILON)`` in float64, with EPSILON as the float32 that ONNX stores."""
        return self.gamma.astype(np.float64) / np.sqrt(self.variance.astype(np.float64) + np.float32(EPSILON))

    @property
    def shift(self) -> Array:
        """``beta - mean * scale`` in float64."""
        return self.beta.astype(np.float64) - self.mean.astype(np.float64) * self.scale


@dataclass(frozen=True, slots=True)
class ConvNorm:
    """A bias-free convolution ``[out, in/groups, k, k]`` with "same" padding, followed by a BatchNorm."""

    weight: Array
    norm: BatchNorm
    stride: int = 1
    groups: int = 1

    def folded(self) -> tuple[Array, Array]:
        """Kernel and bias, both float64, of the one convolution that computes the same."""
        return self.weight.astype(np.float64) * self.norm.scale[:, None, None, None], self.norm.shift


@dataclass(frozen=True, slots=True)
class Linear:
    """``x @ weight.T + bias`` with ``weight [out, in]``, as Gemm writes it."""

    weight: Array
    bias: Array


def random_norm(rng: np.random.Generator, channels: int, gain: float = 1.0) -> BatchNorm:
    """Statistics far from the identity, with an average scale near ``gain``."""

    def uniform(low: float, high: float) -> Array:
        return rng.uniform(low, high, channels).astype(np.float32)

    beta = (rng.standard_normal(channels) * 0.1 * gain).astype(np.float32)
    mean = (rng.standard_normal(channels) * 0.1).astype(np.float32)
    return BatchNorm(uniform(0.6, 1.4) * np.float32(gain), beta, mean, uniform(0.6, 1.6))


def random_conv_norm(
    rng: np.random.Generator,
    channels: tuple[int, int],
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    gain: float = 1.0,
) -> ConvNorm:
    """A unit ``channels = (in, out)`` whose ReLU-ed output is about ``gain`` times as large as its input."""
    inputs, outputs = channels
    shape = (outputs, inputs // groups, kernel, kernel)
    scale = np.float32(np.sqrt(2.0 / (shape[1] * kernel * kernel)))
    weight = rng.standard_normal(shape, np.float32) * scale
    return ConvNorm(weight, random_norm(rng, outputs, gain), stride, groups)


def random_linear(rng: np.random.Generator, inputs: int, outputs: int) -> Linear:
    """A fully connected layer with unit gain."""
    weight = rng.standard_normal((outputs, inputs), np.float32) * np.float32(inputs**-0.5)
    return Linear(weight, (rng.standard_normal(outputs) * 0.1).astype(np.float32))


def enlarge(kernel: Array, size: int) -> Array:
    """Zero-pad a square odd kernel to ``size`` x ``size`` around its centre."""
    margin = (size - kernel.shape[-1]) // 2
    return np.pad(kernel, ((0, 0), (0, 0), (margin, margin), (margin, margin)))


def identity_kernel(channels: int, groups: int, size: int) -> Array:
    """The kernel of the identity: output o reads channel ``o mod (channels/groups)`` of its group."""
    width = channels // groups
    kernel = np.zeros((channels, width, size, size))
    output = np.arange(channels)
    kernel[output, output % width, size // 2, size // 2] = 1.0
    return kernel


def merge_groups(kernel: Array, groups: int, factor: int) -> Array:
    """Make one group of each ``factor`` neighbours; channels that an output did not read get weight 0."""
    outputs, width, *window = kernel.shape
    merged = np.zeros((outputs, width * factor, *window), kernel.dtype)
    per_group = outputs // groups
    for group in range(groups):
        rows = slice(group * per_group, (group + 1) * per_group)
        first = (group % factor) * width
        merged[rows, first : first + width] = kernel[rows]
    return merged


def write_norm(graph: GraphWriter, name: str, value: str, norm: BatchNorm) -> str:
    """Append a BatchNormalization in inference form."""
    fields = {"weight": norm.gamma, "bias": norm.beta, "mean": norm.mean, "var": norm.variance}
    weights = [graph.weight(f"{name}.{field}", array) for field, array in fields.items()]
    return graph.op("BatchNormalization", name, value, *weights, epsilon=EPSILON)


def write_conv(
    graph: GraphWriter, name: str, value: str, kernel: Array, bias: Array | None = None,
    *, stride: int = 1, groups: int = 1,
) -> str:  # fmt: skip
    """Append a "same"-padded convolution; weights are rounded to float32 here."""
    size = kernel.shape[-1]
    operands = [graph.weight(f"{name}.weight", kernel.astype(np.float32))]
    if bias is not None:
        operands.append(graph.weight(f"{name}.bias", bias.astype(np.float32)))
    return graph.op(
        "Conv", name, value, *operands, kernel_shape=[size, size], strides=[stride] * 2,
        pads=[size // 2] * 4, dilations=[1, 1], group=groups,
    )  # fmt: skip


def write_conv_norm(graph: GraphWriter, name: str, value: str, unit: ConvNorm) -> str:
    """Append the unit as two nodes, ``name.conv`` and ``name.bn``."""
    conv = write_conv(graph, f"{name}.conv", value, unit.weight, stride=unit.stride, groups=unit.groups)
    return write_norm(graph, f"{name}.bn", conv, unit.norm)


def write_folded(graph: GraphWriter, name: str, value: str, unit: ConvNorm) -> str:
    """Append the unit as one convolution with bias."""
    kernel, bias = unit.folded()
    return write_conv(graph, name, value, kernel, bias, stride=unit.stride, groups=unit.groups)


def write_classifier(graph: GraphWriter, value: str, layer: Linear) -> str:
    """Append global average pooling, Flatten and a Gemm; the Gemm's output is called ``logits``."""
    flat = graph.op("Flatten", "flatten", graph.op("GlobalAveragePool", "pool", value), axis=1)
    weight, bias = graph.weight("fc.weight", layer.weight), graph.weight("fc.bias", layer.bias)
    return graph.op("Gemm", "logits", flat, weight, bias, transB=1)

"""Convolutional networks without parallel-branch training: ResNeXt, SqueezeNet and a tiny one for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from .convolution import (
    ConvNorm,
    Linear,
    merge_groups,
    random_conv_norm,
    random_linear,
    write_classifier,
    write_conv,
    write_conv_norm,
    write_folded,
)
from .graph import GraphWriter

# Narrower groups run at 32-52 of 370 GFLOP/s on AVX-512; from 16 channels on, merging no longer pays.
FULL_GROUP_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """``relu(expand(relu(spatial(relu(reduce(x))))) + shortcut(x))``; no shortcut unit means x itself."""

    name: str
    reduce: ConvNorm
    spatial: ConvNorm
    expand: ConvNorm
    shortcut: ConvNorm | None


@dataclass(frozen=True, slots=True)
class ResNeXt:
    """Stem, bottlenecks and classifier of a ResNeXt."""

    stem: ConvNorm
    blocks: tuple[Bottleneck, ...]
    classifier: Linear
    image: int
    batch: int


def _resnext(
    *, width: float, blocks: Sequence[int], image: int, groups: int, group_width: int, classes: int, batch: int,
    seed: int,
) -> ResNeXt:  # fmt: skip
    rng = np.random.default_rng(seed)
    channels = max(1, int(64 * width))
    stem = random_conv_norm(rng, (3, channels), 7, stride=2)
    layers = []
    for stage, depth in enumerate(blocks):
        out, inner = max(1, int(256 * width)) << stage, (groups * group_width) << stage
        for i in range(depth):
            stride = 2 if i == 0 and stage > 0 else 1
            layers.append(Bottleneck(
                f"layer{stage + 1}.{i}",
                random_conv_norm(rng, (channels, inner), 1),
                random_conv_norm(rng, (inner, inner), 3, stride=stride, groups=groups),
                random_conv_norm(rng, (inner, out), 1, gain=0.4),
                random_conv_norm(rng, (channels, out), 1, stride=stride, gain=0.6) if i == 0 else None,
            ))  # fmt: skip
            channels = out
    return ResNeXt(stem, tuple(layers), random_linear(rng, channels, classes), image, batch)


def _write_wide_groups(graph: GraphWriter, name: str, value: str, unit: ConvNorm) -> str:
    """Fold, and merge neighbouring groups until each reads 16 channels, where the group count divides."""
    kernel, bias = unit.folded()
    factor = max(1, FULL_GROUP_WIDTH // kernel.shape[1])
    while unit.groups % factor:
        factor -= 1
    merged = merge_groups(kernel, unit.groups, factor)
    return write_conv(graph, name, value, merged, bias, stride=unit.stride, groups=unit.groups // factor)


def _write_resnext(network: ResNeXt, *, merged: bool) -> onnx.ModelProto:
    write = write_folded if merged else write_conv_norm
    write_grouped = _write_wide_groups if merged else write_conv_norm
    graph = GraphWriter("resnext50_reference" if merged else "resnext50")
    image = graph.input("image", (network.batch, 3, network.image, network.image))
    value = graph.op("Relu", "stem.relu", write(graph, "stem", image, network.stem))
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    value = graph.op("MaxPool", "stem.pool", value, **window)
    for block in network.blocks:
        scope = block.name
        inner = graph.op("Relu", f"{scope}.relu1", write(graph, f"{scope}.1", value, block.reduce))
        spatial = write_grouped(graph, f"{scope}.2", inner, block.spatial)
        inner = graph.op("Relu", f"{scope}.relu2", spatial)
        branch = write(graph, f"{scope}.3", inner, block.expand)
        straight = write(graph, f"{scope}.shortcut", value, block.shortcut) if block.shortcut else value
        value = graph.op("Relu", f"{scope}.relu3", graph.op("Add", f"{scope}.add", branch, straight))
    logits = write_classifier(graph, value, network.classifier)
    return graph.model({logits: (network.batch, network.classifier.weight.shape[0])})


def resnext50(
    *, width: float = 1.0, blocks: Sequence[int] = (3, 4, 6, 3), image: int = 224, groups: int = 32,
    group_width: int = 4, classes: int = 1000, batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """ResNeXt-50 32x4d with its BatchNorms (Xie et al., CVPR 2017); input ``[batch, 3, image, image]``.

    ``width`` scales what flows between the blocks, ``groups`` x ``group_width`` is the inner
    width of the first stage.
    """
    network = _resnext(
        width=width, blocks=blocks, image=image, groups=groups, group_width=group_width, classes=classes,
        batch=batch, seed=seed,
    )  # fmt: skip
    return _write_resnext(network, merged=False)


def reference_resnext50(
    *, width: float = 1.0, blocks: Sequence[int] = (3, 4, 6, 3), image: int = 224, groups: int = 32,
    group_width: int = 4, classes: int = 1000, batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """ResNeXt-50 with folded BatchNorms and groups merged to 16 channels where they are narrower."""
    network = _resnext(
        width=width, blocks=blocks, image=image, groups=groups, group_width=group_width, classes=classes,
        batch=batch, seed=seed,
    )  # fmt: skip
    return _write_resnext(network, merged=True)


def _conv_relu(
    graph: GraphWriter, rng: np.random.Generator, name: str, value: str, shape: tuple[int, int, int],
    stride: int = 1,
) -> str:  # fmt: skip
    """Append a biased convolution ``shape = (in, out, kernel)`` with He weights, and a ReLU."""
    inputs, outputs, size = shape
    scale = np.float32(np.sqrt(2.0 / (inputs * size * size)))
    kernel = rng.standard_normal((outputs, inputs, size, size), np.float32) * scale
    bias = rng.standard_normal(outputs, np.float32) * np.float32(0.1)
    conv = write_conv(graph, name, value, kernel, bias, stride=stride)
    return graph.op("Relu", f"{name}.relu", conv)


def squeezenet(
    *, width: float = 1.0, image: int = 224, classes: int = 1000, batch: int = 1, seed: int = 0
) -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al., 2016) with "same" padding throughout; ``width`` scales all channels."""
    rng = np.random.default_rng(seed)
    graph = GraphWriter("squeezenet")
    channels = max(1, int(64 * width))
    value = graph.input("image", (batch, 3, image, image))
    value = _conv_relu(graph, rng, "stem", value, (3, channels, 3), stride=2)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    for i, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        if i in (0, 2, 4):
            value = graph.op("MaxPool", f"pool{i}", value, **window)
        narrow, wide = max(1, int(squeeze * width)), max(1, int(4 * squeeze * width))
        inner = _conv_relu(graph, rng, f"fire{i}.squeeze", value, (channels, narrow, 1))
        small = _conv_relu(graph, rng, f"fire{i}.expand1x1", inner, (narrow, wide, 1))
        large = _conv_relu(graph, rng, f"fire{i}.expand3x3", inner, (narrow, wide, 3))
        value, channels = graph.op("Concat", f"fire{i}", small, large, axis=1), 2 * wide
    value = _conv_relu(graph, rng, "classifier", value, (channels, classes, 1))
    logits = graph.op("Flatten", "logits", graph.op("GlobalAveragePool", "pool", value), axis=1)
    return graph.model({logits: (batch, classes)})


def tiny_cnn(*, channels: int = 8, image: int = 16, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """Conv + BatchNorm, parallel 3x3 and 1x1 convolutions, a grouped one, both poolings, a Concat."""
    rng = np.random.default_rng(seed)
    graph = GraphWriter("tiny_cnn")
    value = graph.input("image", (batch, 3, image, image))
    stem = write_conv_norm(graph, "stem", value, random_conv_norm(rng, (3, channels), 3))
    value = graph.op("Relu", "stem.relu", stem)
    value = graph.op("MaxPool", "max_pool", value, kernel_shape=[2, 2], strides=[2, 2])
    same = (channels, channels)
    left = write_conv_norm(graph, "left", value, random_conv_norm(rng, same, 3, gain=0.7))
    right = write_conv_norm(graph, "right", value, random_conv_norm(rng, same, 1, gain=0.7))
    value = graph.op("Relu", "sum.relu", graph.op("Add", "sum", left, right))
    grouped = write_conv_norm(graph, "grouped", value, random_conv_norm(rng, same, 3, groups=channels // 2))
    joined = graph.op("Concat", "joined", value, grouped, axis=1)
    value = graph.op("AveragePool", "average_pool", joined, kernel_shape=[2, 2], strides=[2, 2])
    logits = write_classifier(graph, value, random_linear(rng, 2 * channels, 10))
    return graph.model({logits: (batch, 10)})

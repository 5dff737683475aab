"""Networks whose training form has parallel branches that sum into one kernel: MobileOne and RepVGG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from .convolution import (
    BatchNorm,
    ConvNorm,
    Linear,
    enlarge,
    identity_kernel,
    random_conv_norm,
    random_linear,
    random_norm,
    write_classifier,
    write_conv,
    write_conv_norm,
    write_norm,
)
from .graph import Array, GraphWriter


@dataclass(frozen=True, slots=True)
class Block:
    """``relu(sum of branches(x) + identity_norm(x))``; all branches share stride and groups."""

    name: str
    branches: tuple[tuple[str, ConvNorm], ...]
    identity: BatchNorm | None

    def merged(self) -> tuple[Array, Array]:
        """Kernel and bias, float64, of the one convolution equal to the sum of all branches."""
        size = max(unit.weight.shape[-1] for _, unit in self.branches)
        folded = [unit.folded() for _, unit in self.branches]
        kernel = sum((enlarge(k, size) for k, _ in folded), start=np.zeros(()))
        bias = sum((b for _, b in folded), start=np.zeros(()))
        if self.identity is not None:
            unit = self.branches[0][1]
            straight = identity_kernel(unit.weight.shape[0], unit.groups, size)
            kernel = kernel + straight * self.identity.scale[:, None, None, None]
            bias = bias + self.identity.shift
        return kernel, bias


@dataclass(frozen=True, slots=True)
class Network:
    """A chain of blocks and a classifier on an image of ``image`` x ``image``."""

    name: str
    blocks: tuple[Block, ...]
    classifier: Linear
    image: int
    batch: int


def _block(
    rng: np.random.Generator, name: str, channels: tuple[int, int], kernels: Sequence[tuple[str, int]],
    *, stride: int = 1, groups: int = 1,
) -> Block:  # fmt: skip
    """Draw a block; each branch gets 1/sqrt(branches) of the gain, so that the sum keeps the scale.

    The factor 0.93 makes up for beta, and for what correlated branches add up to.
    """
    has_identity = stride == 1 and channels[0] == channels[1]
    gain = 0.93 * (len(kernels) + has_identity) ** -0.5
    branches = tuple(
        (label, random_conv_norm(rng, channels, size, stride=stride, groups=groups, gain=gain))
        for label, size in kernels
    )
    return Block(name, branches, random_norm(rng, channels[1], gain) if has_identity else None)


def _write_training(graph: GraphWriter, block: Block, value: str) -> str:
    parts = [write_norm(graph, f"{block.name}.skip", value, block.identity)] if block.identity else []
    parts += [write_conv_norm(graph, f"{block.name}.{label}", value, unit) for label, unit in block.branches]
    total = parts[0]
    for i, part in enumerate(parts[1:]):
        total = graph.op("Add", f"{block.name}.sum{i}", total, part)
    return graph.op("Relu", f"{block.name}.relu", total)


def _write_merged(graph: GraphWriter, block: Block, value: str) -> str:
    kernel, bias = block.merged()
    unit = block.branches[0][1]
    conv = write_conv(graph, f"{block.name}.conv", value, kernel, bias, stride=unit.stride, groups=unit.groups)
    return graph.op("Relu", f"{block.name}.relu", conv)


def _write(network: Network, *, merged: bool) -> onnx.ModelProto:
    graph = GraphWriter(f"{network.name}_reference" if merged else network.name)
    value = graph.input("image", (network.batch, 3, network.image, network.image))
    for block in network.blocks:
        value = _write_merged(graph, block, value) if merged else _write_training(graph, block, value)
    logits = write_classifier(graph, value, network.classifier)
    return graph.model({logits: (network.batch, network.classifier.weight.shape[0])})


def _mobileone_blocks(
    rng: np.random.Generator, widths: Sequence[int], depths: Sequence[int], branches: int
) -> Iterator[Block]:
    """Stem, then per stage pairs of a depthwise 3x3 and a pointwise block; each stage halves the image."""
    channels = min(64, widths[0])
    wide = [(f"conv{i}", 3) for i in range(branches)] + [("scale", 1)]
    point = [(f"conv{i}", 1) for i in range(branches)]
    yield _block(rng, "stem", (3, channels), [("conv0", 3), ("scale", 1)], stride=2)
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True), start=1):
        for i in range(depth):
            scope, stride = f"stage{stage}.{i}", 2 if i == 0 else 1
            yield _block(rng, f"{scope}.dw", (channels, channels), wide, stride=stride, groups=channels)
            yield _block(rng, f"{scope}.pw", (channels, width), point)
            channels = width


def _mobileone(
    *, width: float, blocks: Sequence[int], image: int, branches: int, classes: int, batch: int, seed: int
) -> Network:
    rng = np.random.default_rng(seed)
    # S0 multiplies the base widths 64, 128, 256, 512 by 0.75, 1, 1, 2.
    widths = [max(1, int(width * base)) for base in (48, 128, 256, 1024)]
    layers = tuple(_mobileone_blocks(rng, widths, blocks, branches))
    return Network("mobileone_s0", layers, random_linear(rng, widths[-1], classes), image, batch)


def mobileone_s0(
    *, width: float = 1.0, blocks: Sequence[int] = (2, 8, 10, 1), image: int = 224, branches: int = 4,
    classes: int = 1000, batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """MobileOne-S0 in training form (Vasu et al., CVPR 2023): every branch with its own BatchNorm.

    ``width`` scales all stage widths, ``blocks`` are the depths of the four stages; input
    ``[batch, 3, image, image]``.
    """
    return _write(
        _mobileone(width=width, blocks=blocks, image=image, branches=branches, classes=classes, batch=batch, seed=seed),
        merged=False,
    )


def reference_mobileone_s0(
    *, width: float = 1.0, blocks: Sequence[int] = (2, 8, 10, 1), image: int = 224, branches: int = 4,
    classes: int = 1000, batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """MobileOne-S0 with one convolution per block: all branches summed into one kernel."""
    return _write(
        _mobileone(width=width, blocks=blocks, image=image, branches=branches, classes=classes, batch=batch, seed=seed),
        merged=True,
    )


def _repvgg(width: float, blocks: Sequence[int], image: int, classes: int, batch: int, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    widths = [max(1, int(width * base)) for base in (48, 96, 192, 1280)]
    kernels = [("dense", 3), ("point", 1)]
    channels = min(64, widths[0])
    layers = [_block(rng, "stage0", (3, channels), kernels, stride=2)]
    for stage, (out, depth) in enumerate(zip(widths, blocks, strict=True), start=1):
        for i in range(depth):
            stride = 2 if i == 0 else 1
            layers.append(_block(rng, f"stage{stage}.{i}", (channels, out), kernels, stride=stride))
            channels = out
    return Network("repvgg_a0", tuple(layers), random_linear(rng, channels, classes), image, batch)


def repvgg_a0(
    *, width: float = 1.0, blocks: Sequence[int] = (2, 4, 14, 1), image: int = 224, classes: int = 1000,
    batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """RepVGG-A0 in training form (Ding et al., CVPR 2021): 3x3, 1x1 and identity branches with BatchNorms."""
    return _write(_repvgg(width, blocks, image, classes, batch, seed), merged=False)


def reference_repvgg_a0(
    *, width: float = 1.0, blocks: Sequence[int] = (2, 4, 14, 1), image: int = 224, classes: int = 1000,
    batch: int = 1, seed: int = 0,
) -> onnx.ModelProto:  # fmt: skip
    """RepVGG-A0 with one 3x3 convolution per block."""
    return _write(_repvgg(width, blocks, image, classes, batch, seed), merged=True)

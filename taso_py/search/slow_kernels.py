"""Bundles that begin with `rules/kernels.rules`: what a slow kernel computes in many places is written with others.

Each kernel by itself: where blocks of channels are lost for one of them, the others may still gain.
"""

from __future__ import annotations

from collections.abc import Mapping

from taso_py.search.bundle import Bundle
from taso_py.search.slopes import ONE_SLOPE

SLOW_KERNELS: Mapping[str, Bundle] = {
    "slopes of channels": Bundle((ONE_SLOPE, "prelu-of-channels")),
    "slopes": Bundle(("prelu-by-parts",)),
    "exponentials of negative parts": Bundle(("elu-by-parts", "selu-by-parts")),
    "tangents of softpluses": Bundle(("tangent-of-softplus", "mish-by-sigmoid")),
    "softmax over channels": Bundle(
        ("softmax-of-channels", "softmax-of-rows", "softmax-of-columns", "softmax-of-matrix-columns"),
        ("log-softmax-of-channels", "log-softmax-of-columns"),
    ),
    "local responses": Bundle(("local-response-by-roots", "local-response-by-convolution")),
    "cubic interpolation": Bundle(("cubic-resize-by-products",)),
    "few outputs as transposed": Bundle(("few-channels-as-transposed",)),
    "few outputs in phases": Bundle(("few-channels-in-phases",)),
    "depthwise in whole blocks": Bundle(
        ("depthwise-in-whole-blocks",),
        (
            *("padded-relu", "padded-clip", "padded-swish", "channels-padded-by-conv"),
            *("relu-slice", "clip-of-first-channels", "conv-of-first-channels"),
        ),
    ),
    "frames in threes": Bundle(("frames-in-threes", "frames-in-threes-by-two", "frames-in-threes-within")),
    "frames one by one": Bundle(("frames-one-by-one",)),
    "pixels over time": Bundle(("pixels-over-time",)),
    "turned pairs": Bundle(
        tuple(f"turned-{turned}{taken}" for turned in ("pairs", "by-angles") for taken in ("", "-apart", "-picked")),
        ("turned-but-for-some-rows", "turned-but-for-some-rows-of-heads"),
    ),
}
"""Name -> rules; an alternative comes after what is mostly faster."""

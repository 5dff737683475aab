"""Rules that may pay only together: no single one of them is a step downhill.

ONNX Runtime computes convolutions in blocks of channels and reorders an image wherever an operator between two of them
does not know the blocks; that is saved only where all such operators on the way are gone.  It moves transpositions past
one another as it sees fit: what one of them costs depends on what is left of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from taso_py.search.bundle import Bundle
from taso_py.search.contraction import EINSUM
from taso_py.search.rearrangement import REARRANGEMENT
from taso_py.search.slow_kernels import SLOW_KERNELS

_COPIES = (
    "rows-repeated-by-tiles-last",
    "rows-repeated-channels-last",
    "columns-repeated-channels-last",
    "rows-repeated-by-tiles",
    "columns-repeated-by-tiles",
    "pixels-repeated-by-expansion",
    "rows-repeated-by-expansion",
    "columns-repeated-by-expansion",
)
_COPIES_AS_ONE = ("transpose-of-transpose", "transpose-in-order", "pixels-repeated-by-rows-and-columns")

_STEPS = ("gather-one-reversed", "step-of-one-sample", "step-of-samples", "step-before-samples", "product-of-steps")
_CUT_LATER = (
    "shift-of-steps",
    "factors-of-steps",
    *(f"{function}-slice" for function in ("sigmoid", "tanh", "relu", "gelu", "leaky-relu", "elu", "erf")),
    "shifted-slice",
    "scaled-slice",
    "number-less-slice",
    "difference-of-slices",
    "add-of-slices",
    "product-of-slices",
)
_JOINED_EARLIER = (
    "stack-of-rows",
    "stack-of-blocks",
    "stacked",
    "products-under-each-other",
    "shifts-under-each-other",
    "factors-under-each-other",
    "sum-of-concats",
    "product-of-concats",
    *(f"{function}-concat" for function in ("sigmoid", "tanh", "relu", "gelu", "leaky-relu", "elu", "erf")),
)
BUNDLES: Mapping[str, Bundle] = {
    **SLOW_KERNELS,
    "stacks taken apart": Bundle(
        ("weighted-sum-over-stack", "weighted-sum-over-larger-stack", "weighted-sum-over-halves"),
        ("sum-over-stack", "sum-over-larger-stack", "sum-over-halves"),
    ),
    "means of branches": Bundle(
        ("mean-over-stack", "mean-over-larger-stack"),
        (
            "sum-over-stack",
            "sum-over-larger-stack",
            "add-constants-beside",
            "matmul-sum-of-weights",
            "matmul-sum-of-weights-beside",
            "matmul-scaled",
        ),
    ),
    "kernels added up": Bundle(
        ("gated-sum-over-stack", "gated-sum-over-larger-stack", "computed-number-into-kernel"),
        ("sum-over-stack", "sum-over-larger-stack", "conv-sum"),
    ),
    "branches of convolutions": Bundle(
        (
            "subtract-batchnorm",
            "batchnorm-branch-into-depthwise",
            "batchnorm-branch-into-conv",
            "batchnorm-branch-into-grouped",
            "conv-sum-enlarged",
            "conv-sum",
            "convs-in-sum",
            "convs-in-sum-enlarged",
            "convs-in-sum-enlarged-last",
            "pooled-branch-into-conv",
            "pooled-branch-in-sum",
            "normalised-pooled-branch-into-conv",
            "normalised-pooled-branch-in-sum",
        ),
        (
            "batchnorm-into-conv",
            "subtract-conv",
            "conv-scaled",
            "conv-scaled-4d",
            "depthwise-identity-branch",
            "identity-branch-into-conv",
            "identity-branch-into-grouped",
        ),
    ),
    "steps of a sequence": Bundle(
        _STEPS, (*_CUT_LATER, *_JOINED_EARLIER), frozenset((*_STEPS, *_CUT_LATER)), frozenset(_JOINED_EARLIER)
    ),
    "tables stacked": Bundle(
        ("projected-columns-stacked", "columns-stacked"),
        (
            "projected-column-joined",
            "projected-stacks-joined",
            "column-joined",
            "stacks-joined",
            "stacked-pieces",
            "stacked-pieces-further",
            "stacks-of-pieces-joined",
            "reshape-of-reshape",
            "reshape-to-itself",
        ),
    ),
    "parallel kernels": Bundle(
        tuple(f"conv-sum-dilated-by-{times}" for times in ("two", "three", "four", "five")),
        ("batchnorm-into-conv", "conv-sum-enlarged", "conv-sum", "batchnorm-branch-into-depthwise"),
    ),
    "modulated kernels": Bundle(
        ("kernels-scaled-by-output", "kernel-scaled-by-input", "kernels-scaled-by-input-of-each-sample"),
        (
            "power-two",
            "squares-of-scaled-kernel",
            "squares-of-scaled-kernel-kept",
            "reshape-of-reshape",
            "reshape-to-itself",
        ),
    ),
    "polynomials of a constant matrix": Bundle(
        (
            "scaled-product-of-matrix",
            "constant-matrices-first",
            "product-beside-itself",
            "product-beside-itself-scaled",
            "product-less-itself",
            "itself-less-product",
        ),
        ("polynomial-step", "polynomial-step-of-one", "polynomial-step-subtracted"),
    ),
    "normalisations of rows": Bundle(
        (
            "variance-of-moments",
            "scaled-and-shifted-by-mean",
            "scaled-and-shifted-by-less",
            "normalised-scaled",
            "normalised-scaled-by-quotient",
            "normalised-by-reciprocal",
            "deviation-of-powers",
            "erf-of-quotient",
            "complement-of-erf",
        ),
        (
            "mean-of-signal-as-reduction",
            "maximum-of-mean-of-squares",
            "relu-of-mean-of-squares",
            *(f"{what}-of-row{rank}" for what in ("factors", "shift") for rank in ("", "-3d", "-4d")),
        ),
    ),
    "normalisations of channels": Bundle(
        ("channels-normalised", "channels-normalised-by-squares"),
        (
            "factors-of-channels",
            "factors-of-channels-4d",
            "shift-of-channels",
            "shift-of-channels-4d",
            "transpose-of-transpose",
            "transpose-in-order",
        ),
    ),
    "gates in blocks": Bundle(("mean-over-image", "mean-over-image-flat", "gate-by-resize")),
    "gates from other layouts in blocks": Bundle(("mean-over-image", "mean-over-image-flat", "gate-by-pooled-resize")),
    "images of one row": Bundle(
        (
            "conv-of-one-row",
            "transposed-conv-of-one-row",
            "max-pool-of-one-row",
            "average-pool-of-one-row",
            "relu-between-axes",
            "gelu-between-axes",
            "gelu-written-out-between-axes",
            "leaky-relu-between-axes",
            "elu-between-axes",
            "tanh-between-axes",
            "sigmoid-between-axes",
            "swish-between-axes",
            "normalisation-between-axes",
            "concat-of-rows-of-images",
            "squeeze-of-sum",
            "sum-between-axes",
        )
    ),
    "channels apart": Bundle(
        (
            "depthwise-of-concat",
            "sum-with-concat",
            "concat-of-global-average-pools-reversed",
            "gate-of-concat",
            "conv-of-concat",
            "gate-by-pooled-resize",
        )
    ),
    "heads cut apart before they are put in order": Bundle(
        (
            "cut-of-heads-queries",
            "cut-of-heads-channels",
            "cut-of-heads-in-order",
            "cut-of-heads-by-head",
            "cut-of-heads-first",
            "picked-heads-queries",
            "picked-heads-channels",
        )
    ),
    "heads side by side": Bundle(
        ("heads-side-by-side",),
        (
            "concat-of-softmaxes",
            "scaled-concat",
            "divided-concat",
            "masked-concat",
            "masked-concat-of-batches",
            "chosen-concat",
            "filled-concat",
            "chosen-concat-of-batches",
            "filled-concat-of-batches",
            "concat-of-batched-products",
            "concat-of-transposed",
            "projections-as-batch",
            "layers-as-batch",
            "columns-as-batch",
        ),
    ),
    "tokens as images": Bundle(
        (
            "tokens-to-image-before-layer",
            "tokens-to-image-before-product",
            "tokens-to-rows-before-layer",
            "tokens-to-rows-before-product",
        ),
        (
            "relu-before-tokens",
            "gelu-before-tokens",
            "gelu-written-out-before-tokens",
            "swish-before-tokens",
            "hard-swish-before-tokens",
            "image-to-tokens-after-layer",
            "image-to-tokens-after-product",
            "image-to-rows-after-layer",
            "image-to-rows-after-product",
            "transpose-of-transpose",
            "transpose-in-order",
            "reshape-of-reshape",
            "reshape-to-itself",
        ),
    ),
    "pixels with channels first": Bundle(
        ("channels-first-before-layer", "channels-first-before-product"),
        (
            "relu-before-channels-last",
            "gelu-before-channels-last",
            "gelu-written-out-before-channels-last",
            "swish-before-channels-last",
            "hard-swish-before-channels-last",
            "channels-last-after-layer",
            "channels-last-after-product",
            "transpose-of-transpose",
            "transpose-in-order",
        ),
    ),
    "pixels repeated behind convolutions": Bundle(
        ("conv-beside-repeated-image-first", "conv-beside-repeated-image-last", "conv-of-repeated-image"),
        ("four-images-interleaved",),
    ),
    "pixels repeated by copies": Bundle(_COPIES, _COPIES_AS_ONE),
    "pixels repeated by copies behind convolutions": Bundle(
        _COPIES,
        (
            *_COPIES_AS_ONE,
            "conv-beside-repeated-image-first",
            "conv-beside-repeated-image-last",
            "conv-of-repeated-image",
            "four-images-interleaved",
        ),
    ),
    "labels as products": Bundle(
        (EINSUM,),
        ("transpose-of-transpose", "transpose-in-order", "reshape-of-reshape", "reshape-to-itself"),
    ),
    "biases before heads": Bundle(("bias-of-split-columns",), (REARRANGEMENT,)),
    "pairs": Bundle(
        (
            "rows-by-tuples",
            "repeated-third-axis",
            "repeated-second-axis",
            "repeated-first-axis",
            "expanded-first-axis-put-in-order",
            "repeated-column",
            "repeated-row",
            "rows-repeated-one-by-one",
            "rows-repeated-all-at-once",
            "batches-repeated-row-by-row",
            "batches-repeated-all-at-once",
            "concat-of-flattened-rows",
            "layer-of-pairs",
            "layer-of-pairs-reversed",
            "product-of-expanded-rows",
            "product-of-expanded-batches",
            "matmul-of-repeated-first",
            "matmul-of-repeated-last",
            "layer-of-shared-first",
            "layer-of-shared-last",
            "trilinear",
            "trilinear-of-batches",
            "neighbours-projected",
            "computed-rows-projected",
            "layer-of-looked-up-first",
            "layer-of-looked-up-last",
        ),
        (
            "reshape-of-reshape",
            "reshape-to-itself",
            "pointwise-conv-of-joined-features",
            "expand-in-product",
            "expand-in-difference",
            "expand-subtracted",
            "expanded-in-product-of-pairs",
            "expanded-in-product-of-pairs-reversed",
            "layer-beside-products-with-shared",
            "layer-beside-products-of-pairs",
            "layer-beside-differences",
            "layer-beside-reversed-differences",
            "expand-in-sum",
            "bias-of-expanded-rows",
            "bias-of-expanded-batches",
            "bias-of-pairs",
            "rows-and-differences",
            "rows-and-reversed-differences",
            "shared-and-differences",
            "shared-and-reversed-differences",
            "matmul-sum-of-weights",
            "shared-summand-last",
            "shared-summands",
            "bias-beside-shared",
            "leaky-relu-of-transposed",
            "relu-of-transposed",
            "maximum-of-last-channels",
            "maximum-of-leaky-relu",
            "relu-reduce-max",
            "maximum-of-larger-ones",
            "maximum-of-multiples",
            "maximum-beside-shared",
            "expand-to-itself",
            "transpose-of-transpose",
            "transpose-in-order",
            "layer-of-flattened-pairs",
            "layer-of-flattened-batches",
            "layer-of-flattened-rows",
            "bias-of-flattened-rows",
        ),
    ),
    "factors of rows": Bundle(("product-of-shared-factors",), ("matmul-sum-of-computed-weights",)),
    "residuals": Bundle(
        (
            "copies-put-in-order",
            "centres-expanded",
            "centres-expanded-beside-one",
            "weighted-residuals",
            "weighted-shifts",
        ),
        ("features-beside-centres", "expand-in-difference", "expand-subtracted"),
    ),
    "scores by head": Bundle(("scores-by-head", "scores-by-head-of-keys")),
}
"""By what they are for."""

ONLY_TOGETHER = frozenset(
    {
        "step-of-one-sample",
        "step-of-samples",
        "step-before-samples",
        "product-of-steps",
        "shift-of-steps",
        "factors-of-steps",
        "stack-of-rows",
        "stack-of-blocks",
        "products-under-each-other",
        "shifts-under-each-other",
        "factors-under-each-other",
        "convs-in-sum",
        "convs-in-sum-enlarged",
        "convs-in-sum-enlarged-last",
    }
)
"""Rules of bundles that a search does not try by themselves: each is worth nothing, or shorter ways lead there too."""

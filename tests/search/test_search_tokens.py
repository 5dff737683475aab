"""Layers on tokens between images, as hybrids of transformers and convolutions have them, are 1x1 convolutions."""

from __future__ import annotations

import pytest

from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Rewriter
from tests.helpers.bundles import after
from tests.helpers.graphs import model, running, sizes, view_of

FUNCTIONS = {
    "gelu": "f = Gelu(t)",
    "relu": "f = Relu(t)",
    "swish": "g = Sigmoid(t) f = Mul(t, g)",
    "hard swish": "f = HardSwish(t)",
    "gelu written out": "q = Div(t, root) e = Erf(q) p = Add(e, one) r = Mul(t, p) f = Mul(r, half)",
}
NUMBERS = """root = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>()
    half = Constant<value_float = 0.5>()"""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("layer", ["Add(MatMul", "MatMul"])
def test_tokens_between_images_stay_images(function: str, layer: str) -> None:
    """The perceptron of a PVTv2 block, with a depthwise convolution between its layers."""
    one, two = (
        ("o = MatMul(x, w) a = Add(o, b)", "p2 = MatMul(f, v) y = Add(p2, d)")
        if layer == "Add(MatMul"
        else ("a = MatMul(x, w)", "y = MatMul(f, v)")
    )
    proto = model(
        f"""agraph (float[1, 30, 4] x) => (float[1, 30, 4] y) {{ {NUMBERS}
          image = Constant<value_ints = [1, 16, 5, 6]>() rows = Constant<value_ints = [1, 16, 30]>()
          {one} turned = Transpose<perm = [0, 2, 1]>(a) map = Reshape(turned, image)
          c = Conv<pads = [1, 1, 1, 1], group = 16>(map, k, m) flat = Reshape(c, rows)
          t = Transpose<perm = [0, 2, 1]>(flat) {FUNCTIONS[function]} {two} }}""",
        opset=20,
        w=(4, 16), b=(16,), k=(16, 1, 3, 3), m=(16,), v=(16, 4), d=(4,),
    )  # fmt: skip
    table = after(proto, "tokens as images")
    counts = running(table)
    assert counts["Conv"] == 3
    assert counts["MatMul"] == 0
    assert sizes(table, "Transpose") == [(1, 4, 30), (1, 30, 4)]  # of the few channels, not of the many


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pixels_with_channels_last_between_convolutions_have_them_first(function: str) -> None:
    proto = model(
        f"""agraph (float[1, 8, 5, 6] x) => (float[1, 8, 5, 6] y) {{ {NUMBERS}
          c = Conv<pads = [1, 1, 1, 1], group = 8>(x, k, m) t = Transpose<perm = [0, 2, 3, 1]>(c)
          {FUNCTIONS[function]} o = MatMul(f, w) a = Add(o, b) z = Transpose<perm = [0, 3, 1, 2]>(a)
          y = Relu(z) }}""",
        opset=20,
        k=(8, 1, 3, 3), m=(8,), w=(8, 8), b=(8,),
    )  # fmt: skip
    counts = running(after(proto, "pixels with channels first"))
    assert counts["Conv"] == 2
    assert counts["MatMul"] == counts["Transpose"] == 0


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_an_image_that_keeps_its_size_is_not_resized(mode: str) -> None:
    proto = model(
        f"""agraph (float[1, 3, 5, 6] x) => (float[1, 3, 5, 6] y) {{ sizes = Constant<value_ints = [1, 3, 5, 6]>()
          r = Resize<mode = "linear", coordinate_transformation_mode = "{mode}">(x, , , sizes) y = Relu(r) }}"""
    )
    loaded, library = load(proto), load_library()
    canonical = Canonicalizer.of(library.canonical, library.cleanup)
    rules = Rewriter.of(library.search | library.cleanup, canonical)
    view = view_of(loaded, canonical)
    matches = [m for ms in rules.all_matches(view).values() for m in ms if m.rule.name.startswith("whole-resize")]
    moved = rules.apply(view, matches, 16)
    assert moved is not None
    assert running(moved.view.table) == {"Relu": 1}

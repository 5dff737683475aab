"""Operators with slow kernels give way to others; where a law would not hold, they stay."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_library
from taso_py.search.slopes import ONE_SLOPE
from taso_py.search.slow_kernels import SLOW_KERNELS
from taso_py.search.strategy import Limits
from tests.helpers.graphs import model, rewriter, running, together, view_of

IMAGE = "float[2,4,6,8] x"
CHANNELS = "Constant<value = float[4,1,1] {0.1, 0.2, 0.3, 0.4}>()"
CONV = "agraph (float[1,24,8,10] x, float[{o},24,3,3] w) => (float[1,{o},{h},{v}] y) {{ y = Conv{more}(x, w) }}"

FILM = (
    "agraph (float[2,4,5,6,8] x, float[6,{c},{k}] w, float[6] b) => (float[2,6,{y}] y) {{ y = Conv<{more}>(x, w, b) }}"
)

BY_CHANNEL = """agraph (float[2,{c},6,8] x, float[{c},1,3,3] w, float[{c}] b) => (float[2,{c},3,8] y) {{
    y = Conv<group = {c}, strides = [2,1], pads = [1,1,1,1]>(x, w, b)
}}"""
ROW = "agraph (float[2,4,8] x) => (float[2,{c},{l}] y) {{ {body} }}"
AVERAGE = "y = AveragePool<kernel_shape = [3], strides = [2], pads = [0,1], {more}>(x)"
TRANSPOSED = """w = Constant<value = float[4,3,2] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2,
    1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1, 2.2, 2.3, 2.4}>()
    y = ConvTranspose<strides = [2], dilations = [3], output_padding = [1], pads = [0,1], group = 2>(x, w)"""
EACH = "zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() two = Constant<value_ints = [2]>()"
BY_STEPS = f"""{EACH} end = Constant<value_ints = [9223372036854775807]>() last = Constant<value_ints = [3]>()
    even = Slice(x, zero, end, last, two) odd = Slice(x, one, end, last, two)"""
IN_PAIRS = "split = Constant<value_ints = [2,3,5,4,2]>() each = Reshape(x, split)"
APART = f"""{IN_PAIRS} axis = Constant<value_ints = [-1]>()
    first, second = Split<axis = -1>(each) even = Squeeze(first, axis) odd = Squeeze(second, axis)"""
PICKED = f"""{IN_PAIRS} zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    even = Gather<axis = -1>(each, zero) odd = Gather<axis = 4>(each, one)"""
BY_RIGHT_ANGLES = "left = Neg(odd)"
BY_ANGLES = """
    c = Constant<value = float[3,1,4] {0.5, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, -1.0, -0.5}>()
    s = Constant<value = float[4] {0.5, -0.1, 0.9, 0.3}>()
    ac = Mul(even, c) bs = Mul(odd, s) as = Mul(s, even) bc = Mul(c, odd) left = Sub(ac, bs) right = Add(bc, as)"""


def turned(taken: str, by: str, right: str = "even", axis: int = -1) -> str:
    joined = f"""last_axis = Constant<value_ints = [-1]>() shape = Constant<value_ints = [2,3,5,8]>()
        a = Unsqueeze(left, last_axis) b = Unsqueeze({right}, last_axis)
        pairs = Concat<axis = {axis}>(a, b) y = Reshape(pairs, shape)"""
    return graph("float[2,3,5,8] x", "2,3,5,8", f"{taken} {by} {joined}")


def graph(given: str, of: str, body: str) -> str:
    return f"agraph ({given}) => (float[{of}] y) {{ {body} }}"


@pytest.mark.parametrize(
    ("rule", "text", "gone"),
    [
        ("softmax-of-channels", graph(IMAGE, "2,4,6,8", "y = Softmax<axis = 1>(x)"), ""),
        ("softmax-of-rows", graph(IMAGE, "2,4,6,8", "y = Softmax<axis = 2>(x)"), ""),
        ("softmax-of-columns", graph("float[2,4,6] x", "2,4,6", "y = Softmax<axis = -2>(x)"), ""),
        ("log-softmax-of-channels", graph(IMAGE, "2,4,6,8", "y = LogSoftmax<axis = -3>(x)"), ""),
        ("mean-of-channels-by-product", graph(IMAGE, "2,1,6,8", "y = ReduceMean<axes = [1]>(x)"), "ReduceMean"),
        ("mean-of-rows-by-product", graph(IMAGE, "2,4,1,8", "y = ReduceMean<axes = [2]>(x)"), "ReduceMean"),
        ("length-of-channels-by-product", graph(IMAGE, "2,1,6,8", "y = ReduceL2<axes = [1]>(x)"), "ReduceL2"),
        ("prelu-of-channels", graph(IMAGE, "2,4,6,8", f"a = {CHANNELS} y = PRelu(x, a)"), "PRelu"),
        (ONE_SLOPE, graph(IMAGE, "2,4,6,8", "a = Constant<value_floats = [0.125]>() y = PRelu(x, a)"), "PRelu"),
        ("tangent-of-softplus", graph(IMAGE, "2,4,6,8", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"), "Softplus"),
        ("elu-by-parts", graph(IMAGE, "2,4,6,8", "y = Elu<alpha = 0.5>(x)"), "Elu"),
        ("power-three-quarters", graph(IMAGE, "2,4,6,8", "e = Constant<value_float = 0.75>() y = Pow(x, e)"), "Pow"),
        ("local-response-by-convolution", graph(IMAGE, "2,4,6,8", "y = LRN<size = 3, beta = 0.3>(x)"), "LRN"),
        ("few-channels-as-transposed", CONV.format(o=1, h=8, v=10, more="<pads = [1,1,1,1]>"), "Conv"),
        ("few-channels-as-transposed", CONV.format(o=8, h=6, v=8, more=""), "Conv"),
        ("few-channels-in-phases", CONV.format(o=3, h=8, v=10, more="<pads = [1,1,1,1]>"), ""),
        (
            "frames-one-by-one",
            FILM.format(c=4, k="1,3,3", y="5,3,6", more="strides = [1,2,1], pads = [0,1,0,0,1,0]"),
            "",
        ),
        (
            "pixels-over-time",
            FILM.format(c=2, k="3,1,1", y="2,6,8", more="strides = [3,1,1], pads = [1,0,0,2,0,0], group = 2"),
            "",
        ),
        (
            "frames-in-threes",
            FILM.format(c=4, k="3,3,3", y="5,4,4", more="pads = [1,0,0,1,0,0], dilations = [1,1,2]"),
            "",
        ),
        (
            "frames-in-threes-by-two",
            FILM.format(c=2, k="3,1,3", y="3,6,8", more="strides = [2,1,1], pads = [1,0,1,1,0,1], group = 2"),
            "",
        ),
        ("frames-in-threes-within", FILM.format(c=4, k="3,2,2", y="3,3,7", more="strides = [1,2,1]"), ""),
        (
            "max-pool-of-one-row",
            ROW.format(c=4, l=4, body="y = MaxPool<kernel_shape = [3], strides = [2], pads = [1,0]>(x)"),
            "",
        ),
        ("average-pool-of-one-row", ROW.format(c=4, l=4, body=AVERAGE.format(more="count_include_pad = 1")), ""),
        ("average-pool-of-one-row", ROW.format(c=4, l=4, body=AVERAGE.format(more="ceil_mode = 0")), ""),
        ("transposed-conv-of-one-row", ROW.format(c=6, l=18, body=TRANSPOSED), ""),
        ("turned-pairs", turned(BY_STEPS, BY_RIGHT_ANGLES), "Concat"),
        ("turned-pairs-apart", turned(APART, BY_RIGHT_ANGLES), "Concat"),
        ("turned-pairs-picked", turned(PICKED, BY_RIGHT_ANGLES), "Concat"),
        ("turned-by-angles", turned(BY_STEPS, BY_ANGLES, "right"), "Concat"),
        ("turned-by-angles-apart", turned(APART, BY_ANGLES, "right"), "Concat"),
        ("turned-by-angles-picked", turned(PICKED, BY_ANGLES, "right"), "Concat"),
    ],
)
def test_it_is_written_with_others(rule: str, text: str, gone: str) -> None:
    found = rewritten(rule, text)
    assert found is not None
    assert not gone or gone not in found


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("softmax-of-rows", graph(IMAGE, "2,4,6,8", "y = Softmax<axis = 3>(x)")),
        ("softmax-of-channels", graph(IMAGE, "2,4,6,8", "y = Softmax<axis = 2>(x)")),
        ("prelu-of-channels", graph(IMAGE, "2,4,6,8", "a = Constant<value_floats = [0.5]>() y = PRelu(x, a)")),
        (ONE_SLOPE, graph(IMAGE, "2,4,6,8", f"a = {CHANNELS} y = PRelu(x, a)")),
        (ONE_SLOPE, graph(f"{IMAGE}, float[1] a", "2,4,6,8", "y = PRelu(x, a)")),
        ("local-response-by-convolution", graph(IMAGE, "2,4,6,8", "y = LRN<size = 3, bias = 0.0>(x)")),
        ("local-response-by-convolution", graph(IMAGE, "2,4,6,8", "y = LRN<size = 4>(x)")),  # which nothing runs
        ("few-channels-as-transposed", CONV.format(o=2, h=3, v=4, more="<strides = [2,2]>")),
        ("few-channels-as-transposed", CONV.format(o=2, h=14, v=16, more="<pads = [4,4,4,4]>")),
        ("few-channels-as-transposed", CONV.format(o=9, h=6, v=8, more="")),
        ("few-channels-in-phases", CONV.format(o=1, h=7, v=9, more="<pads = [1,1,0,0]>")),
        ("depthwise-in-whole-blocks", BY_CHANNEL.format(c=8)),
        (
            "depthwise-in-whole-blocks",
            BY_CHANNEL.format(c=6).replace("group = 6", "group = 3").replace("6,1,3,3", "6,2,3,3"),
        ),
        ("frames-one-by-one", FILM.format(c=4, k="1,3,3", y="3,4,6", more="strides = [2,1,1]")),
        ("frames-one-by-one", FILM.format(c=4, k="1,3,3", y="7,4,6", more="pads = [1,0,0,1,0,0]")),
        ("frames-in-threes", FILM.format(c=4, k="3,3,3", y="2,4,6", more="strides = [3,1,1], pads = [1,0,0,1,0,0]")),
        ("frames-in-threes", FILM.format(c=4, k="3,3,3", y="4,4,6", more="pads = [1,0,0,0,0,0]")),
        ("frames-in-threes", FILM.format(c=4, k="3,3,3", y="3,4,6", more="pads = [1,0,0,1,0,0], dilations = [2,1,1]")),
        ("turned-pairs", turned(BY_STEPS, "left = Neg(even)", "odd")),
        ("turned-pairs", turned(BY_STEPS, BY_RIGHT_ANGLES, axis=3)),
        ("turned-by-angles", turned(BY_STEPS, BY_ANGLES.replace("Mul(c, odd)", "Mul(s, odd)"), "right")),
        ("turned-by-angles-picked", turned(PICKED, BY_ANGLES.replace("Sub(ac, bs)", "Sub(bs, ac)"), "right")),
    ],
)
def test_it_stays(rule: str, text: str) -> None:
    assert rewritten(rule, text) is None


@pytest.mark.parametrize("more", ["", ", cubic_coeff_a = -0.5"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "align_corners", "pytorch_half_pixel", "asymmetric", "half_pixel_symmetric"]
)
def test_cubic_interpolation_is_two_products(coordinates: str, more: str) -> None:
    options = f'coordinate_transformation_mode = "{coordinates}", mode = "cubic"{more}'
    body = f"s = Constant<value_floats = [1.0, 1.0, 2.0, 1.5]>() y = Resize<{options}>(x, , s)"
    found = rewritten("cubic-resize-by-products", graph(IMAGE, "2,4,12,12", body), opset=19)
    assert found == {"MatMul": 2}


def test_in_many_places_it_makes_many_nodes() -> None:
    """Of 70 operators 420, which as a move by itself would be too many."""
    body = " ".join(f"v{k + 1} = Mish(v{k})" for k in range(70)).replace("v0", "x").replace("v70", "y")
    before = load(model(graph(IMAGE, "2,4,6,8", body), opset=18))
    rules, canonical = rewriter(None, "mish-by-sigmoid")
    after = together(rules, view_of(before, canonical), SLOW_KERNELS["tangents of softpluses"]).table
    assert running(after)["Sigmoid"] == 70
    assert not Limits(math.inf).admit(before.table, after)
    assert Limits(math.inf).admit_bundle(before.table, after)


def test_bundles_are_of_these_rules() -> None:
    files = {rule.name: Path(rule.file).name for rule in load_library().search}
    assert {files[name] for bundle in SLOW_KERNELS.values() for name in bundle.leading} == {"kernels.rules"}
    assert {name for bundle in SLOW_KERNELS.values() for name in bundle.following} <= files.keys()


def rewritten(rule: str, text: str, opset: int = 17) -> dict[str, int] | None:
    """How often each operator runs after the rule has been applied wherever it matches; None where it does not."""
    rules, canonical = rewriter(None, rule)
    view = view_of(load(model(text, opset=opset)), canonical)
    matches = [match for found in rules.all_matches(view).values() for match in found]
    moved = rules.apply(view, matches, 4) if matches else None
    return None if moved is None else dict(running(moved.view.table))


def test_channels_of_zeros_run_through_between_two_convolutions() -> None:
    """Nothing is padded or cut when the model runs: kernels of zeros do it."""
    weights = {"w1": (10, 4, 1, 1), "b1": (10,), "w2": (10, 1, 3, 3), "b2": (10,), "w3": (5, 10, 1, 1), "b3": (5,)}
    body = """a = Conv(x, w1, b1) c = Clip(a, zero, six) d = Conv<group = 10, pads = [1,1,1,1]>(c, w2, b2)
        e = Relu(d) y = Conv(e, w3, b3)"""
    generator = np.random.default_rng(0)
    values = {name: generator.normal(size=shape) for name, shape in weights.items()}
    values |= {"zero": np.array(0), "six": np.array(6)}
    given = ", ".join(f"float[{','.join(map(str, value.shape))}] {name}" for name, value in values.items())
    proto = model(graph(f"float[2,4,6,8] x, {given.replace('float[] ', 'float ')}", "2,5,6,8", body))
    del proto.graph.input[1:]
    for name, value in values.items():
        proto.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    before, bundle = load(proto), SLOW_KERNELS["depthwise in whole blocks"]
    rules, canonical = rewriter(None, *bundle.leading, *bundle.following)
    after = together(rules, view_of(before, canonical), bundle).table
    assert running(after) == {"Conv": 3, "Clip": 1, "Relu": 1}

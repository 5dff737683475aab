"""Above a rounding no rewrite changes floats, not even by an error of rounding."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from taso_py.api import optimize
from taso_py.onnx_io.load import load
from taso_py.search.rounding import rounding_bodies
from tests.helpers.graphs import model, rewriter, view_of

RULES = """
rule common "A common factor comes out.": Sub(Mul(a, c), Mul(b, c)) => Mul(Sub(a, b), c)
rule twice "Two transpositions are none.": Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x
"""
START = "(float[2,3] a, float[2,3] b, float c, float[2,3] f) => (float[2,3] f2, "
COMMON = """p = Mul(a, c)
    q = Mul(b, c)
    s = Sub(p, q)
    f2 = Neg(f)"""


def names(result: str, rest: str, element: str = "float") -> set[str]:
    """Rules that match somewhere in a graph that computes s = a·c - b·c and then ``rest``, in this element type."""
    border = f"{START} {result})".replace("float", element)
    loaded = load(model(f"agraph {border} {{\n {COMMON}\n {rest} }}"))
    rules, canonical = rewriter(RULES)
    found = rules.all_matches(view_of(loaded, canonical))
    return {match.rule.name for matches in found.values() for match in matches}


@pytest.mark.parametrize(
    ("result", "rest"),
    [
        ("int64[2,3] y", "y = Cast<to = 7>(s)"),
        ("float[2,3] y", "r = Relu(s) y = Round(r)"),
        ("float[2,3] y", "r = Div(s, c) y = Floor(r)"),
        ("uint8[2,3] y", "y = QuantizeLinear(s, c)"),
        ("uint8[2,3] y", "m = ReduceMax(s) n = Abs(m) y = QuantizeLinear(f, n)"),
        ("float[2,3] y", "t = Transpose<perm = [1, 0]>(s) u = Ceil(t) y = Transpose<perm = [1, 0]>(u)"),
        ("float[2,3] y", "y = Mod<fmod = 1>(s, c)"),
        ("float[2,3] y", "y = Sign(s)"),
        ("float[2,3] y", "y = Shrink<bias = 1.0, lambd = 0.0>(s)"),
        ("float[2,3] y", "y = ThresholdedRelu(s)"),
        ("bool[2,3] y", "r = Neg(s) y = Cast<to = 9>(r)"),
        ("int64[2,M] y", "y = NonZero(s)"),
        (
            "float[2,3,4] y",
            "d = Constant<value_int = 4>() v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(s, d, v)",
        ),
        ("float[N] y", "k = ReduceMax<keepdims = 0>(s) y = Range(c, k, c)"),
        ("float[N] y", "y = Unique(s)"),
        ("float[2,3] y", "y = Pow(f, s)"),
        ("float[2,3] y", "y = Acos(s)"),
        ("bool[2,3] y", "y = IsInf(s)"),
        ("float[2,3] y", "k = Constant<value_float = 12582912.0>() r = Add(s, k) y = Sub(r, k)"),
        ("float[2,3] y", "k = Constant<value_float = 8388608.0>() m = Neg(s) r = Sub(k, m) t = Relu(f) y = Sub(r, k)"),
        ("string[2,3] y", "y = Cast<to = 8>(s)"),
        ("float[N,M] y", "v = Constant<value_floats = [1.0, 0.0, 0.0]>() m = MatMul(s, v) y = Resize(f, , m)"),
        (
            "float[1,1,1,3] y",
            "k = Constant<value_ints = [1, 1, 2, 3]>() j = Constant<value_ints = [1, 1, 3, 2]>() "
            'i = Reshape(f, k) g = Reshape(s, j) y = GridSample<mode = "nearest">(i, g)',
        ),
    ],
)
def test_what_is_rounded_later_stays(result: str, rest: str) -> None:
    assert "common" not in names(result, rest)


DECIDED = [
    ("bool[2,3] y", "y = Greater(s, f)"),
    ("bool[2,3] y", "r = Relu(s) y = Equal(f, r)"),
    ("int64[1,3] y", "y = ArgMax(s)"),
    ("int64[1,3] y", "k = Constant<value_ints = [1]>() m = Neg(s) v, y = TopK<axis = 0>(m, k)"),
]


def test_half_precision_that_is_cast_before_it_is_compared_stays_too() -> None:
    rest = "w = Cast<to = 1>(s) y = ArgMax(w)"
    assert "common" in names("int64[1,3] y", rest)
    assert "common" not in names("int64[1,3] y", rest, "float16")


def test_sizes_are_no_decision() -> None:
    border = START.replace("float[2,3]", "float16[n,3]").replace("float c", "float16 c")
    loaded = load(model(f"agraph {border} int64[2] y) {{\n {COMMON}\n y = Shape(s) }}"))
    rules, canonical = rewriter(RULES)
    found = rules.all_matches(view_of(loaded, canonical))
    assert {m.rule.name for ms in found.values() for m in ms} == {"common"}


@pytest.mark.parametrize(("result", "rest"), DECIDED)
def test_what_is_compared_in_half_precision_stays(result: str, rest: str) -> None:
    assert "common" in names(result, rest)
    assert "common" not in names(result, rest, "float16")
    assert "common" in names("float[2,3] y", "y = Relu(s)", "float16")


@pytest.mark.parametrize(
    ("result", "rest"),
    [
        ("float[2,3] y", "y = Relu(s)"),
        ("float[2,3] y", "t = Round(f) y = Add(s, t)"),
        ("bool[2,3] y", "y = Greater(s, f)"),
        ("float[N,M] y", "v = Constant<value_floats = [1.0, 0.0, 0.0]>() m = MatMul(f, v) y = Resize(s, , m)"),
        ("float[N,M] y", "v = Constant<value_floats = [2.0, 2.0]>() y = Resize(s, , v)"),
        (
            "float[1,1,1,3] y",
            "k = Constant<value_ints = [1, 1, 2, 3]>() j = Constant<value_ints = [1, 1, 3, 2]>() "
            'i = Reshape(f, k) g = Reshape(s, j) y = GridSample<mode = "linear">(i, g)',
        ),
        ("float[2,3] y", "q8 = QuantizeLinear(f, c) d = DequantizeLinear(q8, c) y = Mul(s, d)"),
        ("double[2,3] y", "i = Cast<to = 7>(f) j = Cast<to = 11>(i) k = Cast<to = 11>(s) y = Add(j, k)"),
    ],
)
def test_what_is_not_is_rewritten(result: str, rest: str) -> None:
    assert "common" in names(result, rest)


def test_copies_may_be_rewritten_there() -> None:
    twice = "t = Transpose<perm = [1, 0]>(s) u = Transpose<perm = [1, 0]>(t) y = Round(u)"
    assert names("float[2,3] y", twice) == {"twice"}


@pytest.mark.parametrize(
    ("to", "rounds"),
    [("FLOAT8E4M3FN", True), ("UINT4", True), ("STRING", True), ("BOOL", True), ("FLOAT16", False), ("DOUBLE", False)],
)
def test_a_body_that_casts_to_few_numbers_rounds(to: str, rounds: bool) -> None:
    cast = helper.make_node("Cast", ["a"], ["o"], to=TensorProto.DataType.Value(to))
    function = helper.make_function("local", "F", ["a"], ["o"], [cast], [helper.make_opsetid("", 21)])
    call = helper.make_node("F", ["x"], ["y"], domain="local")
    graph = helper.make_graph([call], "g", [], [])
    assert bool(rounding_bodies(helper.make_model(graph, functions=[function]))) == rounds


LARGE = """
rule join "Two numbers.": Add(Add(x, a), b) => Add(x, Add(a, b)) when constant(a), constant(b)
rule before "A shift before a product.": MatMul(Sub(x, a), w) => Sub(MatMul(x, w), MatMul(a, w))
  for x[m, k], a[1, k], w[k, n] when constant(a), constant(w)
rule mean "A shift before a mean.":
  ReduceMean(Add(x, c), axes=[0], keepdims=0) => Add(ReduceMean(x, axes=[0], keepdims=0), c)
  for x[m, n], c[n] when constant(c), m >= 1
"""
SHIFTED = [
    ("k = Constant<value_float = 12582912.0>() m = Neg(k) r = Add(x, k) y = Add(r, m)", 1),
    ("k = Constant<value_float = 12582912.0>() r = Add(k, x) y = Add(k, r)", 1),
    ("k = Constant<value_float = 12582912.0>() m = Constant<value_float = 0.5>() r = Sum(x, k) y = Add(r, m)", 1),
    ("k = Constant<value_floats = [1e9, 0.0, 0.0]>() m = Constant<value_float = 1.0>() r = Add(x, k) y = Add(r, m)", 1),
    ("k = Constant<value_float = 100.0>() m = Neg(k) r = Add(x, k) y = Add(r, m)", 0),
    ("r = Sub(x, far) y = MatMul(r, w)", 1),
    ("r = Sub(x, near) y = MatMul(r, w)", 0),
    ("k = Constant<value_floats = [0.0, -1.7e9, 0.0]>() r = Add(x, k) y = ReduceMean<axes = [0], keepdims = 0>(r)", 1),
    ("k = Constant<value_floats = [0.0, -17.0, 0.0]>() r = Add(x, k) y = ReduceMean<axes = [0], keepdims = 0>(r)", 0),
]
"""Data less what is large, and numbers by which others are rounded; and whether they stay."""


@pytest.mark.parametrize(("nodes", "stays"), SHIFTED)
def test_a_large_number_is_added_where_it_was(nodes: str, stays: int) -> None:
    proto = model(f"""agraph (float[4,3] x) => (float[N,M] y)
      <float[1,3] far = {{1.7e9, 0.0, 0.0}}, float[1,3] near = {{123.0, 116.0, 104.0}},
       float[3,2] w = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}> {{ {nodes} }}""")
    rules, canonical = rewriter(LARGE)
    found = rules.all_matches(view_of(load(proto), canonical))
    assert any(found.values()) is not bool(stays)


@pytest.mark.parametrize(("told", "stays"), [("", False), (", float[4,3] z", True)])
def test_a_masked_score_is_one_only_where_nobody_else_reads_it(told: str, *, stays: bool) -> None:
    proto = model(f"""agraph (float[4,3] x) => (float[4,3] y{told}) <float[3] mask = {{0.0, -1e6, 0.0}}> {{
      k = Constant<value_float = 1.0>() r = Add(x, k) z = Add(r, mask) y = Softmax(z) }}""")
    rules, canonical = rewriter(LARGE)
    found = rules.all_matches(view_of(load(proto), canonical))
    assert any(found.values()) is not stays


def test_a_large_number_may_be_added_before_a_thousand_operands_are_joined() -> None:
    parts = ", ".join(["r"] * 1200)
    proto = model(f"""agraph (float[4] x) => (float[N] y) {{
      k = Constant<value_float = 1e6>() s = Add(x, k) r = Add(s, k) y = Concat<axis = 0>({parts}) }}""")
    rules, canonical = rewriter(LARGE)
    assert not any(rules.all_matches(view_of(load(proto), canonical)).values())


@pytest.mark.parametrize(("constant", "rounds"), [(True, False), (False, True)])
@pytest.mark.parametrize("kind", ["function", "branch"])
def test_a_body_that_scales_by_what_it_is_given_rounds(kind: str, constant: bool, rounds: bool) -> None:
    scales = helper.make_node("Constant", [], ["s"], value_floats=[1.0, 2.0]) if constant else None
    resize = helper.make_node("Resize", ["x", "", "s"], ["y"])
    nodes = [*([scales] if scales else []), resize]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    s = helper.make_tensor_value_info("s", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    if kind == "function":
        function = helper.make_function("d", "F", ["x", "s"] if not constant else ["x"], ["y"], nodes, opsets[:1])
        call = helper.make_node("F", ["x", "s"] if not constant else ["x"], ["y"], domain="d")
        graph = helper.make_graph([call], "g", [x, s], [y])
        proto = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=8)
    else:
        body = helper.make_graph(nodes, "b", [], [y])
        c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
        call = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
        z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        proto = helper.make_model(helper.make_graph([call], "g", [x, s, c], [z]), opset_imports=opsets, ir_version=8)
    assert bool(rounding_bodies(proto)) is rounds


@pytest.mark.parametrize(("level", "rounds"), [(None, False), (1, False), (4, True)])
def test_a_product_with_quantised_weights_rounds_where_it_computes_in_whole_numbers(
    level: int | None, rounds: bool
) -> None:
    given = {} if level is None else {"accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=32, N=2, bits=4, **given)
    assert bool(rounding_bodies(helper.make_model(helper.make_graph([node], "g", [], [])))) == rounds


@pytest.mark.parametrize("options", [{"apply": "all"}, {}], ids=["all", "best"])
def test_the_reason_tells_of_what_stays_for_it(options: dict[str, str]) -> None:
    quantised = """agraph (float[8,16] x, float[16,32] w, float[16,4] a, float[4,32] b) => (float[8,32] y) {
      p = MatMul(x, w) q = MatMul(x, a) r = MatMul(q, b) s = Add(p, r) one = Constant<value_float = 0.1>()
      z = Constant<value = int8 {0}>() t = QuantizeLinear(s, one, z) y = DequantizeLinear(t, one, z) }"""
    result = optimize(model(quantised), race=False, **options)
    assert result.reason is not None
    assert result.reason.code == "nothing matched"
    assert "values left as they are, since they are rounded to whole numbers further on" in result.reason.words
    plain = quantised.replace("t = QuantizeLinear(s, one, z) y = DequantizeLinear(t, one, z)", "y = Exp(s)")
    result = optimize(model(plain), race=False, **options)
    assert result.reason is None or "whole numbers" not in result.reason.words

"""Whole numbers wrap where those of ONNX Runtime do, in constants and on shapes; slices of shapes clamp alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto

import taso_py
from taso_py.errors import TypingError
from taso_py.onnx_io.load import load
from tests.helpers.graphs import model
from tests.helpers.onnx_io_models import run

FLOAT32_CODE = TensorProto.FLOAT

CASES = [
    ("uint8", "Add", [200, 1], [100, 2]),
    ("uint8", "Sub", [1, 5], [100, 2]),
    ("uint32", "Sub", [1, 5], [100, 2]),
    ("int32", "Add", [2**31 - 1, -5], [1, 7]),
    ("int32", "Mul", [2**30, 3], [4, -2]),
    ("int64", "Add", [2**63 - 1, 5], [1, 7]),
    ("int64", "Mul", [2**62, -3], [4, 5]),
    ("int32", "Max", [2**31 - 1, -5], [1, 7]),
]


@pytest.mark.parametrize(("dtype", "operator", "a", "b"), CASES)
@pytest.mark.parametrize("then", ["Cast<to=1>(s)", "Cast<to=1>(t)"])
def test_constants_wrap_at_every_step(dtype: str, operator: str, a: list[int], b: list[int], then: str) -> None:
    text = f"""agraph (float[2] x) => (float[2] y)
      <{dtype}[2] a = {{{a[0]}, {a[1]}}}, {dtype}[2] b = {{{b[0]}, {b[1]}}}> {{
      s = {operator}(a, b) t = Add(s, b) c = {then} y = Add(x, c) }}"""
    proto = model(text)
    loaded = load(proto)
    expected = run(proto, {"x": np.zeros(2, np.float32)})[0]
    np.testing.assert_array_equal(loaded.folder.value(loaded.ids["c"], loaded.table.nodes), expected)


def test_many_constants_of_64_bits_without_a_sign_are_left_too() -> None:
    names = [f"c{k}" for k in range(1200)]
    listed = ", ".join(f"uint64[1] {name} = {{{k}}}" for k, name in enumerate(names))
    loaded = load(model(f"agraph () => (uint64[1200] y) <{listed}> {{ y = Concat<axis = 0>({', '.join(names)}) }}"))
    with pytest.raises(TypingError, match="uint64"):
        loaded.folder.value(loaded.ids["y"], loaded.table.nodes)


def test_unsigned_numbers_of_64_bits_are_left_to_onnx_runtime() -> None:
    loaded = load(model("agraph () => (float[1] y) <uint64[1] a = {9223372036854775813}> { y = Cast<to=1>(a) }"))
    with pytest.raises(TypingError, match="uint64"):
        loaded.folder.value(loaded.ids["y"], loaded.table.nodes)


def optimised(text: str, tmp_path: Path, sizes: list[int]) -> None:
    """Whatever the optimiser makes of a model computes the same at these sizes of x."""
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    proto = model(text)
    path.write_bytes(proto.SerializeToString())
    result = taso_py.optimize(path, apply="all", race=False, cache=None)
    out.write_bytes(result.model.SerializeToString())
    sessions = [ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, out)]
    for size in sizes:
        x = np.random.default_rng(size).uniform(-500, 500, size).astype(np.float32)
        one, other = (s.run(None, {"x": x})[0] for s in sessions)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_a_sum_of_bytes_does_not_grow_beyond_them(tmp_path: Path) -> None:
    """The wrapped sum is 44; a check at small inputs does not see 300 behind the Relu."""
    text = """agraph (float[N] x) => (float[N] y) <uint8 a = {200}, uint8 b = {100}, float d = {1}> {
      s = Add(a, b) c = Cast<to=1>(s) t = Sub(x, c) u = Sub(t, d) y = Relu(u) }"""
    optimised(text, tmp_path, [1, 2, 50])


BEGINNINGS = [(-1, 2**63 - 1), (-10, -100), (5, -100), (-1, -100), (2**63 - 1, -(2**63)), (0, -100), (-1, 0)]


@pytest.mark.parametrize(("start", "end"), BEGINNINGS)
@pytest.mark.parametrize("step", [-1, -2, 1])
def test_a_slice_of_a_shape_is_that_of_onnx_runtime(start: int, end: int, step: int, tmp_path: Path) -> None:
    text = f"""agraph (float[N] x) => (float[N] y) <int64[1] st = {{{start}}}, int64[1] en = {{{end}}},
      int64[1] ax = {{0}}, int64[1] sp = {{{step}}}, int64 eight = {{8}}> {{
      s = Shape(x) r = Slice(s, st, en, ax, sp) p = ReduceProd<keepdims = 0>(r) q = Max(p, eight) f = Cast<to = 1>(q)
      t = Mul(x, f) u = Relu(t) y = Relu(u) }}"""
    optimised(text, tmp_path, [3, 20])


@pytest.mark.parametrize(("operator", "factor"), [("Mul", 2**60), ("Add", 2**63 - 4), ("Sub", -(2**63) + 4)])
def test_arithmetic_on_shapes_wraps(operator: str, factor: int, tmp_path: Path) -> None:
    text = f"""agraph (float[N] x) => (float[N] y) <int64[1] c = {{{factor}}}, int64[1] z = {{0}}> {{
      s = Shape(x) p = {operator}(s, c) k = GreaterOrEqual(p, z)
      v = Neg(x) u = Where(k, x, v) w = Relu(u) y = Relu(w) }}"""
    optimised(text, tmp_path, [3, 8, 9])


def test_arithmetic_on_shapes_in_32_bits_wraps_earlier(tmp_path: Path) -> None:
    text = """agraph (float[N] x) => (float[N] y) <int32[1] c = {536870912}, int32[1] z = {0}> {
      s = Shape(x) i = Cast<to = 6>(s) p = Mul(i, c) k = GreaterOrEqual(p, z)
      v = Neg(x) u = Where(k, x, v) w = Relu(u) y = Relu(w) }"""
    optimised(text, tmp_path, [3, 4, 5, 8])


NARROW = [("uint8", "Add", 200, 100), ("uint8", "Sub", 5, 10), ("int8", "Mul", 100, 2), ("uint32", "Sub", 5, 10)]


@pytest.mark.parametrize(("dtype", "operator", "a", "b"), NARROW)
def test_ends_of_slices_wrap_in_narrow_numbers(dtype: str, operator: str, a: int, b: int) -> None:
    proto = model(f"""agraph (float[400] x) => (float[M] c)
      <{dtype} a = {{{a}}}, {dtype} b = {{{b}}}, int64[1] z = {{0}}, int64[1] one = {{1}}> {{
      s = {operator}(a, b) e = Cast<to = 7>(s) f = Reshape(e, one) c = Slice(x, z, f) }}""")
    loaded = load(proto)
    expected = run(proto, {"x": np.zeros(400, np.float32)})[0].shape
    assert loaded.table.type(loaded.ids["c"]).shape == expected


@pytest.mark.parametrize(("operator", "operand"), [("Div", 2), ("Mod", 2)])
@pytest.mark.parametrize("axes", [[0, 1], [0]])
def test_a_scalar_that_is_given_two_axes_is_no_vector(operator: str, operand: int, axes: list[int]) -> None:
    listed = ", ".join(map(str, axes))
    proto = model(f"""agraph (float[6,3] x) => (int64[K] d) <int64 first = {{0}}, int64 c = {{{operand}}},
      int64[{len(axes)}] axes = {{{listed}}}> {{
      s = Shape(x) n = Gather(s, first) u = Unsqueeze(n, axes) e = {operator}(u, c) d = Cast<to = 7>(e) }}""")
    loaded = load(proto)
    shape = loaded.table.type(loaded.ids["d"]).shape
    assert shape == run(proto, {"x": np.zeros((6, 3), np.float32)})[0].shape


def test_products_of_sums_of_sizes_have_few_terms() -> None:
    """Twenty sums of two symbols each have a million."""
    inputs = ", ".join(f"float[a{k},b{k}] x{k}" for k in range(20))
    sums = " ".join(
        f"s{k} = Shape(x{k}) p{k} = Gather(s{k}, zero) q{k} = Gather(s{k}, one) t{k} = Add(p{k}, q{k})"
        for k in range(20)
    )
    products = " ".join(f"m{k} = Mul({f'm{k - 1}' if k else 'one'}, t{k})" for k in range(20))
    loaded = load(
        model(f"agraph ({inputs}) => (int64 m19) <int64 zero = {{0}}, int64 one = {{1}}> {{ {sums} {products} }}")
    )
    known = [k for k in range(20) if loaded.ids[f"m{k}"] in loaded.vectors]
    assert known == list(range(8))


def test_a_size_that_is_named_like_a_nameless_one_is_another() -> None:
    text = """agraph (float[?,4] a, float[P,4] b) => (float[4] y) <int64[1] ax = {0}> {
      p = ReduceSum<keepdims = 0>(a, ax) q = ReduceSum<keepdims = 0>(b, ax) y = Add(p, q) }"""
    proto = model(text)
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "a.0"
    loaded = load(proto)
    one, other = (loaded.values.types[loaded.ids[name]].dims[0] for name in "ab")
    assert one != other

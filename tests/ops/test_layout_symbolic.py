"""Convolutions, pools and data movement with symbolic sizes, and forms that stay opaque."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper

from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.substitution import substitute
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.constants import Fill
from taso_py.ops.convolution import Conv
from taso_py.ops.expand import Expand
from taso_py.ops.gather import Gather
from taso_py.ops.layout import Split
from taso_py.ops.operator import Constant, OnnxCall, Operator
from taso_py.ops.padding import Pad
from taso_py.ops.pool import MaxPool
from taso_py.ops.regroup import regroup
from taso_py.ops.reshape import Flatten, Reshape, Squeeze, Transpose
from taso_py.ops.resize import Resize
from taso_py.ops.rows import GatherRows
from taso_py.ops.sampling import nearest_table
from taso_py.ops.slicing import Slice
from tests.helpers.operator_models import call_of

N, S = symbol("N"), symbol("S")
FAR = 2**63 - 1


def tensor(*dims: Size, dtype: str = "float32") -> TensorType:
    return TensorType(dtype, dims)


def read(
    op_type: str,
    opset: int,
    inputs: list[TensorType | None],
    sizes: dict[int, tuple[Size, ...]] | None = None,
    used: tuple[bool, ...] = (True,),
    **attributes: Any,
) -> Operator | None:
    """The operator in normal form; ``sizes`` are the known integer inputs; None where it is opaque."""
    vectors = tuple((sizes or {}).get(k) for k in range(len(inputs)))
    constants = tuple(
        None if v is None or not all(isinstance(e, int) for e in v) else np.array(v, dtype=np.int64) for v in vectors
    )
    call = OnnxCall(op_type, opset, attributes, tuple(inputs), constants=constants, sizes=vectors, used_outputs=used)
    try:
        reading = OPERATORS[op_type].read(call)
        if reading is None:
            return None
        operands = [t for k in reading.operands if (t := inputs[k]) is not None]
        normal = reading.operator.normal(*operands)
        normal.infer(*operands)
    except TypingError:
        return None
    return normal


def vector(length: int) -> TensorType:
    return tensor(length, dtype="int64")


def shape_input(operator: Operator, opset: int, x: TensorType, position: int = 1) -> list[int] | None:
    """The integer input that the operator is written with."""
    writing = operator.write(opset, [x])
    if writing is None:
        return None
    constant = writing.inputs[position]
    assert isinstance(constant, Constant)
    return [int(v) for v in constant.value]


# ---- slices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "start", "end", "step", "expected"),
    [
        (N, 0, FAR, 1, ()),
        (N, 0, 2**31 - 1, 2, (0, N, 2)),
        (N, -1, -FAR - 1, -1, (N - 1, -1 - N, -1)),
        (N + 3, 3, FAR, 1, (3, N + 3, 1)),
        (N + 3, -3, FAR, 1, (N, N + 3, 1)),
        (N + S, 0, N, 1, (0, N, 1)),
        (N + S, N, N + S, 1, (N, N + S, 1)),
        (N, 0, 0, 1, (0, 0, 1)),
        (N + 3, 1, N + 5, 1, (1, N + 3, 1)),
        (N + S, 0, N + S + 1, 2, (0, N + S, 2)),
        (N, N + 2, -FAR - 1, -1, (N - 1, -1 - N, -1)),
        (N + S, N + S, -2 - N - S, -1, (N + S - 1, -1 - N - S, -1)),
    ],
)
def test_slices_of_symbolic_axes(dim: Size, start: Size, end: Size, step: int, expected: tuple[Size, ...]) -> None:
    x = tensor(dim, 2)
    inputs = [x, vector(1), vector(1), vector(1), vector(1)]
    operator = read("Slice", 13, inputs, {1: (start,), 2: (end,), 3: (0,), 4: (step,)})
    assert isinstance(operator, Slice)
    given = (*operator.starts, *operator.ends, *operator.steps)
    assert given == expected
    assert operator.normal(x) == operator
    for sizes in ({"N": 0, "S": 1}, {"N": 5, "S": 0}, {"N": 4, "S": 7}):
        concrete = TensorType(x.dtype, tuple(substitute(d, sizes) for d in x.dims))
        values = [substitute(v, sizes) for v in (start, end)]
        expected_dims = Slice((0,), (values[0],), (values[1],), (step,)).infer(concrete).dims
        assert tuple(substitute(d, sizes) for d in operator.infer(x).dims) == expected_dims


@pytest.mark.parametrize(
    ("start", "end", "step"), [(1, FAR, 1), (0, 5, 1), (0, -1, 1), (0, S, 1), (-2, FAR, 1), (0, FAR, -1), (5, 0, -1)]
)
def test_slices_that_a_symbolic_size_leaves_open_are_opaque(start: Size, end: Size, step: int) -> None:
    inputs = [tensor(N, 2), vector(1), vector(1), vector(1), vector(1)]
    assert read("Slice", 13, inputs, {1: (start,), 2: (end,), 3: (0,), 4: (step,)}) is None


def test_a_slice_of_a_symbolic_axis_is_written_from_the_back() -> None:
    x = tensor(N + 3)
    operator = Slice((0,), (N,), (N + 3,), (1,))
    assert shape_input(operator, 13, x, 1) == [-3]
    assert shape_input(operator, 13, x, 2) == [FAR]
    assert Slice((0,), (1,), (S + 1,), (1,)).write(13, [tensor(N + S + 1)]) is None


# ---- shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "given", "expected", "written"),
    [
        (tensor(N, S, 768), (0, 0, 12, 64), (N, S, 12, 64), [0, 0, 12, 64]),
        (tensor(N, S, 12, 64), (0, 0, -1), (N, S, 768), [0, 0, 768]),
        (tensor(N, S, 768), (N, S, 12, 64), (N, S, 12, 64), [0, 0, 12, 64]),
        (tensor(N, 4, 4), (-1, 16), (N, 16), [0, 16]),
        (tensor(4, N), (-1,), (4 * N,), [-1]),
        (tensor(N * 64, 7), (-1, 8, 8, 7), (N, 8, 8, 7), [-1, 8, 8, 7]),
        (tensor(N, S), (-1,), (N * S,), [-1]),
        (tensor(N, S), (-1, N), (S, N), None),
        (tensor(N, 12, S), (-1, S), (12 * N, S), None),
    ],
)
def test_reshapes_with_symbolic_sizes(
    x: TensorType, given: tuple[Size, ...], expected: tuple[Size, ...], written: list[int] | None
) -> None:
    operator = read("Reshape", 13, [x, vector(len(given))], {1: given})
    assert operator == Reshape(expected)
    assert shape_input(operator, 13, x) == written


def test_reshapes_that_cannot_be_decided_are_opaque() -> None:
    assert read("Reshape", 13, [tensor(N, 6), vector(2)], {1: (-1, 4)}) is None
    assert read("Reshape", 13, [tensor(N, 6), vector(2)], {1: (S, 6)}) is None
    assert read("Reshape", 13, [tensor(2, 6), vector(2)], {1: (-1, -1)}) is None
    assert read("Reshape", 13, [tensor(2, 6), vector(2)]) is None
    assert read("Reshape", 14, [tensor(2, 6), vector(2)], {1: (0, -1)}, allowzero=1) is None


def test_regrouping_is_affine_where_axes_only_split_or_merge() -> None:
    i, j, k = symbol("i"), symbol("j"), symbol("k")
    assert regroup((i, j * 64 + k), (S, 768), (S, 12, 64))[0] == i
    assert regroup((i, j, k), (N, 12, 64), (N, 768)) == (i, 64 * j + k)
    assert regroup((i, j, k), (N, S, 64), (N * S, 64)) == (i * S + j, k)
    assert regroup((i, j), (6, 4), (6, 1, 4)) == (i, 0, j)
    # Splitting gives one floor and one remainder, none for the axes that stay.
    n, head, inner = regroup((i, j), (N, 768), (N, 12, 64))
    assert n == i
    assert substitute(head, {"j": 130}) == 2
    assert substitute(inner, {"j": 130}) == 2


@pytest.mark.parametrize("seed", range(30))
def test_regrouping_keeps_the_flat_position(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [int(f) for f in rng.choice([1, 2, 3], 6)]
    shapes = [_grouped(factors, rng) for _ in range(2)]
    flat = int(rng.integers(0, int(np.prod(factors))))
    index = [int(i) for i in np.unravel_index(flat, shapes[0])]
    found = regroup(index, shapes[0], shapes[1])
    assert np.ravel_multi_index(tuple(int(str(i)) for i in found), shapes[1]) == flat


def _grouped(factors: list[int], rng: np.random.Generator) -> tuple[int, ...]:
    cuts = sorted(int(c) for c in rng.integers(0, len(factors) + 1, 3))
    bounds = [0, *cuts, len(factors)]
    return tuple(int(np.prod(factors[a:b])) for a, b in itertools.pairwise(bounds))


def test_flatten_and_transpose_keep_symbols() -> None:
    assert Flatten(1).infer(tensor(N, 3, S)).dims == (N, 3 * S)
    assert Transpose((2, 0, 1)).infer(tensor(N, 3, S)).dims == (S, N, 3)


def test_a_symbolic_size_is_never_squeezed() -> None:
    assert read("Squeeze", 13, [tensor(N, 1), vector(1)], {1: (0,)}) is None
    assert read("Squeeze", 13, [tensor(N, 1)]) is None
    assert read("Squeeze", 13, [tensor(N, 1), vector(1)], {1: (1,)}) == Squeeze((1,))


def test_expansion_to_a_symbolic_size_is_written_only_where_x_has_it() -> None:
    x = tensor(N, 1)
    assert shape_input(Expand((N, 5)), 13, x) == [1, 5]
    assert Expand((N, S)).write(13, [x]) is None
    assert read("Expand", 13, [tensor(1, 4), vector(2)], {1: (N, 1)}) == Expand((N, 4))
    assert read("Expand", 13, [tensor(N, 4), vector(2)], {1: (5, 1)}) is None


def test_symbolic_splits() -> None:
    x = tensor(4 * S, 3)
    halves = read("Split", 13, [x], used=(True, True), axis=0)
    assert halves == Split(0, (2 * S, 2 * S))
    writing = halves.write(18, [x])
    assert writing is not None
    assert writing.attributes == {"axis": 0, "num_outputs": 2}
    assert read("Split", 13, [tensor(N)], used=(True, True), axis=0) is None
    assert read("Split", 18, [tensor(4)], used=(True, True), axis=0) is None
    assert read("Split", 13, [tensor(5)], used=(True, True), axis=0) is None
    assert Split(0, (S, 3 * S)).write(13, [x]) is None


def test_gather_by_a_negative_index_needs_the_size() -> None:
    x = tensor(N, 3)
    assert read("Gather", 13, [x, vector(2)], {1: (0, 2)}) == Gather(0, (0, 2), (2,))
    assert read("Gather", 13, [x, vector(1)], {1: (-1,)}) is None
    assert read("Gather", 13, [x, vector(1)], {1: (-1,)}, axis=1) == Gather(1, (2,), (1,))
    assert read("Gather", 13, [x, vector(1)], {1: (3,)}, axis=1) is None
    assert read("Gather", 13, [x, vector(1)]) == GatherRows(0)


# ---- windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(3, 2, 0), (3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 1)])
def test_ceil_mode_of_a_symbolic_size_is_padding(kernel: int, stride: int, pad: int) -> None:
    attributes = {"kernel_shape": [kernel], "strides": [stride], "pads": [pad, pad], "ceil_mode": 1}
    operator = read("MaxPool", 13, [tensor(1, 2, S)], **attributes)
    assert operator is not None
    for size in range(kernel, kernel + 8):
        concrete = read("MaxPool", 13, [tensor(1, 2, size)], **attributes)
        assert concrete is not None
        dims = operator.infer(tensor(1, 2, S)).dims
        assert tuple(substitute(d, {"S": size}) for d in dims) == concrete.infer(tensor(1, 2, size)).dims


def test_same_padding_of_a_symbolic_size_needs_stride_one() -> None:
    x, w = tensor(N, 3, S, S), tensor(4, 3, 3, 2)
    same = read("Conv", 13, [x, w], auto_pad=b"SAME_UPPER")
    assert same == Conv((1, 1), (1, 0, 1, 1), (1, 1), 1)
    assert same.infer(x, w).dims == (N, 4, S, S)
    assert read("Conv", 13, [x, w], auto_pad=b"SAME_UPPER", strides=[2, 2]) is None
    assert read("Conv", 13, [x, w], auto_pad=b"VALID", strides=[2, 2]) is not None


def test_a_batch_size_may_be_symbolic() -> None:
    sizes = read("Resize", 13, [tensor(N, 3, 4, 4), None, None, vector(4)], {3: (N, 3, 8, 10)})
    assert isinstance(sizes, Resize)
    assert sizes.scales == (1.0, 1.0, 2.0, 2.5)
    assert sizes.infer(tensor(N, 3, 4, 4)).dims == (N, 3, 8, 10)
    odd = read("Resize", 13, [tensor(N, 3, 5, 5), None, None, vector(4)], {3: (N, 3, 9, 5)}, mode=b"linear")
    assert isinstance(odd, Resize)
    assert odd.sizes == (N, 3, 9, 5)
    assert odd.write(13, [tensor(N, 3, 5, 5)]) is None
    writing = odd.write(18, [tensor(N, 3, 5, 5)])
    assert writing is not None
    assert writing.attributes["axes"] == (2,)


def test_one_element_is_repeated_any_number_of_times() -> None:
    pixel = tensor(N, 3, 1, 4)
    repeated = Resize(sizes=(N, 3, S, 8))
    assert repeated.infer(pixel).dims == (N, 3, S, 8)
    assert repeated.nonnegative(pixel) == [S - 1]
    assert repeated.write(18, [pixel]) is None
    for wrong in ({"mode": "linear"}, {"sizes": (N, 3, 0, 8)}, {"sizes": (N, 3, 8, S)}):
        with pytest.raises(TypingError):
            replace(repeated, **wrong).infer(pixel)


@pytest.mark.parametrize("factor", [2, 4, 8, 16, 32])
@pytest.mark.parametrize(
    ("coordinates", "rounding"),
    [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")],
)
def test_an_axis_of_any_size_is_enlarged_as_every_known_one_is(factor: int, coordinates: str, rounding: str) -> None:
    enlarged = Resize((1.0, 1.0, float(factor), 1.0), (), "nearest", coordinates, rounding)
    assert enlarged.infer(tensor(N, 3, S, 4)).dims == (N, 3, factor * S, 4)
    assert enlarged.multiplied((N, 3, S, 4)) == {2: factor}
    for dim in range(1, 60):
        (axis,) = enlarged.resampled((1, 3, dim, 4)).values()
        assert nearest_table(axis, rounding) == tuple(i // factor for i in range(factor * dim))


@pytest.mark.parametrize(
    "other",
    [
        {"nearest_mode": "ceil"},
        {"coordinate_transformation_mode": "align_corners"},
        {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"},
        {"scales": (1.0, 1.0, 3.0, 1.0)},
        {"scales": (1.0, 1.0, 0.5, 1.0)},
        {"mode": "linear"},
    ],
)
def test_an_axis_of_any_size_is_enlarged_in_no_other_way(other: dict[str, Any]) -> None:
    enlarged = Resize((1.0, 1.0, 2.0, 1.0), (), "nearest", "asymmetric", "floor")
    with pytest.raises(TypingError):
        replace(enlarged, **other).infer(tensor(N, 3, S, 4))


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    [
        ("Conv", 13, [tensor(1, 2, 4, 4), tensor(2, 2, 3, 3)], {"kernel_shape": [3, 2]}),
        ("Conv", 13, [tensor(1, 2, 4, 4), tensor(2, 2, 3, 3)], {"pads": [0, 0, -1, 0]}),
        ("Conv", 13, [tensor(1, 2, 4, 4), tensor(2, 2, 3, 3)], {"strides": [0, 1]}),
        ("Conv", 13, [tensor(1, 2, 4, 4), tensor(2, 2, 3, 3)], {"auto_pad": b"SOMEHOW"}),
        ("Conv", 13, [tensor(1, 2, 4, 4), tensor(2, 2, 3, 3)], {"activation": b"Relu"}),
        ("Conv", 13, [tensor(1, 2, 2, 2), tensor(2, 2, 3, 3)], {}),
        ("Conv", 13, [tensor(1, 3, 4, 4), tensor(2, 2, 3, 3)], {}),
        ("MaxPool", 13, [tensor(1, 2, 4, 4)], {"kernel_shape": [2, 2], "storage_order": 1}),
        ("MaxPool", 9, [tensor(1, 2, 4, 4)], {"kernel_shape": [2, 2], "dilations": [2, 2]}),
        ("MaxPool", 9, [tensor(1, 2, 4, 4)], {"kernel_shape": [2, 2], "ceil_mode": 1}),
        ("MaxPool", 13, [tensor(1, 2, 4, 4)], {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}),
        ("MaxPool", 13, [tensor(1, 2, 4, S)], {"kernel_shape": [2, 2], "auto_pad": b"SAME_UPPER", "strides": [2, 2]}),
        ("AveragePool", 13, [tensor(1, 2, 7)], {"kernel_shape": [2], "dilations": [2]}),
        ("GlobalAveragePool", 13, [tensor(1, 2)], {}),
        ("Concat", 13, [tensor(1, 2), tensor(2, 3)], {"axis": 1}),
        ("Transpose", 13, [tensor(1, 2)], {"perm": [0, 0]}),
        ("DepthToSpace", 9, [tensor(1, 8, 2, 2)], {"blocksize": 2, "mode": b"CRD"}),
        ("DepthToSpace", 13, [tensor(1, 6, 2, 2)], {"blocksize": 2}),
        ("SpaceToDepth", 13, [tensor(1, 6, 3, 2)], {"blocksize": 2}),
        ("Flatten", 9, [tensor(1, 2)], {"axis": -1}),
        ("Unsqueeze", 11, [tensor(1, 2)], {"axes": [0, 0]}),
        ("Squeeze", 11, [tensor(1, 2)], {"axes": [1]}),
        ("Upsample", 10, [tensor(1, 2, 3, 3)], {"scales": [1.0, 1.0, 2.0, 2.0]}),
        ("Pad", 10, [tensor(2, 3)], {"pads": [0, 0, 0], "mode": b"constant"}),
        ("Pad", 10, [tensor(2, 3)], {"pads": [0, 3, 0, 0], "mode": b"reflect"}),
        ("Pad", 10, [tensor(2, 3)], {"pads": [0, 1, 0, 0], "mode": b"mirror"}),
        ("Pad", 10, [tensor(2, S)], {"pads": [0, 1, 0, 0], "mode": b"edge"}),
        ("Pad", 10, [tensor(2, 3)], {"pads": [0, 1, 0, 0], "value": float("nan")}),
    ],
)
def test_forms_without_a_definition_are_opaque(
    op_type: str, opset: int, inputs: list[TensorType], attributes: dict[str, Any]
) -> None:
    assert read(op_type, opset, list(inputs), None, **attributes) is None


def test_a_pool_whose_indices_are_used_is_opaque() -> None:
    x = tensor(1, 2, 4, 4)
    assert read("MaxPool", 13, [x], used=(True, True), kernel_shape=[2, 2]) is None
    assert read("MaxPool", 13, [x], used=(True, False), kernel_shape=[2, 2]) is not None


def test_pads_of_a_symbolic_size() -> None:
    x = tensor(N, S)
    operator = read("Pad", 13, [x, vector(4)], {1: (0, 1, 0, 2)})
    assert operator == Pad((0, 1, 0, 2))
    assert operator.infer(x).dims == (N, S + 3)
    assert read("Pad", 13, [x, vector(4)]) is None


def test_max_pool_is_written_as_it_was_read() -> None:
    node = helper.make_node("MaxPool", ["x0"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    reading = MaxPool.read(call_of(node, 13, {"x0": tensor(1, 2, 6, 7)}, {}))
    assert reading is not None
    writing = reading.operator.write(13, [tensor(1, 2, 6, 7)])
    assert writing is not None
    assert writing.attributes == {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (0, 0, 1, 0)}


def test_an_index_that_is_not_known_is_no_gather_outside_of_a_proof() -> None:
    indices: Any = (N,)
    with pytest.raises(TypingError, match="not known"):
        Gather(0, indices, (1,)).infer(tensor(5))


def test_nothing_is_filled_of_a_negative_shape() -> None:
    with pytest.raises(TypingError, match="shape"):
        Fill(value=1.0, shape=(2, -1)).infer()

"""The measure of error and the tolerances."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from taso_py.check.compare import compare_outputs, compare_values
from taso_py.check.tolerance import (
    FLOAT32,
    TF32_TOLERANCE,
    Closeness,
    Limit,
    deployed_tolerance,
    tolerance_for,
    uses_tf32,
)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_error_is_relative_to_the_largest_value() -> None:
    found = compare_values("y", f32(0, 100, -200), f32(1, 100, -200))
    assert found.relative == pytest.approx(1 / 200)
    assert found.absolute == 1
    assert found.index == (0,)
    assert (found.reference, found.candidate) == ("0.0", "1.0")
    assert found.describe() == "output 'y'[0]: 0.0 became 1.0, relative error 0.005"


def test_error_is_absolute_where_everything_is_zero() -> None:
    assert compare_values("y", f32(0, 0), f32(0, 1e-3)).relative == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (f32(np.nan, 1), f32(np.nan, 1), True),
        (f32(np.nan, 1), f32(1, 1), False),
        (f32(1, 1), f32(1, np.nan), False),
        (f32(np.inf, 1), f32(np.inf, 1), True),
        (f32(np.inf, 1), f32(-np.inf, 1), False),
        (f32(np.inf, 1), f32(3e38, 1), False),
        (f32(3e38, 1), f32(np.inf, 1), False),
        (f32(np.inf, 1), f32(np.nan, 1), False),
        (f32(np.nan), f32(np.nan), True),
        (f32(-0.0), f32(0.0), True),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.array([2**53 + 1]), np.array([2**53]), False),
        (np.array([True]), np.array([False]), False),
        (np.array(["a"], object), np.array(["a"], object), True),
        (np.array(["a"], object), np.array(["b"], object), False),
        (f32(1), np.array([1.0]), False),
        (f32(1), f32(1).reshape(1, 1), False),
        (f32(), f32(), True),
        ([f32(1), f32(2)], [f32(1), f32(2)], True),
        ([f32(1), f32(2)], [f32(1)], False),
        ([f32(1), f32(2)], [f32(1), f32(np.nan)], False),
        ([], [], True),
        (None, None, True),
        (None, f32(1), False),
        (f32(1), [f32(1)], False),
        (np.array([1 + 1j], np.complex64), np.array([1 + 1j], np.complex64), True),
    ],
)
def test_what_must_be_equal(ours: Any, theirs: Any, same: bool) -> None:
    found = compare_values("y", ours, theirs)
    assert found.relative == (0.0 if same else math.inf)
    assert (found.reason is None) is same


def test_the_worst_element_of_a_sequence_is_named() -> None:
    found = compare_values("y", [f32(1), f32(1, 4)], [f32(1), f32(1, 3)])
    assert found.index == (1, 1)
    assert found.relative == 0.25
    assert found.dtype == "float32"


def test_low_precision_types_are_rounded_types() -> None:
    ours = np.array([1, 2], ml_dtypes.bfloat16)
    theirs = np.array([1, 2.015625], ml_dtypes.bfloat16)
    assert compare_values("y", ours, theirs).relative == pytest.approx(0.0078125)
    f8 = np.array([1, 2], ml_dtypes.float8_e4m3fn)
    assert compare_values("y", f8, f8).relative == 0


def test_outputs_are_compared_by_name() -> None:
    found = compare_outputs({"a": f32(1), "b": f32(2)}, {"b": f32(2)})
    assert [(one.output, one.relative) for one in found] == [("a", math.inf), ("b", 0.0)]
    assert "output 'a': is missing" in found[0].describe()


finite = npst.arrays(np.float32, st.integers(1, 20), elements=st.floats(-1e6, 1e6, width=32))


@given(finite, st.floats(0, 1, width=32))
def test_error_equals_its_definition(values: np.ndarray, shift: float) -> None:
    moved = (values + np.float32(shift)).astype(np.float32)
    wide, other = values.astype(np.float64), moved.astype(np.float64)
    scale = np.abs(wide).max()
    expected = np.abs(wide - other).max() / (scale if scale > 0 else 1)
    assert compare_values("y", values, moved).relative == pytest.approx(expected, rel=1e-12)
    assert compare_values("y", values, values).relative == 0


NUMBERS = st.floats(-1e100, 1e100) | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 5e-324])
BOUNDS = st.sampled_from([0.0, 1e-8, 1e-5, 1e-3, 1.0, 1e3])


@given(st.lists(st.tuples(NUMBERS, NUMBERS | st.none()), min_size=1, max_size=4), BOUNDS, BOUNDS)
@example([(5e-324, 4e-4)], 0.0, 1e-3)  # the relative error is beyond all numbers
def test_closeness_is_that_of_numpy(pairs: list[tuple[float, float | None]], rtol: float, atol: float) -> None:
    ours = np.array([one for one, _ in pairs])
    theirs = np.array([one * (1 + 2 * rtol) if other is None else other for one, other in pairs])
    closeness = Closeness(rtol, atol)
    found = compare_values("y", ours, theirs, closeness)
    exceeded = Limit(0.0, closeness).exceeded(found.relative, found.excess)
    assert exceeded == (not np.allclose(theirs, ours, rtol=rtol, atol=atol, equal_nan=True))


def test_closeness_names_the_element_that_is_farthest_beyond_its_own_bound() -> None:
    found = compare_values("y", f32(1000, 1), f32(1001, 1.5), Closeness(1e-2, 0.0))
    assert (found.index, found.absolute) == ((1,), 1)
    assert found.excess == pytest.approx(50)
    pairs = [f32(1000), f32(1)], [f32(1001), f32(1.5)]
    assert compare_values("y", *pairs, Closeness(1e-2, 0.0)).index == (1, 0)
    assert compare_values("y", *pairs).index == (1, 0)


def test_what_must_be_equal_is_so_however_much_closeness_allows() -> None:
    found = compare_values("y", np.array([1]), np.array([2]), Closeness(1e9, 1e9))
    assert Limit(0.0, Closeness(1e9, 1e9)).exceeded(found.relative, found.excess)


def test_one_half_of_closeness_comes_with_numpy_s_default_of_the_other() -> None:
    assert Closeness.of(None, None) is None
    assert Closeness.of(0.0, None) == Closeness(0.0, 1e-8)
    assert Closeness.of(None, 0.5) == Closeness(1e-5, 0.5)


def test_float32_tolerance_follows_the_contract() -> None:
    assert FLOAT32.allow(0.0) == 1e-4
    assert FLOAT32.allow(1e-5) == 1e-4
    assert FLOAT32.allow(1e-3) == pytest.approx(4e-3)
    assert FLOAT32.allow(0.5) == 1e-2
    assert FLOAT32.allow(math.inf) == 1e-4


def test_tolerances_by_element_type() -> None:
    for exact in ("int64", "bool", "object", "uint8", "int4"):
        assert tolerance_for(exact).allow(1.0) == 0
    bases = [tolerance_for(name).base for name in ("float32", "float16", "bfloat16", "float8_e4m3fn")]
    assert bases == sorted(bases)
    assert tolerance_for("float64") is FLOAT32
    assert tolerance_for("float64", narrowest="float64").base < 1e-6
    through_half = tolerance_for("float32", narrowest="float16")
    assert FLOAT32.base < through_half.base < tolerance_for("float16").base
    assert through_half.cap == tolerance_for("float16").cap


def test_tf32_widens_float32_on_nvidia_providers_only() -> None:
    cuda = "CUDAExecutionProvider"
    assert uses_tf32(cuda, ())
    assert not uses_tf32(cuda, (("use_tf32", "0"),))
    assert not uses_tf32("CPUExecutionProvider", ())
    assert deployed_tolerance("float32", cuda, ()).base == TF32_TOLERANCE
    assert deployed_tolerance("float32", cuda, (("use_tf32", "0"),)) is FLOAT32
    assert deployed_tolerance("float32", "CPUExecutionProvider", ()) is FLOAT32
    assert deployed_tolerance("int64", cuda, ()).allow(1.0) == 0


@pytest.mark.parametrize("closeness", [None, Closeness(1e-3, 1e-3)])
@pytest.mark.parametrize("place", [0, 2**17 - 1, 2**17, 3 * 2**17 + 4])
def test_large_arrays_are_compared_as_a_whole(place: int, closeness: Closeness | None) -> None:
    ours = np.random.default_rng(0).normal(size=3 * 2**17 + 5).astype(np.float32)
    theirs = ours.copy()
    theirs[place] += 100
    found = compare_values("y", ours, theirs, closeness)
    assert found.index == (place,)
    assert found.absolute == pytest.approx(100)
    assert found.relative == pytest.approx(100 / np.abs(ours).max())
    assert (found.excess > 1) is (closeness is not None)
    theirs[place] = np.nan
    assert compare_values("y", ours, theirs, closeness).reason == "NaN or Inf in 1 of 393221 other places"

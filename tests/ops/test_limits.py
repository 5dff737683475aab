"""What an operator looks at while a model is read does not grow with what the model says of itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from taso_py.errors import TypingError
from taso_py.graph.types import TensorType
from taso_py.ops.numeric import evaluate, evaluate_meaning
from taso_py.ops.padding import Pad
from taso_py.ops.pool import MaxPool
from taso_py.ops.reduce import ReduceMax, ReduceMin, ReduceSum, Reduction
from taso_py.ops.resize import Resize
from taso_py.ops.windows import Window

WINDOWS = [
    (k, s, d, b, e, n)
    for k, s, d, b, e, n in itertools.product(range(2, 5), (1, 3), (2, 3), range(4), range(4), range(1, 6))
    if b + e and max(b, e) < k and n + b + e > (k - 1) * d
]


def test_a_dilated_pool_is_typed_where_each_window_has_an_element() -> None:
    told, seen = [], []
    for k, s, d, b, e, n in WINDOWS:
        window = Window(k, s, d, b, e)
        positions = range(int(str(window.result(n))))
        seen.append(all(any(0 <= y * s + r * d - b < n for r in range(k)) for y in positions))
        try:
            MaxPool(kernel_shape=(k,), strides=(s,), pads=(b, e), dilations=(d,)).infer(
                TensorType("float32", (1, 1, n))
            )
            told.append(True)
        except TypingError:
            told.append(False)
    assert told == seen
    assert {True, False} == set(seen)


def test_a_dilated_pool_of_a_long_signal_is_typed() -> None:
    pool = MaxPool(kernel_shape=(33,), strides=(1,), pads=(32, 32), dilations=(2,))
    assert pool.infer(TensorType("float32", (1, 1, 10**9))).dims == (1, 1, 10**9)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_long_axis_is_not_resampled_position_by_position(mode: str) -> None:
    resize = Resize(sizes=(1, 1, 10**9), mode=mode)
    with pytest.raises(TypingError, match="too many"):
        resize.infer(TensorType("float32", (1, 1, 16000)))


def test_nor_is_one_padded_with_its_own_elements() -> None:
    with pytest.raises(TypingError, match="too many"):
        Pad(pads=(0, 200, 0, 200), mode="reflect").infer(TensorType("float32", (1, 10**9)))
    assert Pad(pads=(0, 200, 0, 200)).infer(TensorType("float32", (1, 10**9))).dims == (1, 10**9 + 400)


@pytest.mark.parametrize("kind", [ReduceSum, ReduceMax, ReduceMin])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(), (0,), (-1, 0), (1,)])
def test_integers_are_reduced_at_once_and_wrap(kind: type[Reduction], keepdims: int, axes: tuple[int, ...]) -> None:
    array = np.random.default_rng(5).integers(-(2**31), 2**31, (3, 4, 5)).astype(np.int32)
    types = (TensorType("int32", (3, 4, 5)),)
    operator = kind(axes, keepdims).normal(*types)
    assert operator.kernel(array) is not None
    np.testing.assert_array_equal(evaluate(operator, [array], types), evaluate_meaning(operator, [array], types))
    whole = (array.astype(np.int64) * 2**31,)
    wide = (TensorType("int64", (3, 4, 5)),)
    if kind is not ReduceMin:  # int64 has a value without a negative, and ReduceMin no meaning for it
        np.testing.assert_array_equal(evaluate(operator, whole, wide), evaluate_meaning(operator, whole, wide))
    assert operator.kernel(array.astype(np.float64)) is None

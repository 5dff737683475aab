"""Products of large matrices: near the exact one, and the same in whatever order their terms are added."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from taso_py.graph.types import TensorType
from taso_py.ops.linear import MatMul
from taso_py.ops.numeric import evaluate, evaluate_meaning
from taso_py.ops.products import product

RNG = np.random.default_rng


def factors(
    terms: int, rows: int = 3, columns: int = 2, *, spread: float = 8.0, seed: int = 0
) -> tuple[np.ndarray, ...]:
    rng = RNG(seed)
    a = rng.standard_normal((rows, terms)) * 10.0 ** rng.uniform(-spread, spread, (rows, terms))
    return a, rng.standard_normal((terms, columns))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_the_terms_does_not_matter(dtype: type, seed: int) -> None:
    a, b = (f.astype(dtype).astype(np.float64) for f in factors(5000, 20, 30, seed=seed))
    order = RNG(seed + 1).permutation(5000)
    first, again = product(a, b), product(np.ascontiguousarray(a[:, order]), np.asfortranarray(b[order]))
    assert first is not None
    assert np.array_equal(first, again)


@pytest.mark.parametrize("spread", [0.0, 3.0, 20.0])
def test_elements_are_near_the_exact_ones(spread: float) -> None:
    a, b = factors(4096, spread=spread)
    found = product(a, b)
    assert found is not None
    for i, j in np.ndindex(found.shape):
        terms = [Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True)]
        scale = float(np.abs(a[i]).max() * np.abs(b[:, j]).max()) * 4096
        assert abs(float(Fraction(float(found[i, j])) - sum(terms))) <= 2.0**-52 * scale


def test_numbers_that_cancel_leave_what_is_exact() -> None:
    a = np.tile([1e8, -1e8, 1.0, 2.0**-20], 1024)[None]
    found = product(a, np.ones((4096, 1)))
    assert found is not None
    assert found[0, 0] == 1024 * (1 + 2.0**-20)


def test_batches_broadcast_as_in_numpy() -> None:
    rng = RNG(0)
    a, b = rng.standard_normal((3, 1, 2, 4096)), rng.standard_normal((2, 4096, 3))
    found = product(a, b)
    assert found is not None
    assert found.shape == (3, 2, 2, 3)
    np.testing.assert_allclose(found, a @ b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200, 1e-200])
def test_what_may_overflow_is_left_to_the_loop(value: float) -> None:
    a, b = np.full((1, 4096), value), np.ones((4096, 1))
    assert product(a, b) is None


def test_zeros_are_zeros() -> None:
    found = product(np.zeros((2, 4096)), np.ones((4096, 2)))
    assert found is not None
    assert not found.any()


def test_folding_a_large_product_takes_no_loop_and_means_the_same() -> None:
    a, b = factors(4096, spread=1.0)
    types = TensorType("float32", a.shape), TensorType("float32", b.shape)
    fast, meant = evaluate(MatMul(), (a, b), types), evaluate_meaning(MatMul(), (a, b), types)
    assert MatMul().kernel(a, b) is not None
    np.testing.assert_allclose(fast, meant, rtol=1e-9)
    assert MatMul().kernel(a[:, :8], b[:8]) is None
    assert MatMul().kernel(a.astype(np.int64), b.astype(np.int64)) is None

"""The error of an approximation, and what samples without a violation warrant."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taso_py.approximate.measure import deviation, has_new_nonfinite, relative_error, warrant, warranted_share

NAN, INF = math.nan, math.inf


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("expected", "found", "error"),
    [
        (array(3, 4), array(3, 4), 0.0),
        (array(3, 4), array(3, 4.5), 0.1),
        (array(0, 0), array(0, 0), 0.0),
        (array(0, 0), array(0, 1e-9), INF),
        (array(1, 2), array(NAN, 2), INF),
        (array(1, 2), array(INF, 2), INF),
        (array(NAN, 2), array(NAN, 2), 0.0),
        (array(NAN, 2), array(1, 2), INF),
        (array(INF, 2), array(-INF, 2), INF),
        (array(INF, 3, 4), array(INF, 3, 4.5), 0.1),
        (array(1, 2), array(1, 2, 3), INF),
        (array(1, 2), np.array([1.0, 2.0]), INF),
        (array(), array(), 0.0),
        (np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]), 0.25),
        (np.array(["a", "b"], dtype=object), np.array(["a", "c"], dtype=object), 0.5),
        (np.array([3 + 4j]), np.array([3 + 4.5j]), 0.1),
        (np.array([1e200]), np.array([5e200]), 4.0),
        (np.array([1e-170, 0]), np.array([9e-170, 0]), 8.0),
        (np.array([1e308, 1e-300]), np.array([-1e308, 1e-300]), 2.0),
        (np.array([5e-324]), np.array([1e-323]), 1.0),
        (np.array([1e308 + 1e308j]), np.array([-1e308 - 1e308j]), 2.0),
        (np.array([0.0, 1e-200]), np.array([1e-100, 1e-200]), 1e100),
    ],
)
def test_the_error_is_relative_in_the_2_norm(expected: np.ndarray, found: np.ndarray, error: float) -> None:
    assert relative_error(expected, found) == pytest.approx(error)


def test_no_size_of_the_values_hides_an_error() -> None:
    wrong = {"a": np.array([1e200]), "b": np.array([1e-200])}
    assert deviation({"a": np.array([1e200]), "b": np.array([9e-200])}, wrong).output == "b"


def test_the_worst_output_counts_and_one_that_is_missing_is_beyond_any() -> None:
    expected = {"a": array(3, 4), "b": array(1, 0)}
    assert deviation(expected, {"a": array(3, 4.5), "b": array(1.5, 0)}) == deviation(
        expected, {"b": array(1.5, 0), "a": array(3, 4)}
    )
    found = deviation(expected, {"a": array(3, 4.5), "b": array(1, 0)})
    assert (found.output, found.error) == ("a", pytest.approx(0.1))
    assert deviation(expected, {"a": array(3, 4)}).error == INF


def test_sequences_are_compared_one_by_one_and_optionals_by_their_kind() -> None:
    assert deviation({"s": [array(1), array(3, 4)]}, {"s": [array(1), array(3, 4.5)]}).error == pytest.approx(0.1)
    assert deviation({"s": [array(1)]}, {"s": [array(1), array(2)]}).error == INF
    assert deviation({"o": None}, {"o": None}).error == 0
    assert deviation({"o": None}, {"o": array(1)}).error == INF


@pytest.mark.parametrize(
    ("expected", "found", "broken"),
    [
        (array(1, 2), array(1, NAN), True),
        (array(1, INF), array(1, NAN), False),
        (array(1, 2), array(5, 6), False),
        (array(1, 2), array(5), False),
        ([array(1)], [array(INF)], True),
        ([array(1)], [], True),
        (np.array([1]), np.array([2]), False),
    ],
)
def test_a_metric_does_not_hide_nan_where_there_was_none(expected: object, found: object, broken: bool) -> None:
    assert has_new_nonfinite({"y": expected}, {"y": found}) is broken


def test_299_samples_warrant_99_percent_and_fewer_warrant_less() -> None:
    assert warranted_share(299) >= 0.99 > warranted_share(298)
    assert "with 95 % confidence 99 % keep the budget" in warrant(299, random=False)
    assert "98.9 %" in warrant(298, random=False)
    assert "60.6 %" in warrant(6, random=False)
    assert "unseen" not in warrant(299, random=False, unseen=False)


def test_each_further_model_that_is_tested_warrants_less() -> None:
    assert warranted_share(299, 2) == pytest.approx(0.025 ** (1 / 299))
    assert "on which 1 faster failed before: with 95 % confidence 98.7 %" in warrant(299, random=False, models=2)


def test_random_samples_warrant_nothing() -> None:
    assert "confidence" not in warrant(5000, random=True)
    assert warranted_share(0) == 0


def test_of_several_models_that_are_compared_each_is_warranted_less() -> None:
    said = warrant(40, random=False, unseen=False, models=2)
    assert "for each of 2 models at once: with 95 % confidence 91.1 % keep the budget" in said


def test_a_test_that_was_cut_short_says_so() -> None:
    assert "6 of 300, for want of time, unseen samples" in warrant(6, random=False, given=300)
    assert warrant(300, random=False, given=300) == warrant(300, random=False)

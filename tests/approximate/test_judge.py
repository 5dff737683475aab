"""Candidates are compared as they are deployed; NaN where the original has none is beyond any budget."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

from taso_py.approximate.judge import Judge, Verdict
from taso_py.approximate.metric import Metric
from taso_py.approximate.samples import Samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.errors import TooLateError
from tests.helpers.precision import samples

_HEAD = '<ir_version: 8, opset_import: ["": 17]> agraph (float[2] x) => (float[2] y) '
IDENTITY = _HEAD + "{ y = Identity(x) }"
DOUBLE = _HEAD + "{ y = Add(x, x) }"
SLOWER = """
import time
calls = 0
def f(expected, found):
    global calls
    calls += 1
    time.sleep(600 if calls > 2 else 0)
    return 0.0
"""
"""A metric that judges two samples, and then no more."""
BROKEN = _HEAD + "{ s = Mul(x, x) n = Neg(s) y = Sqrt(n) }"


def verdict(text: str, metric: Metric | None = None, **limits: Any) -> Verdict:
    given = Samples({"x": samples(5, 2)}, {}, 5, random=False)
    original, other = (ModelRef.of(onnx.parser.parse_model(t).SerializeToString()) for t in (IDENTITY, text))
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        return Judge(original, given, worker, oracle, metric).verdict(other, range(5), **limits)


@pytest.fixture
def lenient(tmp_path: Path) -> Metric:
    (tmp_path / "metric.py").write_text("def f(expected, found): return 0.0")
    return Metric.of(f"{tmp_path / 'metric.py'}:f")


@pytest.mark.parametrize(("text", "error"), [(IDENTITY, 0.0), (DOUBLE, 1.0), (BROKEN, math.inf)])
def test_the_worst_sample_counts(text: str, error: float) -> None:
    assert verdict(text).error == pytest.approx(error)


@pytest.mark.parametrize(("text", "error"), [(DOUBLE, 0.0), (BROKEN, math.inf)])
def test_a_metric_judges_all_but_nan(text: str, error: float, lenient: Metric) -> None:
    assert verdict(text, lenient).error == error


def test_a_model_beyond_the_budget_is_looked_at_on_few_samples() -> None:
    assert verdict(DOUBLE, beyond=0.5).samples == 1
    assert verdict(DOUBLE, beyond=0.5, least=3).samples == 3
    assert verdict(IDENTITY, beyond=0.5, least=3).samples == 5
    assert verdict(DOUBLE, beyond=2.0, least=3).samples == 5


def test_a_time_that_is_over_ends_it_only_behind_the_least() -> None:
    late = time.monotonic() - 1
    with pytest.raises(TooLateError):
        verdict(DOUBLE, beyond=0.5, least=3, until=late)
    assert verdict(DOUBLE, least=0, until=late).samples == 0


def test_a_slow_metric_is_waited_for_only_until_the_time_is_over(tmp_path: Path) -> None:
    """The samples that it has judged by then count where they are enough."""
    (tmp_path / "metric.py").write_text(SLOWER)
    slower = Metric.of(f"{tmp_path / 'metric.py'}:f")
    given = Samples({"x": samples(5, 2)}, {}, 5, random=False)
    original = ModelRef.of(onnx.parser.parse_model(IDENTITY).SerializeToString())
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        judge = Judge(original, given, worker, oracle, slower)
        assert judge.verdict(original, range(5), until=time.monotonic() + 8, least=1).samples in (1, 2)
        with pytest.raises(TooLateError, match="no time is left"):
            judge.verdict(original, range(5), until=time.monotonic() + 3, least=3)

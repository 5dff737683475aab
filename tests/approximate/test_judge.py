"""Candidates are compared as they are deployed; NaN where the original has none is beyond any budget."""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import pytest

from taso_py.approximate.judge import Judge
from taso_py.approximate.metric import Metric
from taso_py.approximate.samples import Samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from tests.helpers.precision import samples

_HEAD = '<ir_version: 8, opset_import: ["": 17]> agraph (float[2] x) => (float[2] y) '
IDENTITY = _HEAD + "{ y = Identity(x) }"
DOUBLE = _HEAD + "{ y = Add(x, x) }"
BROKEN = _HEAD + "{ s = Mul(x, x) n = Neg(s) y = Sqrt(n) }"


def verdict(text: str, metric: Metric | None = None) -> float:
    given = Samples({"x": samples(5, 2)}, {}, 5, random=False)
    original, other = (ModelRef.of(onnx.parser.parse_model(t).SerializeToString()) for t in (IDENTITY, text))
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        return Judge(original, given, worker, oracle, metric).verdict(other, range(5)).error


@pytest.fixture
def lenient(tmp_path: Path) -> Metric:
    (tmp_path / "metric.py").write_text("def f(expected, found): return 0.0")
    return Metric.of(f"{tmp_path / 'metric.py'}:f")


@pytest.mark.parametrize(("text", "error"), [(IDENTITY, 0.0), (DOUBLE, 1.0), (BROKEN, math.inf)])
def test_the_worst_sample_counts(text: str, error: float) -> None:
    assert verdict(text) == pytest.approx(error)


@pytest.mark.parametrize(("text", "error"), [(DOUBLE, 0.0), (BROKEN, math.inf)])
def test_a_metric_judges_all_but_nan(text: str, error: float, lenient: Metric) -> None:
    assert verdict(text, lenient) == error

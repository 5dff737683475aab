"""Runs of `optimize --error-budget` in which nothing depends on how fast the machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from taso_py.backend.race import RaceResult, Standing
from taso_py.backend.timing import Confirmation
from taso_py.options import Options
from taso_py.result import Reason, Result
from taso_py.run import approximation, pipeline
from tests.helpers.precision import classifier, samples, saved
from tests.helpers.schemas import require_valid

COUNT = 40
CONFIRMED = Confirmation(
    speedup=2.0, low=1.75, high=2.25, before_ms=4.0, after_ms=2.0, rounds=15, workloads=(), rounds_ms=((4.0, 2.0),)
)


def made_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and samples; the exact search makes what needs no timing, and the first candidate wins."""
    onnx.save(classifier(), tmp_path / "m.onnx")
    saved(tmp_path / "d.npz", x=samples(COUNT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "cache.sqlite"))
    real = pipeline.optimize

    def optimize(source: Any, options: Options, **further: Any) -> Result:
        assert (options.error_budget, options.calibration, options.metric) == (None, None, None)
        found = real(source, replace(options, race=False), **further)
        if not found.rules:
            return replace(found, improved=False, reason=Reason("nothing faster", "nothing was priced faster"))
        return replace(found, improved=True, speedup=1.5, speedup_low=1.25, speedup_high=1.75)

    monkeypatch.setattr(pipeline, "optimize", optimize)
    monkeypatch.setattr(approximation, "race", raced)
    monkeypatch.setattr(approximation, "confirm", lambda *a, **k: CONFIRMED)
    return tmp_path


def raced(worker: object, models: Sequence[object], *_: object, **__: object) -> RaceResult:
    names = [Standing("", 1.0, 6), *(Standing("", 2.5, 6) for _ in models[1:])]
    return RaceResult(1, tuple(names), 0.0)


def optimized(model: str = "m.onnx", *, budget: float = 0.2, **options: Any) -> Result:
    given = {"calibration": "d.npz", "threads": 1, "time_budget_s": 60.0} | options
    return taso_py.optimize(model, error_budget=budget, **given)


def reason(result: Result) -> str:
    assert result.approximation is not None
    assert not result.approximate
    assert result.approximation.reason is not None
    assert "\n" not in result.approximation.reason.words
    require_valid(result.to_dict())
    return result.approximation.reason.code

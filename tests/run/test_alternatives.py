"""8-bit models on other providers: what keeps the budget there is a candidate, whatever its error was at home."""

from __future__ import annotations

from typing import Any

import pytest

from taso_py.approximate import elsewhere
from taso_py.approximate.candidates import Candidate
from taso_py.approximate.elsewhere import Elsewhere
from taso_py.approximate.judge import Verdict
from taso_py.approximate.record import TriedApproximation
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.run.alternatives import Alternatives, within

CONFIG = WorkerConfig()


def candidate(error: float, config: WorkerConfig | None = None) -> Candidate:
    return Candidate(
        kind="int8 static", calibrator="MinMax", reference=ModelRef.of(b""), layers=frozenset({"fc"}), whole=True,
        verdict=Verdict(error, "y", 0, 8), config=config,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "kept"), [((0.02, 0.05), [0.02, 0.05]), ((0.02, 0.095), [0.02]), ((0.095, 0.2), [0.095]), ((0.2,), [])]
)
def test_what_is_beyond_the_budget_elsewhere_is_no_candidate(
    errors: tuple[float, ...], kept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = None
    told: list[TriedApproximation] = []
    others = Alternatives(
        original=ModelRef.of(b""), exact=ModelRef.of(b""), differs=False, config=CONFIG,
        places=[Elsewhere(CONFIG, hint=False)], selection=[0], feeds=[], budget=0.1, least=1.01, told=told,
    )  # fmt: skip
    there = [candidate(error, CONFIG) for error in errors]
    monkeypatch.setattr(elsewhere, "moved", lambda *_, **__: there)
    found = others.moved(nothing, [candidate(0.01)], until=0.0)
    assert [one.verdict.error for one in found] == kept == [one.verdict.error for one in within(there, 0.1)]
    assert [one.error for one in told] == [error for error in errors if error not in kept]

"""Verdicts of runs on a busy machine are held against the quiet one."""

from __future__ import annotations

import pytest

from scripts.bench.loaded import Verdict, summary

QUIET = {"improved": True, "speedup": 1.5, "speedup_low": 1.48, "speedup_high": 1.52}
SAME = {"improved": False, "reason": {"code": "too noisy", "words": "too noisy to say"}}


@pytest.mark.parametrize(("quiet", "excluded"), [(1.5, False), (1.48, False), (1.47, True), (1.0, True)])
def test_a_claim_excludes_what_lies_outside_its_interval(quiet: float, excluded: bool) -> None:
    assert Verdict.of(QUIET).excludes(quiet) is excluded


def test_no_claim_excludes_nothing() -> None:
    assert not Verdict.of(SAME).excludes(1.5)
    assert str(Verdict.of(SAME)) == "too noisy"


def test_a_gain_that_the_quiet_machine_does_not_know_is_counted() -> None:
    told = summary("m", Verdict.of(SAME), [Verdict.of(QUIET), Verdict.of(SAME)])
    assert told == "m: 1 improved, 1 too noisy; 1 of 2 intervals exclude the quiet value (too noisy)"

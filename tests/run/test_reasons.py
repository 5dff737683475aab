"""Why nothing is raced: what is said of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from taso_py.options import Options
from taso_py.run.reasons import no_candidate
from taso_py.search.state import Found, StopReason
from tests.helpers.priced import found, state

SHY = found(state(("shy", 0.001)))
SAME = "values left as they are, since they are rounded to whole numbers further on: 3"


def job(**options: Any) -> Any:
    """A run with a minute left, of which no profile was taken."""
    return SimpleNamespace(
        options=Options(**options), profile=None, clock=SimpleNamespace(left=lambda: 60.0, elapsed=lambda: 7.2),
        setting=SimpleNamespace(loaded=SimpleNamespace(folder=SimpleNamespace(refused=""))),
        library=SimpleNamespace(search=["a rule"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "code", "words"),
    [
        (
            Found(SHY.states, StopReason.STALLED, 1234),
            "nothing faster",
            "none of 1,234 rewrites was priced faster than the original by half of what min_gain=0.02 asks for",
        ),
        (
            Found((), StopReason.STALLED, 5, kept=3),
            "nothing faster",
            f"none of 5 rewrites was priced faster than the original; {SAME}",
        ),
        (
            Found((), StopReason.TIME, 0),
            "too little time",
            "no rewrite was priced in 7 s: raise time_budget_s",
        ),
        (Found((), StopReason.STALLED, 0, kept=3), "nothing matched", f"no rule matches anywhere; {SAME}"),
    ],
)
def test_nothing_was_found_that_is_worth_a_race(told: Found, code: str, words: str) -> None:
    assert no_candidate(job(min_gain=0.02), told, []) == (code, words)


def test_what_could_not_be_computed_in_time_comes_first() -> None:
    late = job()
    late.setting.loaded.folder.refused = "4 weights"
    code, words = no_candidate(late, SHY, [])
    assert (code, words) == ("too little time", "4 weights could not be computed in time: raise time_budget_s")

"""Why a winner was not confirmed: a code, and words with the figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from taso_py.backend.timing import Confirmation, Unconfirmed, confirmation_of
from taso_py.options import Options
from taso_py.run.reasons import not_confirmed
from taso_py.run.run import Run

JOB = cast(Run, SimpleNamespace(options=Options(), profile=None))


def measured(*pairs: tuple[float, float], waited: tuple[float, float] = (0.0, 0.0)) -> Confirmation:
    """Of rounds with these seconds before and after."""
    return confirmation_of(pairs, 0, [waited] * len(pairs))


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (Unconfirmed(), "too little time", "no time was left"),
        (Unconfirmed(7), "too noisy", "in 7 of 7 rounds"),
        (measured(*[(1.02, 1.0)] * 3), "too little time", "3 of the 6 to 12 rounds"),
        (measured(*[(1.02, 1.0)] * 15, waited=(0.05, 0.0)), "too noisy", "too wide to say"),
        (measured(*[(1.0, 1.0)] * 15), "not confirmed", "gave 1.000 [1.000, 1.000]"),
        (
            measured(*[(1.007, 1.0)] * 15),
            "not confirmed",
            "gave 1.007 [1.007, 1.007], less than min_gain=0.01 asks",
        ),
        (
            measured(*[(1.02, 1.0)] * 15, *[(1.9, 2.0)] * 5),
            "not confirmed",
            "every speed of this machine: 1.020, 0.950",
        ),
    ],
)
def test_the_reason_says_what_was_measured(found: Confirmation | Unconfirmed, code: str, words: str) -> None:
    assert not isinstance(found, Confirmation) or not found.improves()
    told = not_confirmed(JOB, found)
    assert told[0] == code
    assert words in told[1]

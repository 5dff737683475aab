"""How often the original is timed: a few times, but not for a good part of the time budget.  No test asserts a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from taso_py.backend.blocks import LONG_RUN_S
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef
from taso_py.options import Options
from taso_py.run.original import race_seconds, time_original
from taso_py.run.subject import Subject

SUBJECT = cast(Subject, SimpleNamespace(reference=ModelRef("m", b""), feeds=[{}]))


class Scripted:
    """A worker whose blocks take these seconds in turn."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.timed = seconds, 0

    def info(self) -> None: ...

    def open(self, _model: object, **_options: Any) -> int:
        return 1

    def run(self, *_arguments: object, **_options: Any) -> None: ...

    def close(self, _handle: int) -> None: ...

    def time_blocks(self, _handles: object, _feeds: object, *, rounds: int, **_options: Any) -> list[list[float]]:
        self.timed += rounds
        return [[self.seconds[self.timed - 1]]]


@pytest.mark.parametrize(
    ("seconds", "budget", "times", "least"),
    [
        ((0.03, 0.02, 0.025), 60.0, 3, 0.02),
        ((0.5, 0.4, 0.6), 60.0, 3, 0.4),
        ((8.0,), 60.0, 1, 8.0),
        ((8.0, 7.0), 500.0, 2, 7.0),
        ((0.03,), 1.0, 1, 0.03),
    ],
)
def test_it_is_timed_again_while_that_is_a_small_part_of_the_budget(
    seconds: tuple[float, ...], budget: float, times: int, least: float
) -> None:
    worker = Scripted(*seconds)
    found = time_original(cast(Worker, worker), SUBJECT, Options(time_budget_s=budget))
    assert (worker.timed, found.seconds) == (times, least)


def test_without_a_race_nothing_is_timed() -> None:
    worker = Scripted()
    assert time_original(cast(Worker, worker), SUBJECT, Options(race=False)).seconds is None
    assert worker.timed == 0


def test_the_shortest_race_has_one_run_for_each_round_where_runs_are_long() -> None:
    assert race_seconds(LONG_RUN_S, SUBJECT) < race_seconds(0.9 * LONG_RUN_S, SUBJECT)
    assert race_seconds(2.0, SUBJECT) == pytest.approx(24 * 2.0)

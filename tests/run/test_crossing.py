"""What the confirmation of a result on a provider decides, by the seconds of its rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.backend.timing import MIN_CONFIRM_ROUNDS
from taso_py.check.report import CheckReport, refused
from taso_py.options import Options
from taso_py.progress import SilentProgress
from taso_py.providers.contenders import Contender
from taso_py.providers.race import Entrant
from taso_py.run.crossing import Crossing, Entry, Placed

CONFIG = WorkerConfig()
HOME, OTHER = (Contender(Options(), CONFIG) for _ in range(2))


def entrant(seconds: float, rounds: int = MIN_CONFIRM_ROUNDS) -> Entrant:
    one = Entrant(config=CONFIG, worker=Worker(CONFIG), model=ModelRef.of(b""))
    one.seconds = {number: seconds * (1 + 1e-4 * (number % 3)) for number in range(rounds)}
    return one


def judged(timed: dict[str, Entrant], report: CheckReport | None = None, plain: Entry | None = None) -> Placed | None:
    nothing: Any = None
    crossing = Crossing(
        home=HOME, places=[HOME, OTHER], setting=nothing, folder=Path(), patience_s=1.0, end=0.0,
        progress=SilentProgress(), least=1.01,
    )  # fmt: skip
    return crossing._judged(Entry(OTHER, nothing, report), plain, timed)


@pytest.mark.parametrize(
    ("seconds", "gain"),
    [
        ({"home": 2.0, "there": 1.0, "one": 0.8}, 2.0),
        ({"home": 2.0, "there": 2.5, "one": 0.8}, 0.8),  # only the rewrite makes the provider worth it
        ({"home": 2.0, "there": 1.0}, 2.0),
        ({"home": 2.0, "there": 1.0, "one": 0.8, "rival": 0.9}, 2.0),
        ({"home": 2.0, "there": 1.0, "one": 0.8, "rival": 0.7}, None),
        ({"home": 2.0, "there": 1.0, "one": 0.8, "rival": 0.8}, None),
        ({"home": 1.0, "there": 1.2, "one": 1.1}, None),
        ({"home": 1.0, "there": 1.0, "one": 0.995}, None),
    ],
)
def test_what_is_placed_beats_the_original_at_home_and_what_was_found_there(
    seconds: dict[str, float], gain: float | None
) -> None:
    placed = judged({name: entrant(one) for name, one in seconds.items()})
    assert (placed is None) == (gain is None)
    if placed is not None:
        assert placed.gain.median == pytest.approx(gain, rel=1e-3)


def test_too_few_rounds_decide_nothing() -> None:
    few = {"home": entrant(2.0, MIN_CONFIRM_ROUNDS - 1), "there": entrant(1.0), "one": entrant(0.8)}
    assert judged(few) is None


def test_one_that_failed_is_not_placed() -> None:
    timed = {"home": entrant(2.0), "there": entrant(1.0), "one": entrant(0.8)}
    timed["one"].failure = "worker died"
    assert judged(timed) is None


def test_a_rewrite_from_elsewhere_has_to_be_faster_than_the_original_on_its_provider() -> None:
    timed = {"home": entrant(2.0), "there": entrant(1.0), "one": entrant(1.0)}
    assert judged(timed, refused("of another provider")) is None


@pytest.mark.parametrize(("there", "rival", "is_placed"), [(1.0, 1.5, True), (1.0, 0.9, False), (2.5, 2.6, False)])
def test_where_a_rewrite_from_elsewhere_gains_nothing_the_original_there_is_confirmed_with_it(
    there: float, rival: float, is_placed: bool
) -> None:
    """Another confirmation would measure the same once more, and time seldom suffices for it."""
    timed = {"home": entrant(2.0), "there": entrant(there), "one": entrant(there), "rival": entrant(rival)}
    plain = Entry(OTHER, None)
    placed = judged(timed, refused("of another provider"), plain)
    assert (placed is not None and placed.entry is plain) == is_placed

"""Layers are chosen by gain per error, and only the error of all together decides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from taso_py.approximate.candidates import GUARD, Bench, Candidate
from taso_py.approximate.choosing import Chooser
from taso_py.approximate.judge import Verdict
from taso_py.approximate.quantise import QuantiseError
from taso_py.backend.protocol import ModelRef
from taso_py.errors import ModelError, TooLateError

BUDGET = 0.01
NEVER = 1e9


@dataclass
class FakeBench:
    """The error of a set of layers is what ``error`` says; whatever is asked is remembered."""

    error: Callable[[frozenset[str]], float]
    budget: float = BUDGET
    asked: list[frozenset[str]] = field(default_factory=list)
    discarded: int = 0

    def static(self, method: str, names: Iterable[str], beyond: float, some: int | None = None) -> Candidate:
        layers = frozenset(names)
        self.asked.append(layers)
        verdict = Verdict(self.error(layers), "y", 0, 1)
        return Candidate(
            kind="int8 static", calibrator="MinMax", reference=ModelRef("m", b""), layers=layers, whole=False,
            verdict=verdict,
        )  # fmt: skip

    def keeps(self, candidate: Candidate) -> bool:
        return candidate.verdict.error <= GUARD * self.budget

    def discard(self, candidate: Candidate) -> None:
        self.discarded += 1


def chooser(bench: FakeBench, gains: dict[str, float], until: float = NEVER) -> Chooser:
    return Chooser(bench=cast(Bench, bench), method="MinMax", gains=gains, until=time.monotonic() + until)


def summed(errors: dict[str, float]) -> Callable[[frozenset[str]], float]:
    return lambda layers: math.fsum(errors[name] for name in layers)


def layers(found: Candidate | None) -> set[str]:
    assert found is not None
    return set(found.layers)


def test_all_are_taken_at_once_where_all_together_keep_the_budget() -> None:
    bench = FakeBench(summed(dict.fromkeys("abcd", 0.001)))
    found = chooser(bench, dict.fromkeys("abcd", 1.0)).greedy()
    assert layers(found) == set("abcd")
    assert len(bench.asked) == 1


def test_a_layer_that_spoils_all_is_left_out() -> None:
    errors = dict.fromkeys("abcdefgh", 0.001) | {"c": 0.5}
    bench = FakeBench(summed(errors))
    one = chooser(bench, dict.fromkeys("abcdefgh", 1.0))
    one.look(one.until)
    assert layers(one.greedy()) == set("abdefgh")
    assert one.alone["c"] == 0.5
    assert one.order()[-1] == "c"


def test_gain_per_error_decides_the_order() -> None:
    bench = FakeBench(summed({"a": 0.004, "b": 0.001, "c": 0.008}))
    one = chooser(bench, {"a": 2.0, "b": 1.0, "c": 16.0})
    one.look(one.until)
    assert one.order() == ["c", "b", "a"]
    assert layers(one.greedy()) == {"c", "b"}


def test_errors_that_do_not_add_are_believed_only_together() -> None:
    """Each alone is far below the budget, two of them together are beyond it."""
    bench = FakeBench(lambda layers: 0.001 if len(layers) == 1 else 1.0)
    one = chooser(bench, {"a": 3.0, "b": 2.0, "c": 1.0})
    one.look(one.until)
    assert layers(one.greedy()) == {"a"}


def test_where_every_layer_is_beyond_the_budget_there_is_none() -> None:
    one = chooser(FakeBench(lambda _: 1.0), dict.fromkeys("abc", 1.0))
    assert one.greedy() is None
    assert one.chosen() == []


def test_layers_that_do_not_pay_by_themselves_are_a_second_candidate() -> None:
    bench = FakeBench(summed(dict.fromkeys("abc", 0.001)))
    found = chooser(bench, {"a": 1.0, "b": -0.5, "c": 0.0}).chosen()
    assert [set(one.layers) for one in found] == [{"a"}, {"a", "b", "c"}]


def test_without_time_nothing_is_begun() -> None:
    bench = FakeBench(summed({"a": 0.0}))
    one = chooser(bench, {"a": 1.0}, until=-1.0)
    one.look(one.until)
    assert one.greedy() is None
    assert bench.asked == []


@pytest.mark.parametrize("fault", [QuantiseError("no"), ModelError("no"), TooLateError("no")])
def test_a_set_that_cannot_be_made_is_as_one_that_does_not_fit(fault: Exception) -> None:
    def error(found: frozenset[str]) -> float:
        if "b" in found:
            raise fault
        return 0.001

    one = chooser(FakeBench(error), dict.fromkeys("abc", 1.0))
    one.look(one.until)
    assert layers(one.greedy()) == {"a", "c"}


def test_files_of_single_layers_are_removed() -> None:
    bench: Any = FakeBench(summed(dict.fromkeys("abc", 0.001)))
    one = chooser(bench, dict.fromkeys("abc", 1.0))
    one.look(one.until)
    assert bench.discarded == 3

"""What a run found is made again by the next one like it, and by no other."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import taso_py
from taso_py.backend.protocol import WorkerConfig
from taso_py.cost.cache import Cache
from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.load import load
from taso_py.options import Options
from taso_py.result import Reason, ReasonCode
from taso_py.run import earlier
from taso_py.run.recall import Meanings, Recall
from taso_py.search.moves import Rewriter
from taso_py.search.state import Found, State, StopReason
from taso_py.search.view import View
from tests.helpers.graphs import model, rewriter, searched, view_of

GRAPH = """agraph (float[4,8] x, float[4,8] y) => (float[4,8] r) <float[8,8] w>
    { a = MatMul(x, w) b = MatMul(y, w) c = Add(a, b) r = Relu(c) }"""
IDENTITY = {"rules": "1", "original": "2"}
HOPELESS: dict[str, Any] = {"cost": "roofline", "min_gain": 0.99}
"""What is priced depends on no clock, and whatever is raced loses: nothing here becomes twice as fast."""
ROOT = Path(__file__).resolve().parents[2]


def start(*, strange: bool = False) -> View:
    """The graph; ``strange``: as others left it that looked for other things in it before."""
    _, canonical = rewriter()
    view = view_of(load(model(GRAPH, w=(8, 8))), canonical)
    if strange:
        other, _ = rewriter("rule odd: Relu(x) => Abs(Neg(Tanh(x)))")
        assert other.apply(view, [m for ms in other.all_matches(view).values() for m in ms]) is not None
    return view


def begin() -> tuple[Rewriter, View]:
    return rewriter()[0], start()


def never() -> tuple[Rewriter, View]:
    raise AssertionError("there is nothing to begin from")


def found_by_search() -> State:
    _, found = searched(model(GRAPH, w=(8, 8)))
    assert found.states
    return found.states[0]


def noted(cache: Cache, *, improved: bool = True) -> State:
    state = found_by_search()
    Recall(cache, IDENTITY).note(Found((state,), StopReason.STALLED, 7), [state], 1.0, improved=improved)
    return state


@pytest.mark.parametrize("strange", [False, True])
def test_the_moves_are_made_again_whatever_ids_their_values_have(tmp_path: Path, *, strange: bool) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        before = noted(cache)
        view = start(strange=strange)
        again = Recall(cache, IDENTITY).recalled(lambda: (rewriter()[0], view), 2.0, Roofline({}))
    assert again is not None
    assert again.improved
    assert (again.found.reason, again.found.explored) == (StopReason.STALLED, 7)
    (state,) = again.found.selected
    assert state.cost == pytest.approx(2.0 * before.cost)
    assert [step.rule for step in state.trace] == [step.rule for step in before.trace]
    assert Meanings(view.values).of_table(state.table) == Meanings(before.table.values).of_table(before.table)


def test_another_run_knows_nothing_of_it(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        noted(cache)
        for other in ({**IDENTITY, "rules": "9"}, {**IDENTITY, "sizes": "n=3"}, {}):
            assert Recall(cache, other).recalled(never, 1.0, Roofline({})) is None
        Recall(cache, IDENTITY).forget()
        assert Recall(cache, IDENTITY).recalled(begin, 1.0, Roofline({})) is None


def test_moves_that_lead_elsewhere_now_are_not_taken(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        state = noted(cache)
        moves = rewriter()[0].only(["rule-that-is-gone"])
        assert Recall(cache, IDENTITY).recalled(lambda: (moves, start()), 1.0, Roofline({})) is None
        other = Meanings(state.table.values).of_table(state.table)
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as database, database:
        assert database.execute("UPDATE searches SET text = replace(text, ?, 'x')", [other]).rowcount == 1
    with Cache(tmp_path / "cache.sqlite") as cache:
        assert Recall(cache, IDENTITY).recalled(begin, 1.0, Roofline({})) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", "{" * 10_000, '{"reason": "stalled"}', '"x"', "NaN",
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{}]}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": 3}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1' + "0" * 400 + "}]}",
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1, "table": "",'
        ' "steps": [["a", "__import__(1)", [], false, 1, 1]]}]}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1, "table": "",'
        ' "steps": [["a", "(", [], false, 1, 1]]}]}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1, "table": "",'
        ' "steps": [["a", "()", [["-5", "99999", "=7", "\\u00b2"]], false, 1, 1]]}]}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1, "table": "",'
        ' "steps": [["a", "()", [["' + "9" * 5000 + '"]], false, 1, 1]]}]}',
        '{"reason": "no further gain", "explored": 1, "improved": true, "states": [{"cost": 1, "table": "",'
        ' "steps": [["a", "7", [["1"]], false, 1, 1]]}]}',
    ],
)  # fmt: skip
def test_what_is_no_search_is_none(tmp_path: Path, text: str) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        noted(cache)
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as database, database:
        assert database.execute("UPDATE searches SET text = ?", [text]).rowcount == 1
    with Cache(tmp_path / "cache.sqlite") as cache:
        assert Recall(cache, IDENTITY).recalled(begin, 1.0, Roofline({})) is None


SEARCH = """
from tests.run.test_recall import found_by_search
from taso_py.run.recall import Meanings
state = found_by_search()
print(Meanings(state.table.values).of_table(state.table))
"""


def test_meanings_are_the_same_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", SEARCH],
            env=os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in (1, 2)
    }  # fmt: skip
    assert len(told) == 1


def test_the_same_run_searches_once_and_a_longer_one_again(tmp_path: Path) -> None:
    cache, proto = tmp_path / "c.sqlite", model(GRAPH, w=(8, 8))
    first, second = (taso_py.optimize(proto, **HOPELESS, time_budget_s=20, cache=cache) for _ in range(2))
    assert not first.recalled
    assert "search" in first.phases_s
    assert first.reason is not None
    assert first.reason.code == "lost the race"
    assert second.recalled
    assert "search" not in second.phases_s
    assert [one.rules for one in second.raced] == [
        one.rules for one in sorted(first.raced, key=lambda one: -(one.speedup or 0.0))[:1]
    ]
    assert second.stop_reason == first.stop_reason
    assert not taso_py.optimize(proto, **HOPELESS, time_budget_s=21, cache=cache).recalled


def test_what_improved_once_and_then_no_more_is_sought_anew(tmp_path: Path) -> None:
    path, proto = tmp_path / "c.sqlite", model(GRAPH, w=(8, 8))
    taso_py.optimize(proto, **HOPELESS, time_budget_s=20, cache=path)
    with closing(sqlite3.connect(path)) as database, database:
        changed = """UPDATE searches SET text = replace(text, '"improved": false', '"improved": true')"""
        assert database.execute(changed).rowcount == 1
    assert taso_py.optimize(proto, **HOPELESS, time_budget_s=20, cache=path).recalled
    with Cache(path) as cache:
        assert cache.show().searches == 0
    assert not taso_py.optimize(proto, **HOPELESS, time_budget_s=20, cache=path).recalled


def test_another_version_searches_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, proto = tmp_path / "c.sqlite", model(GRAPH, w=(8, 8))
    taso_py.optimize(proto, **HOPELESS, time_budget_s=8, cache=cache)
    monkeypatch.setattr(earlier, "VERSION", "0.0.0")
    assert not taso_py.optimize(proto, **HOPELESS, time_budget_s=8, cache=cache).recalled


@pytest.mark.parametrize(
    ("ended", "reason", "remembered"),
    [
        (StopReason.STALLED, "lost the race", True),
        (StopReason.STALLED, None, True),
        (StopReason.STALLED, "too noisy", False),
        (StopReason.STALLED, "race ended early", False),
        (StopReason.TIME, "lost the race", False),
        (StopReason.TIME, "nothing faster", False),
        (StopReason.TIME, None, True),
    ],
)
def test_only_what_was_settled_is_remembered(
    tmp_path: Path, ended: StopReason, reason: ReasonCode | None, *, remembered: bool
) -> None:
    state = found_by_search()
    job: Any = SimpleNamespace(
        options=Options(cache=tmp_path / "c.sqlite"), stop=False, recalled=None, start_cost=1.0, identity={},
        setting=SimpleNamespace(sizes={}, config=WorkerConfig()), clock=SimpleNamespace(budget=1.0), cache=None,
        worker=SimpleNamespace(ort_version=lambda: "1.31.1"),
    )  # fmt: skip
    result: Any = SimpleNamespace(
        rejected=(), reason=None if reason is None else Reason(reason, ""), evidence=None, raced=()
    )
    earlier.remember(job, Found((state,), ended, 7), [], result)
    with Cache(tmp_path / "c.sqlite") as cache:
        assert cache.show().searches == remembered


def test_a_cache_that_cannot_be_used_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("somebody's text")
    result = taso_py.optimize(model(GRAPH, w=(8, 8)), **HOPELESS, time_budget_s=8, cache=path)
    assert not result.recalled
    assert path.read_text() == "somebody's text"
    assert sum("cannot be used" in record.message for record in caplog.records) == 1

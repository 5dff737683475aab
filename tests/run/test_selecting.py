"""Moves are judged in the whole model; here its time is a table of operators, so that nothing depends on a clock."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from taso_py.backend.blocks import LONG_RUN_S
from taso_py.backend.statistics import Interval
from taso_py.cost.cache import Cache
from taso_py.graph.table import Table
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as library
from taso_py.run import selecting
from taso_py.run.calibration import Timed
from taso_py.run.losses import Losses
from taso_py.run.proposing import Proposals, proposed
from taso_py.run.selecting import Judged, Selection
from taso_py.search.bundle import Bundle
from taso_py.search.bundles import BUNDLES
from taso_py.search.moves import Rewriter
from taso_py.search.state import State, TraceStep
from taso_py.search.strategy import Limits
from taso_py.search.view import View
from tests.helpers.graphs import model, rewriter, running, view_of

LAWS = """
rule bad: Tanh(x) => Neg(Neg(Tanh(x)))
rule good: Exp(Log(x)) => Abs(x)
rule needed: Sqrt(x) => Log(x)
rule idle: Relu(Relu(x)) => Relu(x)
"""
GRAPH = """agraph (float[4] x) => (float[4] r) {
  a = Tanh(x) b = Sqrt(a) c = Exp(b) d = Relu(c) r = Relu(d)}"""
SECONDS = {"Tanh": 5.0, "Neg": 2.0, "Exp": 5.0, "Log": 6.0, "Sqrt": 5.0, "Abs": 1.0, "Relu": 1.0}


class Weighed(Selection):
    """A selection whose whole models take as long as their operators do together."""

    seconds: Mapping[str, float] = SECONDS

    unsteady: float = 0.0
    """How far the machine's interval reaches to both sides."""

    def _ratio(self, one: State | None, other: State, bounds: Sequence[float] = ()) -> Interval | None:
        ratio = self._of(other.table) / self._of(self.start.table if one is None else one.table)
        return Interval(ratio, ratio - self.unsteady, ratio + self.unsteady)

    def _of(self, table: Table) -> float:
        return sum(self.seconds[name] * count for name, count in running(table).items())


def walked(rules: Rewriter, start: View, *names: str) -> State:
    """The state after these rules, each with the same gain."""
    view, trace = start, list[TraceStep]()
    for name in names:
        found = [m for ms in rules.all_matches(view).values() for m in ms if m.rule.name == name]
        moved = rules.apply(view, found, 1)
        assert moved is not None, name
        view = moved.view
        done = {"sites": moved.sites, "tidied": moved.tidied, "table": view.table, "applied": moved.applied}
        trace.append(TraceStep(rule=name, before=1.0, after=0.9, **done))
    return State(view, rules.later(view), 0.5, 0.5, tuple(trace))


def selection(
    seconds: Mapping[str, float] = SECONDS, deadline: float | None = None, baseline: float = 0.001,
    *, laws: str = LAWS, graph: str = GRAPH,
) -> Weighed:  # fmt: skip
    loaded = load(model(graph))
    rules, canonical = rewriter(laws)
    job = SimpleNamespace(
        start_cost=20.0, run_s=baseline, setting=SimpleNamespace(feeds=[{}]),
        stopped=lambda: False, tell_measured=lambda speedup: None, roofline=SimpleNamespace(total=lambda table: 1.0),
    )  # fmt: skip
    end = deadline or time.monotonic() + 60
    chosen = Weighed(
        job=job,
        models=SimpleNamespace(),
        rewriter=rules,
        start=view_of(loaded, canonical),
        deadline=end,
        limits=Limits(end),
    )
    chosen.seconds = seconds
    return chosen


def test_a_move_that_loses_in_the_whole_model_is_left_out() -> None:
    choice = selection()
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "bad", "idle")], None)
    assert [step.rule for step in best.trace] == ["idle"]


def test_a_move_that_makes_room_for_another_stays() -> None:
    choice = selection()
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "bad", "needed", "idle")], None)
    assert {step.rule for step in best.trace} == {"idle"}
    cheaper = selection({**SECONDS, "Log": 1.0})
    best, *_ = cheaper.best([walked(cheaper.rewriter, cheaper.start, "bad", "needed", "idle")], None)
    assert {step.rule for step in best.trace} == {"needed", "idle"}


def test_the_tidied_original_is_a_candidate_too() -> None:
    choice = selection()
    tidied = walked(choice.rewriter, choice.start, "idle")
    found = choice.best([walked(choice.rewriter, choice.start, "bad")], tidied)
    assert [[step.rule for step in state.trace] for state in found] == [["idle"]]


@pytest.mark.parametrize(("promise", "judged"), [(0.4, 2), (0.497, 1), (0.6, 1)])
def test_a_state_that_promises_hardly_more_than_one_that_was_judged_is_left_to_the_race(
    promise: float, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, asked = selection(), list[State]()

    def judge(state: State) -> Judged:
        asked.append(state)
        return Judged(Timed(state, 0.9), frozenset())

    monkeypatch.setattr(Weighed, "judged", lambda _self, state: judge(state))
    states = [walked(choice.rewriter, choice.start, name) for name in ("bad", "idle")]
    choice.best([replace(states[0], cost=0.5), replace(states[1], cost=promise)], None)
    assert len(asked) == judged


def test_nothing_is_selected_where_the_original_is_fastest() -> None:
    choice = selection()
    assert choice.best([walked(choice.rewriter, choice.start, "bad")], None) == []


def test_what_the_search_did_not_find_is_tried_in_the_whole_model() -> None:
    choice = selection()
    assert choice.best([], None) == []
    best, *_ = choice.best([], None, gains={})
    assert [step.rule for step in best.trace] == ["idle"]
    assert best.cost == pytest.approx(20.0 * 16 / 17)


def test_a_move_that_makes_too_much_of_a_model_is_not_tried() -> None:
    choice = selection()
    choice.limits = Limits(choice.deadline, constant_bytes=0.0, file_growth=lambda table: 1.0)
    assert choice.best([], None, gains={}) == []


class Joined(Weighed):
    """A Log costs less where there is only one Relu."""

    def _of(self, table: Table) -> float:
        counts = running(table)
        return super()._of(table) - (4.0 if counts["Relu"] == 1 and counts["Log"] else 0.0)


def test_what_costs_nothing_is_tried_again_after_a_gain() -> None:
    choice = selection({**SECONDS, "Log": 5.0})
    joined = Joined(**{f.name: getattr(choice, f.name) for f in fields(Selection) if f.init})
    joined.seconds = choice.seconds
    best, *_ = joined.best([], None, gains={"needed": 0.9})
    assert [step.rule for step in best.trace] == ["idle", "needed", "good"]


def test_a_gain_that_is_not_seen_twice_is_chance() -> None:
    assert not lucky(Interval(0.9, 0.89, 0.91))
    assert not lucky(Interval(0.97, 0.96, 0.98), baseline=LONG_RUN_S)


def test_a_clear_gain_in_long_runs_is_seen_once() -> None:
    assert lucky(Interval(0.9, 0.89, 0.91), baseline=LONG_RUN_S)


def lucky(first: Interval, baseline: float = 0.001) -> list[State]:
    """What is best where the first of all ratios is this one, and nothing gains anything after it."""
    choice = selection(baseline=baseline)
    seen = list[Interval]()

    class Lucky(Weighed):
        def _ratio(self, one: State | None, other: State, bounds: Sequence[float] = ()) -> Interval | None:
            seen.append(first if not seen else Interval(1.0, 0.99, 1.01))
            return seen[-1]

    found = Lucky(**{f.name: getattr(choice, f.name) for f in fields(Selection) if f.init}).best([], None, gains={})
    assert len(seen) > 1
    return found


def test_what_is_known_to_lose_is_not_timed(tmp_path: Path) -> None:
    choice = selection()
    with Cache(tmp_path / "cache.sqlite") as cache:
        losses = Losses(cache, "here", "1.31.1")
        first, *_ = choice.best([], None, gains={}, losses=losses)
        asked: list[State] = []

        class Asked(Weighed):
            def _ratio(self, one: State | None, other: State, bounds: Sequence[float] = ()) -> Interval | None:
                asked.append(other)
                return Weighed._ratio(self, one, other, bounds)

        again = Asked(**{f.name: getattr(choice, f.name) for f in fields(Selection) if f.init})
        again.seconds = choice.seconds
        second, *_ = again.best([], None, gains={}, losses=losses)
    assert second.table.nodes == first.table.nodes
    assert {step.rule for state in asked for step in state.trace} == {"idle"}


def test_rules_of_a_bundle_are_tried_together(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = selection({**SECONDS, "Relu": 0.0})
    assert choice.best([], None, gains={}) == []
    monkeypatch.setattr(selecting, "BUNDLES", {"both": Bundle(("needed", "good")), "none": Bundle(("idle", "bad"))})
    best, *_ = choice.best([], None, gains={})
    assert [step.rule for step in best.trace] == ["needed", "good"]
    assert best.cost == pytest.approx(20.0 * 6 / 15)


def test_a_bundle_may_need_what_a_tidying_that_loses_uncovers(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = "rule uncovers: Relu(Relu(x)) => Neg(x)\nrule pays: Neg(Exp(x)) => Abs(x)"
    choice = selection({**SECONDS, "Neg": 5.0}, laws=laws)
    tidied = walked(choice.rewriter, choice.start, "uncovers")
    monkeypatch.setattr(selecting, "BUNDLES", {})
    assert choice.bundled(tidied) is None
    monkeypatch.setattr(selecting, "BUNDLES", {"one": Bundle(("pays",))})
    assert choice.bundled(None) is None
    found = choice.bundled(tidied)
    assert found is not None
    assert [step.rule for step in found.state.trace] == ["uncovers", "pays"]
    assert found.share == pytest.approx(11 / 17)


@pytest.mark.parametrize(
    ("grown", "made"), [("Log", ["needed", "good"]), ("Abs", ["needed"]), ("Relu", ["needed", "good"])]
)
def test_the_size_of_a_bundle_counts_at_its_end(grown: str, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is too large, moves that are too large are left out; what costs none is made."""
    choice = selection({**SECONDS, "Log": 1.0})
    before = running(choice.start.table)[grown]
    choice.limits = Limits(
        choice.deadline, constant_bytes=0.0, file_growth=lambda table: float(running(table)[grown] - before)
    )
    monkeypatch.setattr(selecting, "BUNDLES", {"both": Bundle(("needed", "good"))})
    found = choice.bundled(State(choice.start, choice.rewriter.later(choice.start), 1.0, 1.0))
    assert found is not None
    assert [step.rule for step in found.state.trace] == made


def test_bundles_are_of_rules_that_there_are() -> None:
    names = {rule.name for rule in library().search} | {f"{rule.name}-reversed" for rule in library().search}
    assert {name for b in BUNDLES.values() for name in (*b.leading, *b.following)} <= names


def test_what_follows_in_a_bundle_needs_what_leads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = selection({**SECONDS, "Relu": 0.0})
    monkeypatch.setattr(selecting, "BUNDLES", {"led": Bundle(("absent",), ("needed", "good"))})
    assert choice.best([], None, gains={}) == []
    monkeypatch.setattr(selecting, "BUNDLES", {"led": Bundle(("needed",), ("good",))})
    assert [step.rule for step in choice.best([], None, gains={})[0].trace] == ["needed", "good"]


def test_prices_are_those_of_the_whole_model_and_add_up() -> None:
    choice = selection({**SECONDS, "Log": 1.0})
    best, *_ = choice.best([walked(choice.rewriter, choice.start, "needed", "idle")], None)
    assert best.cost == pytest.approx(20.0 * (5 + 1 + 5 + 1) / (5 + 5 + 5 + 1 + 1))
    assert best.trace[0].before == pytest.approx(20.0)
    assert best.trace[-1].after == pytest.approx(best.cost)
    assert all(a.after == pytest.approx(b.before) for a, b in zip(best.trace, best.trace[1:], strict=False))


def test_a_pair_that_would_end_after_the_deadline_is_not_begun() -> None:
    choice = selection(deadline=time.monotonic() + 60, baseline=10.0)
    assert choice.best([walked(choice.rewriter, choice.start, "idle")], None) == []


def test_after_the_deadline_nothing_is_timed() -> None:
    choice = selection(deadline=time.monotonic() - 1)
    assert choice.best([walked(choice.rewriter, choice.start, "idle")], None) == []
    assert choice.least == math.inf


def test_rules_that_cost_time_are_told() -> None:
    choice = selection()
    judged = choice.judged(walked(choice.rewriter, choice.start, "bad", "idle"))
    assert judged is not None
    assert judged.losers == {"bad"}
    assert [step.rule for step in judged.best.state.trace] == ["idle"]


def test_where_the_machine_is_too_unsteady_to_tell_rules_stay() -> None:
    choice = selection({**SECONDS, "Neg": 0.05})
    choice.unsteady = 0.5
    judged = choice.judged(walked(choice.rewriter, choice.start, "bad", "idle"))
    assert judged is not None
    assert judged.losers == frozenset()
    assert [step.rule for step in judged.best.state.trace] == ["bad", "idle"]
    assert choice.best([], walked(choice.rewriter, choice.start, "idle")) != []


def test_rules_that_each_gain_next_to_nothing_do_not_all_go() -> None:
    """Without any one of the four the model is as fast as can be told; without all of them it is not."""
    names = ("Sin", "Cos", "Exp", "Erf")
    laws = "\n".join(f"rule {name.lower()}: {name}(x) => Abs(x)" for name in names)
    choice = selection(
        {"Tanh": 15.0, "Abs": 1.0, **dict.fromkeys(names, 1.05)}, laws=laws,
        graph="agraph (float[4] x) => (float[4] r) { a = Tanh(x) b = Sin(a) c = Cos(b) d = Exp(c) r = Erf(d) }",
    )  # fmt: skip
    state = walked(choice.rewriter, choice.start, *(name.lower() for name in names))
    judged = choice.judged(state)
    assert judged is not None
    assert choice._of(judged.best.state.table) <= choice._of(state.table) * 1.003
    assert judged.losers == frozenset()


def test_the_next_quick_search_goes_on_from_the_best_without_what_lost() -> None:
    choice = selection()
    asked: list[tuple[frozenset[str], int]] = []

    def quick(barred: frozenset[str], seeds: tuple[State, ...]) -> tuple[State, ...]:
        asked.append((barred, len(seeds)))
        names = [name for name in ("bad", "idle") if name not in barred]
        return (walked(choice.rewriter, choice.start, *names),)

    found = proposed(choice, quick, None)
    assert asked == [(frozenset(), 0), (frozenset({"bad"}), 1)]
    assert found.losers == {"bad"}
    assert [[step.rule for step in state.trace] for state in found.states] == [["idle"], ["idle"]]
    assert [timed.share < 1 for timed in found.judged] == [True]


def test_without_time_nothing_is_proposed() -> None:
    choice = selection(deadline=time.monotonic() - 1)
    assert proposed(choice, lambda barred, seeds: (), None) == Proposals()


def test_proposals_slower_than_the_original_are_no_beginning() -> None:
    slow = {**SECONDS, "Relu": 1.0}
    choice = selection({**slow, "Neg": 9.0})
    found = proposed(choice, lambda barred, seeds: (walked(choice.rewriter, choice.start, "bad"),), None)
    assert found.judged == ()

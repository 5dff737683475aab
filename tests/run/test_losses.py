"""What a whole model did not gain by is not timed again, in this run or the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from taso_py.backend.statistics import Interval
from taso_py.cost.cache import Cache
from taso_py.graph.table import Table
from taso_py.onnx_io.load import load
from taso_py.run.losses import Losses
from tests.helpers.graphs import model, rewriter, view_of

GRAPH = "agraph (float[4] x) => (float[4] r) { a = Tanh(x) b = Sqrt(a) r = Relu(b) }"
LAWS = {"one": "rule one: Sqrt(x) => Log(Neg(x))", "other": "rule other: Relu(x) => Abs(Neg(x))"}
LOST = Interval(1.02, 1.01, 1.03)


def tables(*rules: str, graph: str = GRAPH) -> tuple[Table, Table]:
    """A model, and what it becomes by these rules in this order: what is made first has the smaller ids."""
    _, canonical = rewriter(LAWS["one"])
    view = start = view_of(load(model(graph)), canonical)
    for name in rules:
        moves, _ = rewriter(LAWS[name])
        moved = moves.apply(view, [m for ms in moves.all_matches(view).values() for m in ms])
        assert moved is not None, name
        view = moved.view
    return start.table, view.table


def test_a_loss_is_known_in_the_next_run_whatever_order_led_there(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with Cache(path) as cache:
        losses = Losses(cache, "here", "1.31.1")
        assert losses.least(*tables("one", "other")) is None
        losses.add(*tables("one", "other"), LOST)
    with Cache(path) as cache:
        assert Losses(cache, "here", "1.31.1").least(*tables("other", "one")) == pytest.approx(LOST.low)


def test_a_loss_holds_for_its_own_pair_of_models_and_environment(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.sqlite") as cache:
        losses = Losses(cache, "here", "1.31.1")
        losses.add(*tables("one"), LOST)
        before, after = tables("one")
        assert losses.least(before, after) is not None
        assert losses.least(after, before) is None
        assert losses.least(*tables("other")) is None
        assert losses.least(*tables("one", graph=GRAPH.replace("[4]", "[8]"))) is None
        assert Losses(cache, "elsewhere", "1.31.1").least(before, after) is None

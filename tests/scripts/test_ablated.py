"""What a part is worth is told by running without it: each part is really gone, and only while that lasts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from scripts.bench import ablated, bench
from scripts.bench.tools import run_ablated
from taso_py.run import pipeline, searching, selecting
from tests.helpers.graphs import model

GONE: dict[str, Callable[[], object]] = {
    "tidying": lambda: searching.without_idle_nodes is not TIDIED and not searching.removing([]),
    "bundles": lambda: not selecting.BUNDLES,
    "selection": lambda: pipeline.selected is not SELECTED,
    "whole-models": lambda: searching._selection is not SELECTION,
}
TIDIED, SELECTED, SELECTION = searching.without_idle_nodes, pipeline.selected, searching._selection


@pytest.mark.parametrize("part", GONE)
def test_a_part_is_gone_while_it_lasts(part: str) -> None:
    assert not GONE[part]()
    with ablated.without(part):
        assert [other for other in GONE if GONE[other]()] == [part]
    assert not GONE[part]()


def test_every_part_is_a_tool_of_the_bench() -> None:
    assert {*GONE} == {*ablated.PATCHES}
    assert {f"without-{part}" for part in ablated.PARTS} <= {*bench.TOOLS}


@pytest.mark.parametrize("arguments", [[], ["nothing", "optimize"]])
def test_what_is_no_part_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ablated.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", ["bundles", "alpha"])
def test_the_program_runs_without_a_part(part: str, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(model("agraph (float[4,4] x) => (float[4,4] y) { h = Relu(x) y = Relu(h) }"), file)
    run = run_ablated(part, file, tmp_path / "out.onnx", threads=1, options=["--no-race"])
    assert run.failure is None
    assert run.tool == f"without-{part}"

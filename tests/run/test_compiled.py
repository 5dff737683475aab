"""A provider that compiles the graph as a whole: nothing is priced place by place, whole models are timed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from taso_py.cost.measured import MeasuredCost
from taso_py.result import ModelProfile, OperatorTime
from taso_py.run.proposing import Proposals, proposed
from taso_py.run.selecting import Selection
from tests.conftest import tiny_network

_NODES = len(tiny_network().graph.node)


def profile_of(kernels: int) -> ModelProfile:
    operator = OperatorTime("subgraph", kernels, 1e-3, 1.0)
    return ModelProfile(
        seconds=1e-3, operators=(operator,), product_kernels=0, products_share=0.0, operations_per_second=None,
        peak_operations_per_second=None,
    )  # fmt: skip


@pytest.mark.parametrize("kernels", [0, _NODES])
def test_what_is_compiled_as_a_whole_is_timed_as_a_whole(
    kernels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced: list[object] = []
    whole: list[Selection] = []
    difference = MeasuredCost.difference

    def measured(self: MeasuredCost, *tables: Any) -> Any:
        priced.append(tables)
        return difference(self, *tables)

    def proposing(selection: Selection, *further: Any) -> Proposals:
        whole.append(selection)
        return proposed(selection, *further)

    monkeypatch.setattr(MeasuredCost, "difference", measured)
    monkeypatch.setattr("taso_py.run.searching.proposed", proposing)
    monkeypatch.setattr("taso_py.run.pipeline.profile", lambda *_: profile_of(kernels))
    onnx.save(tiny_network(), tmp_path / "m.onnx")
    taso_py.optimize(tmp_path / "m.onnx", time_budget_s=30.0, cache=tmp_path / "cache.sqlite")
    assert bool(priced) is (kernels > 0)
    assert whole

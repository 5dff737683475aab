"""The time budget holds for everything up to the file that is written."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from taso_py.options import Options
from taso_py.run.run import MOST_LEFT, Clock, writing_seconds
from taso_py.run.subject import prepare
from taso_py.stop import StopFlag
from tests.conftest import tiny_network


def test_writing_takes_as_long_as_its_bytes() -> None:
    assert writing_seconds(0, 10_000, 0.01) == 0
    assert writing_seconds(6 * 10**9, 10_000, 1.0) == pytest.approx(20, rel=0.01)
    assert writing_seconds(0, 2 * 10**9, 1.0) < writing_seconds(0, 2 * 10**9, 60.0)  # a slow disk
    assert writing_seconds(0, 2 * 10**9, 60.0, nodes=10**5) < writing_seconds(0, 2 * 10**9, 60.0)  # many nodes


def test_time_for_writing_is_left_but_never_all() -> None:
    clock = Clock(100.0)
    clock.leave(20.0)
    assert clock.at(1.0) == clock.begin + 80
    clock.leave(math.inf)
    assert clock.budget == pytest.approx(80 * (1 - MOST_LEFT))


def test_shares_are_of_what_reading_the_model_left() -> None:
    clock = Clock(100.0)
    clock.begin -= 40
    clock.share_rest()
    clock.begin -= 20  # later calls change nothing
    clock.share_rest()
    assert clock.at(0.5) == pytest.approx(clock.begin + 70, abs=1)
    assert clock.at(1.0) == pytest.approx(clock.begin + 100)
    clock.leave(20.0)
    assert clock.at(1.0) == pytest.approx(clock.begin + 80)


def test_the_time_of_the_imports_counts_once() -> None:
    began = time.monotonic() - 10
    stop = StopFlag(began)
    whole, part = Clock.since(stop.begun(), 60.0), Clock.since(stop.begun(), 20.0)
    assert (whole.begin, whole.phases["start"] >= 10) == (began, True)
    assert part.begin > began + 9


@pytest.mark.parametrize("outside", [False, True])
def test_a_model_knows_what_its_files_hold(outside: bool, tmp_path: Path) -> None:
    model, path = tiny_network(), tmp_path / "m.onnx"
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4096, np.float32), "unused"))
    onnx.save_model(model, path, save_as_external_data=outside, location="w.bin", size_threshold=0)
    beside = (tmp_path / "w.bin").stat().st_size if outside else 0
    assert prepare(path, Options()).file_bytes() == (beside, path.stat().st_size)

"""Where the time goes: kernels by operator, the share of products, and what that bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from taso_py.backend.kernels import Kernel
from taso_py.backend.protocol import ModelRef
from taso_py.cli import main
from taso_py.cost.roofline import Roofline
from taso_py.onnx_io.load import load
from taso_py.report.content import profile_sentence, profile_table
from taso_py.result import ModelProfile
from taso_py.run.profile import profile
from tests.helpers.graphs import model

PRODUCT = "agraph (float[4,8] x, float[8,16] w) => (float[4,16] r) { a = MatMul(x, w) r = Relu(a) }"


class Told:
    """A worker whose kernels and whose product of large matrices take as long as it is told."""

    def __init__(self, kernels: Sequence[Kernel], peak_s: float) -> None:
        self.kernels, self.peak_s = tuple(kernels), peak_s

    def profile(self, *_: object) -> tuple[Kernel, ...]:
        return self.kernels

    def open(self, _: object) -> int:
        return 1

    def close(self, _: int) -> None:
        return None

    def time_rounds(self, *_: object, **__: object) -> list[list[Any]]:
        return [[np.array([2 * self.peak_s, self.peak_s])]]


def profiled(kernels: Sequence[Kernel], *, peak_s: float = 1e-3, graph: str = PRODUCT) -> ModelProfile:
    loaded = load(model(graph))
    worker: Any = Told(kernels, peak_s)
    return profile(worker, ModelRef("m", b""), {}, loaded.table, Roofline({}))


KERNELS = (Kernel("r", "Relu", 1e-6, 1), Kernel("a", "FusedMatMul", 4e-6, 1), Kernel("s", "Relu", 1e-6, 2))


def test_operators_are_added_up_and_products_told_from_the_rest() -> None:
    found = profiled(KERNELS)
    assert [(o.operator, o.kernels) for o in found.operators] == [("FusedMatMul", 1), ("Relu", 3)]
    assert sum(o.share for o in found.operators) == pytest.approx(1)
    assert found.products_share == pytest.approx(2 / 3)
    assert found.gain_of_the_rest == pytest.approx(1.5)
    assert found.operations_per_second == pytest.approx(2 * 4 * 8 * 16 / 4e-6, rel=0.1)
    assert found.peak_operations_per_second == pytest.approx(2 * 1024**3 / 1e-3)


def test_a_peak_below_what_the_model_reaches_is_no_peak() -> None:
    assert profiled(KERNELS, peak_s=1e3).peak_operations_per_second is None


def test_products_whose_sizes_are_not_known_have_no_pace() -> None:
    graph = "agraph (float[m,8] x, float[8,16] w) => (float[m,16] r) { a = MatMul(x, w) r = Relu(a) }"
    found = profiled(KERNELS, graph=graph)
    assert found.operations_per_second is None
    assert "peak" not in profile_sentence(found)


def test_a_model_without_products_has_no_bound() -> None:
    found = profiled([Kernel("r", "Relu", 1e-6, 1)])
    assert found.gain_of_the_rest == float("inf")
    assert profile_sentence(found) == "none of the time is in convolutions or matrix products"


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        (["MatMul", "FusedGemm", "Relu"], "2 matrix products"),
        (["NhwcFusedConv", "ConvTranspose"], "2 convolutions"),
        (["FusedConv", "Add"], "one convolution"),
        (["Gemm"], "one matrix product"),
        (["Conv", "MatMul", "Gemm"], "3 convolutions and matrix products"),
    ],
)
def test_products_are_called_what_they_are(operators: list[str], words: str) -> None:
    found = profiled([Kernel(name, name, 1e-6, 1) for name in operators])
    assert f" % of the time is in {words} at " in profile_sentence(found)


def test_the_table_ends_with_the_others() -> None:
    found = profiled([Kernel(str(k), f"Op{k}", 1e-6, 1) for k in range(20)])
    rows = profile_table(found).rows
    assert len(rows) == 13
    assert rows[-1][:2] == ("others", "8")


def test_inspect_runs_a_model_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(PRODUCT), path)
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"] is None
    assert main(["inspect", str(path), "--json", "--profile", "--threads", "1"]) == 0
    found = json.loads(capsys.readouterr().out)["profile"]
    assert found["seconds"] >= 0
    assert sum(o["kernels"] for o in found["operators"]) >= 1
    assert main(["inspect", str(path), "--profile"]) == 0
    assert "Where the time goes" in capsys.readouterr().out


def test_an_input_that_does_not_fit_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, array = tmp_path / "m.onnx", tmp_path / "x.npy"
    onnx.save(model(PRODUCT), path)
    np.save(array, np.zeros((3, 3), np.float32))
    assert main(["inspect", str(path), "--profile", "--input", f"x={array}"]) in (2, 3)
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert "x" in told[0]

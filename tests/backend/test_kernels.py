"""Kernel times out of ONNX Runtime's profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.kernels import kernels_of
from taso_py.backend.protocol import WorkerConfig
from taso_py.errors import ModelError
from tests.helpers.graphs import model


def event(name: str, operator: str, took: int, index: int = 0) -> dict[str, object]:
    about = {"op_name": operator, "node_index": str(index)}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": took, "args": about}


def test_a_kernel_counts_with_the_faster_half_of_its_calls(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    slow = [event("a", "Conv", took) for took in (900, 10, 12, 11)]
    others = [{"cat": "Session", "name": "model_run", "dur": 5000}, event("a_fence", "Conv", 7) | {"cat": "Api"}]
    file.write_text(json.dumps([*slow, *others]))
    (kernel,) = kernels_of(file, 4)
    assert (kernel.name, kernel.operator, kernel.calls) == ("a", "Conv", 1)
    assert kernel.seconds == pytest.approx(10.5e-6)


def test_what_a_loop_calls_counts_as_often_as_it_is_called_and_the_loop_itself_does_not(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps([event("loop", "Loop", 100), *(event("body", "Add", 20, 1) for _ in range(3))]))
    (kernel,) = kernels_of(file, 1)
    assert (kernel.operator, kernel.calls) == ("Add", 3)
    assert kernel.seconds == pytest.approx(60e-6)


def test_equal_names_at_different_places_are_different_kernels(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps([event("", "Relu", 1, 0), event("", "Relu", 2, 1)]))
    assert [k.seconds for k in kernels_of(file, 1)] == pytest.approx([1e-6, 2e-6])


def test_a_worker_profiles_the_graph_that_onnx_runtime_made() -> None:
    proto = model("agraph (float[2,8] x, float[8,8] w) => (float[2,8] r) { a = MatMul(x, w) r = Relu(a) }")
    with Worker(WorkerConfig()) as worker:
        kernels = worker.profile(
            proto.SerializeToString(),
            {"x": np.zeros((2, 8), np.float32), "w": np.zeros((8, 8), np.float32)},
            budget_s=0.0,
        )
        assert worker.restarts == 0
    assert {k.operator for k in kernels} <= {"MatMul", "Relu", "FusedGemm", "FusedMatMul", "Gemm"}
    assert all(k.calls == 1 and k.seconds >= 0 for k in kernels)


def test_a_model_that_cannot_run_is_told(tmp_path: Path) -> None:
    proto = model("agraph (float[2,8] x) => (float[2,8] r) { r = Relu(x) }")
    with Worker(WorkerConfig()) as worker, pytest.raises(ModelError, match="cannot profile"):
        worker.profile(proto.SerializeToString(), {"x": np.zeros((2, 3, 8), np.float32)}, budget_s=0.0)

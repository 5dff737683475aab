"""The corpus script: its models are valid, and it counts how runs end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from scripts.audit.exporter_models import MODELS, exporter_model
from scripts.audit.random_models import GRAMMAR, random_model
from scripts.audit.robustness import Subject, backend_models, packaged_models, run
from scripts.audit.wild_models import NEWEST, wild_model
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
from taso_py.errors import ModelError


def operators(graph: onnx.GraphProto) -> set[str]:
    return {node.op_type for node in graph.node}


def test_random_models_run_and_differ() -> None:
    kinds: set[str] = set()
    for seed in range(2 * len(GRAMMAR)):
        model = random_model(seed)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
        assert session.run(None, {"x": np.zeros(shape, np.float32)})
        kinds |= operators(model.graph)
    assert len(kinds) >= 2 * len(GRAMMAR)
    assert random_model(3) == random_model(3) != random_model(7)


def test_wild_models_run_at_the_inputs_that_come_with_them_and_use_every_piece() -> None:
    operators_seen: set[str] = set()
    opsets: set[int] = set()
    ran = 0
    for seed in range(120):
        model, feeds = wild_model(seed)
        operators_seen |= operators(model.graph)
        opsets.add(model.opset_import[0].version)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            ran += bool(session.run(None, feeds))
        except Exception:  # noqa: BLE001 - ONNX Runtime's own classes; bfloat16 cannot be handed to numpy
            continue
    assert ran >= 110
    assert len(operators_seen) > 100
    assert {7, NEWEST} <= opsets
    assert wild_model(5)[0] == wild_model(5)[0] != wild_model(6)[0]


def test_odd_models_are_models() -> None:
    for name in MODELS:
        model = exporter_model(name)
        assert model.graph.output, name
        assert exporter_model(name) == model
    # Without computing what is constant: gigabytes in one of them.
    with Worker(WorkerConfig(threads=1, ort_level="disable")) as worker:
        loads = sum(_opens(worker, exporter_model(name)) for name in MODELS)
    assert loads >= len(MODELS) - 4


def _opens(worker: Worker, model: onnx.ModelProto) -> bool:
    try:
        worker.close(worker.open(model.SerializeToString()))
    except ModelError:
        return False
    return True


def test_every_kind_that_ships_is_there() -> None:
    assert {s.kind for s in backend_models()} == {"node", "simple", "light", "pytorch-converted", "pytorch-operator"}
    assert all("onnx/backend" not in s.name for s in packaged_models())


@pytest.mark.parametrize(("source", "code"), [(b"no model", 3), (random_model(1).SerializeToString(), 0)])
def test_a_run_ends_with_its_exit_code(source: bytes, code: int, tmp_path: Path) -> None:
    ending = run(Subject("random", "one", source), tmp_path, 5.0)
    assert ending.code == code
    assert bool(ending.says) == (code != 0)

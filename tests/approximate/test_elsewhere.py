"""What OpenVINO itself makes of its hint, on a convolutional network and on masks; skipped where it is not set up."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from taso_py.approximate.candidates import Candidate
from taso_py.approximate.elsewhere import hinted
from taso_py.approximate.judge import Judge
from taso_py.approximate.record import TriedApproximation
from taso_py.approximate.samples import Samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef, WorkerConfig
from taso_py.options.providers import bf16_options
from taso_py.providers.record import ProviderRun, write_session
from tests.conftest import ROOT
from tests.helpers.interpreters import OPENVINO, openvino_python
from tests.helpers.precision import SIDE, classifier, samples

COUNT = 4
MASKED = """<ir_version: 8, opset_import: ["": 17]> masked (float[1, 64] x, float[1, 64] m) => (float[1, 64] y)
    <float low = {-3.4e38}> { b = Mul(m, low) s = Add(x, b) t = Add(s, b) y = Softmax(t) }"""
"""A mask of nearly the most negative number, added twice: fp32 has -inf there, and one more number stays finite."""


@pytest.fixture
def config() -> WorkerConfig:
    options = bf16_options(OPENVINO, {}, 1)
    assert options is not None
    return WorkerConfig(OPENVINO, tuple(options.items()), python=str(openvino_python()))


def judged(config: WorkerConfig, model: onnx.ModelProto, given: Samples) -> Candidate | TriedApproximation:
    exact = ModelRef.of(model.SerializeToString())
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        judge = Judge(exact, given, worker, oracle)
        (found,) = hinted(config, [exact], judge, range(given.count), beyond=math.inf, until=math.inf)
        return found


def is_followed(found: Candidate | TriedApproximation) -> bool:
    """Whether this CPU executes the hint; where it has no such instructions, that is what is said."""
    if isinstance(found, TriedApproximation):
        assert found.failure == "openvino computes in float32 all the same here"
        return False
    return True


def test_a_convolutional_network(config: WorkerConfig) -> None:
    given = Samples({"x": samples(COUNT, 1, 3, SIDE, SIDE)}, {}, COUNT, random=False)
    found = judged(config, classifier(), given)
    if is_followed(found):
        assert isinstance(found, Candidate)
        assert 1e-5 < found.verdict.error < 0.1
        assert found.config == config


def test_a_session_of_the_result_computes_what_was_judged(config: WorkerConfig, tmp_path: Path) -> None:
    model = tmp_path / "out.onnx"
    onnx.save(classifier(), model)
    np.savez(tmp_path / "x.npz", x=samples(1, 3, SIDE, SIDE))
    ran = ProviderRun(
        ep=OPENVINO, python=config.python, options=dict(config.ep_options), threads=1, ort_level="all",
        distribution="onnxruntime-openvino", ort_version="1.24",
    )  # fmt: skip
    write_session(ran, tmp_path, model, "bf16 by provider hint: not proved")
    code = (
        "import json, numpy as np, taso_py\n"
        f"x = np.load({str(tmp_path / 'x.npz')!r})['x']\n"
        f"print(json.dumps(taso_py.session({str(model)!r}).run(None, {{'x': x}})[0].tolist()))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [str(config.python), "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with Worker(config) as worker:
        handle = worker.open(ModelRef.of(model))
        found = worker.run(handle, {"x": np.load(tmp_path / "x.npz")["x"]})["y"]
    assert np.array_equal(np.asarray(json.loads(done.stdout), np.float32), found)


def test_a_mask_near_the_largest_number_is_kept_or_beyond_any_budget(config: WorkerConfig) -> None:
    mask = np.zeros((COUNT, 1, 64), np.float32)
    mask[:, :, 50:] = 1
    given = Samples({"x": samples(COUNT, 1, 64), "m": mask}, {}, COUNT, random=False)
    with Worker(WorkerConfig()) as worker:
        model = onnx.parser.parse_model(MASKED)
        handle = worker.open(ModelRef.of(model.SerializeToString()), level="disable", ep=CPU)
        assert np.isfinite(worker.run(handle, given.feeds(0))["y"]).all()
    found = judged(config, model, given)
    if is_followed(found):
        assert isinstance(found, Candidate)
        words = found.told().failure
        assert (words is None) if found.verdict.error < 0.1 else ("NaN or infinite" in (words or ""))

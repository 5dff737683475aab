"""Random models of If nodes: whatever a search makes of them keeps its promises, and computes the same each way."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest

from scripts.audit.branched_models import branched_model
from taso_py.arrays import Array
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from tests.helpers.graphs import searched

STATES = 8


def each_way(content: bytes) -> list[Array]:
    """What a model computes of either condition."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    ways = product((True, False), repeat=2)
    return [session.run(None, {"x": x, "c": np.array(c), "d": np.array(d)})[0] for c, d in ways]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 7, 8])
def test_what_is_made_of_branches_is_sound(seed: int) -> None:
    model = branched_model(seed)
    loaded, found = searched(model, None, alpha=100.0, seconds=20)
    assert found.states
    before = each_way(model.SerializeToString())
    for state in found.states[:STATES]:
        exported = export(loaded, state.table)
        assert check_contract(loaded.proto, exported) == []
        content = serialize(exported)
        onnx.checker.check_model(content)
        np.testing.assert_allclose(each_way(content), before, rtol=1e-4, atol=1e-5)

"""What the bench gives to quantisers, and the quantisers of others as their users run them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from scripts.bench import samples, tools
from tests.helpers.interpreters import wrapped_python


def test_the_quantisers_of_others_make_models(tiny_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "samples.npz"
    samples.write(tiny_model, file, count=12)
    static = tools.run_ort_static(tiny_model, tmp_path / "static.onnx", file)
    dynamic = tools.run_ort_dynamic(tiny_model, tmp_path / "dynamic.onnx", file)
    assert (static.failure, dynamic.failure) == (None, None)
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in onnx.load(static.output).graph.node}
    fake = "class Dataset:\n    def __init__(self, one): self.one = one\n"
    fake += "def quantize(model, data, subset_size):\n    assert len(data.one) == subset_size == 12\n    return model\n"
    nncf = tools.run_nncf(tiny_model, tmp_path / "n.onnx", file, python=wrapped_python(tmp_path, "nncf", fake))
    assert nncf.failure is None
    absent = tools.run_nncf(tiny_model, tmp_path / "n.onnx", file, python=tmp_path / "absent")
    assert "No such file" in (absent.failure or "")


def test_samples_are_the_seed_s_alone(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        samples.write(tiny_model, tmp_path / f"{name}.npz", count=12, seed=seed)
    a, b, c = (np.load(tmp_path / f"{name}.npz")["x"] for name in "abc")
    assert a.shape == (12, 1, 3, 8, 8)
    assert np.array_equal(a, b)
    assert not {one.tobytes() for one in a} & {one.tobytes() for one in c}
    done = CliRunner().invoke(samples.main, [str(tiny_model), "--out", str(tmp_path / "s"), "--count", "12"])
    assert done.exit_code == 0, done.output
    assert np.array_equal(np.load(tmp_path / "s" / "model.npz")["x"], a)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(samples.main, ["absent.onnx"]).exit_code == 2
    assert not Path("samples").exists()

"""The classifier under an error budget, with a package and a network that stand in for magika's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from scripts.bench import magika
from scripts.bench.tools import ToolRun

PACKAGE = """
import pathlib
from types import SimpleNamespace


class Magika:
    _model_path = pathlib.Path({model!r})

    def _get_result_or_features_from_path(self, path):
        content = path.read_bytes()
        if len(content) < 4:
            return "too short", None
        return None, SimpleNamespace(beg=list(content[:2]), mid=[], end=list(content[-2:]))
"""


def classifier(path: Path, *, sign: float = 1.0) -> None:
    """Two classes: the first byte, times ``sign``, against the last."""
    weights = np.array([[sign, 0], [0, 0], [0, 0], [0, sign]], np.float32)
    nodes = [
        helper.make_node("Cast", ["bytes"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "w"], ["target_label"]),
    ]
    inputs = [helper.make_tensor_value_info("bytes", TensorProto.INT32, ["n", 4])]
    outputs = [helper.make_tensor_value_info("target_label", TensorProto.FLOAT, ["n", 2])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    classifier(folder / "model.onnx")
    (folder / "magika.py").write_text(PACKAGE.format(model=str(folder / "model.onnx")))
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}").write_bytes(bytes([number % 30, 1, 2, 40]))  # ten are equal to others
    (folder / "short").write_bytes(b"a")
    (folder / "empty").write_bytes(b"")
    (folder / "link").symlink_to(folder / "1")
    return folder


def test_files_are_drawn_by_the_seed_and_read_by_the_package(package: Path, files: Path, tmp_path: Path) -> None:
    drawn = magika.draw(files, 100, 1)
    assert drawn == magika.draw(files, 100, 1) != magika.draw(files, 100, 2)
    assert len(drawn) == 41
    rows, model = magika.read(package, drawn, 100, tmp_path / "rows.npz")
    assert rows.shape == (30, 4)
    assert model == package / "model.onnx"
    assert len(magika.read(package, drawn, 12, tmp_path / "rows.npz")[0]) == 12


def test_what_is_compared() -> None:
    expected = [np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]])]
    found = [np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]])]
    share, largest = magika.compared(expected, found)
    assert share == 0.5
    assert largest == pytest.approx((2 / 5) ** 0.5)
    layers = [{"approximated": True}, {"approximated": False}]
    told = {"applied": True, "kind": "int8 static", "calibrator": "MinMax", "layers": layers, "error": 0.1}
    told |= {"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1}
    words = magika.approximated({"speedup": 1.5, "approximation": told})
    assert words == ("int8 static MinMax, 1 of 2 layers", "1.50 proved, 2.00 [1.90, 2.10]", 0.1)
    nothing = {"applied": False, "reason": {"words": "nothing faster"}}
    assert magika.approximated({"speedup": None, "approximation": nothing}) == ("nothing: nothing faster", "1.00", None)


@pytest.mark.parametrize(("sign", "code", "share"), [(1.0, 0, "100.0 %"), (-1.0, 1, "0.0 %")])
def test_the_result_is_judged_by_inputs_that_optimize_has_not_seen(
    package: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sign: float, code: int, share: str
) -> None:
    def ours(model: Path, output: Path, *, threads: int, options: Sequence[str]) -> ToolRun:
        assert "rel=0.2" in options
        assert np.load(tmp_path / "out" / "calibration.npz")["bytes"].shape == (10, 4)
        classifier(output, sign=sign)
        nothing = {"applied": False, "reason": {"words": "why"}}
        return ToolRun("superopt", output, 1.0, result={"speedup": None, "approximation": nothing})

    monkeypatch.setattr(magika, "run_ours", ours)
    given = [str(package), "--files", str(files), "--out", str(tmp_path / "out"), "--budget", "0.2", "--given", "10"]
    done = CliRunner().invoke(magika.main, [*given, "--judged", "19", "--threads", "1"])
    assert done.exit_code == code, done.output
    assert f"| 20 % | nothing: why | 1.00 | - | {share} |" in done.output
    many = CliRunner().invoke(magika.main, [*given, "--judged", "1000"])
    assert "has 30 files that the network is for, 1010 are needed" in many.output

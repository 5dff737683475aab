"""`superopt diff` says what differs, as text, as JSON and as a file, and needs no ONNX Runtime for it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from taso_py.cli import main
from tests.conftest import RunCli
from tests.helpers.graphs import model
from tests.helpers.schemas import require_valid


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """a.onnx, and b.onnx with a node less, in the current folder."""
    monkeypatch.chdir(tmp_path)
    text = "agraph (float[1,4] x) => (float[1,4] y) {{ {} }}"
    onnx.save(model(text.format("a = Relu(x) b = Neg(a) c = Neg(b) y = Tanh(c)")), "a.onnx")
    onnx.save(model(text.format("a = Relu(x) y = Tanh(a)")), "b.onnx")
    return tmp_path


@pytest.mark.usefixtures("models")
def test_it_prints_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a.onnx", "b.onnx"]) == 0
    shown = capsys.readouterr().out
    assert "1. 2 Neg → nothing (1 place)" in shown
    assert "- b = Neg(a) : float32[1,4]" in shown
    assert shown.splitlines()[-1] == "a.onnx and b.onnx: 1 place differs: 2 nodes became 0, 2 are the same in both"
    assert main(["diff", "a.onnx", "b.onnx", "--json"]) == 0
    require_valid(json.loads(capsys.readouterr().out))
    assert main(["diff", "a.onnx", "a.onnx", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    require_valid(found)
    assert (found["same"], found["unchanged"], found["regions"]) == (True, 4, [])


def test_a_report_goes_where_nothing_is_lost(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("r.html", "r.md", "r.json"):
        assert main(["diff", "a.onnx", "b.onnx", "--report", name]) == 0
        assert "Neg" in (models / name).read_text(encoding="utf-8")
        assert main(["diff", "a.onnx", "b.onnx", "--report", name]) == 4
        assert main(["diff", "a.onnx", "b.onnx", "--report", name, "--force"]) == 0
    (models / "m.md").write_bytes((models / "a.onnx").read_bytes())
    assert main(["diff", "m.md", "b.onnx", "--report", "m.md", "--force"]) == 4
    assert main(["diff", "a.onnx", "b.onnx", "--report", "r.txt"]) == 2
    assert (models / "m.md").read_bytes() == (models / "a.onnx").read_bytes()
    assert "--report r.txt: the name must end in" in capsys.readouterr().err


def test_neither_runtime_nor_template_engine_is_imported(models: Path, run_cli: RunCli) -> None:
    for name in ("onnxruntime", "jinja2"):
        (models / f"{name}.py").write_text("raise RuntimeError('not needed')")
    found = run_cli("diff", "a.onnx", "b.onnx", cwd=models)
    assert found.returncode == 0, found.stderr

"""The pass SuperOpt in the workflow of docs/integrations.md, run by Olive itself where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from taso_py.integrations import olive_package
from tests.conftest import ROOT, RunCli, cli_environment, tiny_network
from tests.helpers.documents import fenced

WORKFLOW = json.loads(fenced(ROOT / "docs" / "integrations.md", "json", '"SuperOpt"'))
PACKAGE = [sys.executable, "-m", "taso_py.integrations.olive_package"]

needs_olive = pytest.mark.skipif(find_spec("olive") is None, reason="Olive is not installed: superopt[olive]")


def run_olive(place: Path, **changed: object) -> subprocess.CompletedProcess[str]:
    """Run the documented workflow on model.onnx, with ``changed`` parameters of the pass."""
    onnx.save(tiny_network(), place / "model.onnx")
    passes = {name: entry | changed for name, entry in WORKFLOW["passes"].items()}
    (place / "workflow.json").write_text(json.dumps(WORKFLOW | {"passes": passes, "cache_dir": "cache"}))
    environment = cli_environment({"OLIVE_DISABLE_TELEMETRY": "1", "SUPEROPT_CACHE": str(place / "cache.sqlite")})
    package = subprocess.run(PACKAGE, env=environment, capture_output=True, text=True, check=True).stdout
    (place / "olive-package.json").write_text(package)
    command = [sys.executable, "-m", "olive", "run", "--config", "workflow.json"]
    return subprocess.run(
        [*command, "--package-config", "olive-package.json"],
        cwd=place, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@needs_olive
@pytest.mark.slow
def test_olive_runs_the_pass_and_carries_its_certificate(tmp_path: Path, run_cli: RunCli) -> None:
    done = run_olive(tmp_path, race=False)
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / WORKFLOW["output_dir"]
    written = json.loads((out / "model_config.json").read_text())["config"]["model_attributes"]
    assert written["superopt"]["rules"]
    certificate = Path(written["additional_files"][0])
    assert run_cli("certify", "model.onnx", out / "model.onnx", certificate).returncode == 0


@needs_olive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"time_budget": 5}, "there is no option 'time_budget': did you mean 'time_budget_s'?"),
        ({"alpha": 0.5}, "alpha=0.5: must be at least 1"),
        ({"shapes": {"q": 1}}, "--shape q: the model has no such input or symbol"),
    ],
)
def test_what_cannot_be_meant_ends_the_workflow(tmp_path: Path, changed: dict[str, object], says: str) -> None:
    done = run_olive(tmp_path, **changed)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr
    assert not (tmp_path / WORKFLOW["output_dir"] / "model.onnx").exists()


def test_the_package_configuration_adds_to_olive_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "olive").mkdir()
    (tmp_path / "olive" / "__init__.py").write_text("raise ImportError('too slow to import')")
    (tmp_path / "olive" / "olive_config.json").write_text('{"passes": {"Other": {}}, "extra_dependencies": {"a": []}}')
    monkeypatch.syspath_prepend(tmp_path)
    found = olive_package.package_config()
    assert found == {"passes": {"Other": {}, "SuperOpt": olive_package.PASS}, "extra_dependencies": {"a": []}}


@pytest.mark.skipif(find_spec("olive") is not None, reason="Olive is installed")
def test_without_olive_the_reader_is_told_what_to_install() -> None:
    done = subprocess.run(PACKAGE, env=cli_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "superopt: error: Olive is not installed: pip install 'superopt[olive]'\n"

"""The hooks, called as pre-commit calls them: entry, arguments, files that match."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from taso_py.certificate.digest import digest
from taso_py.certificate.document import Unproved, extended
from tests.conftest import ROOT, cli_environment, tiny_network
from tests.helpers.documents import fenced

HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}
TRIO = ("model.onnx", "model.superopt.onnx", "model.superopt.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its optimised form and the certificate, made as the documentation says."""
    folder = tmp_path_factory.mktemp("made")
    onnx.save(tiny_network(), folder / "model.onnx")
    (line,) = fenced(ROOT / "docs" / "integrations.md", "", "--certificate model.superopt.json").splitlines()
    command = [sys.executable, "-m", "taso_py", *line.split()[1:], "--no-race"]
    subprocess.run(command, cwd=folder, env=cli_environment(), capture_output=True, check=True, timeout=120)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy of it, beside a model of which nothing else is there."""
    onnx.save(tiny_network(), tmp_path / "other.onnx")
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def hook(name: str, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a hook on all files of the folder."""
    python, *entry = shlex.split(HOOKS[name]["entry"])
    assert python == "python"
    files = [path.name for path in sorted(place.iterdir()) if re.search(HOOKS[name]["files"], path.name)]
    command = [sys.executable, *entry, *arguments, *files]
    return subprocess.run(command, cwd=place, env=cli_environment(), capture_output=True, text=True, timeout=120)


def test_files_that_belong_together_pass(place: Path) -> None:
    for name, arguments in (("superopt-digest", ()), ("superopt-certify", ("--shape=x=1,3,8,8", "--seed=1"))):
        done = hook(name, place, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_approximation_is_bound_by_its_digest_and_certified_by_nothing(place: Path) -> None:
    file, certificate = place / "model.superopt.onnx", place / "model.superopt.json"
    model = onnx.load(file)
    model.doc_string = "another model"
    onnx.save(model, file)
    certificate.write_text(extended(certificate.read_text(), Unproved("int8 static", digest(file))))
    assert hook("superopt-digest", place).returncode == 0
    done = hook("superopt-certify", place)
    assert done.returncode == 1
    assert "error not proved" in done.stdout


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("missing", TRIO)
def test_a_missing_file_is_named(place: Path, name: str, missing: str) -> None:
    (place / missing).unlink()
    done = hook(name, place)
    assert (done.returncode, done.stdout) == (1, f"model.superopt.onnx: {missing} is missing\n")


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("file", TRIO)
def test_a_file_of_another_model_is_found(place: Path, name: str, file: str) -> None:
    changed = tiny_network()
    changed.graph.initializer[0].raw_data = bytes(len(changed.graph.initializer[0].raw_data))
    if file.endswith(".json"):
        text = (place / file).read_text()
        (place / file).write_text(text.replace('"original": {"sha256": "', '"original": {"sha256": "0'))
    else:
        onnx.save(changed, place / file)
    done = hook(name, place)
    assert done.returncode == 1
    assert done.stdout.startswith("model.superopt.onnx: ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == "superopt: error: optimised models that do not belong to their originals: 1 of 1\n"


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x0a\x01"])
def test_what_is_no_model_is_a_finding_like_any_other(place: Path, name: str, content: bytes) -> None:
    (place / "model.superopt.onnx").write_bytes(content)
    (place / "z.superopt.json").write_bytes(content)
    done = hook(name, place)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["model.superopt.onnx", "z.superopt.onnx"]


def test_names_of_the_documented_hooks_exist() -> None:
    shown = yaml.safe_load(fenced(ROOT / "docs" / "integrations.md", "yaml", "superopt-digest"))
    assert {entry["id"] for repository in shown["repos"] for entry in repository["hooks"]} == set(HOOKS)

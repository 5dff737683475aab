"""Variables of the environment: the line that refuses one names it, and what may be repeated may hold blanks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from taso_py.cli import main
from taso_py.errors import RuntimeMissingError
from tests.conftest import cli_environment, tiny_network


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(tiny_network().SerializeToString())
    return tmp_path


@pytest.mark.parametrize("command", ["inspect m.onnx", "config", "config inspect"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SUPEROPT_THREADS", "0"),
        ("SUPEROPT_THREADS", "abc"),
        ("SUPEROPT_THREADS", "3000000000"),
        ("SUPEROPT_JSON", "maybe"),
        ("SUPEROPT_LOG_FORMAT", "xml"),
        ("SUPEROPT_SHAPE", "x=big"),
        ("SUPEROPT_EP_OPTION", "a='b"),
        ("SUPEROPT_INPUT", "x=absent.npy"),
        ("SUPEROPT_INPUT", "x=my absent.npy"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(
    command: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(command.split()) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert (
        f"superopt: error: {variable}={value!r}: " in said
        or f"superopt: error: {variable}={json.dumps(value)}: " in said
    )


def test_what_is_quoted_in_a_variable_may_hold_blanks(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "my rules").mkdir()
    for name, law in (("one", "Add(x, x) => Mul(x, 2)"), ("other", "Add(x, Add(x, x)) => Mul(x, 3)")):
        (place / "my rules" / f"{name}.rules").write_text(f"rule double-{name}: {law}")
    np.save(place / "my rules" / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    monkeypatch.setenv("SUPEROPT_RULES", "'my rules/one.rules' my\\ rules/other.rules")
    assert main(["rules", "list"]) == 0
    assert "double-one" in (listed := capfd.readouterr().out)
    assert "double-other" in listed
    monkeypatch.setenv("SUPEROPT_INPUT", "'x=my rules/x.npy'")
    assert main(["inspect", "m.onnx"]) == 0
    monkeypatch.setenv("SUPEROPT_SHAPE", "x=1,3,8,8")
    assert main(["inspect", "m.onnx"]) == 0


def test_a_settings_file_is_read_as_editors_write_it(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (place / "superopt.toml").write_bytes(b"\xef\xbb\xbf[optimize]\ngate = {max-size = 1.5}\n")
    assert main(["config", "optimize", "--json"]) == 0
    assert '"max-size"' in capfd.readouterr().out
    with (place / "superopt.toml").open("wb") as file:
        file.truncate(2**42)
    assert main(["config"]) == 2
    assert "over 1048576 bytes long" in capfd.readouterr().err


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
sys.argv = ["superopt", "inspect", "m.onnx", "--json"]
from taso_py.__main__ import run
run()
"""


@pytest.mark.parametrize("package", ["click", "numpy", "onnx", "onnx_ir", "lark"])
def test_a_package_that_is_missing_is_one_line(place: Path, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package], cwd=place, env=cli_environment(), capture_output=True, text=True
    )
    assert done.returncode == 5
    assert done.stderr.startswith(f"superopt: error: the package {package} cannot be imported here (")
    assert done.stderr.count("\n") == 1
    if package != "click":  # which is what reads the options
        assert json.loads(done.stdout)["code"] == "runtime missing"


def test_a_module_of_our_own_that_cannot_be_imported_is_an_internal_error() -> None:
    for name in ("taso_py.absent", "json.absent", None):
        assert RuntimeMissingError.of_import(ModuleNotFoundError("No module", name=name)) is None

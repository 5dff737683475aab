"""Completions, asked for as the shells ask."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import RunCli


def completed(run_cli: RunCli, words: str) -> list[tuple[str, str]]:
    """Type and value of what is offered for the last of the words."""
    before = {"_SUPEROPT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = run_cli(env=before)
    assert (done.returncode, done.stderr) == (0, "")
    return [(kind, value) for kind, _, value in (line.partition(",") for line in done.stdout.split())]


def test_commands_options_and_choices(run_cli: RunCli) -> None:
    assert completed(run_cli, "superopt op") == [("plain", "optimize")]
    assert completed(run_cli, "superopt rules sh") == [("plain", "show")]
    assert completed(run_cli, "superopt optimize --time") == [("plain", "--time-budget")]
    assert completed(run_cli, "superopt optimize --cost ") == [("plain", "measured"), ("plain", "roofline")]
    assert completed(run_cli, "superopt check --log-format j") == [("plain", "json")]


def test_rules_by_name(run_cli: RunCli, own_rules: Path, tmp_path: Path) -> None:
    library = completed(run_cli, "superopt rules show matmul-shared-w")
    assert ("plain", "matmul-shared-weight") in library
    for option in ("optimize --only", "optimize --disable", "verify --only"):
        assert completed(run_cli, f"superopt {option} matmul-shared-w") == library
    own = completed(run_cli, "superopt optimize --rules own.rules --only ")
    assert ("plain", "double") in own
    assert not set(own) & set(library)
    (tmp_path / "bad.rules").write_text("rule")
    assert completed(run_cli, "superopt optimize --rules bad.rules --only ") == []


def test_providers_by_name(run_cli: RunCli) -> None:
    for words in ("superopt optimize --ep op", "superopt eps --test op"):
        assert completed(run_cli, words) == [("plain", "openvino")]


@pytest.mark.parametrize(
    "words",
    [
        "optimize ",
        "optimize --rules ",
        "optimize m.onnx --report ",
        "check --config ",
        "eps --ep-python ",
        "rules derive --goal ",
    ],
)
def test_files_are_left_to_the_shell(run_cli: RunCli, words: str) -> None:
    assert completed(run_cli, f"superopt {words}") == [("file", "")]


def test_a_damaged_settings_file_stops_no_completion(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "superopt.toml").write_text("[")
    assert completed(run_cli, "superopt optimize --cost m") == [("plain", "measured")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(run_cli: RunCli, shell: str) -> None:
    done = run_cli("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_SUPEROPT_COMPLETE={shell}_complete" in done.stdout
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True).returncode == 0
    assert run_cli("completion", "tcsh").returncode == 2


@pytest.mark.parametrize("instruction", ["bash_complete", "nonsense", "fish_nothing"])
def test_what_no_shell_asks_is_a_usage_error(run_cli: RunCli, instruction: str) -> None:
    done = run_cli(env={"_SUPEROPT_COMPLETE": instruction})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"superopt: error: _SUPEROPT_COMPLETE={instruction} is no request")
    assert done.stderr.count("\n") == 1

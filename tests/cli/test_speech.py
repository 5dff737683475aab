"""What is said on stderr: as text, or as one JSON object a line and nothing else."""

from __future__ import annotations

import json
import logging
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from taso_py.cli import main
from taso_py.report.logged import PROGRESS, LoggedProgress
from tests.conftest import RunCli, cli_environment


def spoken(text: str) -> list[dict[str, Any]]:
    """The objects on stderr, each with what every one has."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert datetime.fromisoformat(line["time"]).utcoffset() is not None
        assert line["level"] in ("debug", "info", "warning", "error")
        assert not line["message"].startswith("superopt:")
    return lines


def test_a_run_tells_its_phases_and_figures(run_cli: RunCli, tiny_model: Path) -> None:
    done = run_cli("optimize", tiny_model, "--no-race", "--log-format", "json", "--log-level", "debug", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"].startswith("superopt.result/")
    lines = spoken(done.stderr)
    phases = [line["phase"] for line in lines if line["level"] == "info"]
    assert (phases[0], phases[-1]) == ("load", "check")
    assert {line["logger"] for line in lines} == {PROGRESS}
    assert any("candidates" in line["figures"] for line in lines)
    assert any(line["figures"].get("done") == line["figures"].get("total") == 1 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("optimize gone.onnx --log-format json", 3),
        ("optimize --log-format=json", 2),
        ("optimize model.onnx --frobnicate --log-format json", 2),
        ("optimize model.onnx -o - --log-format json", 2),
        ("check model.onnx model.onnx --ep nonsense --log-format json --log-level error -- ", 5),
    ],
)
def test_the_final_error_is_an_object_too(run_cli: RunCli, tiny_model: Path, arguments: str, code: int) -> None:
    done = run_cli(*arguments.split())
    assert done.returncode == code
    (line,) = spoken(done.stderr)
    assert (line["level"], line["exit_code"]) == ("error", code)


@pytest.mark.parametrize("command", ["", "bench", "nonsense", "rules"])
def test_by_the_environment_every_line_is_json(run_cli: RunCli, command: str) -> None:
    done = run_cli(*command.split(), env={"SUPEROPT_LOG_FORMAT": "json"})
    assert done.returncode == 2
    (line,) = spoken(done.stderr)
    assert line["message"]


def test_a_settings_file_decides_it_too(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "superopt.toml").write_text("log-format = 'json'\n")
    (line,) = spoken(run_cli("check", "a.onnx", "b.onnx").stderr)
    assert "a.onnx does not exist" in line["message"]
    assert run_cli("check", "a.onnx", "b.onnx", "--log-format", "text").stderr.startswith("superopt: error: a.onnx")


def test_the_library_s_warnings_have_their_logger_and_level(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database " * 100, encoding="utf-8")
    shown = ("cache", "show", "--cache", "bad.sqlite", "--log-format", "json")
    (line,) = spoken(run_cli(*shown).stderr)
    assert (line["level"], line["logger"]) == ("warning", "taso_py.cost.cache")
    (tmp_path / "bad.sqlite").write_text("no database " * 100, encoding="utf-8")
    assert run_cli(*shown, "--log-level", "error").stderr == ""


@pytest.mark.parametrize(("said", "count"), [("-q", 0), ("", 0), ("-v", 1), ("-vv", 2)])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_least_level_counts_instead_of_the_verbosity(
    run_cli: RunCli, tiny_model: Path, said: str, count: int, form: str
) -> None:
    run = ("optimize", str(tiny_model), "--no-race", "--dry-run", "--log-format", form, *said.split())
    quiet = run_cli(*run, "--log-level", "warning")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    loud = run_cli(*run).stderr.splitlines()
    if form == "text" or said == "-q":
        assert bool(loud) == (count > 0)
    else:
        assert len(loud) > count


def test_main_speaks_anew_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "a", "b", "--log-format", "json"]) == 3
    assert capsys.readouterr().err.startswith("{")
    assert main(["check", "a", "b"]) == 3
    assert capsys.readouterr().err.startswith("superopt: error: ")


def test_an_interrupt_is_told_as_an_object() -> None:
    program = (
        "import os, signal\n"
        "from taso_py import streams\n"
        "from taso_py.stop import StopFlag, stop_on_interrupt\n"
        "streams.speak(as_json=True)\n"
        "with stop_on_interrupt(StopFlag()):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run(["python3", "-c", program], env=cli_environment(), capture_output=True, text=True)
    (line,) = spoken(done.stderr)
    assert (line["level"], line["logger"]) == ("warning", "taso_py.stop")


def test_a_program_may_collect_progress(caplog: pytest.LogCaptureFixture) -> None:
    progress = LoggedProgress(interval_s=0)
    with caplog.at_level(logging.INFO, PROGRESS):
        progress.phase("check", 3)
        progress.update(done=1, best=1.5, remaining_s=-2.0)
        progress.log("warning", "two\nlines")
        progress.phase("race")
    found = [(one.levelname, one.getMessage(), vars(one)["figures"]) for one in caplog.records]
    assert found == [
        ("INFO", "check", {"total": 3}),
        ("INFO", "check", {"total": 3, "done": 1, "best": 1.5, "remaining_s": 0.0}),
        ("WARNING", "two lines", {"total": 3, "done": 1, "best": 1.5, "remaining_s": 0.0}),
        ("INFO", "race", {"best": 1.5, "remaining_s": 0.0}),
    ]

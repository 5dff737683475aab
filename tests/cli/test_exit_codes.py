"""Every exit code by a real process, and what a command that fails says under ``--json``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import onnx
import pytest

from taso_py import errors
from taso_py.cli import main, outcome
from taso_py.stop import SIGNALS
from tests.conftest import ROOT, RunCli, tiny_network
from tests.helpers.said import said
from tests.helpers.schemas import require_valid
from tests.helpers.stubbed import NOISY, run_stubbed


def kill(*names: str) -> str:
    return "; ".join(f"os.kill(os.getpid(), signal.{name})" for name in names)


REAL = {
    0: "optimize model.onnx --no-race --gate max-rel-error=1e-4,max-size=2",
    1: "check model.onnx other.onnx --threads 1",
    2: "optimize model.onnx --gate speed=1",
    3: "optimize absent.onnx",
    4: "optimize model.onnx -o absent/out.onnx",
    5: "optimize model.onnx --ep cuda",
    6: "optimize model.onnx --no-race --gate max-size=0.01",
    8: "optimize model.onnx --time-budget 0.001 --gate min-speedup=1.01",
}
STUBBED = {
    6: ("improved=True, speedup=1.2, speedup_low=1.15, speedup_high=1.25", "pass"),
    7: (NOISY, "pass"),
    8: ("reason=Reason('interrupted', 'stopped')", kill("SIGTERM")),
    70: ("", "1 / 0"),
    129: ("improved=True, speedup=1.3, speedup_low=1.25, speedup_high=1.35", kill("SIGHUP")),
    130: ("", kill("SIGINT", "SIGINT")),
    143: ("improved=True, speedup=1.3, speedup_low=1.25, speedup_high=1.35", kill("SIGTERM")),
    152: ("improved=True, speedup=1.3, speedup_low=1.25, speedup_high=1.35", kill("SIGXCPU", "SIGXCPU")),
}


@pytest.mark.parametrize("code", REAL)
def test_a_real_run_ends_with_its_code(code: int, run_cli: RunCli, tiny_model: Path) -> None:
    other = tiny_network()
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    onnx.save(other, tiny_model.with_name("other.onnx"))
    done = run_cli(*REAL[code].split(), "--json")
    assert done.returncode == code, done.stderr
    stderr = said(done.stderr)
    assert stderr.count("\n") == (code != 0)
    told = json.loads(done.stdout)
    if told["schema"] == "superopt.error/1":
        assert (told["exit_code"], f"superopt: error: {told['error']}\n") == (code, stderr)
        assert not tiny_model.with_name("model.superopt.onnx").exists()
    else:
        assert code in (0, 1, 6, 8)
        assert tiny_model.with_name("model.superopt.onnx").exists() == (code != 1)


@pytest.mark.parametrize("code", STUBBED)
def test_a_run_with_a_known_result_ends_with_its_code(code: int, tiny_model: Path) -> None:
    fields, before = STUBBED[code]
    arguments = ("optimize", tiny_model, "--gate", "min-speedup=1.2", "--json", "-q")
    done = run_stubbed(*arguments, cwd=tiny_model.parent, fields=fields, before=before)
    assert done.returncode == code, done.stderr
    told = json.loads(done.stdout)
    require_valid(told)
    failed = told["schema"] == "superopt.error/1"
    assert failed == (code in (70, 130))
    assert tiny_model.with_name("model.superopt.onnx").exists() != failed
    if not failed:
        verdict = {6: "missed", 7: "too noisy", 8: "not decided"}.get(code, "passed")
        assert [(one["name"], one["wanted"], one["verdict"]) for one in told["gate"]] == [("min-speedup", 1.2, verdict)]


def test_a_reader_that_went_away_is_no_error_of_ours(tiny_model: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_stubbed("optimize", tiny_model, "--json", cwd=tiny_model.parent, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_table_and_code_have_the_same_exit_codes() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    raised = {kind.exit_code for kind in kinds} | {0, outcome.CLOSED_PIPE} | {128 + number for number in SIGNALS}
    table = re.findall(r"^  (\d+) ", outcome.EXIT_CODES, re.MULTILINE)
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert {*map(int, table)} == {*map(int, described)} == raised == {*REAL, *STUBBED, 9, 141}  # 9: tests/certificate
    assert len(table) == len(set(table))


# ---- errors as JSON --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        ("optimize --json", 2, "UsageError"),
        ("optimize model.onnx --json --no-such-option", 2, "UsageError"),
        ("optimize model.onnx --json --rules none --only a --disable a", 2, "UsageError"),
        ("no-such-command --json", 2, "UsageError"),
        ("bench absent.onnx --json", 3, "ModelError"),
        ("inspect absent.onnx --json", 3, "ModelError"),
        ("certify absent.onnx absent.onnx absent.json --json", 3, "ModelError"),
        ("rules show no-such-rule --json", 2, "UsageError"),
        ("verify absent.rules --json", 2, "RuleError"),
        ("rules derive --goal absent.rules --json", 2, "RuleError"),
        ("cache show --cache /dev/null/x --json", 0, ""),
    ],
)
def test_what_fails_under_json_is_one_object(
    arguments: str, code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == code
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    if code:
        assert captured.err == f"superopt: error: {told['error']}\n"
        assert (told["schema"], told["exit_code"], told["kind"]) == ("superopt.error/1", code, kind)


def test_the_variable_asks_for_json_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SUPEROPT_JSON", "1")
    assert main(["inspect", "absent.onnx"]) == 3
    assert json.loads(capsys.readouterr().out)["code"] == "model"


def test_json_that_is_the_value_of_an_option_asks_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "absent.onnx", "-o", "--json"]) == 3
    assert capsys.readouterr().out == ""


def test_notes_and_warnings_are_in_the_json(tiny_model: Path) -> None:
    warn = (
        "import logging; logging.getLogger('taso_py.cost').warning('of %s', 'a log'); progress.log('warning', 'shown')"
    )
    fields = "notes=('a remark',)"
    done = run_stubbed("optimize", tiny_model, "--json", cwd=tiny_model.parent, fields=fields, before=warn)
    told = json.loads(done.stdout)
    assert (told["notes"], told["warnings"]) == (["a remark"], ["of a log", "shown"])
    assert all(text in done.stderr for text in ("warning: of a log\n", "shown\n", "superopt: a remark\n"))

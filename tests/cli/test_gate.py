"""The gate: what a result says of each condition, the exit code, and what CI servers and GitHub are told."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import onnx
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from taso_py.cli import main
from taso_py.errors import GateError, OutputError, SpeedupNotReachedError, TooNoisyError, UndecidedError, UsageError
from taso_py.files import append_text
from taso_py.gate import Measured, judge, require
from taso_py.options import Delivery, Options
from taso_py.options.gate import parse_gate
from taso_py.report.junit import Case, junit_text
from taso_py.result import Reason, Result
from tests.cli.test_cli import outcome as result_of
from tests.cli.test_cli_report import IMPROVED
from tests.conftest import RunCli, tiny_network
from tests.helpers.stubbed import NOISY, run_stubbed

# ---- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "wanted", "verdict"),
    [
        ((1.05, 1.1, 1.15), 1.05, "passed"),
        ((1.05, 1.1, 1.15), 1.06, "missed"),
        ((1.05, 1.1, 1.15), 1.15, "missed"),
        ((1.02, 1.2, 1.5), 1.05, "too noisy"),
        ((1.02, 1.2, 1.5), 1.5, "too noisy"),
        ((1.02, 1.2, 1.5), 1.51, "missed"),
        ((1.02, 1.2, 1.5), 1.02, "passed"),
        ((1.0, 1.0, 1.2), 1.1, "missed"),  # exactly as wide as is not yet called noisy
    ],
)
def test_a_speedup_is_judged_by_its_interval(interval: tuple[float, float, float], wanted: float, verdict: str) -> None:
    (one,) = judge({"min-speedup": wanted}, Measured(speedup=interval, rel_error=0.0, size=1.0))
    assert (one.verdict, one.found) == (verdict, interval[0])


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("too noisy", "too noisy"),
        ("too little time", "not decided"),
        ("interrupted", "not decided"),
        ("race ended early", "not decided"),
        ("nothing faster", "missed"),
        ("lost the race", "missed"),
        ("not confirmed", "missed"),
        ("unsupported", "missed"),
    ],
)
def test_a_model_that_came_back_is_as_fast_as_accurate_and_as_large_as_it_was(
    code: str, verdict: str, tiny_model: Path
) -> None:
    back = result_of(tiny_model, reason=Reason(code, "because"))
    found = back.judged({"min-speedup": 1.01, "max-rel-error": 0.0, "max-size": 1.0}).gate
    assert [one.verdict for one in found] == [verdict, "passed", "passed"]
    assert [one.found for one in found] == [1.0, 0.0, 1.0]
    assert back.judged({"min-speedup": 1.0}).gate[0].verdict == "passed"
    assert back.judged({"max-size": 0.99}).gate[0].verdict == "missed"


def test_sizes_are_those_of_the_files_with_their_external_data(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    model = tmp_path / "in" / "m.onnx"
    onnx.save_model(tiny_network(), model, save_as_external_data=True, location="w.bin", size_threshold=0)
    weights = model.with_name("w.bin")
    saved = dataclasses.replace(IMPROVED, sources=(model, weights)).save(tmp_path / "out.onnx")
    assert saved.bytes_before == model.stat().st_size + weights.stat().st_size
    assert saved.bytes_after == (tmp_path / "out.onnx").stat().st_size
    ratio = saved.bytes_after / saved.bytes_before
    assert saved.judged({"max-size": ratio}).gate[0].verdict == "passed"
    assert saved.judged({"max-size": 0.999 * ratio}).gate[0].verdict == "missed"
    assert IMPROVED.judged({"max-size": 1.0}).gate[0].verdict == "not decided"


@pytest.mark.parametrize(
    ("wanted", "kind", "code"),
    [
        ({"min-speedup": 1.1, "max-rel-error": 1}, TooNoisyError, 7),
        ({"min-speedup": 1.1, "max-rel-error": 0}, GateError, 6),
        ({"min-speedup": 2.0}, SpeedupNotReachedError, 6),
        ({"min-speedup": 1.1, "max-size": 1}, TooNoisyError, 7),
        ({"max-size": 1}, UndecidedError, 8),
    ],
)
def test_what_is_missed_counts_more_than_noise_and_noise_more_than_what_is_open(
    wanted: dict[str, float], kind: type[GateError], code: int
) -> None:
    with pytest.raises(GateError) as caught:
        require(judge(wanted, Measured(speedup=(1.0, 1.2, 1.5), rel_error=0.5, size=None)))
    assert (type(caught.value), caught.value.exit_code) == (kind, code)


def test_nothing_is_raised_where_all_is_passed() -> None:
    require(IMPROVED.judged({"min-speedup": 1.09, "max-rel-error": 2.5e-7}).gate)


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "min-speedup", "min-speedup=", "=1", "speedup=1", "min-speedup=fast", "min-speedup=1,min-speedup=1",
        "min-speedup=0", "min-speedup=-1", "max-size=0", "max-rel-error=-1e-9", "min-speedup=nan", "max-size=inf",
        "min-speedup=1,05", "max-size=1.1%", "max-size==1", "MIN-SPEEDUP=1",
    ],
)  # fmt: skip
def test_a_gate_that_cannot_be_meant_names_the_conditions(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "model.onnx", "--gate", text]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(name in error for name in ("min-speedup", "max-rel-error", "max-size"))


def test_a_gate_may_be_written_in_parts() -> None:
    assert dict(parse_gate(["min-speedup=1.05, max-size=2", "max-rel-error=1e-4"])) == {
        "min-speedup": 1.05, "max-size": 2.0, "max-rel-error": 1e-4,
    }  # fmt: skip


def test_both_spellings_of_the_speedup_are_one_condition() -> None:
    assert dict(Delivery(min_speedup=1.1, gate={"min-speedup": 1.1}).conditions) == {"min-speedup": 1.1}
    with pytest.raises(UsageError, match=r"--min-speedup 1\.1 and --gate min-speedup=1\.2 are the same condition"):
        Delivery(min_speedup=1.1, gate={"min-speedup": 1.2})


@pytest.mark.parametrize("gate", [{"min-speedup": float("nan")}, {"max-size": 0}, {"speed": 1}])
def test_a_record_refuses_them_too(gate: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="the conditions are"):
        Delivery(gate=gate)


def test_what_cannot_be_decided_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    with pytest.raises(UsageError, match="--no-race"):
        Delivery(gate={"min-speedup": 1.1}).require_compatible(Options(race=False))
    Delivery(gate={"max-size": 1.1, "max-rel-error": 0}).require_compatible(Options(race=False))
    with pytest.raises(UsageError, match="--dry-run"):
        Delivery(gate={"max-size": 1.1}, dry_run=True)
    with pytest.raises(UsageError, match="GITHUB_STEP_SUMMARY is not set"):
        Delivery(github_summary=True).require_compatible(Options())


# ---- tolerances ------------------------------------------------------------------------------------------------------


def test_the_user_s_tolerance_decides_what_is_rejected(run_cli: RunCli, tiny_model: Path) -> None:
    """Where nothing may differ, folding a BatchNormalization into the weights before it differs."""
    arguments = ("optimize", "model.onnx", "--no-race", "--json", "--force", "--report", "report.md")
    exact = json.loads(run_cli(*arguments, "--rtol", "0", "--atol", "0").stdout)
    assert exact["rejected"]
    assert (exact["rtol"], exact["atol"]) == (0, 0)
    loose = json.loads(run_cli(*arguments, "--atol", "0.5").stdout)
    assert (loose["rejected"], loose["tolerance"], loose["rtol"], loose["atol"]) == ([], None, 1e-5, 0.5)
    assert loose["nodes_after"] < loose["nodes_before"]
    assert "atol 0.5 + rtol 1e-05 for every element" in (tiny_model.parent / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
@pytest.mark.parametrize("value", ["-1e-9", "nan", "inf", "1%"])
@pytest.mark.parametrize("command", ["optimize a", "check a b", "certify a b c"])
def test_a_tolerance_that_cannot_be_meant_is_refused(
    command: str, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), option, value]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert error.count("\n") == 1


# ---- JUnit -----------------------------------------------------------------------------------------------------------


def cases(path: Path) -> dict[str, TestCase]:
    """The test cases of a file as CI servers read them."""
    suites = JUnitXml.fromfile(str(path))
    (suite,) = suites
    found = {case.name: case for case in suite}
    assert (suites.tests, suite.tests) == (len(found), len(found))
    return found


def test_junit_has_a_case_for_the_run_and_for_every_condition(tiny_model: Path) -> None:
    wanted = ("--gate", "min-speedup=1.2,max-rel-error=1e-9,max-size=3", "--junit", "gate.xml")
    done = run_stubbed("optimize", tiny_model, *wanted, cwd=tiny_model.parent, fields=NOISY)
    assert done.returncode == 6
    found = cases(tiny_model.with_name("gate.xml"))
    assert {name: [type(one) for one in case.result] for name, case in found.items()} == {
        "optimize": [], "min-speedup": [Error], "max-rel-error": [Failure], "max-size": [],
    }  # fmt: skip
    assert found["max-rel-error"].result[0].message == "max-rel-error 1e-09 missed: the largest relative error is 1e-06"


def test_junit_of_a_run_without_a_result_has_the_line(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("optimize", "absent.onnx", "--gate", "max-size=1", "--junit", "gate.xml")
    assert done.returncode == 3
    found = cases(tmp_path / "gate.xml")
    assert [type(one) for one in found["max-size"].result] == [Skipped]
    (error,) = found["optimize"].result
    assert done.stderr == f"superopt: error: {error.message}\n"


def test_junit_replaces_a_file_only_by_force_and_never_a_model(run_cli: RunCli, tiny_model: Path) -> None:
    kept = {"mine.xml": (), "out.xml": ("--force",), "weights.xml": ("--force",), "model.onnx": ("--force",)}
    folder = tiny_model.parent
    onnx.save_model(tiny_network(), tiny_model, save_as_external_data=True, location="weights.xml", size_threshold=0)
    for name in ("mine.xml", "out.xml"):
        (folder / name).write_text("mine", encoding="utf-8")
    before = {name: (folder / name).read_bytes() for name in kept}
    for name, more in kept.items():
        for fails in ((), ("--ep", "cuda")):
            done = run_cli("optimize", "model.onnx", "-o", "out.xml", "--no-race", "--junit", name, *more, *fails)
            assert done.returncode in (2, 4, 5), name
            assert done.stderr.count("\n") == 1
            assert {name: (folder / name).read_bytes() for name in kept} == before


def test_junit_can_hold_any_name(tmp_path: Path) -> None:
    path = tmp_path / "odd.xml"
    odd = "<&>\"'\x00\x1b[1m\ud800\uffff]]>é\n"
    path.write_text(junit_text(odd, [Case("optimize", "error", odd)]), encoding="utf-8")
    assert cases(path)["optimize"].result[0].message.startswith("<&>\"'")


# ---- GitHub's summary of the step ------------------------------------------------------------------------------------


def test_the_summary_of_a_step_is_appended_to(run_cli: RunCli, tiny_model: Path) -> None:
    summary = tiny_model.with_name("summary.md")
    summary.write_text("# earlier\n", encoding="utf-8")
    arguments = ("optimize", "model.onnx", "--no-race", "--force", "--gate", "max-size=2", "--github-summary")
    assert run_cli(*arguments, env={"GITHUB_STEP_SUMMARY": str(summary)}).returncode == 0
    assert run_cli("optimize", "absent.onnx", *arguments[2:], env={"GITHUB_STEP_SUMMARY": str(summary)}).returncode == 3
    text = summary.read_text(encoding="utf-8")
    titles = [line for line in text.splitlines() if line.startswith("# ")]
    assert titles[0] == "# earlier"
    assert titles[1].startswith("# model.onnx: ")
    assert titles[2] == "# absent.onnx: error"
    assert "| max-size | 2 | passed |" in text


def test_without_the_option_nothing_is_appended(run_cli: RunCli, tiny_model: Path) -> None:
    summary = tiny_model.with_name("summary.md")
    done = run_cli("optimize", "model.onnx", "--no-race", env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert (done.returncode, summary.exists()) == (0, False)


def test_nothing_is_appended_to_a_model_or_to_what_is_no_file(tmp_path: Path, tiny_model: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link.md").symlink_to(tiny_model)
    for target in (tmp_path / "fifo", tmp_path, tmp_path / "no" / "x.md", tmp_path / "link.md", Path("a\0b")):
        with pytest.raises(OutputError):
            append_text(target, "text", sources=(tiny_model,))
    assert onnx.load(tiny_model) == tiny_network()


def test_a_result_is_judged_as_the_record_says(tiny_model: Path) -> None:
    """The flag, the gate and the method of the library are one condition."""
    noisy: Result = result_of(tiny_model, improved=True, speedup=1.2, speedup_low=1.02, speedup_high=1.5)
    with pytest.raises(TooNoisyError):
        noisy.require_speedup(1.1)
    noisy.require_speedup(1.02)

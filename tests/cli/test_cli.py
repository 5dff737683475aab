"""The command line's own work: options in, one library call, one exit code out.

The library call is replaced here; the real one is exercised by the pipeline's tests and by test_bad_inputs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import onnx
import pytest

import taso_py
import taso_py.run
from taso_py import errors
from taso_py.cli import main, superopt
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
from taso_py.onnx_io.artifact import CopiedFile
from taso_py.options import Options
from taso_py.result import JSON_FIELDS, Result
from taso_py.stop import SIGNALS
from tests.conftest import RunCli, cli_environment, tiny_network


def outcome(model: Path, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "input": model,
        "improved": False,
        "nodes_before": 3,
        "nodes_after": 3,
        "opaque_nodes": 0,
        "stop_reason": "exhausted",
        "elapsed_s": 1.0,
        "ep": "CPUExecutionProvider",
        "threads": 2,
        "cpu": "some CPU",
        "ort_version": "1.31.1",
        "seed": 0,
        "artifact": CopiedFile(model),
        "sources": (model,),
    }
    return Result(**fields | changes)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], list[Options]]:
    """Replace `pipeline.optimize` by a function of (model, options); the list collects the options."""

    def install(function: Callable[[Path, Options], Any]) -> list[Options]:
        seen: list[Options] = []

        def optimize(model: Path, options: Options, **_: Any) -> Any:
            seen.append(options)
            return function(model, options)

        module = ModuleType("taso_py.run.pipeline")
        module.optimize = optimize  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "taso_py.run.pipeline", module)
        monkeypatch.setattr(taso_py.run, "pipeline", module, raising=False)
        return seen

    return install


def test_every_option_reaches_the_library(library: Any, tiny_model: Path, tmp_path: Path) -> None:
    for name in ("x.npy", "my.rules"):
        (tmp_path / name).touch()
    seen = library(lambda model, options: outcome(model))
    arguments = (
        f"--ep cuda --ep-option device_id=1 --threads 3 --ort-level basic --shape x=1,3,8,8 "
        f"--input x={tmp_path / 'x.npy'} --seed 7 --rules {tmp_path / 'my.rules'} --only a --only b "
        f"--disable c --allow-bounded --allow-overflow --apply all --alpha 1.2 --time-budget 9 --cost roofline "
        f"--objective flops --no-race --min-gain 0.05 "
        f"--freeze-initializers --allow-contrib --no-provenance --cache {tmp_path / 'c'} --strict"
    )
    assert main(["optimize", str(tiny_model), *arguments.split()]) == 0
    assert seen == [
        Options(
            ep="cuda",
            ep_options={"device_id": "1"},
            threads=3,
            ort_level="basic",
            shapes={"x": (1, 3, 8, 8)},
            inputs={"x": tmp_path / "x.npy"},
            rules=(tmp_path / "my.rules",),
            only=("a", "b"),
            disable=("c",),
            allow_bounded=True,
            allow_overflow=True,
            apply="all",
            alpha=1.2,
            time_budget_s=9.0,
            cost="roofline",
            objective="flops",
            race=False,
            min_gain=0.05,
            freeze_initializers=True,
            allow_contrib=True,
            provenance=False,
            cache=tmp_path / "c",
            seed=7,
            strict=True,
        )
    ]


def test_without_options_the_library_gets_its_own_defaults(library: Any, tiny_model: Path) -> None:
    seen = library(lambda model, options: outcome(model))
    assert main(["optimize", str(tiny_model)]) == 0
    assert seen == [Options()]


def test_environment_variables_are_options(library: Any, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_TIME_BUDGET", "33")
    monkeypatch.setenv("SUPEROPT_NO_RACE", "1")
    monkeypatch.setenv("SUPEROPT_ONLY", "a b")
    seen = library(lambda model, options: outcome(model))
    assert main(["optimize", str(tiny_model), "--time-budget", "44"]) == 0
    assert main(["optimize", str(tiny_model), "--force"]) == 0
    assert [options.time_budget_s for options in seen] == [44.0, 33.0]
    assert {(options.race, options.only) for options in seen} == {(False, ("a", "b"))}


def test_every_option_is_the_variable_of_its_name() -> None:
    commands = [*superopt.commands.values()]
    commands += [inner for group in commands if isinstance(group, click.Group) for inner in group.commands.values()]
    options = [one for command in commands for one in command.params if isinstance(one, click.Option)]
    assert len(options) > 40
    for one in options:
        flag = max(one.opts, key=len)
        if flag in ("--freeze-initializers", "--rtol", "--atol", "--obligations") and one.envvar is None:
            continue  # certify takes facts from its own command line alone, and a print-out is no setting
        assert one.envvar == f"SUPEROPT_{flag[2:].replace('-', '_').upper()}"


def test_output_is_a_byte_copy_beside_the_model(library: Any, tiny_model: Path, capsys: Any) -> None:
    library(lambda model, options: outcome(model))
    assert main(["optimize", str(tiny_model), "--json"]) == 0
    written = tiny_model.with_name("model.superopt.onnx")
    assert written.read_bytes() == tiny_model.read_bytes()
    report = json.loads(capsys.readouterr().out)
    assert report["output"] == str(written)
    assert len(report["output_sha256"]) == 64


def test_a_dry_run_writes_nothing(library: Any, tiny_model: Path) -> None:
    library(lambda model, options: outcome(model))
    assert main(["optimize", str(tiny_model), "--dry-run"]) == 0
    assert [path.name for path in tiny_model.parent.iterdir()] == ["model.onnx"]


def test_json_alone_is_on_stdout(library: Any, tiny_model: Path, capsys: Any) -> None:
    library(lambda model, options: outcome(model, notes=("a remark",)))
    assert main(["optimize", str(tiny_model), "--json"]) == 0
    captured = capsys.readouterr()
    assert list(json.loads(captured.out)) == ["schema", "superopt_version", *JSON_FIELDS]
    assert "a remark" in captured.err


def test_quiet_prints_one_sentence(library: Any, tiny_model: Path, capsys: Any) -> None:
    library(lambda model, options: outcome(model))
    assert main(["optimize", str(tiny_model), "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("model.onnx: not improved")
    assert captured.out.count("\n") == 1
    assert captured.err == ""


@pytest.mark.parametrize(("improved", "speedup", "code"), [(True, 1.3, 0), (True, 1.21, 6), (False, 1.3, 6)])
def test_a_minimum_speedup_is_decided_after_writing(
    library: Any, tiny_model: Path, improved: bool, speedup: float, code: int
) -> None:
    interval = {"speedup": speedup, "speedup_low": speedup - 0.05, "speedup_high": speedup + 0.05}
    library(lambda model, options: outcome(model, improved=improved, **interval))
    assert main(["optimize", str(tiny_model), "--min-speedup", "1.2"]) == code
    assert tiny_model.with_name("model.superopt.onnx").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MismatchError("m"), 1),
        (errors.UsageError("m"), 2),
        (errors.RuleError("m"), 2),
        (errors.ModelError("m"), 3),
        (errors.OutputError("m"), 4),
        (errors.RuntimeMissingError("m"), 5),
        (errors.SpeedupNotReachedError("m"), 6),
        (errors.WorkerError("m"), 3),
        (ZeroDivisionError("m"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_exit_code_and_one_line(
    library: Any, tiny_model: Path, capsys: Any, error: BaseException, code: int
) -> None:
    def fail(model: Path, options: Options) -> Result:
        raise error

    library(fail)
    assert main(["optimize", str(tiny_model), "-q"]) == code
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert [path.name for path in tiny_model.parent.iterdir()] == ["model.onnx"]


def test_an_internal_error_names_a_log_with_the_traceback(library: Any, tiny_model: Path, capsys: Any) -> None:
    def fail(model: Path, options: Options) -> Result:
        raise ZeroDivisionError("first\nsecond line")

    library(fail)
    assert main(["optimize", str(tiny_model), "-q"]) == 70
    line = capsys.readouterr().err
    log = Path(line.split("details in ")[1].split(";")[0])
    assert "ZeroDivisionError: first" in log.read_text(encoding="utf-8")
    log.unlink()


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from taso_py.cli import main; main(['--help']); "
        "print(*sorted({'numpy', 'onnx', 'onnx_ir', 'rich', 'z3', 'lark', 'onnxruntime'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], env=cli_environment(), capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == ""


def test_help_lists_every_exit_code(run_cli: RunCli) -> None:
    text = run_cli("--help").stdout
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type)}
    for code in sorted({0, *(128 + number for number in SIGNALS)} | codes):
        assert f"\n    {code} " in text


def test_version_and_missing_command(run_cli: RunCli) -> None:
    assert run_cli("--version").stdout == f"superopt, version {taso_py.__version__}\n"
    assert run_cli().returncode == 2


def test_a_full_stdout_is_one_line(run_cli: RunCli, tmp_path: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        result = subprocess.run(
            [sys.executable, "-m", "taso_py", "cache", "show", "--cache", str(tmp_path / "a")],
            env=cli_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 4
    assert "stdout" in result.stderr
    assert result.stderr.count("\n") == 1


STOPPABLE = """
import sys, time, types, taso_py.run
def optimize(model, options, progress, stop):
    print("ready", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and (not stop or {stubborn}):
        time.sleep(0.01)
    sys.path.insert(0, {tests!r})
    from tests.cli.test_cli import outcome
    return outcome(model, stop_reason="interrupted")
module = types.ModuleType("taso_py.run.pipeline")
module.optimize = optimize
sys.modules["taso_py.run.pipeline"] = taso_py.run.pipeline = module
from taso_py.cli import main, superopt
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
sys.exit(main(["optimize", {model!r}, "-q"]))
"""


@pytest.mark.parametrize(("signals", "code"), [(1, 0), (2, 130)])
def test_the_first_interrupt_ends_the_search_and_the_second_the_program(
    tiny_model: Path, signals: int, code: int
) -> None:
    program = STOPPABLE.format(stubborn=signals > 1, tests=str(Path(__file__).parents[2]), model=str(tiny_model))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=cli_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert tiny_model.with_name("model.superopt.onnx").exists() == (code == 0)
    assert out.startswith("model.onnx: not improved") == (code == 0)


def test_the_cache_travels_by_export_and_import(run_cli: RunCli, tmp_path: Path) -> None:
    with Cache(tmp_path / "a.sqlite") as cache:
        cache.put_many({"key": Measurement(1e-3, 2e-3, 1e-5, 5, "1.31.1", 1.7e9)})
    assert run_cli("cache", "export", "a.jsonl", "--cache", "a.sqlite").stdout.startswith("1 measurements")
    assert run_cli("cache", "import", "a.jsonl", "--cache", "b.sqlite").stdout.startswith("1 measurements")
    shown = json.loads(run_cli("cache", "show", "--json", env={"SUPEROPT_CACHE": "b.sqlite"}).stdout)
    assert (shown["path"], shown["entries"]) == ("b.sqlite", 1)
    assert shown["ort_versions"] == {"1.31.1": 1}
    assert shown["oldest"] == "2023-11-14T22:13:20+00:00"
    assert run_cli("cache", "clear", "--cache", "b.sqlite").stdout == "1 measurements and searches forgotten\n"
    assert "none" in run_cli("cache", "show", "--cache", "b.sqlite").stdout


def test_a_warning_of_the_library_is_one_line(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database " * 100, encoding="utf-8")
    result = run_cli("cache", "show", "--cache", "bad.sqlite")
    assert result.returncode == 0
    assert result.stderr.startswith("superopt: warning: cache bad.sqlite cannot be used (it is not a cache of superopt")
    assert result.stderr.count("\n") == 1


def test_check_tells_equal_models_from_different_ones(run_cli: RunCli, tmp_path: Path) -> None:
    other = tiny_network()
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    onnx.save(tiny_network(), tmp_path / "a.onnx")
    onnx.save(tiny_network(), tmp_path / "b.onnx")
    onnx.save(other, tmp_path / "c.onnx")
    same = run_cli("check", "a.onnx", "b.onnx", "--threads", "1")
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout.startswith("a.onnx and b.onnx agree on 6 sets of inputs: largest relative error 0.0e+00")
    different = run_cli("check", "a.onnx", "c.onnx", "--threads", "1", "--json")
    assert different.returncode == 1
    assert different.stderr.count("\n") == 1
    report = json.loads(different.stdout)
    assert report["passed"] is False
    assert report["worst"]["output"] == "y"


def test_check_refuses_models_with_different_interfaces(run_cli: RunCli, tmp_path: Path) -> None:
    other = tiny_network()
    other.graph.input[0].name = other.graph.node[0].input[0] = "z"
    onnx.save(tiny_network(), tmp_path / "a.onnx")
    onnx.save(other, tmp_path / "b.onnx")
    result = run_cli("check", "a.onnx", "b.onnx", "--threads", "1")
    assert result.returncode == 1
    assert "cannot be compared" in result.stderr


def test_bench_times_models_against_the_first(run_cli: RunCli, tiny_model: Path) -> None:
    result = run_cli(*("bench", tiny_model, tiny_model, "--rounds", "3", "--block", "0.01", "--threads", "1", "--json"))
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert (report["rounds"], report["threads"], report["shapes"]) == (3, 1, {"x": [1, 3, 8, 8]})
    first = report["models"][0]
    assert first["speedup"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert 0 < first["latency_ms"]["p50"] <= first["latency_ms"]["p99"]
    text = run_cli("bench", tiny_model, "--rounds", "2", "--block", "0.01", "--threads", "1").stdout
    assert "model.onnx" in text
    assert "2 paired rounds, threads 1, CPUExecutionProvider, x=1,3,8,8" in text


def test_rules_are_listed_one_per_line(run_cli: RunCli) -> None:
    lines = run_cli("rules", "list").stdout.splitlines()
    listed = json.loads(run_cli("rules", "list", "--json").stdout)["rules"]
    assert lines[-1] == f"{len(listed)} rules"
    assert [line.split()[0] for line in lines[:-1]] == [rule["name"] for rule in listed]


def test_a_rule_is_shown_by_name_and_by_id(run_cli: RunCli) -> None:
    rule = json.loads(run_cli("rules", "list", "--json").stdout)["rules"][0]
    shown = run_cli("rules", "show", rule["name"])
    assert shown.stdout.startswith(rule["text"].rstrip())
    assert rule["id"] in shown.stdout
    assert run_cli("rules", "show", rule["id"]).stdout == shown.stdout


def test_a_misspelt_rule_gets_a_hint(run_cli: RunCli) -> None:
    name = json.loads(run_cli("rules", "list", "--json").stdout)["rules"][0]["name"]
    result = run_cli("rules", "show", f"{name}x")
    assert result.returncode == 2
    assert f"did you mean '{name}'?" in result.stderr
    assert result.stderr.count("\n") == 1

"""Settings files: found, checked, between environment and defaults, and their paths beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from taso_py.cli import main
from taso_py.cli.command import Command, CommandGroup
from taso_py.cli.shared import takes
from taso_py.errors import UsageError
from taso_py.options import CheckOptions, Delivery, Options
from taso_py.options.field import Declared, OptionRecord, declared
from taso_py.result import plain
from tests.cli.test_cli_options import CHANGED, PAIRS, said
from tests.conftest import RunCli


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def received(*arguments: str, **kinds: type[OptionRecord]) -> dict[str, Any]:
    """What the command `told` of a program `superopt` would be called with; beside it stands `other`."""
    seen = {}

    def tell(**records: Any) -> None:
        seen.update(records)

    root = CommandGroup("superopt")
    for name, records in (("told", kinds), ("other", {"options": CheckOptions})):
        root.add_command(click.command(name, cls=Command)(takes(**records)(tell)))
    with root.make_context("superopt", ["told", *arguments]) as context:
        root.invoke(context)
    return seen


def written(field: Declared, text: str) -> str:
    if field.kind is bool:
        return "true"
    bare = (field.kind in (int, float) and field.flag.parse is None) or field.flag.count
    return text if bare else json.dumps(text)


@pytest.mark.parametrize(
    ("name", "role", "field"), CHANGED, ids=lambda x: x.name if isinstance(x, Declared) else str(x)
)
def test_every_option_that_is_no_matter_of_one_run_is_a_key(
    name: str, role: str, field: Declared, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = said(field, place)
    key = field.flag.name[2:]
    (place / "superopt.toml").write_text(f"[told]\n{key} = {written(field, given.text)}\n")
    further = ["--goal", "g.rules"] if name == "rules derive" else []
    if field.flag.setting:
        assert getattr(received(*further, **PAIRS[name])[role], field.name) == given.value
    else:
        with pytest.raises(UsageError, match=f"{key} belongs on the command line"):
            received(*further, **PAIRS[name])


def test_a_flag_counts_before_the_environment_the_file_and_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("superopt.toml").write_text("seed = 1\nthreads = 1\n[told]\nseed = 2\nalpha = 2\n[other]\nseed = 9\n")
    told = {"options": Options}
    assert received(**told)["options"] == Options(seed=2, threads=1, alpha=2.0)
    monkeypatch.setenv("SUPEROPT_SEED", "3")
    assert received(**told)["options"] == Options(seed=3, threads=1, alpha=2.0)
    assert received("--seed", "4", **told)["options"] == Options(seed=4, threads=1, alpha=2.0)
    assert received("--no-config", **told)["options"] == Options(seed=3)
    monkeypatch.setenv("SUPEROPT_NO_CONFIG", "1")
    assert received(**told)["options"] == Options(seed=3)


def test_tables_of_toml_are_sizes_and_either_spelling_of_a_key_will_do() -> None:
    Path("superopt.toml").write_text(
        'time_budget = 9\n[told]\nworkload = ["a=1", {b = 2, "c:0" = [3, 4]}]\nonly = "x"\nno-race = false\n'
        "[told.ep-option]\ndevice_id = 0\n"
    )
    assert received(options=Options)["options"] == Options(
        time_budget_s=9.0,
        workloads=({"a": 1}, {"b": 2, "c:0": (3, 4)}),
        only=("x",),
        ep_options={"device_id": "0"},
    )


def test_the_nearest_file_counts_and_its_paths_lie_beside_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = place / "a" / "b"
    inner.mkdir(parents=True)
    (place / "my.rules").touch()
    (place / "x.npy").touch()
    (place / "superopt.toml").write_text("seed = 1\n")
    (place / "a" / "pyproject.toml").write_text("[tool.other]\nkey = 1\n")
    monkeypatch.chdir(inner)
    assert received(options=Options)["options"] == Options(seed=1)
    (place / "superopt.toml").write_text('cache = "c.sqlite"\n[told]\nrules = "my.rules"\ninput = {"a=b" = "x.npy"}\n')
    found = received(options=Options)["options"]
    assert (found.cache, found.rules) == (place / "c.sqlite", (place / "my.rules",))
    assert found.inputs == {"a=b": place / "x.npy"}
    (place / "superopt.toml").write_text('[told]\nrules = "none"\n')
    assert received(options=Options)["options"] == Options(rules=())
    (place / "a" / "pyproject.toml").write_text("[tool.superopt.told]\nseed = 2\n")
    assert received(options=Options)["options"] == Options(seed=2)
    (place / "a" / "superopt.toml").write_text("seed = 3\n")
    assert received(options=Options)["options"] == Options(seed=3)
    named = place / "else.toml"
    named.write_text('cache = "d"\n')
    assert received("--config", str(named), options=Options)["options"] == Options(cache=place / "d")


BAD = {
    "seed = 'x'": "superopt.toml: seed = 'x': must be a whole number",
    "seed = true": "seed = True: must be a whole number",
    "seed = -1": "seed = -1: --seed -1: must be at least 0",
    "[check]\nthreads = 0": "superopt.toml [check]: threads = 0: --threads 0: must be at least 1",
    "[check]\nep = 1": "[check]: ep = 1: must be a text",
    "[check]\northo = 1": "superopt.toml: [check]: ortho is no setting",
    "[optimize]\ntime-budgett = 1": "[optimize]: time-budgett is no setting: did you mean time-budget?",
    "[optimise]\nseed = 1": "optimise is no setting: did you mean optimize?",
    "[optimize]\nalpha = 'much'": "alpha = 'much': must be a number",
    "[optimize]\nno-race = 1": "no-race = 1: must be true or false",
    "[optimize]\nshape = 3": "shape = 3: must be a text, a list of texts or a table",
    "[optimize]\nonly = [1]": "only = [1]: must be a text or a list of texts",
    "output = 'x.onnx'": "output belongs on the command line",
    "[check]\nseed = 1\n'se\\ned' = 2": "is no setting",
    "[check]\nort-level = 'all'\nort_level = 'all'": "ort-level and ort_level are one setting",
    "[check]\northo = ": "superopt.toml is not TOML",
    "seed = 1979-05-27": "must be a whole number",
    "[check]\nshape = {x = [[1]]}": "shape",
    '[check]\n"\\u001b[31m\\n" = 1': r"[check]: '\x1b[31m\n' is no setting",
    '[check]\nep = "a\\u0000b"': "must be a text",
    "seed = " + "9" * 5000: "is not TOML",
    "a = " + "[" * 100_000: "is not TOML: it is nested too deeply",
    "a = " + "[" * 600 + "]" * 600: "is not TOML: it is nested too deeply",
    "a." * 3000 + "a = 1": "a is no setting",
    "[check.more]\nseed = 1": "more is no setting",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:40])
def test_a_bad_file_is_one_line_that_names_file_and_key(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("superopt.toml").write_text(text)
    assert main(["check", "a.onnx", "b.onnx"]) == 2
    error = capsys.readouterr().err
    assert BAD[text] in error
    assert error.startswith("superopt: error: ")
    assert "superopt.toml" in error
    assert error.count("\n") == 1


def test_files_that_cannot_be_read_are_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "folder").mkdir()
    (place / "latin.toml").write_bytes(b"ep = '\xe4'")
    (place / "pyproject.toml").write_text("[project]\n")
    for file, says in {
        "gone.toml": "no such file",
        "folder": "not a regular file",
        "latin.toml": "not UTF-8",
        "/dev/zero": "not a regular file",
        "pyproject.toml": "no table [tool.superopt]",
    }.items():
        assert main(["cache", "show", "--config", file]) == 2
        error = capsys.readouterr().err
        assert file in error
        assert says in error
        assert error.count("\n") == 1
    (place / "pyproject.toml").write_text("[tool]\nsuperopt = 3\n")
    assert main(["cache", "show"]) == 2
    assert "tool.superopt = 3: must be a table" in capsys.readouterr().err


def test_help_and_no_config_work_beside_a_damaged_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("superopt.toml").write_text("[")
    assert main(["cache", "show", "--help"]) == 0
    assert main(["cache", "show", "--no-config", "--cache", "none.sqlite"]) == 0
    assert main(["cache", "show"]) == 2


def test_without_a_current_directory_there_is_no_settings_file(place: Path, run_cli: RunCli) -> None:
    gone = place / "gone"
    gone.mkdir()
    done = run_cli("cache", "show", "--json", cwd=gone, preexec=gone.rmdir)
    assert (done.returncode, done.stderr) == (0, "")


def test_config_tells_every_value_and_where_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text("[tool.superopt]\nseed = 7\n[tool.superopt.rules.rank]\nthreads = 2\n")
    monkeypatch.setenv("SUPEROPT_NO_RACE", "1")
    monkeypatch.delenv("SUPEROPT_CACHE", raising=False)
    assert main(["config", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == "pyproject.toml"
    by_name = {(one["command"], one["option"]): one for one in told["settings"]}
    assert by_name["optimize", "seed"]["value"] == 7
    assert by_name["optimize", "seed"]["source"] == "file"
    assert by_name["optimize", "seed"]["place"] == "pyproject.toml [tool.superopt]"
    assert by_name["optimize", "no-race"]["value"] is True
    assert by_name["optimize", "no-race"]["place"] == "SUPEROPT_NO_RACE"
    assert by_name["rules rank", "threads"]["place"] == "pyproject.toml [tool.superopt.rules.rank]"
    assert by_name["check", "threads"] == {
        "command": "check", "option": "threads", "value": None, "source": "default", "place": None,
    }  # fmt: skip
    assert main(["config", "rules", "rank"]) == 0
    text = capsys.readouterr().out
    assert {"rules rank"} == {line.rsplit("  ", 1)[-1] for line in text.splitlines()[2:]}
    assert main(["config", "optimise"]) == 2


def test_the_values_told_are_those_that_a_command_gets(capsys: pytest.CaptureFixture[str]) -> None:
    Path("superopt.toml").write_text("[optimize]\nno-provenance = true\nalpha = 3\n")
    assert main(["config", "optimize", "--json"]) == 0
    told = {one["option"]: one["value"] for one in json.loads(capsys.readouterr().out)["settings"]}
    expected = Options(provenance=False, alpha=3.0)
    for record in (expected, Delivery()):
        for one in declared(type(record)):
            value = getattr(record, one.name)
            assert told[one.flag.name[2:]] == (value != one.default if one.kind is bool else plain(value)), one.name

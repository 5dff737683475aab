"""Names and places at which the operating system refuses to look: one line from every option that names a file."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from taso_py.cli import main, superopt
from taso_py.cli.settings import leaves, options_of
from taso_py.cli.shared import FieldOption
from taso_py.paths import exists, is_file, is_folder, is_text, name_in_json, real, why_no_file
from tests.conftest import ROOT, tiny_network

LONG = "a" * 300
ROUND = Path("round")
"""A link to itself."""
ARGUMENTS = {
    "check": ["model.onnx", "model.onnx"], "bench": ["model.onnx"], "diff": ["model.onnx", "model.onnx"],
    "apply": ["model.onnx", "absent.json"], "certify": ["model.onnx", "model.onnx", "absent.json"],
    "inspect": ["model.onnx"], "optimize": ["model.onnx"], "cache export": [LONG], "cache import": [LONG],
    "rules rank": ["model.onnx"], "rules show": ["relu-of-relu"],
}  # fmt: skip
TEXTS = {
    "--input": f"x={LONG}.npy", "--metric": f"{LONG}.py:f", "--report": f"{LONG}.md", "--junit": f"{LONG}.xml",
    "--calibration": f"{LONG}.npz",
}  # fmt: skip
BESIDE = {
    "--metric": ["--error-budget", "rel=0.1"], "--calibration": ["--error-budget", "rel=0.1"],
    "--report": ["--force"], "--checkpoint": ["--ops", "Neg", "--max-operators", "1"],
    "--ep-library": ["--ep", "mine"],
}  # fmt: skip


def options_with_files() -> Iterator[tuple[str, str]]:
    for names, command in leaves(superopt):
        for option in options_of(command).values():
            if holds_path(option) or option.field.flag.name in TEXTS:
                yield " ".join(names), option.field.flag.name


def holds_path(option: FieldOption) -> bool:
    kinds = [option.field.kind]
    while kinds and kinds[-1] is not Path:
        kinds += get_args(kinds.pop())
    return bool(kinds)


@pytest.mark.parametrize(("command", "option"), sorted(options_with_files()))
def test_a_name_that_is_too_long_is_one_line_whichever_option_has_it(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(tiny_network().SerializeToString())
    arguments = [*command.split(), *ARGUMENTS.get(command, []), *BESIDE.get(option, [])]
    code = main([*arguments, option, TEXTS.get(option, LONG)])
    said = capfd.readouterr().err
    assert "internal error" not in said
    assert "Traceback" not in said
    assert code in (0, 2, 3, 4, 5)
    assert code == 0 or said.count("superopt: error: ") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".tmp") == []


@pytest.mark.parametrize("name", ["cache export", "cache import", "verify", "inspect", "optimize"])
@pytest.mark.parametrize("file", [LONG, "round", ".", "/", ""])
def test_an_argument_that_is_no_file_is_one_line(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ROUND.symlink_to(ROUND)
    further = ["--update"] if name == "verify" else []
    assert main([*name.split(), file, *further]) in (2, 3, 4)
    said = capfd.readouterr().err
    assert said.count("\n") == 1, said
    assert "internal error" not in said


def test_questions_to_a_path_are_never_errors(tmp_path: Path) -> None:
    (tmp_path / ROUND).symlink_to(tmp_path / ROUND)
    (tmp_path / "file").touch()
    for path in (tmp_path / LONG, tmp_path / ROUND, tmp_path / "file" / "in it", tmp_path / "a\0b"):
        assert (exists(path), is_file(path), is_folder(path)) == (False, False, False)
        assert why_no_file(path) is not None
        assert real(path).is_absolute()
    assert (is_file(tmp_path / "file"), is_folder(tmp_path)) == (True, True)
    assert why_no_file(tmp_path / "file") is None
    assert why_no_file(tmp_path) == "it is a directory"
    assert why_no_file(Path("/dev/null")) == "it is not a regular file"
    assert (is_text("ü"), is_text(os.fsdecode(b"\xff"))) == (True, False)


def test_only_a_name_that_is_not_utf8_becomes_a_uri() -> None:
    assert name_in_json(Path("a ü%.onnx")) == "a ü%.onnx"
    assert name_in_json(os.fsdecode(b"/a %\xff")) == "file:///a%20%25%FF"
    assert name_in_json(Path("file:///a%FF")) == "file:/a%FF"


ASKING = {"exists", "is_file", "is_dir", "resolve", "samefile"}
ELSEWHERE = {
    "rules/location.py": "our own folder",
    "rules/sources.py": "our own folder",
    "report/schemas.py": "our own folder",
    "backend/interpreters.py": "our own folder",
    "processes/isolated.py": "our own folder",
    "files.py": "samefile, whose errors are caught",
}


def test_no_module_asks_pathlib_itself() -> None:
    found = set()
    for file in sorted((ROOT / "taso_py").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
                asked = not node.args if node.func.attr != "samefile" else True  # terms are resolved, too
                if asked:
                    found.add(file.relative_to(ROOT / "taso_py").as_posix())
    assert found == set(ELSEWHERE)


def test_every_option_with_a_file_is_looked_at() -> None:
    assert {option for _, option in options_with_files()} >= {"--rules", "--cache", "--ep-python", "--goal", "--output"}

"""The published schemas are those of the records, and `superopt schema` prints them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from jsonschema import ValidationError

from scripts.schemas.derive import Document
from scripts.schemas.documents import documents
from taso_py.cli import main
from taso_py.report.schemas import FOLDER, schema_files
from tests.cli.test_cli_report import IMPROVED
from tests.conftest import ROOT
from tests.helpers.schemas import require_valid

_FOREIGN = {"superopt.proofs/2", "superopt.proofs/1"}  # lines of rules/proofs.lock, which is no single JSON object


@pytest.mark.parametrize("document", documents(), ids=lambda one: one.name)
def test_a_schema_is_that_of_its_record(document: Document) -> None:
    """Run `python -m scripts.schemas` when a record has changed."""
    assert (FOLDER / document.file).read_text(encoding="utf-8") == document.text()


def test_every_schema_that_the_program_names_is_published() -> None:
    texts = (
        node.value
        for file in (ROOT / "taso_py").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    named = {text for text in texts if re.fullmatch(r"superopt\.[a-z]+/\d+", text)} - _FOREIGN
    assert named == set(schema_files()) == {one.name for one in documents()}


def test_a_result_conforms_to_its_schema_and_one_with_more_or_less_does_not() -> None:
    told = IMPROVED.judged({"min-speedup": 1.0, "max-size": 2.0}).to_dict()
    told = json.loads(json.dumps(told))
    require_valid(told)
    for wrong in (
        told | {"speedup": "fast"},
        {name: part for name, part in told.items() if name != "gate"},
        told | {"new": 1},
        told | {"gate": [{**told["gate"][0], "verdict": "perhaps"}]},
    ):
        with pytest.raises(ValidationError):
            require_valid(wrong)


def test_the_command_lists_and_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(schema_files())
    for name in ("result", "superopt.result", "superopt.result/1", "result/1"):
        assert main(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out)["title"] == "superopt.result/1"


@pytest.mark.parametrize("name", ["results", "result/2", "../pyproject", "", "superopt.", "/etc/passwd"])
def test_a_name_that_no_schema_has_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"superopt: error: there is no schema '{name}'")


def test_the_newest_version_is_the_one_with_the_largest_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in (2, 10, 9):
        (tmp_path / f"thing-{version}.json").write_text(
            f'{{"$schema": "", "description": "{version}."}}', encoding="utf-8"
        )
    monkeypatch.setattr("taso_py.report.schemas.FOLDER", tmp_path)
    assert main(["schema", "thing"]) == 0
    assert json.loads(capsys.readouterr().out)["description"] == "10."

"""docs/pipeline.md: its examples end as it says."""

from __future__ import annotations

import re

import pytest

from taso_py import errors
from taso_py.cli import main, outcome
from tests.conftest import ROOT, RunCli

PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = [line.removeprefix("$ superopt ") for block in BLOCKS for line in block.splitlines()]


def test_every_line_of_a_block_is_a_command() -> None:
    assert len(EXAMPLES) > 5
    assert all(line.startswith("$ superopt ") for block in BLOCKS for line in block.splitlines())


# The first one times models, so that how it ends is up to the machine; the rest of its meaning is in test_gate.py.
@pytest.mark.parametrize("example", EXAMPLES[1:])
@pytest.mark.usefixtures("tiny_model")
def test_an_example_ends_as_the_page_says(example: str, run_cli: RunCli) -> None:
    command, _, remark = example.partition("#")
    code = re.search(r"exit code (\d+)", remark)
    done = run_cli(*command.split())
    assert done.returncode == (int(code[1]) if code else 0), done.stderr


def test_the_page_the_help_and_the_errors_have_the_same_codes() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert told == {int(code) for code in re.findall(r"^  (\d+) ", outcome.EXIT_CODES, re.MULTILINE)}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SuperoptError)
    }
    assert raised <= told


def test_a_law_without_a_proof_is_a_mismatch_where_its_proof_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "rules" / "refuted.rules"
    assert main(["rules", "show", "refuted-wrong-split", "--rules", str(file)]) == 0
    assert main(["rules", "show", "refuted-wrong-split", "--rules", str(file), "--obligations"]) == 1
    assert "refuted-wrong-split" in capsys.readouterr().err

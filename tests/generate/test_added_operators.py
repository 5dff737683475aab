"""Operators without a template: those that a user adds, or names, and what the generator says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from taso_py.cli import main
from taso_py.generate.job import Generation, Settings
from taso_py.generate.tasks import Space
from taso_py.generate.terms.templates import SETS
from taso_py.ops import OPERATORS
from taso_py.progress import Level, SilentProgress
from taso_py.rules.library import load_file


class Warned(SilentProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Level, str]] = []

    def log(self, level: Level, text: str) -> None:
        self.lines.append((level, text))


def generated(*names: str, most: int = 2, set_name: str = "default") -> tuple[str, list[tuple[Level, str]]]:
    told = Warned()
    job = Generation(Settings(Space(set_name, names, most)), progress=told)
    return "\n".join(rule.text() for rule in job.run()), told.lines


def test_an_added_operator_gets_its_laws() -> None:
    text, told = generated("Softsign", "Concat", "Slice")
    assert "Softsign(Concat(" in text
    assert "Softsign(Slice(" in text
    assert told == []


def test_a_template_has_as_many_operands_as_its_operator_takes() -> None:
    added = {name: SETS["taso"]().only([name]).templates for name in OPERATORS}
    for name, templates in added.items():
        fewest, most = OPERATORS[name].arity
        for template in templates:
            assert fewest <= template.arity + len(template.given) <= most, name
            assert template.arity in (1, 2), name
    assert [added[name][0].arity for name in ("Softsign", "Sub", "Max", "Gemm")] == [1, 2, 2, 2]
    assert added["Where"] == added["Fill"] == ()  # of three operands, and of none


@pytest.mark.parametrize("name", ["Where", "Tile"])
def test_an_operator_that_nothing_fits_is_told(name: str) -> None:
    text, told = generated("relu", name, set_name="taso")
    assert "Relu(Relu(" in text
    assert told == [("warning", f"{name} could not be applied to any value: no law speaks of it")]


def test_the_command_warns_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even where nothing else was asked for: the file is written and has no rule."""
    path = tmp_path / "a.rules"
    assert main(["generate", "--ops", "Where", "--max-operators", "2", "-o", str(path)]) == 0
    found = capsys.readouterr().err
    assert found.count("Where could not be applied to any value: no law speaks of it") == 1
    assert list(load_file(path)) == []

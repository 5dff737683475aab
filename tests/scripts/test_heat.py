"""The heat map shows every rule of every improved model, and nothing else. All figures are invented."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from scripts.bench import heat


def bench(path: Path, **models: dict[str, int] | None) -> Path:
    """What a bench leaves; None for a model whose run failed."""
    rows = [
        {"model": name, "result": rules and {"rules": [{"name": n, "sites": s} for n, s in rules.items()]}}
        for name, rules in models.items()
    ]
    path.write_text(json.dumps({"models": rows}))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    one = bench(tmp_path / "one.json", a={"fold": 2, "swap": 30}, b={"fold": 1}, same={}, failed=None)
    return [one, bench(tmp_path / "two.json", a={"fold": 3, "also": 1})]


def test_later_files_replace_what_earlier_ones_say_of_a_model(files: list[Path]) -> None:
    assert heat.sites_of(files) == {"a": {"fold": 3, "also": 1}, "b": {"fold": 1}}


def test_a_cell_for_each_rule_of_each_improved_model(files: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "heat.svg"
    done = CliRunner().invoke(heat.main, [str(target), *map(str, files)])
    assert done.exit_code == 0, done.output
    picture = ET.parse(target).getroot()
    titles = [e.text for e in picture.iter() if e.tag.endswith("title")]
    assert titles == ["fold in a: 3 sites", "also in a: 1 sites", "fold in b: 1 sites"]
    words = [e.text for e in picture.iter() if e.tag.endswith("text")]
    assert words[:2] == ["fold", "also"]  # what helped more models stands on top
    assert {"same", "failed", "swap"}.isdisjoint(words)


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"models": [{"result": 3}]}'])
def test_a_file_that_no_bench_left_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(text)
    done = CliRunner().invoke(heat.main, [str(tmp_path / "heat.svg"), str(tmp_path / "bench.json")])
    assert done.exit_code == 2
    assert "is not what a bench leaves" in done.output
    assert not (tmp_path / "heat.svg").exists()


def test_nothing_improved_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(heat.main, [str(tmp_path / "heat.svg"), str(bench(tmp_path / "b.json", same={}))])
    assert done.exit_code == 2
    assert "no model was improved" in done.output

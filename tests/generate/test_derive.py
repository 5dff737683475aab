"""Which laws follow from others: derivation, its command, and random graphs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.audit import generated_coverage
from taso_py.cli import main
from taso_py.generate.kept.derive import Rules, derivable
from taso_py.generate.tasks import follows
from taso_py.rules.parser import parse_rule


def test_laws_that_follow_are_derived_and_others_are_not() -> None:
    sums = parse_rule("rule a: Add(x, Add(y, z)) == Add(Add(x, y), z) for x[*s], y[*s], z[*s]")
    relu = parse_rule("rule b: Relu(Relu(x)) == Relu(x) for x[*s]")
    known = Rules.of([sums, relu])
    follows = "Add(x, Add(y, Add(z, Relu(w)))) == Add(Add(Add(x, z), y), Relu(Relu(w))) for x[*s], y[*s], z[*s], w[*s]"
    assert derivable(parse_rule(f"rule c: {follows}"), known)
    assert not derivable(parse_rule(f"rule c: {follows}"), Rules.of([sums]))
    assert not derivable(parse_rule("rule d: Relu(Add(x, y)) == Add(Relu(x), Relu(y)) for x[*s], y[*s]"), known)


def test_a_law_does_not_follow_from_its_special_case() -> None:
    """Most random kernels have a side of 1, so that few instances of the law are none of the special case."""
    law = "Conv(x, Mul(y, z), strides=s, pads=p) == Conv(Mul(x, z), y, strides=s, pads=p)"
    general = parse_rule(f"rule general: {law} for x[m, n, q, r], y[t, n, i, j], z[n, 1, 1]")
    special = parse_rule(f"rule special: {law} for x[m, n, q, r], y[t, n, 1, i], z[n, 1, 1]")
    for seed in range(12):
        assert not derivable(general, Rules.of([special]), seed=seed)
        assert derivable(special, Rules.of([general]), seed=seed)


@pytest.mark.parametrize(("between", "left_out"), [("Exp(Neg(Abs(x)))", False), ("Exp(Abs(x))", True)])
def test_a_law_that_needs_a_detour_through_a_larger_graph_is_kept(between: str, left_out: bool) -> None:
    """The rules need not be true to be steps."""
    known = Rules.of(
        [
            parse_rule(f"rule there: Relu(Relu(x)) == {between} for x[*s]"),
            parse_rule(f"rule back: {between} == Tanh(Tanh(x)) for x[*s]"),
        ]
    )
    law = parse_rule("rule law: Relu(Relu(x)) == Tanh(Tanh(x)) for x[*s]")
    assert derivable(law, known)
    assert follows(law, known) is left_out


SUMS = """
rule sums: Add(x, Add(y, z)) == Add(Add(x, y), z) for x[*s], y[*s], z[*s]
rule twice: Relu(Relu(x)) == Relu(x) for x[*s]
"""


def test_laws_are_derived_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "from.rules").write_text(SUMS)
    (tmp_path / "goal.rules").write_text(
        "rule four: Add(x, Add(y, Add(z, w))) == Add(Add(Add(w, y), x), z) for x[*s], y[*s], z[*s], w[*s]\n"
    )
    (tmp_path / "more.rules").write_text("rule kept: Relu(Add(x, y)) => Add(Relu(x), y) for x[*s], y[*s]\n")
    arguments = ["rules", "derive", "--from", str(tmp_path / "from.rules"), "--goal", str(tmp_path / "goal.rules")]
    assert main(arguments) == 0
    assert "1 of 1 laws follow" in capsys.readouterr().out
    assert main([*arguments, "--goal", str(tmp_path / "more.rules"), "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["derived"] == {"four": True, "kept": False}
    assert captured.err == "superopt: error: 1 of 2 laws were not derived: kept\n"


def test_laws_of_one_name_in_two_files_are_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "from.rules").write_text(SUMS)
    (tmp_path / "false.rules").write_text("rule p: Relu(x) => Neg(x)")
    (tmp_path / "true.rules").write_text("rule p: Relu(Relu(Relu(x))) => Relu(x)")
    arguments = ["rules", "derive", "--from", str(tmp_path / "from.rules")]
    goals = [word for name in ("false", "true") for word in ("--goal", str(tmp_path / f"{name}.rules"))]
    assert main([*arguments, *goals]) == 1
    assert "1 of 2 laws were not derived: p (" in capsys.readouterr().err
    assert main([*arguments, *goals[2:], *goals[2:]]) == 0
    assert "1 of 1 laws follow" in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "{}", "no json"])
def test_goals_that_are_no_substitutions_are_one_line(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "goal.json"
    if text is not None:
        path.write_text(text)
    assert main(["rules", "derive", "--goal", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"superopt: error: --goal {path}: ")
    assert error.count("\n") == 1


def test_random_graphs_reach_their_representatives(tmp_path: Path) -> None:
    (tmp_path / "rules.rules").write_text(SUMS)
    arguments = [str(tmp_path / "rules.rules"), "--max-operators", "1", "--graphs", "300"]
    outcome = CliRunner().invoke(generated_coverage.main, arguments)
    assert outcome.exit_code == 0
    counts = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", outcome.output)}
    assert sum(counts.values()) == 300
    assert counts["derived"] > 0  # commutation is built in
    # Laws of the constants are missing, and no others.
    assert all(re.search("eye|unit3|ones", line) for line in outcome.output.splitlines() if line.startswith("open"))

"""What `superopt rules` says of rules that nothing is on record of."""

from __future__ import annotations

from pathlib import Path

from taso_py import api
from taso_py.report.rules import rule_text, rules_text


def test_a_rule_without_a_proof_is_not_called_anything_else(tmp_path: Path) -> None:
    (tmp_path / "own.rules").write_text("rule twice: Relu(Relu(Relu(x))) => Relu(x)\n")
    found = [one for one in api.list_rules(rules=[tmp_path / "own.rules"]) if one.rule.name == "twice"]
    assert [one.status for one in found] == ["no proof"]
    assert rules_text(found).splitlines() == ["twice  no proof   own.rules:1", "1 rules"]
    shown = rule_text(found[0], None)
    assert "no proof" in shown
    assert "tested" not in shown

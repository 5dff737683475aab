"""What `superopt rules` says of rules that nothing is on record of."""

from __future__ import annotations

from pathlib import Path

from taso_py import api
from taso_py.options import RuleOptions
from taso_py.options.field import declared
from taso_py.report.rules import ListedRule, rule_text, rules_text


def test_a_rule_without_a_proof_is_not_called_anything_else(tmp_path: Path) -> None:
    (tmp_path / "own.rules").write_text("rule twice: Relu(Relu(Relu(x))) => Relu(x)\n")
    found = [one for one in api.list_rules(rules=[tmp_path / "own.rules"]) if one.rule.name == "twice"]
    assert [one.status for one in found] == ["not judged yet"]
    assert rules_text(found).splitlines() == ["twice  not judged yet  own.rules:1", "1 rule"]
    shown = rule_text(found[0], None)
    assert "not judged yet" in shown
    assert "tested" not in shown


def test_a_rule_of_the_library_without_a_proof_has_none() -> None:
    (rule,) = [one.rule for one in api.list_rules() if one.rule.name == "relu-slice"]
    assert ListedRule(rule, None).status == "no proof"


def test_files_stand_beside_canonical_and_cleanup_rules(tmp_path: Path) -> None:
    """As the help of --rules says."""
    (tmp_path / "own.rules").write_text("rule twice: Relu(Relu(Relu(x))) => Relu(x)\n")
    files = {Path(one.rule.file).name for one in api.list_rules(rules=[tmp_path / "own.rules"])}
    assert files == {"own.rules", "canonical.rules", "cleanup.rules"}
    (text,) = [one.flag.help for one in declared(RuleOptions) if one.name == "rules"]
    assert "canonical and cleanup rules, which stay" in text

"""Which rules may rewrite: those of the library that are on record, and what is said where they are few."""

from __future__ import annotations

from pathlib import Path

import pytest

import taso_py
from taso_py.options.spelling import spelling_as_command_line
from taso_py.report.advice import next_step
from taso_py.rules import library
from taso_py.rules.lock import Lock, load_lock
from tests.conftest import tiny_network

NONE_LEFT_OUT = "no proof for these sources"


def forget(monkeypatch: pytest.MonkeyPatch, *kept: str) -> None:
    """Nothing is on record but these rules, as after a change of the trusted sources."""
    known = load_lock()
    entries = tuple(entry for entry in known.entries if entry.name in kept)
    assert len(entries) == len(kept)
    monkeypatch.setattr(library, "load_lock", lambda: Lock(known.z3, entries))


@pytest.mark.parametrize("kept", [("relu-concat", "relu-slice"), ()])
def test_rules_without_a_proof_are_counted_and_are_the_next_step(
    kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(library.load().all())
    forget(monkeypatch, *kept)
    with spelling_as_command_line():
        result = taso_py.optimize(tiny_network(), race=False)
        words = f"{whole - len(kept)} of {whole} rules have no proof for these sources and are not used"
        assert result.unproved == words
        assert [told for told in result.warnings if NONE_LEFT_OUT in told] == [f"{words}: superopt verify --update"]
        assert next_step(result) == f"superopt verify --update: {words}"


def test_one_rule_is_told_in_the_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, *(rule.name for rule in library.load().all() if rule.name != "relu-slice"))
    result = taso_py.optimize(tiny_network(), race=False, time_budget_s=1e-3)
    assert " rules has no proof for these sources and is not used" in result.unproved


def test_nothing_is_said_where_every_rule_has_a_proof(tmp_path: Path) -> None:
    """One that is proved up to some size has one."""
    rules = tmp_path / "own.rules"
    rules.write_text("rule twice: Relu(Relu(x)) => Relu(x)\n")
    for chosen in (None, [rules]):
        result = taso_py.optimize(tiny_network(), race=False, rules=chosen, time_budget_s=60)
        assert result.unproved == ""
        assert not any(NONE_LEFT_OUT in told for told in result.warnings)

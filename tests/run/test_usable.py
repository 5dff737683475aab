"""Which rules may rewrite: those of the library that are on record, and what is said where they are few."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import taso_py
from taso_py import api
from taso_py.errors import RuleError, UsageError
from taso_py.options import Options
from taso_py.options.spelling import spelling_as_command_line
from taso_py.processes import isolated
from taso_py.report.advice import next_step
from taso_py.rules import library
from taso_py.rules.lock import Lock, load_lock
from taso_py.run import usable
from taso_py.run.proving import CHILD
from tests.conftest import tiny_network
from tests.helpers.graphs import model as parsed

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
    whole = len(usable.chosen_rules(Options()).all())
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


# ---- rules of the user's own ---------------------------------------------------------------------------------------

NEVER_DRAWN = """
rule rare: Relu(Relu(x)) => Relu(x) for x[m, n] when m == 41 * n, n >= 977
rule rarer: Neg(Neg(x)) => x for x[m, n] when m == 43 * n, n >= 983
"""
"""Rules of which no instance is small: that none is drawn is known after thousands of attempts."""


def of(folder: Path, text: str) -> list[Path]:
    (folder / "own.rules").write_text(text)
    return [folder / "own.rules"]


def test_proofs_end_with_the_budget_and_leave_a_copy(tmp_path: Path) -> None:
    proto = tiny_network()
    result = taso_py.optimize(proto, rules=of(tmp_path, NEVER_DRAWN), time_budget_s=0.2)
    assert result.reason is not None
    assert result.reason.code == "too little time"
    assert re.search(r"the rules of files were not proved in time \([01] of 2 were; next rare", result.reason.words)
    assert result.suggested_budget_s is not None
    assert result.suggested_budget_s > 0.2
    assert f"use time_budget_s={result.suggested_budget_s:g} or more" in result.reason.words
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert CHILD not in isolated._PROCESSES  # it would prove on


def test_what_is_refused_is_told_with_the_others_counted(tmp_path: Path) -> None:
    text = "rule one: Relu(x) => x\nrule two: Relu(Relu(x)) => Relu(x)\nrule three: Neg(x) => x\n"
    with pytest.raises(RuleError, match=r"own\.rules:1:1: rule one is refuted: .*; only proved rules are used; 1 more"):
        taso_py.optimize(tiny_network(), rules=of(tmp_path, text), race=False)


def test_a_process_that_dies_refuses_its_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> bytes:
        raise isolated.NoAnswerError("its process died (SIGKILL)")

    monkeypatch.setattr(usable, "answer", dies)
    with pytest.raises(RuleError, match=r"own\.rules:1:1: rule a is not proved: its process died \(SIGKILL\)"):
        taso_py.optimize(tiny_network(), rules=of(tmp_path, "rule a: Neg(Neg(Neg(x))) => Neg(x)\n"), race=False)


def test_ranking_ends_with_the_budget_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not proved in time \([01] of 2 were; next rarer?\): use time_budget_s="):
        taso_py.rank([tiny_network()], rules=of(tmp_path, NEVER_DRAWN), time_budget_s=0.2)


def test_what_is_there_already_is_told_without_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that made it had proved the same rules."""
    model, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(parsed("agraph (float[4] x) => (float[4] y) {a = Relu(x) b = Neg(a) c = Neg(b) y = Relu(c)}"), model)
    options = {"rules": of(tmp_path, "rule twice: Neg(Neg(x)) => x\n"), "race": False}
    assert taso_py.optimize(model, **options).save(out).rules
    monkeypatch.delattr(usable, "answer")
    assert api.standing(model, out, **options).current

"""The lock that keeps verdicts, and rules of the user's own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from judging import DOUBLE, FALSE, always, full_record, never, refuted_record

import taso_py
from taso_py.cli import main
from taso_py.errors import RuleError, UsageError
from taso_py.prove.verdict import Proved, Unknown
from taso_py.prove.verify import Judgement, proved, record
from taso_py.rules import lock as locks
from taso_py.rules.library import load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Finding, Lock, admitted, expected, key_of, load_lock, sources_digest, usable
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule, RuleSet

# ---- the lock ----------------------------------------------------------------------------------------------------

def test_a_lock_reads_back_what_it_wrote(tmp_path: Path) -> None:
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    lock = Lock().updated([(rule, full_record()), (law, refuted_record())], [rule, law], "5.4")
    path = tmp_path / "a.lock"
    lock.write(path)
    again = load_lock(path)
    assert again.record(rule) == full_record()
    assert again.record(law) == refuted_record()
    assert again.text() == lock.text() == path.read_text()
    assert len(path.read_text().splitlines()) == 3
    assert json.loads(path.read_text().splitlines()[2])["counterexample"]["right"] == [0.1, "inf"]


def test_lines_have_an_order_of_their_own_and_go_with_their_rules() -> None:
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    both = [(rule, full_record()), (law, full_record())]
    lock = Lock().updated(both, [rule, law], "5.4")
    assert lock.text() == Lock().updated(both[::-1], [law, rule], "5.4").text()
    assert lock.updated([], [law], "5.4").record(rule) is None
    assert lock.updated([], [law], "5.4").record(law) == full_record()


def test_a_record_holds_for_one_law_one_z3_and_one_set_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_rule(DOUBLE)
    lock = Lock().updated([(rule, full_record())], [rule], "5.4")
    assert lock.record(parse_rule(DOUBLE.replace("double", "twice"))) == full_record()
    assert lock.record(parse_rule(DOUBLE.replace("2", "3"))) is None
    assert key_of(rule, "5.4") != key_of(rule, "5.5")
    monkeypatch.setattr(locks, "sources_digest", lambda: "other sources")
    key_of.cache_clear()
    assert lock.record(rule) is None
    key_of.cache_clear()


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("ops/elementwise.py", True),
        ("prove/verdict.py", True),
        ("graph/sizes.py", True),
        ("rules/unify.py", True),
        ("prove/verify.py", False),
        ("search/matcher.py", False),
        ("rules/printer.py", False),
    ],
)
def test_changed_sources_make_proofs_stale(file: str, counts: bool, tmp_path: Path) -> None:
    package = tmp_path / "taso_py"
    shutil.copytree(ROOT / "taso_py", package, ignore=shutil.ignore_patterns("__pycache__"))
    before = sources_digest(package)
    (package / file).write_text((package / file).read_text() + "\n# changed\n")
    sources_digest.cache_clear()
    assert (sources_digest(package) != before) == counts


def test_a_lock_that_cannot_be_read_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    rule = parse_rule(DOUBLE)
    path.write_text(Lock().updated([(rule, full_record())], [rule], "5.4").text() + "<<<<<<< HEAD\n")
    with pytest.raises(RuleError, match=r"a\.lock:3:1: is no proof record"):
        load_lock(path)
    assert load_lock(tmp_path / "none.lock") == Lock()


def test_rules_have_the_status_on_record() -> None:
    rules = RuleSet.of(load_file(rules_directory() / "cleanup.rules"))
    first, second, *others = rules
    bounded = record(Judgement(Proved(limit=4)))
    lock = Lock().updated([(first, full_record()), (second, bounded)], rules, "5.4")
    stamped = lock.stamped(rules)
    assert [r.status for r in stamped] == ["proved", "proved<=4", *("tested" for _ in others)]
    assert list(usable(stamped, False)) == [stamped.rules[0]]
    assert list(usable(stamped, True)) == list(stamped.rules[:2])


@pytest.mark.parametrize("status", ["tested", "refuted", "unknown", ""])
def test_nothing_else_is_admitted(status: str) -> None:
    assert not admitted(status, allow_bounded=True)


def test_what_a_file_promises() -> None:
    def stands_in(file: str, name: str = "a") -> str:
        return expected(replace(parse_rule(DOUBLE), file=f"/somewhere/{file}", name=name))

    assert stands_in("refuted.rules") == "refuted"
    assert stands_in("refuted.rules", "vacuous-a") == "vacuous"
    assert stands_in("taso_axioms.rules") == "proved"
    assert stands_in("taso_axioms.rules", "a-false") == "refuted"
    assert stands_in("layout.rules", "a-false") == "proved"
    assert stands_in("open.rules") == "unknown"


def test_every_law_that_is_shipped_is_on_record() -> None:
    lock = load_lock()
    laws = [law for path in sorted(rules_directory().glob("*.rules")) for law in load_file(path)]
    missing = [law.name for law in laws if lock.record(law) is None]
    assert not missing, "run `superopt verify --update`"
    assert not [law.name for law in laws if not Finding(law, lock.record(law)).as_expected]
    used = [lock.record(law) for law in load().all()]
    assert sum(found.limit is None for found in used) >= 0.95 * len(used)
    assert all(found.verdict == "proved" for found in used)


# ---- rules of the user's own ---------------------------------------------------------------------------------------


def test_own_rules_are_proved_on_load(own_rules: Path) -> None:
    stamped = proved(load_file(own_rules), allow_bounded=False, prover=always)
    assert [(r.status, r.patterns) for r in stamped] == [("proved", always(stamped.rules[0]).patterns)]
    with pytest.raises(UsageError, match=r"own\.rules:1:1: rule double is not proved: not even tried"):
        proved(load_file(own_rules), allow_bounded=False, prover=never)


def test_own_rules_that_are_bounded_need_the_option(own_rules: Path) -> None:
    def bounded(rule: Rule) -> Proved | Unknown:
        return Proved(limit=3)

    with pytest.raises(UsageError, match="proved up to size 3 only"):
        proved(load_file(own_rules), allow_bounded=False, prover=bounded)
    assert [r.status for r in proved(load_file(own_rules), allow_bounded=True, prover=bounded)] == ["proved<=3"]


def test_a_false_rule_of_the_user_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rules = tmp_path / "bad.rules"
    rules.write_text(FALSE)
    assert main(["optimize", str(tiny_model), "--rules", str(rules), "--no-race", "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "bad.rules:1:1: rule wrong is refuted: the sides differ at x[" in error
    assert error.count("\n") == 1


def test_only_proved_rules_rewrite(tiny_model: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = taso_py.optimize(tiny_model, race=False, cost="roofline")
    assert result.rules == ()
    known = [*load().all()]
    Lock().updated([(rule, full_record()) for rule in known], known, "5.4").write(lock_file)
    monkeypatch.setattr("taso_py.search.matcher.covered", lambda rule, found: True)
    result = taso_py.optimize(tiny_model, race=False, cost="roofline")
    assert {r.status for r in result.rules} == {"proved"}

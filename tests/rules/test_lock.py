"""The lock that keeps verdicts, and rules of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import taso_py
from taso_py.cli import main
from taso_py.errors import RuleError, UsageError
from taso_py.prove.verdict import Proved, Unknown
from taso_py.prove.verify import Judgement, proved, record
from taso_py.rules import lock as locks
from taso_py.rules.library import load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Finding, Lock, admitted, key_of, load_lock, usable
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule, RuleSet
from tests.helpers.judging import DOUBLE, FALSE, always, full_record, never, refuted_record

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


def test_a_record_holds_for_one_law_and_one_set_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_rule(DOUBLE)
    lock = Lock().updated([(rule, full_record())], [rule], "5.4")
    assert lock.record(parse_rule(DOUBLE.replace("double", "twice"))) == full_record()
    assert lock.record(parse_rule(DOUBLE.replace("x", "exp"))) == full_record()
    assert lock.record(parse_rule(DOUBLE.replace("2", "3"))) is None
    monkeypatch.setattr(locks, "sources_digest", lambda: "other sources")
    key_of.cache_clear()
    assert lock.record(rule) is None
    key_of.cache_clear()


def test_another_z3_keeps_the_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    lock = Lock().updated([(rule, full_record()), (law, refuted_record())], [rule, law], "5.4")
    lock.write(tmp_path / "a.lock")
    monkeypatch.setattr(locks, "installed_z3", lambda: "9.0")
    assert load_lock(tmp_path / "a.lock").record(rule) == full_record()
    mixed = lock.updated([(law, refuted_record())], [rule, law], "9.0")
    assert (mixed.z3, mixed.record(rule)) == ("5.4, 9.0", full_record())
    assert mixed.updated([], [rule, law], "9.1").z3 == "5.4, 9.0"
    own = [(r, mixed.record(r)) for r in (rule, law)]
    assert mixed.updated(own, [rule, law], "9.1") == mixed
    assert mixed.updated([(rule, full_record()), (law, refuted_record())], [rule, law], "9.0").z3 == "9.0"


def written(path: Path) -> list[str]:
    """The lines of a lock of two laws, which stands in ``path``."""
    rule, law = parse_rule(DOUBLE), parse_rule(FALSE)
    Lock().updated([(rule, full_record()), (law, refuted_record())], [rule, law], "5.4").write(path)
    return path.read_text().splitlines()


def changed(line: str, **fields: Any) -> str:
    return json.dumps({**json.loads(line), **fields}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a, b: [h, a, b, "<<<<<<< HEAD"], r"4:1: is no proof record"),
        (lambda h, a, b: [h, a, b, "[1]"], r"4:1: is no proof record \(not an object\)"),
        (lambda h, a, b: [h, a, b, "{}"], r"4:1: is no proof record \('name'\)"),
        (lambda h, a, b: ["<<<<<<< HEAD", h, a, b], r"1:1: is no proof record"),
        (lambda h, a, b: [changed(h, schema="superopt.proofs/9"), a, b], r"1:1: has the schema 'superopt\.proofs/9'"),
        (lambda h, a, b: ["{}", a, b], r"1:1: has the schema None"),
        (lambda h, a, b: [h, a, b, changed(b, name="other", key="0")], r"1:1: a line was added, changed or lost"),
        (lambda h, a, b: [h, a, changed(b, verdict="proved")], r"1:1: a line was added, changed or lost"),
        (lambda h, a, b: [h, a], r"1:1: a line was added, changed or lost"),
        (lambda h, a, b: [h, b, a], r"1:1: a line was added, changed or lost"),
        (lambda h, a, b: [h, a, b, ""], r"4:1: is no proof record"),
        (lambda h, a, b: [h, a, b, a], r"4:1: <text> double is on record already in line 2"),
        (lambda h, a, b: [h, a, b, changed(a, key="0")], r"4:1: <text> double is on record already in line 2"),
        (lambda h, a, b: [h, a, b, changed(b, name="c", verdict="proved")], r"4:1: c contradicts line 3, which has"),
        (lambda h, a, b: [h, a, b, changed(a, name="c", limit=3)], r"4:1: c contradicts line 2, which has"),
    ],
)
def test_a_lock_changed_by_other_hands_is_an_error(
    change: Callable[[str, str, str], list[str]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.lock"
    path.write_text("\n".join(change(*written(path))) + "\n")
    with pytest.raises(RuleError, match=r"a\.lock:" + message) as caught:
        load_lock(path)
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith("run `superopt verify --update`")


def test_an_empty_lock_is_an_error_and_none_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert load_lock(path) == Lock()
    path.write_text("")
    with pytest.raises(RuleError, match=r"a\.lock:1:1: is no proof record"):
        load_lock(path)


def test_the_ends_of_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lines = written(path)
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    assert load_lock(path).record(parse_rule(DOUBLE)) == full_record()


def test_an_older_lock_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    _, *lines = written(path)
    path.write_text("\n".join([json.dumps({"schema": "superopt.proofs/1", "z3": "5.4"}), *lines]) + "\n")
    assert load_lock(path) == Lock()


def test_a_law_under_two_names_has_a_record_in_the_words_of_each(tmp_path: Path) -> None:
    rule, twin = parse_rule(DOUBLE), parse_rule("rule twin: Add(y, y) => Mul(y, 2)\n")
    here, there = (replace(full_record(), witness=w) for w in ("x[2]", "y[2]"))
    lock = Lock().updated([(rule, here), (twin, there)], [rule, twin], "5.4")
    lock.write(tmp_path / "a.lock")
    for found in (lock, load_lock(tmp_path / "a.lock")):
        assert (found.record(rule), found.record(twin)) == (here, there)
        assert found.record(parse_rule("rule other: Add(z, z) => Mul(z, 2)\n")) == here


def test_a_rule_that_is_renamed_or_moved_keeps_its_record() -> None:
    rule = parse_rule(DOUBLE)
    lock = Lock().updated([(rule, full_record())], [rule], "5.4")
    twin = replace(rule, name="twice", file="other.rules")
    moved = lock.updated([(twin, lock.record(twin))], [twin], "9.0")
    assert [e.place for e in moved.entries] == [("other.rules", "twice")]
    assert (moved.record(twin), moved.z3) == (full_record(), "5.4")


def test_records_that_contradict_each_other_are_not_kept() -> None:
    rule, twin, law = parse_rule(DOUBLE), parse_rule("rule twin: Add(y, y) => Mul(y, 2)\n"), parse_rule(FALSE)
    lock = Lock().updated([(rule, full_record()), (law, refuted_record())], [rule, law], "5.4")
    torn = lock.updated([(twin, refuted_record())], [rule, twin, law], "5.4")
    assert [torn.record(r) for r in (rule, twin, law)] == [None, None, refuted_record()]


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


LAWS = """
rule one "One.": Relu(x) => x
rule vacuous-two "Two.": Abs(x) => x
rule three-false "Three.": Neg(x) => x
"""


@pytest.mark.parametrize(
    ("header", "promised"),
    [
        ("", ["proved", "proved", "proved"]),
        ("# promise: refuted", ["refuted", "refuted", "refuted"]),
        ("# promise: unknown\n\n# promise: vacuous vacuous-two", ["unknown", "vacuous", "unknown"]),
        ("# promise: refuted one three-false", ["refuted", "proved", "refuted"]),
        ("# a promise: refuted", ["proved", "proved", "proved"]),
    ],
)
def test_what_a_file_promises(header: str, promised: list[str], tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text(f"# About these.\n{header}\n{LAWS}# promise: vacuous\n")
    assert [rule.promise for rule in load_file(path)] == promised


@pytest.mark.parametrize("line", ["# promise:", "# promise: false", "# promise: refuted four"])
def test_an_unknown_promise_is_an_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text(f"# About these.\n{line}\n{LAWS}")
    with pytest.raises(RuleError, match=r"my\.rules:2:1: promises "):
        load_file(path)


def test_a_promise_is_no_part_of_the_law() -> None:
    law = parse_rule(DOUBLE)
    assert key_of(replace(law, promise="refuted")) == key_of(law)


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
    monkeypatch.setattr("taso_py.search.demands.covered", lambda rule, found: True)
    result = taso_py.optimize(tiny_model, race=False, cost="roofline")
    assert {r.status for r in result.rules} == {"proved"}


@pytest.mark.parametrize(
    "change",
    [{"name": True}, {"key": {}}, {"verdict": []}, {"limit": "2"}, {"patterns": "all"}, {"patterns": [{}]},
     {"conditions": [["a"]]}],
    ids=str,
)  # fmt: skip
def test_a_record_of_other_types_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    rule = parse_rule(DOUBLE)
    Lock().updated([(rule, full_record())], [rule], "5.4").write(path)
    head, line = path.read_text().splitlines()
    path.write_text(f"{head}\n{json.dumps(json.loads(line) | change)}\n")
    with pytest.raises(RuleError, match="is no proof record"):
        load_lock(path)


@pytest.mark.parametrize("head", ['{"schema": {}}', "[" * 5000, "{"], ids=lambda head: head[:14])
def test_a_head_that_is_none_is_refused(head: str, tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.write_text(head)
    with pytest.raises(RuleError):
        load_lock(path)

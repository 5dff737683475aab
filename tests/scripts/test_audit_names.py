"""The audit of names finds judges that look at names or at the order of hashes, and no others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.audit import names as audit_names
from scripts.audit.names import LOST, Ask, alike, audit, claim, claims, variants, vocabularies
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.alpha import names_of, normal_law
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule, RuleSet
from tests.conftest import ROOT
from tests.helpers.judging import DOUBLE

HERE = __name__  # how worker processes import this file
LAW = "rule slices: Add(x, y) => let z = Add(y, x) in z for x[*s, n], y[*s, n] when n >= 2\n"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def fair(rule: Rule) -> Proved | Unknown:
    """Claims something in the words of the law, in the order of hashes."""
    return Proved(facts=tuple({f"reads {name}" for name in names_of(rule).tensors}), patterns=(law_text(rule),))


def directed(rule: Rule) -> Proved | Unknown:
    return Proved(patterns=("<" if rule.name.endswith("-reversed") else ">",))


def believer(rule: Rule) -> Proved | Unknown:
    """Takes a tensor for what it is called."""
    known = set(vocabularies()["heads"])
    return Proved() if names_of(rule).tensors[0] in known else Unknown("no")


def hashing(rule: Rule) -> Proved | Unknown:
    return Proved(cases=hash("some text") % 1000)


def dying(rule: Rule) -> None:
    if rule.name == "double":
        raise IndexError
    os._exit(3)


def here(judge: Callable[[Rule], object]) -> Ask:
    """Asks in this process: hash seeds play no part."""
    return lambda rules, seed: [claim(judge(rule)) for rule in rules]


@pytest.fixture(scope="module")
def laws() -> RuleSet:
    return RuleSet((parse_rule(DOUBLE), parse_rule(LAW)))


def test_a_judge_that_does_not_look_at_names_passes(laws: RuleSet) -> None:
    assert audit(laws.rules, here(fair), jobs=2) == []


@pytest.mark.parametrize(("judge", "part"), [(directed, "patterns"), (believer, "verdict")])
def test_a_judge_that_does_is_found(judge: Callable[[Rule], object], part: str, laws: RuleSet) -> None:
    found = audit(laws.rules, here(judge), jobs=2)
    assert {f.law.name for f in found} == {"double", "slices"}
    assert {p for f in found for p in f.parts} == {part}
    assert all(f.by_names and f.variant.rule.name in f.text() for f in found)


def test_hash_seeds_reach_the_judge(laws: RuleSet) -> None:
    one, other, again = (claims(f"{HERE}:hashing", laws.rules[:1], seed) for seed in (1, 2, 1))
    assert one == again != other


def test_what_the_law_itself_says_under_another_hash_seed_is_not_due_to_names(laws: RuleSet) -> None:
    found = audit(laws.rules, lambda rules, seed: [claim(Proved(cases=seed)) for _ in rules], jobs=1)
    assert [f.hash_seed for f in found] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {(f.parts, f.by_names) for f in found} == {(("cases",), False)}


def test_a_process_that_dies_loses_what_it_did_not_get_to(laws: RuleSet) -> None:
    assert [c["verdict"] for c in claims(f"{HERE}:dying", laws.rules, 0)] == ["raised IndexError", LOST]
    assert {f.parts for f in audit(laws.rules[:1], lambda r, seed: [{"verdict": LOST}], jobs=1)} == {(LOST,)}


def test_variants_are_the_same_law_and_the_same_every_time() -> None:
    for law in list(load_file(rules_directory() / "convolution.rules"))[:20]:
        styles = list(variants(law))
        assert [v.style for v in styles] == [*vocabularies(), "shared"]
        assert all(normal_law(parse_rule(v.rule.text())) == normal_law(law) for v in styles)
        assert [v.rule for v in styles] == [v.rule for v in variants(law)]


def test_the_names_are_those_that_the_sources_look_for() -> None:
    words = vocabularies()
    assert {"exp", "abs", "log", "sqrt", "sum", "count", "body"} <= set(words["heads"])
    assert {"relu", "concat", "axis", "keepdims"} <= set(words["operators"])
    assert {"empty", "open", "condition", "vacuous"} <= set(words["messages"])
    assert {"x0", "n1", "s0", "r0"} <= set(words["made"])
    assert all(parse_rule(f"rule a: Neg({w}) => {w} for {w}[*{w}, {w}]\n") for v in words.values() for w in v)


def test_claims_are_compared_modulo_names() -> None:
    names = {"x": frozenset({"rank"}), "n": frozenset({"y"})}
    assert alike("x rank 3, n", "rank rank 3, y", names)
    assert not alike("x rank 3, n", "rank rank 4, y", names)
    assert not alike("rank", "x", names)
    assert alike([["n <= 2", "necessary"], 1], [1, ["y <= 2", "necessary"]], names)
    assert not alike([1, 1], [1], names)
    assert not alike(True, 1, names)
    assert not alike(None, 0, names)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.rules"
    path.write_text(DOUBLE + LAW)
    judges = {"directed": directed, "fair": fair}
    monkeypatch.setattr(audit_names, "claims", lambda judge, rules, seed: here(judges[judge])(rules, seed))
    run = CliRunner().invoke(audit_names.main, [str(path), "--judge", "directed", "--only", "double"])
    assert run.exit_code == 1
    assert run.output.splitlines()[-1] == "1 laws, 5 renamings each: 3 differ"
    assert "a.rules:1 double: patterns (names; style heads, hash seed 1)" in run.output
    run = CliRunner().invoke(audit_names.main, [str(path), "--judge", "fair", "--sample", "1"])
    assert (run.exit_code, run.output) == (0, "1 laws, 5 renamings each: 0 differ\n")

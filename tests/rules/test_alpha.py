"""Laws that differ in names alone are one law: normal names, and keys that do not depend on names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taso_py.ops import OPERATORS
from taso_py.rules.alpha import Naming, names_of, normal_law, normal_text, renamed, with_names
from taso_py.rules.functions import FUNCTIONS
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import key_of
from taso_py.rules.parser import parse_rule
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule
from tests.helpers.judging import DOUBLE

RULES = [law for path in sorted(rules_directory().glob("*.rules")) for law in load_file(path)]
FUNCTION_WORDS = ("exp", "abs", "log", "sqrt", "tanh", "erf", "max", "min", "sum", "count", "body", "neg", "pow")
MESSAGE_WORDS = ("ranks", "empty", "open", "condition", "reversed", "vacuous", "kept", "all", "none", "true", "not")
NORMAL_WORDS = ("x0", "x1", "l0", "l1", "n0", "n1", "s0", "s1", "law", "k", "i", "j", "e1", "x_0", "info", "ranker")
WORDS = tuple(
    dict.fromkeys([
        *FUNCTION_WORDS, *MESSAGE_WORDS, *NORMAL_WORDS, *FUNCTIONS, *PREDICATES,
        *(name[0].lower() + name[1:] for name in OPERATORS), *(name.lower() for name in OPERATORS),
        *(f.name for operator in OPERATORS.values() for f in fields(operator)),
    ])
)  # fmt: skip
RULE_NAMES = ("law", "double-reversed", "refuted-a", "vacuous-a", "exp", "a-false")

laws = st.sampled_from(RULES)


def other_names(names: Sequence[str]) -> st.SearchStrategy[Mapping[str, str]]:
    chosen = st.lists(st.sampled_from(WORDS), min_size=len(names), max_size=len(names), unique=True)
    return chosen.map(lambda words: dict(zip(names, words, strict=True)))


@st.composite
def variants(draw: st.DrawFn) -> tuple[Rule, Rule]:
    """A law, and the same under other names: one renaming for all, or one of its own for every sort of name."""
    rule = draw(laws)
    names = names_of(rule)
    name = draw(st.sampled_from(RULE_NAMES))
    if draw(st.booleans()):
        return rule, renamed(rule, draw(other_names(names.all())), name)
    scope = draw(other_names([f"{sort} {n}" for sort in ("tensors", "left", "right") for n in getattr(names, sort)]))
    sorts = {sort: {n: scope[f"{sort} {n}"] for n in getattr(names, sort)} for sort in ("tensors", "left", "right")}
    return rule, with_names(
        rule, Naming(**sorts, sizes=draw(other_names(names.sizes)), blocks=draw(other_names(names.blocks))), name
    )


@given(variants())
def test_a_law_keeps_its_key_under_other_names(pair: tuple[Rule, Rule]) -> None:
    rule, variant = pair
    assert normal_law(variant) == normal_law(rule)
    assert key_of(variant) == key_of(rule)


@given(variants())
def test_a_law_under_other_names_reads_back(pair: tuple[Rule, Rule]) -> None:
    rule, variant = pair
    for law in (variant, normal_law(rule)):
        again = parse_rule(law.text())
        assert replace(again, file=law.file, line=law.line, promise=law.promise) == replace(law, doc=again.doc)


@given(laws)
def test_the_normal_law_is_its_own(rule: Rule) -> None:
    assert normal_law(normal_law(rule)) == normal_law(rule)
    assert renamed(rule, {n: n for n in names_of(rule).all()}) == rule


def test_only_laws_that_differ_in_names_share_a_key() -> None:
    by_key: dict[str, list[Rule]] = {}
    for rule in RULES:
        by_key.setdefault(key_of(rule), []).append(rule)
    for first, *others in by_key.values():
        for other in others:
            there = dict(zip(names_of(other).all(), names_of(first).all(), strict=True))
            assert law_text(renamed(other, there)) == law_text(first)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Sub(x, y) => x", "Sub(x, y) => y"),
        ("Add(x, x) => x", "Add(x, y) => x"),
        ("Relu(x), Neg(x) => x, x", "Neg(x), Relu(x) => x, x"),
        ("Relu(x) => Neg(x)", "Neg(x) => Relu(x)"),
        ("Add(x, y) => Add(y, x)", "Add(x, y) == Add(y, x)"),
        ("Neg(x) => x for x[m, n]", "Neg(x) => x for x[m, m]"),
        ("Neg(x) => x for x[*s]", "Neg(x) => x for x[s]"),
        ("Add(x, y) => x for x[*s], y[~s]", "Add(x, y) => x for x[*s], y[*s]"),
        ("Neg(x) => x for x[m, n] when m <= n", "Neg(x) => x for x[m, n] when n <= m"),
        ("Add(x, y) => x when positive(x)", "Add(x, y) => x when positive(y)"),
        ("Add(x, y) => let z = Neg(x) in z", "Add(x, y) => let z = Neg(y) in z"),
        ("Transpose(x, perm=p) => x when p == sort(p)", "Transpose(x, perm=p) => x when p == inverse(p)"),
    ],
)
def test_other_differences_count(one: str, other: str) -> None:
    assert normal_text(parse_rule(f"rule a: {one}")) != normal_text(parse_rule(f"rule a: {other}"))


def test_normal_names_come_in_the_order_of_the_text() -> None:
    law = "let u = Neg(b) in Add(u, a) => let v = Relu(a) in MatMul(v, Transpose(b, perm=[q, p]))"
    rule = parse_rule(f'rule some "Text.": {law} for a[*t, m], b[*r] choose q in [0, 1], p in [0, 1]\n')
    wanted = "let l0 = Neg(x0) in Add(l0, x1) => let l1 = Relu(x1) in MatMul(l1, Transpose(x0, perm=[n0, n1]))"
    clauses = "for x1[*s0, n2], x0[*s1] choose n0 in [0, 1], n1 in [0, 1]"
    assert normal_law(rule) == replace(parse_rule(f"rule law: {wanted} {clauses}\n"), file="", line=0)


def test_a_local_name_may_hide_a_tensor() -> None:
    hiding = parse_rule("rule a: Add(x, y) => let x = Neg(y) in Add(x, y)\n")
    plain = parse_rule("rule b: Add(u, v) => let w = Neg(v) in Add(w, v)\n")
    assert normal_text(hiding) == normal_text(plain)
    assert names_of(hiding).right == ("x",)
    assert law_text(renamed(hiding, {"x": "z"})) == law_text(parse_rule(hiding.text().replace("x", "z")))


@pytest.mark.parametrize("names", [{"x": "y"}, {"x": "z"}, {"y": "z"}, {"m": "n"}, {"s": "t"}])
def test_two_names_cannot_become_one(names: Mapping[str, str]) -> None:
    rule = parse_rule("rule a: Add(x, y) => let z = Neg(y) in Add(z, y) for x[m, *s, n], y[*t]\n")
    with pytest.raises(ValueError, match="would both be called"):
        renamed(rule, names)


def test_sorts_of_names_are_apart() -> None:
    rule = parse_rule("rule a: Neg(x) => x for x[*s, n]\n")
    assert law_text(renamed(rule, {"x": "a", "s": "a", "n": "a"})).split("for ")[1] == "a[*a, a]"
    assert normal_law(renamed(rule, {"x": "a", "s": "a", "n": "a"})) == normal_law(rule)


def test_the_id_of_a_rule_is_its_printed_law() -> None:
    rule = parse_rule(DOUBLE)
    assert rule.id == "b2c3e1d4f0f0"
    assert rule.id == renamed(rule, {}, "twice").id != renamed(rule, {"x": "y"}).id


def test_caches_tell_normal_laws_apart_by_their_hashes() -> None:
    """All have one name and no place: hashed by these alone, every cache became a list to be gone through."""
    laws = {normal_law(rule) for rule in RULES}
    assert max(Counter(map(hash, laws)).values()) < len(laws) / 100


def test_what_differs_in_proof_and_place_has_one_normal_law() -> None:
    law = parse_rule(DOUBLE)
    stamped = replace(law, doc="twice", line=7, status="proved", patterns=("x",), limit=3)
    assert normal_law(stamped) is normal_law(law)

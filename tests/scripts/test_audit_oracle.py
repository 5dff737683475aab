"""The oracle that judges mutants and random equations, the equations themselves, and what an alarm is."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import asdict

import numpy as np
import pytest

import taso_py.onnx_io.fragment
from scripts.audit.mutation.driver import merged
from scripts.audit.mutation.equations import changes, true_equation
from scripts.audit.mutation.jobs import proved_at_sites, quick
from scripts.audit.mutation.judgement import Against, Judgement, covered, plain_site, site_of_plain
from scripts.audit.mutation.oracle import Case, judged
from scripts.audit.mutation.store import Entry
from taso_py.prove.verdict import Proved
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from tests.helpers.audited import LAWS, law

REFUTED = [law for law in load_file(rules_directory() / "refuted.rules") if law.name.startswith("refuted-")]


# ---- the oracle ----------------------------------------------------------------------------------------------------


MEAN_OF_PADDED = """
  AveragePool(Pad(x, pads=[0, 0, p, 0, 0, 0]), kernel_shape=[2])
  => AveragePool(x, kernel_shape=[2], pads=[p, 0], count_include_pad=1)
  for x[n, c, l] when p >= 0"""
MEAN_KEPT = "ReduceMean(x, axes=[1]) => ReduceMean(x, axes=[1], keepdims=0) for x[m, n]"
EXPANDED = "Relu(Max(x, Expand(y, shape=[m, n]))) => Relu(Max(x, y)) for x[m, 1], y[1, n]"

JUDGED = {
    "a square transposed": ("Transpose(x, perm=[1, 0]) => x for x[n, n]", "different"),
    "factors commute": ("Mul(x, y) => Mul(y, x)", "equal"),
    "an expansion too much": (EXPANDED, "equal"),
    "an expansion that is needed": ("Relu(Expand(x, shape=[m, n])) => Relu(x) for x[1, n]", "mistyped"),
    "a mean that keeps its axis": (MEAN_KEPT, "none"),
    "pads beyond the window": (MEAN_OF_PADDED, "refused"),
    "a division that is undone": ("Mul(Div(x, y), y) => x for x[n], y[n]", "equal"),
    "a division that is not": ("Div(x, y) => Mul(x, y) for x[n], y[n]", "different"),
    "a division made up": ("Mul(x, y) => Div(x, Reciprocal(y)) for x[n], y[n]", "different"),
    "no instance": ("Relu(x) => Neg(x) for x[n] when n < 0", "none"),
    "rounding": ("Exp(Log(Exp(x))) => Exp(x) for x[n]", "equal"),
    "more than rounding": ("Sigmoid(x) => Add(Sigmoid(x), 0.001) for x[n]", "different"),
    "negative padding": ("Pad(Pad(x, pads=p), pads=q) => Pad(x, pads=plus(p, q))", "different"),
    "false from the fourth axis on": (
        "Softmax(x, axis=0) => Mul(Softmax(x, axis=0), "
        "Fill(value=1.0 + rank(s) * (rank(s) - 1) * (rank(s) - 2), shape=[])) for x[n, *s]",
        "different",
    ),
    "a slope above one": ("LeakyRelu(x, alpha=a) => Max(x, LeakyRelu(x, alpha=a))", "different"),
}


@pytest.mark.parametrize(("text", "expected"), JUDGED.values(), ids=JUDGED)
def test_the_oracle_judges(text: str, expected: str) -> None:
    found = Judgement()
    for seed in range(4):
        found.add(judged([Case(law(text))], seed)[0])
    assert found.truth == expected, found
    assert bool(found.differences) == (expected == "different")
    assert bool(found.example) == bool(found.differences or found.types)


def test_known_false_laws_are_different() -> None:
    assert len(REFUTED) >= 50
    left = REFUTED
    for seed in range(4):
        found = judged([Case(r) for r in left], seed)
        left = [r for r, j in zip(left, found, strict=True) if j.truth != "different"]
    assert [r.name for r in left] == []


def test_laws_of_the_library_are_not_different() -> None:
    chosen = random.Random(0).sample([n for n in sorted(LAWS) if not n.endswith("-false")], 60)
    found = judged([Case(LAWS[name]) for name in chosen])
    assert {n: j.example for n, j in zip(chosen, found, strict=True) if j.truth == "different"} == {}
    assert sum(j.truth == "equal" for j in found) >= 50


def test_an_equation_is_judged_from_both_sides() -> None:
    text = "Add(Div(Mul(x, y), y), y) {} Add(x, y) for x[n], y[n]"
    found = [judged([Case(law(text.format(arrow)))])[0].truth for arrow in ("=>", "==")]
    assert found == ["equal", "different"], "the quotient is not defined everywhere"


def test_the_oracle_uses_none_of_the_projects_own_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("a constant was folded")

    monkeypatch.setattr(taso_py.onnx_io.fragment, "evaluate", forbidden)
    for name in ("merge-groups", "batchnorm-into-conv", "identity-branch-into-conv", "where-same"):
        assert judged([Case(LAWS[name])])[0].truth == "equal"


def test_more_draws_only_add() -> None:
    first, more = Judgement(typed=3), Judgement(typed=2, mistyped=1, differences={"p": Against(2, 3, "here")})
    first.add(more)
    assert (first.typed, first.mistyped, first.truth, first.example) == (5, 1, "different", "here")
    first.add(Judgement(typed=1, gap=2.0, differences={"p": Against(3, 1, "large"), "q": Against(1, 9, "small")}))
    assert first.differences == {"p": Against(2, 3, "here"), "q": Against(1, 9, "small")}
    assert first.example == "small"
    assert Judgement.of(first.plain()) == first
    kept = {**Judgement(typed=1).plain(), "seeds": 1}
    both = merged(kept, {**Judgement(typed=1, refused=2).plain(), "seeds": 3})
    assert (both["typed"], both["truth"], both["seeds"]) == (2, "refused", 4)


# ---- random equations ----------------------------------------------------------------------------------------------


def drawn_equations(count: int, seed: int) -> list[Rule]:
    """The first true equations of a seed."""
    found = (true_equation(number, seed) for number in itertools.count())
    return list(itertools.islice((rule for rule in found if rule is not None), count))


def test_equations_are_declared_true_and_written_down() -> None:
    rules = drawn_equations(25, 3)
    for rule in rules:
        assert parse_rule(rule.text()).id == rule.id
        assert {d.variable for d in rule.declarations} == rule.left.variables() | rule.right.variables()
    assert all(j.truth != "different" for j in judged([Case(r) for r in rules]))
    assert [r.id for r in drawn_equations(3, 3)] == [r.id for r in rules[:3]]


def test_changed_equations_are_often_false() -> None:
    changed = [c for r in drawn_equations(25, 4) for c in changes(r, np.random.default_rng(0), 4)]
    found = judged([Case(c) for c in changed])
    assert len(changed) >= 60
    assert sum(j.truth == "different" for j in found) >= len(changed) / 4


# ---- alarms ---------------------------------------------------------------------------------------------------------


def test_a_proof_is_wrong_only_where_it_speaks() -> None:
    matrix, image = "> d-dd r2.2||", "> dd-dd r4.4||"
    found = Judgement(differences={matrix: Against(2, 7, "a matrix"), image: Against(4, 5, "an image")})
    entry = Entry("1", "law", "axis", "", found.plain())
    both = [matrix, image]
    cases: list[tuple[dict[str, object], str]] = [
        ({}, ""), ({"patterns": both}, "a matrix"), ({"patterns": both, "limit": 6}, "an image"),
        ({"patterns": both, "limit": 4}, ""), ({"patterns": [image]}, "an image"), ({"patterns": []}, ""),
        ({"patterns": ["< d-dd r2.2||"]}, ""), ({"patterns": [], "sited": "there"}, "there"),
    ]  # fmt: skip
    for proof, alarm in cases:
        entry.proof = {"verdict": "proved", **proof}
        assert entry.alarm == alarm, proof
    assert not Entry("1", "law", "axis", "", found.plain(), {"verdict": "unknown"}).alarm


def test_an_example_knows_how_its_sides_are_typed() -> None:
    rule = law("Add(Transpose(x, perm=[1, 0]), y) == Add(x, y) for x[n, n], y[n]")
    found = judged([Case(rule)], thorough=True)[0]
    assert {key[0] for key in found.differences} == {">", "<"}
    whole = tuple(found.differences)
    assert all(covered({key: asdict(found.differences[key])}, {"patterns": whole}) for key in whole)
    for against in found.differences.values():
        assert against.site is not None
        assert plain_site(site_of_plain(json.loads(json.dumps(against.site)))) == against.site


def test_a_true_law_in_the_oracles_examples_is_covered_by_its_proof() -> None:
    """Signatures of the oracle and of proofs are the same words: else no alarm could ever be raised."""
    text = "Mul(Softmax(x, axis=0), 2) {} Mul(2, Softmax(x, axis=0)) for x[m, *s]"
    verdict = quick(law(text.format("=>")))
    assert isinstance(verdict, Proved)
    wrong = law("Mul(Softmax(x, axis=0), 2) => Mul(3, Softmax(x, axis=0)) for x[m, *s]")
    found = judged([Case(wrong)], thorough=True)[0].plain()
    proof = {"verdict": "proved", "patterns": verdict.patterns}
    assert Entry("1", "law", "constant", "", found, proof).alarm
    assert not proved_at_sites(wrong.text(), found["differences"])
    assert proved_at_sites(law(text.format("=>")).text(), found["differences"])

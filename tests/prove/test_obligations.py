"""What a proof had to show is recorded, and `superopt rules show NAME --obligations` prints it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from taso_py.cli import main
from taso_py.prove.kernel.facts import FACTS
from taso_py.prove.kernel.obligations import FORM, Z3, Kind, Obligation
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.parser import parse_rule

LAWS = {
    "join": """
      MatMul(x, a), MatMul(x, b)
      => let y = MatMul(x, Concat(a, b, axis=1)) in
         Slice(y, axes=[1], starts=[0], ends=[n], steps=[1]), Slice(y, axes=[1], starts=[n], ends=[n + p], steps=[1])
      for x[m, k], a[k, n], b[k, p]""",
    "quotient": "Div(x, c) => Mul(x, Div(1, c)) for x[n], c[n]",
    "rows": """
      Slice(Div(x, y), axes=[0], starts=[a], ends=[b], steps=[1])
      => Div(Slice(x, axes=[0], starts=[a], ends=[b], steps=[1]), Slice(y, axes=[0], starts=[a], ends=[b], steps=[1]))
      for x[n], y[n]""",
    "softmax": "Softmax(x, axis=1) => Div(Exp(x), ReduceSum(Exp(x), axes=[1], keepdims=1)) for x[m, n]",
    "root": "Relu(x) => Add(Relu(x), Sub(Sqrt(Abs(x)), Sqrt(Abs(x)))) for x[n]",
    "positive": "Mul(x, c) => Mul(Mul(x, c), Div(c, c)) for x[n], c[n] when positive(c)",
    "windows": """
      MaxPool(MaxPool(x, kernel_shape=[a], strides=[f]), kernel_shape=[c], strides=[u])
      => MaxPool(x, kernel_shape=[a + f * (c - 1)], strides=[f * u])
      for x[n, m, w] when a >= f""",
    "rising": """
      ReduceMax(Exp(x), axes=[1], keepdims=0) == Exp(ReduceMax(x, axes=[1], keepdims=0))
      for x[m, n] when n >= 1""",
}


def proof_of(name: str, text: str | None = None) -> Proved:
    proof = prove(parse_rule(f"rule {name}: {text or LAWS[name]}"))
    assert isinstance(proof, Proved), proof
    return proof


def shown(proof: Proved, kind: str | None = None) -> list[Obligation]:
    return [o for _, found in proof.obligations for o in found if kind in (None, o.kind)]


@pytest.mark.parametrize("name", LAWS)
def test_each_obligation_says_by_what_it_is_met(name: str) -> None:
    proof = proof_of(name)
    for o in shown(proof):
        first, *facts = o.by.split("; ")
        assert first in {FORM, Z3, *FACTS} or first.startswith("positive("), o
        assert set(facts) <= FACTS.keys(), o
        assert o.what


@pytest.mark.parametrize("name", LAWS)
def test_a_proof_names_every_fact_of_its_obligations(name: str) -> None:
    proof = proof_of(name)
    named = {word for o in shown(proof) for word in o.by.split("; ") if word in FACTS}
    assert named == set(proof.facts)


@pytest.mark.parametrize("name", LAWS)
def test_each_output_of_each_typing_has_equal_types_and_elements(name: str) -> None:
    rule = parse_rule(f"rule {name}: {LAWS[name]}")
    proof = proof_of(name)
    assert len(proof.obligations) == proof.cases
    assert {signature for signature, _ in proof.obligations} <= set(proof.patterns)
    for _, found in proof.obligations:
        kinds = [o.kind for o in found]
        assert kinds.count("typing") == kinds.count("equality") == len(rule.left.outputs)


def test_every_kind_occurs() -> None:
    assert {o.kind for name in LAWS for o in shown(proof_of(name))} == set(get_args(Kind))


def test_sizes_are_shown_from_the_form_and_by_the_solver() -> None:
    assert {o.by for o in shown(proof_of("windows"), "size")} == {FORM, Z3}


@pytest.mark.parametrize(
    ("name", "by"),
    [("quotient", FORM), ("softmax", "positive sum"), ("root", "bounded below"),
     ("positive", "positive(x1)")],
)  # fmt: skip
def test_what_the_right_side_needs_is_defined_by(name: str, by: str) -> None:
    assert {o.by for o in shown(proof_of(name), "definedness")} == {by}


def test_obligations_are_no_part_of_what_is_compared() -> None:
    proof = proof_of("quotient")
    assert proof.obligations
    assert replace(proof, obligations=()) == proof
    assert "obligations" not in repr(proof)


# ---- superopt rules show ---------------------------------------------------------------------------------------------

TEXT = """
rule shared "Two products are one.":
  MatMul(input, first), MatMul(input, second)
  => let y = MatMul(input, Concat(first, second, axis=1)) in
     Slice(y, axes=[-1], starts=[0], ends=[left], steps=[1]),
     Slice(y, axes=[-1], starts=[left], ends=[left + wide], steps=[1])
  for input[*some, rows, depth], first[depth, left], second[depth, wide]

rule halved:
  Div(number, divisor) => Div(1, divisor) * number

rule false:
  Relu(x) => Neg(Relu(Neg(x))) for x[n]
"""


@pytest.fixture
def rules_file(tmp_path: Path) -> str:
    path = tmp_path / "own.rules"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def test_the_command_prints_them_in_the_names_of_the_rule(rules_file: str, capsys: Any) -> None:
    assert main(["rules", "show", "shared", "--obligations", "--rules", rules_file]) == 0
    out = capsys.readouterr().out
    assert out.startswith('rule shared "Two products are one."')
    for text in ("typing 1 of 3", "Concat on the right: left+wide >= 0", "output 2: some.0 == some.0", "all sizes"):
        assert text in out
    assert main(["rules", "show", "halved", "--obligations", "--rules", rules_file]) == 0
    assert "divisor[i:0] != 0" in capsys.readouterr().out


def test_json_has_every_one(rules_file: str, capsys: Any) -> None:
    assert main(["rules", "show", "shared", "--obligations", "--json", "--rules", rules_file]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "shared"
    (*_, last), *_ = [typing["obligations"] for typing in told["obligations"]]
    assert last == {"kind": "equality", "what": "output 2 at [i:0, i:1]", "by": Z3}
    assert main(["rules", "show", "shared", "--json", "--rules", rules_file]) == 0
    assert "obligations" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "code", "word"), [("sharde", 2, "did you mean 'shared'?"), ("false", 1, "rule false is not proved")]
)
def test_what_cannot_be_shown_is_one_line(rules_file: str, capsys: Any, name: str, code: int, word: str) -> None:
    assert main(["rules", "show", name, "--obligations", "--rules", rules_file]) == code
    captured = capsys.readouterr()
    assert word in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


SCALED = "Mul(y, LeakyRelu(x, alpha=a)) => Mul(Div(Mul(y, Fill(value=a)), Fill(value=a)), LeakyRelu(x, alpha=a))"


@pytest.mark.parametrize(
    ("condition", "proved"), [("a != 0", True), ("a > 0", True), ("a < 0", True), ("a >= 0", False)]
)
def test_a_condition_on_a_real_attribute_reaches_divisors(condition: str, proved: bool) -> None:
    verdict = prove(parse_rule(f"rule law: {SCALED} for x[n], y[n] when {condition}"))
    assert isinstance(verdict, Proved) == proved
    if isinstance(verdict, Unknown):
        assert "must not be 0" in verdict.why


def test_a_condition_on_another_number_does_not() -> None:
    law = SCALED.replace("Fill(value=a)", "Fill(value=a + 1)")
    assert isinstance(prove(parse_rule(f"rule law: {law} for x[n], y[n] when a != 0")), Unknown)

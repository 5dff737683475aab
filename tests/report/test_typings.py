"""Typings of proofs in words."""

from __future__ import annotations

import pytest

from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved
from taso_py.report.typings import typing_words
from taso_py.rules.library import load
from taso_py.rules.parser import parse_rule


@pytest.mark.parametrize(
    ("law", "signature", "words"),
    [
        (
            "Relu(Slice(t, axes=a, starts=s, ends=e, steps=u)) == Slice(Relu(t), axes=a, starts=s, ends=e, steps=u)",
            "> dd r2.2|| r2.2||axes=0,1 r2.2||axes=0,1 r2.2||",
            "left to right, t[d, d]; Relu 2 -> 2, Slice 2 -> 2 axes=0,1 => Slice 2 -> 2 axes=0,1, Relu 2 -> 2",
        ),
        (
            "Relu(Slice(t, axes=a, starts=s, ends=e, steps=u)) == Slice(Relu(t), axes=a, starts=s, ends=e, steps=u)",
            "< d r1.1||axes=0 backwards r1.1|| r1.1|| r1.1||axes=0 backwards",
            "right to left, t[d]; Slice 1 -> 1 axes=0 (backwards), Relu 1 -> 1 => "
            "Relu 1 -> 1, Slice 1 -> 1 axes=0 (backwards)",
        ),
        (
            "Mul(x, 2.0) => Add(x, x) for x[*s]",
            "> d:float32 r1.n.1|| =,- r1.1.1|| =,=",
            "left to right, x[d] float32; Mul 1, number -> 1 (=, -) => Add 1, 1 -> 1 (=, =)",
        ),
        ("Neg(Neg(x)) => x", "> - r0.0|| r0.0||", "left to right, x[]; Neg 0 -> 0, Neg 0 -> 0 => as it is"),
    ],
)
def test_a_typing_is_told_in_words(law: str, signature: str, words: str) -> None:
    assert typing_words(parse_rule(f"rule law: {law}"), signature) == words


def test_every_typing_of_the_library_can_be_told() -> None:
    for rule in load().all():
        for signature in rule.patterns or ():
            words = typing_words(rule, signature)
            assert words == signature or words.startswith(("left to right", "right to left")), rule.name


def test_tensors_have_the_names_of_the_rule() -> None:
    text = "MatMul(first, Relu(other)) => MatMul(first, Relu(Relu(other))) for first[m, n], other[n, k]"
    rule = parse_rule(f"rule law: {text}")
    proof = prove(rule)
    assert isinstance(proof, Proved)
    shown = {typing_words(rule, signature) for signature, _ in proof.obligations}
    assert any(words.startswith("left to right, first[d], other[d]; MatMul 1, 1 -> 0") for words in shown), shown

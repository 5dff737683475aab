"""TASO's axioms and its shipped rules against ONNX Runtime, at random sizes and values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.taso.reader import DeclaredSizes, Substitution, law, read
from tests.helpers.rule_instances import INSTANCES, computed, contradiction, describe, difference, drawn, pairs

AXIOMS = load_file(rules_directory() / "taso_axioms.rules")
TRUE = [directed for rule in AXIOMS if not rule.name.endswith("-false") for directed in rule.directions()]
FALSE = [rule for rule in AXIOMS if rule.name.endswith("-false")]

SHIPPED = Path(__file__).resolve().parents[3] / "shared" / "data" / "taso_shipped_rules.json"
COUNT = 133
shipped = pytest.mark.skipif(not SHIPPED.is_file(), reason=f"TASO's decoded rule file is not at {SHIPPED}")

# Numbered from 0, as TASO's rule file is.
FALSE_SHIPPED: Mapping[DeclaredSizes, frozenset[int]] = {
    # 59 to 62 broadcast; 98, 105 and 125 to 129 have groups; the rest have groups of different sizes.
    DeclaredSizes.MATCHED: frozenset({*range(59, 63), *range(98, 101), 105, *range(125, 132)}),
    # Two convolutions become two groups, which need not have equally many kernels.
    DeclaredSizes.EXPLICIT: frozenset({99, 100, 130, 131}),
}
SAME = frozenset(range(63, 67))
"""Rules that only move a Relu into the operator before it."""


# ---- axioms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", TRUE, ids=lambda rule: rule.name)
def test_an_axiom_holds(rule: Rule) -> None:
    holds(rule)


@pytest.mark.parametrize("rule", FALSE, ids=lambda rule: rule.name)
def test_a_false_axiom_is_false(rule: Rule) -> None:
    fails(rule)


def holds(rule: Rule) -> None:
    """Both sides agree on every instance."""
    instances = drawn(rule, INSTANCES)
    assert len(instances) == INSTANCES, f"only {len(instances)} instances of {rule.name} could be drawn"
    results = computed(instances, [v for _, a, b in pairs(instances) for v in (a, b)])
    for instance, a, b in pairs(instances):
        assert difference(results[a], results[b]) <= 1e-4, describe(instance)


def fails(rule: Rule) -> None:
    """Both sides have one type and differ on some instance."""
    instances = drawn(rule, 3 * INSTANCES)
    assert instances, f"no instance of {rule.name} could be drawn"
    results = computed(instances, [v for _, a, b in pairs(instances) for v in (a, b)])
    assert max(contradiction(results[a], results[b]) for _, a, b in pairs(instances)) > 1e-2


def test_every_axiom_and_lemma_is_there() -> None:
    true, false = {number(r) for r in AXIOMS if r not in FALSE}, {number(r) for r in FALSE}
    assert true == {*(f"{k:02}" for k in range(1, 45)), "lemma"}
    assert false < true
    assert sum(r.name.startswith("taso-lemma-") for r in AXIOMS) == 3


def number(rule: Rule) -> str:
    """An axiom's number, or lemma."""
    found = re.match(r"taso-(\d\d|lemma)-", rule.name)
    assert found, rule.name
    return found[1]


@pytest.mark.parametrize("rule", list(AXIOMS), ids=lambda rule: rule.name)
def test_an_axiom_prints_and_parses_back(rule: Rule) -> None:
    assert parse_rule(rule.text()).id == rule.id
    assert rule.doc.endswith("."), "a rule's documentation is one sentence"


# ---- shipped rules -------------------------------------------------------------------------------------------------


@cache
def substitutions() -> tuple[Substitution, ...]:
    return read(SHIPPED.read_text(encoding="utf-8"))


@shipped
@pytest.mark.parametrize("typing", DeclaredSizes)
def test_every_shipped_rule_is_a_law(typing: DeclaredSizes) -> None:
    laws = [law(s, typing) for s in substitutions()]
    assert [s.id for s in substitutions()] == list(range(COUNT))
    assert [len(rule.left.outputs) for rule in laws] == [len(s.outputs) for s in substitutions()]
    assert {s.id for s, rule in zip(substitutions(), laws, strict=True) if rule.left == rule.right} == SAME


@shipped
@pytest.mark.parametrize("number", [k for k in range(COUNT) if k not in SAME])
@pytest.mark.parametrize("typing", DeclaredSizes)
def test_a_shipped_rule_holds_or_does_not(typing: DeclaredSizes, number: int) -> None:
    check = fails if number in FALSE_SHIPPED[typing] else holds
    check(law(substitutions()[number], typing))


# ---- conversion ----------------------------------------------------------------------------------------------------


def step(op: str, *inputs: int, **params: Any) -> dict[str, Any]:
    """One operator, which reads first outputs."""
    return {"op": op, "inputs": [[k, 0] for k in inputs], "params": params}


def conv(*inputs: int, **params: Any) -> dict[str, Any]:
    return step("conv2d", *inputs, **{"stride_h": 1, "stride_w": 1, "pad": "same", "acti": "none", **params})


def converted(
    typing: DeclaredSizes, left: list[dict[str, Any]], right: list[dict[str, Any]], *outputs: tuple[int, int, int]
) -> Rule:
    """The law of a substitution; an output is (left step, right step, right port)."""
    pairs = [{"src": [a, 0], "dst": [b, port]} for a, b, port in outputs]
    (one,) = read(json.dumps({"rules": [{"id": 7, "src": left, "dst": right, "outputs": pairs}]}))
    return law(one, typing)


def same(rule: Rule, text: str) -> None:
    assert rule.text() == parse_rule(text).text()


SIBLINGS = [conv(-1, -2), conv(-1, -3)]
MERGED = [
    step("concat", -2, -3, axis=0, num_inputs=2, numdim=4),
    conv(-1, 0, acti="relu"),
    step("split", 1, axis=1, num_outputs=2),
]


def test_a_split_undoes_its_concat() -> None:
    same(
        converted(DeclaredSizes.EXPLICIT, SIBLINGS, MERGED, (0, 2, 0), (1, 2, 1)),
        """rule shipped-007-explicit "TASO's rule 7.":
          Conv(x1, x2, pads=[f, h, f, h]), Conv(x1, x3, pads=[f, h, f, h])
          => let y1 = Relu(Conv(x1, Concat(x2, x3, axis=0), pads=[f, h, f, h])) in
             Slice(y1, axes=[1], starts=[0], ends=[e], steps=[1]),
             Slice(y1, axes=[1], starts=[e], ends=[e + i], steps=[1])
          for x1[a, b, c, d], x2[e, b, 2 * f + 1, 2 * h + 1], x3[i, b, 2 * f + 1, 2 * h + 1]""",
    )


def test_matched_groups_are_quotients_of_channels() -> None:
    same(
        converted(DeclaredSizes.MATCHED, SIBLINGS, MERGED, (0, 2, 0), (1, 2, 1)),
        """rule shipped-007-matched "TASO's rule 7.":
          Conv(x1, x2, pads=[f, h, f, h], group=g1), Conv(x1, x3, pads=[f, h, f, h], group=g1)
          => let y1 = Relu(Conv(x1, Concat(x2, x3, axis=0), pads=[f, h, f, h], group=g1)) in
             Slice(y1, axes=[1], starts=[0], ends=[g1 * e], steps=[1]),
             Slice(y1, axes=[1], starts=[g1 * e], ends=[g1 * e + g1 * i], steps=[1])
          for x1[a, (g1 b), c, d], x2[(g1 e), b, 2 * f + 1, 2 * h + 1], x3[(g1 i), b, 2 * f + 1, 2 * h + 1]""",
    )


def test_matched_sums_broadcast() -> None:
    products = [step("matmul", -1, -2), step("matmul", -3, -2), step("ewadd", 0, 1)]
    joined = [step("ewadd", -1, -3), step("matmul", 0, -2)]
    same(
        converted(DeclaredSizes.MATCHED, products, joined, (2, 1, 0)),
        """rule shipped-007-matched "TASO's rule 7.":
          Add(MatMul(x1, x2), MatMul(x3, x2)) => MatMul(Add(x1, x3), x2)
          for x1[u1 * a + 1 - u1, b], x2[b, c], x3[u2 * a + 1 - u2, b]
          choose u1 in [0, 1], u2 in [0, 1]""",
    )
    same(
        converted(DeclaredSizes.EXPLICIT, products, joined, (2, 1, 0)),
        """rule shipped-007-explicit "TASO's rule 7.":
          Add(MatMul(x1, x2), MatMul(x3, x2)) => MatMul(Add(x1, x3), x2)
          for x1[a, b], x2[b, c], x3[a, b]""",
    )


def test_explicit_convolutions_share_their_groups() -> None:
    chain = [conv(-1, -2), conv(0, -3), step("relu", 1)]
    same(
        converted(DeclaredSizes.EXPLICIT, chain, [conv(-1, -2), conv(0, -3, acti="relu")], (2, 1, 0)),
        """rule shipped-007-explicit "TASO's rule 7.":
          Relu(Conv(Conv(x1, x2, pads=[f, h, f, h], group=g), x3, pads=[f, h, f, h], group=g))
          => Relu(Conv(Conv(x1, x2, pads=[f, h, f, h], group=g), x3, pads=[f, h, f, h], group=g))
          for x1[a, (g b), c, d], x2[(g e), b, 2 * f + 1, 2 * h + 1], x3[(g i), e, 2 * f + 1, 2 * h + 1]""",
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([step("softmax", -1)], "the operator softmax is not known"),
        ([conv(-1, -2, stride_h=2)], "only SAME padding at step 1"),
        ([step("split", -1, axis=0, num_outputs=2)], "no known positions"),
        ([*MERGED, step("relu", 2)], "relu of a part of a Split is not known"),
        ([step("matmul", -1, -2, acti="relu")], "activation relu"),
    ],
)
def test_what_cannot_be_a_law_is_refused(steps: list[dict[str, Any]], why: str) -> None:
    relu = [step("relu", -1), step("matmul", -1, -2, acti="none")]
    with pytest.raises(ValueError, match=why):
        converted(DeclaredSizes.EXPLICIT, relu, steps, (0, 0, 0))

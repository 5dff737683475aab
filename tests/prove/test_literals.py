"""Literals are what the element type holds, real attributes are reckoned with exactly, rounding is no verdict."""

from __future__ import annotations

import pytest

from taso_py.ops.constants import represents
from taso_py.prove.prover import prove_all_sizes
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Proved, Reason, Refuted, Unknown
from taso_py.prove.verify import judge
from taso_py.rules.element_types import literals_differ
from taso_py.rules.parser import parse_rule
from taso_py.rules.unify import Binding


@pytest.mark.parametrize(
    ("dtype", "held", "not_held"),
    [
        ("float16", (2048.0, 0.1, 1e-5, -65504.0, 0.0), (2049.0, 1e-9, 65520.0, 1 + 2.0**-13, 1e-7, 1000.375)),
        ("bfloat16", (256.0, 0.1, 1e-5), (257.0, 1 + 2.0**-10, 1e39)),
        ("float32", (2.0**24, 0.1, 1e-30, 100.1, float("inf")), (2.0**24 + 1, 1e-50, 1e-46, 1e39, 4194304.375)),
        ("float64", (2.0**53, 1e-300, 16777217.0, 0.1), ()),
        ("int64", (2.0**53, -3.0), (0.5, 1e19)),
        ("uint8", (255.0,), (-1.0, 256.0)),
        ("bool", (0.0, 1.0), (2.0,)),
        ("string", (), (1.0,)),
    ],
)
def test_an_element_type_holds_whole_numbers_exactly(
    dtype: str, held: tuple[float, ...], not_held: tuple[float, ...]
) -> None:
    assert [v for v in held if not represents(dtype, v)] == []
    assert [v for v in not_held if represents(dtype, v)] == []


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("x * 16777217 - x * 16777216 => x", {"float64"}),
        ("x * 2049 - x * 2048 => x", {"float32", "float64"}),
        ("x * 257 - x * 256 => x", {"float16", "float32", "float64"}),
        ("Relu(x) => Relu(x) * 1e-9 / 1e-9", {"bfloat16", "float32", "float64"}),
        ("Relu(x * 0.1) => Relu(x) * 0.1", {"bfloat16", "float16", "float32", "float64"}),
        ("Clip(x, min=2049, max=2049) - 2048 => Clip(x, min=1, max=1)", {"float32", "float64"}),
    ],
)
def test_a_claim_names_the_types_that_hold_the_literals(text: str, types: set[str]) -> None:
    rule = parse_rule(f"rule law: {text} for x[*s]")
    proof = prove_all_sizes(rule)
    if isinstance(proof, Unknown):  # proofs look at float32, which does not hold the first of these
        assert "float32" not in types
        return
    assert proof.types is not None
    assert {t for t in proof.types if "float" in t} == types


def test_literals_that_become_one_number_are_told_apart_no_more() -> None:
    rule = parse_rule("rule law: x * 0.1 - x * 0.10000000001 => x * 0.1 - x * 0.10000000001 for x[*s]")
    assert literals_differ(rule, "float64")
    assert not literals_differ(rule, "float32")
    assert literals_differ(rule, "int32")


TRUE = (
    "(x + 1e-5) + y => x + (y + 1e-5) for x[*s], y[*s]",
    "x * 0.1 + y * 0.1 => (x + y) * 0.1 for x[*s], y[*s]",
    "ReduceMean(x * 1e-9, axes=[1]) => ReduceMean(x, axes=[1]) * 1e-9 for x[m, n]",
    "Sqrt(x * x + 1e-12) * y => y * Sqrt(1e-12 + x * x) for x[*s], y[*s]",
    "x + 1000000 - 1000000 => x for x[*s]",
    "x - 66000 + 66000 => x for x[*s]",
    "Not(Less(x, 1)) => GreaterOrEqual(x, 1) for x[*s]",
    "Resize(Relu(x), scales=[1, 1, s, s]) => Relu(Resize(x, scales=[1, 1, s, s]))",
)


@pytest.mark.parametrize("law", TRUE)
def test_rounding_contradicts_no_true_law(law: str, replay: Replay) -> None:
    assert isinstance(judge(parse_rule(f"rule law: {law}"), replay=replay).verdict, Proved)


FALSE = (
    'Cast(Not(c), to="int32") => Cast(c, to="int32") - 1 for c[*s]',
    "Less(Tanh(x), 1) => Less(x, 1) for x[*s]",
    "Equal(Relu(x), 0) => Less(x, 0) for x[*s]",
)


@pytest.mark.parametrize("law", FALSE)
def test_literals_beside_truth_values_and_casts_are_drawn(law: str, replay: Replay) -> None:
    assert isinstance(judge(parse_rule(f"rule law: {law}"), replay=replay).verdict, Refuted)


@pytest.mark.parametrize(
    "condition",
    [
        "a - 1 + 100000000000000000000 == 100000000000000000000",
        "a * 0.1 == a / 10",
        "(a + 0.5) * 3 == 3 * a + 1.4999999999999998",
    ],
)
def test_conditions_are_decided_without_rounding(condition: str) -> None:
    """At a = 200 each of them would hold in floats, or nearly; over the reals none does."""
    rule = parse_rule(f"rule law: LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha=a) + 0 for x[*s] when {condition}")
    binding = Binding()
    binding.names["a"] = 200.0
    assert not any(binding.holds(c) for c in rule.conditions)  # type: ignore[arg-type]


def test_attributes_are_rounded_once() -> None:
    rule = parse_rule("rule law: LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha=a + 1e20 - 1e20) for x[*s]")
    (_, alpha) = rule.right.outputs[0].attributes[0]  # type: ignore[union-attr]
    binding = Binding()
    binding.names["a"] = 0.25
    assert binding.value(alpha) == 0.25


def test_what_is_typed_nowhere_is_said_at_once(replay: Replay) -> None:
    rule = parse_rule("rule law: Concat(Relu(x), Relu(y), axis=2) => Relu(Concat(x, y, axis=2)) for x[m, n], y[m, n]")
    verdict = judge(rule, replay=replay).verdict
    assert isinstance(verdict, Unknown)
    assert verdict.reason is Reason.UNTYPED
    assert "axis 2 is outside rank 2" in verdict.why


def test_numbers_of_any_length_are_numbers(replay: Replay) -> None:
    number = 10**25
    rule = parse_rule(f"rule law: LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha=a + {number} - {number}) for x[*s]")
    assert isinstance(judge(rule, replay=replay).verdict, Proved | Unknown)

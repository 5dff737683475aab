"""Laws that are true and lose digits: what rounding does to them contradicts nothing.

Behind a clamp a rounding shows on one side only, and a number of 1e-30 vanishes when 1 is added to it.
"""

from __future__ import annotations

import pytest

from taso_py.prove.trials.adversary import COUNT, Adversary, contradiction, contradictions
from taso_py.rules.parser import parse_rule

THERE_AND_BACK = [
    side.format(c=c)
    for c in ("1", "2", "16", "0.5")
    for side in (
        "Relu(Sub(Add(x, {c}), {c})) => Relu(x)",
        "Min(Sub(Add(x, {c}), {c}), 0) => Min(x, 0)",
        "Max(Sub(Add(x, {c}), {c}), 0) => Relu(x)",
        "Relu(Add(Sub(x, {c}), {c})) => Relu(x)",
        "Clip(Sub(Add(x, {c}), {c}), min=-1.0, max=1.0) => Clip(x, min=-1.0, max=1.0)",
    )
]
TRUE = [
    *THERE_AND_BACK,
    "Add(Relu(x), Min(Sub(Exp(x), 1), 0)) => Elu(x)",
    "Where(Less(x, 0), Sub(Exp(x), 1), x) => Elu(x)",
    "Elu(x) => Sub(Relu(x), Relu(Sub(1, Exp(x))))",
    "Log(Add(Exp(x), 1)) => Softplus(x)",
    "Relu(Sub(Exp(x), 1)) => Sub(Exp(Relu(x)), 1)",
    "Min(Sub(Exp(x), 1), 0) => Sub(Exp(Min(x, 0)), 1)",
    "Min(Add(x, 1), 1) => Add(Min(x, 0), 1)",
    "Max(Sub(Add(x, y), y), 0) => Max(x, 0) for x[*s], y[*s]",
    "Relu(Sub(Sum(x, y, z), Add(y, z))) => Relu(x) for x[*s], y[*s], z[*s]",
    "Abs(Sub(Mul(x, 3), Mul(x, 2))) => Abs(x)",
]

WORK = 2500.0
"""Draws, an instance that is computed counting as several."""


@pytest.mark.parametrize("sides", TRUE)
def test_rounding_contradicts_no_true_law(sides: str) -> None:
    rule = parse_rule(f"rule law: {sides}")
    for seed in range(2):
        adversary = Adversary(rule, seed, WORK)
        found = [contradiction(instance, flipped=flipped) for instance, flipped in adversary.instances(COUNT)]
        assert set(found) == {None}


@pytest.mark.parametrize(
    "sides",
    [
        "Relu(Sub(Add(x, 1), 2)) => Relu(x)",
        "Min(Sub(Add(x, 1), 1), 0) => Max(x, 0)",
        "Relu(Mul(x, 1.0001)) => Relu(x)",
        "Elu(x) => Sub(Relu(x), Relu(Sub(Exp(x), 1)))",
        "Abs(Sub(Mul(x, 3), Mul(x, 2))) => x",
    ],
)
def test_false_ones_beside_them_are_contradicted(sides: str) -> None:
    rule = parse_rule(f"rule law: {sides}")
    assert next(iter(contradictions(rule)), None) is not None

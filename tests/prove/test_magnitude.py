"""Laws whose right side overflows where the left does not: shown by a sample, excluded by bounds."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from taso_py.errors import RuleError
from taso_py.graph.table import Values
from taso_py.ops.numeric import evaluate
from taso_py.prove.trials.intervals import Bounds, bounds
from taso_py.prove.trials.magnitude import LARGEST, MAGNITUDES, cannot_overflow, looked_at, overflow
from taso_py.prove.verdict import Proved
from taso_py.prove.verify import proved
from taso_py.rules.instances import draw
from taso_py.rules.library import Library, load
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule, RuleSet
from tests.helpers.operator_cases import Case
from tests.helpers.operator_models import Example, example

FLAGGED = {
    "softmax without its maximum": (
        "Softmax(x, axis=1) => Div(Exp(x), ReduceSum(Exp(x), axes=[1], keepdims=1)) for x[m, n] when n >= 1",
        "Exp",
        100,
    ),
    "zero times infinity": ("Relu(x) => Add(Relu(x), Mul(Exp(x), 0)) for x[*s]", "Exp", 100),
    "logarithm of an exponential": ("Relu(x) => Relu(Log(Exp(x))) for x[*s]", "Exp", 100),
    "logarithm of what is lost": (
        "LogSoftmax(x, axis=1) => Log(Softmax(x, axis=1)) for x[m, n] when n >= 1", "Log", 100,
    ),
    "softplus written out": ("Softplus(x) => Log(Add(Exp(x), 1)) for x[*s]", "Exp", 100),
    "hyperbolic tangent written out": (
        "Tanh(x) => Div(Sub(Exp(x), Exp(Neg(x))), Add(Exp(x), Exp(Neg(x)))) for x[*s]", "Exp", 100,
    ),
    "exponential of a sum": ("Exp(Add(x, y)) => Mul(Exp(x), Exp(y)) for x[*s], y[*s]", "Exp", 100),
    "a wrong number": ("Min(x, Mul(x, 0)) => Min(Mul(x, 0), Mul(Exp(x), x)) for x[*s]", "Exp", 100),
    "high powers": (
        """Mul(x, y) => let s = Mul(x, x) in let q = Mul(s, s) in let o = Mul(q, q) in Div(Mul(Mul(o, s), y), Mul(o, x))
           for x[*s], y[*s] when positive(x)""", "Mul", 10000,
    ),
}  # fmt: skip
KEPT = {
    "an infinity that does no harm": "Sigmoid(x) => Reciprocal(Add(Exp(Neg(x)), 1)) for x[*s]",
    "the left side does, too": "Mul(Exp(x), Exp(y)) => Exp(Add(x, y)) for x[*s], y[*s]",
    "another order": "Mul(Mul(x, y), z) == Mul(x, Mul(y, z)) for x[*s], y[*s], z[*s]",
    "another order of large factors": "Mul(Mul(Exp(x), y), z) == Mul(Exp(x), Mul(y, z)) for x[*s], y[*s], z[*s]",
    "a shifted softmax": """
      Softmax(x, axis=1) => Softmax(Sub(x, ReduceMax(x, axes=[1], keepdims=1)), axis=1) for x[m, n] when n >= 1""",
}
LAWS = tuple(load().all())
UNDRAWN = frozenset({"steps-of-conv-1d"})
"""Laws whose conditions on sizes random instances do not meet."""


@pytest.mark.parametrize("law", FLAGGED)
def test_what_overflows_on_the_right_alone_is_flagged(law: str) -> None:
    text, operator, magnitude = FLAGGED[law]
    found = looked_at(parse_rule(f"rule flagged: {text}")).overflow
    assert found is not None
    assert (found.operator, found.flipped) == (operator, False)
    assert found.magnitude >= magnitude


@pytest.mark.parametrize("law", KEPT)
def test_what_overflows_on_both_sides_or_harmlessly_is_not(law: str) -> None:
    found = looked_at(parse_rule(f"rule kept: {KEPT[law]}"))
    assert found.overflow is None
    assert found.drawn > 0


def test_the_direction_is_told() -> None:
    law = parse_rule("rule quotient: Div(Exp(x), Exp(y)) == Exp(Sub(x, y)) for x[*s], y[*s]")
    assert overflow(replace(law, arrow="=>")) is None
    assert overflow(law) == "read from right to left, Exp of the left side leaves the range of float32 at inputs of 100"
    found = looked_at(law.reversed()).overflow
    assert found is not None
    assert not found.flipped


def test_the_answer_does_not_depend_on_the_name_of_the_law() -> None:
    text = "Softplus(x) => Log(Add(Exp(x), 1)) for x[*s]"
    one, other = (parse_rule(f"rule {name}: {text}") for name in ("exp", "softplus-reversed"))
    assert looked_at(one) == looked_at(other) == looked_at(one)


@pytest.mark.parametrize("law", LAWS[::9], ids=lambda rule: rule.name)
def test_the_library_is_not_flagged(law: Rule) -> None:
    found = looked_at(law, draws=2)
    assert found.overflow is None
    assert (found.drawn > 0) == (law.name not in UNDRAWN)


def test_bounds_exclude_what_products_cannot_reach() -> None:
    """Five factors stay below float32's largest number at every magnitude that is tried, ten do not."""
    random, values = np.random.default_rng(0), Values()
    for factors, excluded in ((5, True), (10, False)):
        product = "x"
        for _ in range(factors - 1):
            product = f"Mul({product}, x)"
        instance = draw(parse_rule(f"rule power: Neg(x) => Neg({product}) for x[3]"), random, values)
        assert instance is not None
        assert (MAGNITUDES[-1] ** factors < LARGEST) == excluded == cannot_overflow(instance)


def _cases() -> list[Case]:
    paths = sorted((Path(__file__).parents[1] / "helpers").glob("operator_cases*.py"))
    return [case for path in paths for case in importlib.import_module(f"tests.helpers.{path.stem}").CASES]


def _between(low: np.ndarray, high: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A point of an interval; integers and truth values are one of its ends."""
    if low.dtype.kind != "f":
        return np.where(random.random(low.shape) < 0.5, low, high).astype(low.dtype)
    return low + random.random(low.shape) * (high - low)


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_bounds_hold_between_their_ends(case: Case) -> None:
    one, other = (example(case, seed=seed) for seed in (7, 8))
    ends = [(np.minimum(a, b), np.maximum(a, b)) for a, b in zip(one.arrays, other.arrays, strict=True)]
    known = [Bounds(low.astype(np.float64), high.astype(np.float64)) for low, high in ends]
    found = bounds(one.operator, known, one.types)
    random = np.random.default_rng(0)
    for _ in range(5):
        point = [_between(low, high, random) for low, high in ends]
        with np.errstate(all="ignore"):
            value = evaluate(one.operator, point, one.types).astype(np.float64)
        assert found.low.shape == value.shape
        unknown = np.isinf(found.low) & np.isinf(found.high)
        slack = 1e-9 * (1 + np.abs(value))
        assert np.all(unknown | ((found.low <= value + slack) & (value - slack <= found.high)))


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_bounds_of_a_point_are_its_value(case: Case) -> None:
    """Wherever anything is known of the function."""
    instance: Example = example(case)
    value = evaluate(instance.operator, instance.arrays, instance.types).astype(np.float64)
    found = bounds(instance.operator, [Bounds.point(a) for a in instance.arrays], instance.types)
    assert np.allclose(found.low, value)
    assert np.allclose(found.high, value)


SOFTPLUS = "rule written-out: Softplus(x) => Log(Add(Exp(x), 1)) for x[*s]"


def always(rule: Rule) -> Proved:
    return Proved(None, None, "believed", 1)


def test_a_flagged_rule_of_a_user_needs_leave() -> None:
    rules = RuleSet((parse_rule(SOFTPLUS),))
    with pytest.raises(RuleError, match="--allow-overflow"):
        proved(rules, allow_bounded=False, prover=always)
    (rule,) = proved(rules, allow_bounded=False, allow_overflow=True, prover=always)
    assert rule.overflow == "Exp of the right side leaves the range of float32 at inputs of 100"


def test_a_flagged_rule_of_the_library_is_used_with_leave_only() -> None:
    rules = RuleSet((replace(LAWS[0], status="proved"), replace(LAWS[1], status="proved", overflow="Exp")))
    library = Library(rules, RuleSet(()), RuleSet(()))
    assert [r.name for r in library.usable(False).search] == [LAWS[0].name]
    assert [r.name for r in library.usable(False, allow_overflow=True).search] == [LAWS[0].name, LAWS[1].name]

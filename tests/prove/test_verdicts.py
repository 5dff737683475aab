"""Verdicts on rules: refutations, witnesses, classes, and crews that judge many."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from taso_py.prove import batch as crew
from taso_py.prove.trials.refute import refute, replayed
from taso_py.prove.trials.runs import Gap, Replay, gap
from taso_py.prove.trials.vacuity import contradictory
from taso_py.prove.trials.witness import free_sizes, survey, witness
from taso_py.prove.verdict import Disagreement, Proved, Reason, Refuted, Unknown
from taso_py.prove.verify import VACUOUS, judge, record, report
from taso_py.rules.library import load
from taso_py.rules.parser import parse_rule
from tests.helpers.judging import DOUBLE, FALSE, REFUTED, always, moody, never, strict

TRUE_PATTERNS = (
    "1 / (1 + Exp(Neg(x))) => Sigmoid(x)",
    "Log(1 + Exp(x)) => Softplus(x)",
    "let d = x - ReduceMean(x, axes=[-1], keepdims=1) in"
    " d / Sqrt(ReduceMean(d * d, axes=[-1], keepdims=1) + 0.5) * s + b"
    " => LayerNormalization(x, s, b, axis=-1, epsilon=0.5) for x[*m, n], s[n], b[n]",
    "x * Sigmoid(x * 1.5) + 0 => x / (1 + Exp(x * -1.5))",
)
"""Laws with literals, which enlarge what they meet where their shape is larger: those are no instances."""

# ---- refutations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "refuted-relu-times-constant",
        "refuted-matmul-commutes",
        "refuted-shuffle-factors",
        "refuted-exp-of-log",
        "refuted-root-of-product",
        "refuted-transpose-order",
        "refuted-slice-of-concat",
        "refuted-average-of-shifted",
        "refuted-group-packing",
    ],
)
def test_a_false_law_has_a_small_counterexample(name: str, replay: Replay) -> None:
    law = REFUTED.named(name)
    found = refute(law, seed=1, replay=replay)
    assert found is not None
    assert gap(found.left, found.right) >= Gap.UNDEFINED
    assert replayed(law, found, replay)
    assert sum(a.size for a in found.inputs.values()) < 250
    assert {f"{name}[" in str(found) for name in found.inputs} == {True}


def test_values_of_a_counterexample_are_simple(replay: Replay) -> None:
    found = refute(parse_rule(FALSE), seed=1, replay=replay)
    assert found is not None
    assert all(set(np.unique(a)) <= {-1.0, 0.0, 1.0} for a in found.inputs.values())
    assert not replayed(parse_rule("rule right: Relu(Neg(x)) => Max(Neg(x), 0)"), found, replay)


def test_the_same_seed_gives_the_same_counterexample(replay: Replay) -> None:
    law = parse_rule(FALSE)
    first, second = refute(law, seed=3, replay=replay), refute(law, seed=3, replay=replay)
    assert first is not None
    assert second is not None
    assert str(first) == str(second)
    assert all(np.array_equal(first.inputs[k], second.inputs[k]) for k in first.inputs)


def test_different_types_count_as_a_difference(replay: Replay) -> None:
    found = refute(parse_rule("rule shape: Unsqueeze(x, axes=[0]) => x"), replay=replay)
    assert found is not None
    assert found.left.shape != found.right.shape


def test_a_law_is_refuted_in_either_direction(replay: Replay) -> None:
    law = parse_rule("rule roots: Mul(Sqrt(x), Sqrt(y)) == Sqrt(Mul(x, y)) for x[*s], y[*s]")
    assert refute(law, replay=replay, weakest=Gap.LOST) is not None
    assert refute(replace(law, arrow="=>"), replay=replay, weakest=Gap.LOST, attempts=90) is None


def test_a_true_law_is_not_refuted(replay: Replay) -> None:
    assert refute(parse_rule(DOUBLE), replay=replay, attempts=40) is None


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ([1.0, 2.0], [1.0, 2.0], Gap.NONE),
        ([1000.0], [1000.01], Gap.NONE),
        ([1.0], [1.0005], Gap.ROUNDING),
        ([np.nan], [1.0], Gap.UNDEFINED),
        ([np.nan], [np.inf], Gap.NONE),
        ([1.0], [np.nan], Gap.LOST),
        ([1.0, 1.0], [np.nan, 2.0], Gap.VALUES),
        ([1.0], [1.0, 1.0], Gap.TYPES),
    ],
)
def test_differences_are_ranked(left: list[float], right: list[float], wanted: Gap) -> None:
    assert gap(np.array(left, np.float32), np.array(right, np.float32)) is wanted


# ---- witnesses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["matmul-shared-weight", "conv-shared-input", "slice-of-slice"])
def test_a_witness_has_different_sizes_above_one(name: str, replay: Replay) -> None:
    found = witness(load().all().named(name), replay=replay)
    assert found is not None
    assert found.agrees
    declared, *others = free_sizes(found.instance)
    for group in [declared, *others] if not declared else [declared]:
        assert len(set(group.values())) == len(group)
        assert min(group.values(), default=2) >= 2


def test_a_witness_respects_what_the_conditions_force(replay: Replay) -> None:
    rule = parse_rule("rule square: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x for x[m, n] when m == n")
    found = witness(rule, replay=replay)
    assert found is not None
    assert found.instance.binding.names["m"] == found.instance.binding.names["n"] >= 2


def test_a_law_without_instances_is_vacuous(replay: Replay) -> None:
    law = parse_rule("rule nothing: Neg(Neg(x)) => x for x[n] when n < 0")
    assert survey(law, replay, draws=4).undrawn
    assert judge(law, prover=always, replay=replay).verdict == Unknown(VACUOUS, Reason.CONTRADICTORY)
    assert judge(law, prover=never, replay=replay).verdict == Unknown(VACUOUS, Reason.CONTRADICTORY)


def test_a_law_of_which_none_was_drawn_is_not_called_vacuous(replay: Replay) -> None:
    law = parse_rule("rule large: Neg(Neg(x)) => x for x[n] when n == 100 * m, m >= 1 choose m in [2]")
    assert not contradictory(law)
    found = judge(
        parse_rule("rule far: Neg(Neg(x)) => x for x[n] when n >= 1000"), prover=always, replay=replay
    ).verdict
    assert isinstance(found, Unknown)
    assert found.reason is Reason.UNDRAWN
    assert "attempts" in found.why


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Neg(Neg(x)) => x for x[m, n] when m < n, n < m", True),
        ("Neg(Neg(x)) => x for x[m, n] when m <= n, n <= m", False),
        ("Neg(Neg(x)) => x for x[n] when n % 2 == 1, n % 4 == 0", True),
        ("Neg(Neg(x)) => x for x[n] when n % 2 == 1, n % 4 == 3", False),
        ("Slice(x, axes=[0], starts=[s], ends=[e], steps=[1]) => x for x[n] when e > n", True),
        ("Slice(x, axes=[0], starts=[s], ends=[e], steps=[1]) => x for x[n] when e >= n", False),
        ("LeakyRelu(x, alpha=a) => x when a > 0, a < 1", False),
        ("Clip(x, min=a, max=b) => x when a > 0, 2 * a < 1", False),
        ("Transpose(x, perm=p) => x for x[m, n] when at(p, 0) + at(p, 1) > 1", True),
        ("Transpose(x, perm=p) => x for x[m, n] when at(p, 0) > at(p, 1)", False),
        ("MaxPool(x, kernel_shape=[k]) => x for x[n, c, l] when k > l", True),
        ("MaxPool(x, kernel_shape=[k], pads=[1, 1]) => x for x[n, c, l] when k > l", False),
        ("MaxPool(x, kernel_shape=[k], dilations=[d]) => x for x[n, c, l] when k < l, d < 1", False),
    ],
)
def test_contradictory_conditions_are_shown(text: str, shown: bool) -> None:
    assert contradictory(parse_rule(f"rule r: {text}")) is shown


@pytest.mark.parametrize("text", TRUE_PATTERNS)
def test_true_patterns_are_not_refuted(text: str, replay: Replay) -> None:
    law = parse_rule(f"rule pattern: {text}")
    assert judge(law, prover=never, replay=replay).verdict == never(law)


# ---- judgements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "bitwise", "specials"),
    [
        ("Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x for x[m, n]", "move", True, "kept"),
        ("Pad(Pad(x, pads=[1, 0], value=0.5), pads=[1, 0], value=0.5) => Pad(x, pads=[2, 0], value=0.5) for x[n]",
         "move", True, "kept"),
        ("Add(Add(x, y), z) => Add(x, Add(y, z)) for x[*s], y[*s], z[*s]", "ring", False, "open"),
        ("Add(x, y) => Add(y, x) for x[*s], y[*s]", "ring", True, "kept"),
        ("Add(x, 0) => x for x[n, m]", "ring", False, "open"),
        ("Div(Mul(x, y), y) => x for x[*s], y[*s]", "real", False, "changed"),
        ("Relu(Transpose(x, perm=[1, 0])) => Transpose(Relu(x), perm=[1, 0]) for x[m, n]", "real", True, "kept"),
        ("Mul(x, 0.5) => Div(x, 2) for x[m, n]", "real", False, "open"),
        ("MatMul(Transpose(x, perm=[1, 0]), y) => Gemm(x, y, transA=1) for x[k, m], y[k, n]", "ring", True, "kept"),
    ],
)  # fmt: skip
def test_the_class_of_a_rule(text: str, kind: str, bitwise: bool, specials: str, replay: Replay) -> None:
    found = judge(parse_rule(f"rule r: {text}"), prover=always, replay=replay)
    assert (found.kind, found.bitwise) == (kind, bitwise)
    assert found.specials in ({specials} if specials != "open" else {"open", "changed"})


def test_a_counterexample_beats_a_proof(replay: Replay) -> None:
    found = judge(parse_rule(FALSE), prover=always, replay=replay)
    assert isinstance(found.verdict, Disagreement)
    assert found.verdict.proof == always(parse_rule(FALSE))
    assert found.kind is None
    assert not np.array_equal(found.verdict.counterexample.left, found.verdict.counterexample.right)
    told = json.loads(report(parse_rule(FALSE), found.verdict))
    assert told["rule"].startswith("rule wrong")
    assert told["left"]["values"] != told["right"]["values"]
    assert record(found).verdict == "unknown"


def test_only_an_instance_that_the_claim_includes_contradicts(replay: Replay) -> None:
    law = parse_rule("rule shape: Unsqueeze(Relu(x), axes=[0]) => Relu(x) for x[n]")
    found = judge(law, prover=always, replay=replay).verdict
    assert isinstance(found, Unknown)
    assert found.reason is Reason.UNDRAWN


def test_what_few_usual_instances_show_is_refuted(replay: Replay) -> None:
    law = parse_rule("rule stealth: Abs(a + Relu(y - 100)) * Abs(a + Relu(y - 100)) => a * a for a[*s], y[*s]")
    found = judge(law, prover=never, replay=replay).verdict
    assert isinstance(found, Refuted)
    assert (found.counterexample.inputs["y"] > 100).any()


def test_an_open_law_is_unknown_for_the_provers_reason(replay: Replay) -> None:
    assert judge(parse_rule(DOUBLE), prover=never, replay=replay).verdict == never(parse_rule(DOUBLE))


def test_each_condition_has_a_role(replay: Replay) -> None:
    text = "rule roles: Relu(Mul(x, a)) => Mul(Relu(x), a) for x[n] when positive(a), constant(a), n >= 1"
    found = judge(parse_rule(text), prover=strict, replay=replay)
    assert found.conditions == (
        ("positive(a)", "necessary"),
        ("constant(a)", "droppable"),
        ("n >= 1", "droppable"),
    )


# ---- many rules --------------------------------------------------------------------------------------------------


def test_a_crew_judges_in_other_processes() -> None:
    rules = [parse_rule(DOUBLE), parse_rule(FALSE)]
    found = dict(crew.judged(rules, jobs=2, prover=always))
    assert isinstance(found[rules[0]].verdict, Proved)
    assert isinstance(found[rules[1]].verdict, Disagreement)


def test_a_lost_process_costs_its_rule() -> None:
    rules = [parse_rule(DOUBLE), parse_rule(FALSE), parse_rule("rule same: Identity(x) => x")]
    found = dict(crew.judged(rules, jobs=1, limit_s=5, prover=moody))
    assert "died" in str(found[rules[0]].verdict)
    assert "within 5 s" in str(found[rules[1]].verdict)
    assert isinstance(found[rules[2]].verdict, Proved)

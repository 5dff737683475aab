"""The adversarial sampler: false laws are contradicted, true ones are not, whatever anyone proved."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from taso_py.prove.trials.adversary import Adversary, Contradiction, Kind, contradictions
from taso_py.prove.trials.inclusion import claimed
from taso_py.prove.trials.runs import Gap, Replay, gap
from taso_py.prove.trials.witness import summary
from taso_py.prove.verdict import Proved
from taso_py.rules.instances import Instance
from taso_py.rules.library import load
from taso_py.rules.parser import parse_rule, parse_rules
from taso_py.rules.rule import Rule
from tests.conftest import cli_environment
from tests.helpers.believed_laws import LAWS, TRUE

FALSE_LAWS = list(parse_rules(LAWS, "false.rules"))
TRUE_LAWS = list(parse_rules(TRUE, "true.rules"))


def first(rule: Rule) -> Contradiction | None:
    return next(contradictions(rule), None)


def told(rule: Rule) -> list[str]:
    return [f"{c.kind} {summary(c.instance)} {c.why}" for c in contradictions(rule)]


@pytest.mark.parametrize("rule", FALSE_LAWS, ids=lambda r: r.name)
def test_a_false_law_is_contradicted(rule: Rule) -> None:
    assert first(rule) is not None


@pytest.mark.parametrize("rule", TRUE_LAWS, ids=lambda r: r.name)
def test_a_true_law_is_not(rule: Rule) -> None:
    assert told(rule) == []


KEPT = (
    "matmul-shared-input", "conv-shared-input", "batchnorm-affine", "relu-of-clip", "max-as-min", "slice-of-slice",
    "log-of-exp-quotient", "leaky-relu-of-leaky-relu", "divided-by-quotient", "twice", "layernorm-scaled",
)  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_rule_of_the_library_is_not(name: str) -> None:
    assert told(load().all().named(name)) == []


def test_the_same_law_gives_the_same_instances() -> None:
    rule = FALSE_LAWS[0]
    one, other = ([summary(i) for i, _ in Adversary(rule, 5, 100).instances(20)] for _ in range(2))
    assert one == other
    assert len(one) == 20
    assert one != [summary(i) for i, _ in Adversary(rule, 6, 100).instances(20)]


def test_names_of_variables_do_not_matter() -> None:
    one = parse_rule("rule r: Where(c, x / y, z) => z for c[*s], x[*s], y[*s], z[*s]")
    other = parse_rule("rule r: Where(exp, a / abs, b) => b for exp[*u], a[*u], abs[*u], b[*u]")
    drawn = [[sorted(a.tobytes() for a in (*i.feeds.values(), *i.weights.values()))
              for i, _ in Adversary(rule, 5, 100).instances(20)] for rule in (one, other)]  # fmt: skip
    assert drawn[0] == drawn[1]


def test_work_is_bounded_by_draws() -> None:
    rule = parse_rule("rule never: Neg(Neg(x)) => x for x[n] when n == n + 1")
    adversary = Adversary(rule, 0, 50)
    assert list(adversary.instances(10)) == []
    assert adversary.work == 0


def test_only_what_the_claim_includes_counts() -> None:
    rule = next(r for r in FALSE_LAWS if r.name == "axis-softmax")

    def few(instance: Instance) -> bool:
        return all(instance.values.types[v].rank <= 4 for v in instance.left)

    assert first(rule) is not None
    assert list(contradictions(rule, includes=few)) == []


def test_todays_claims_leave_untyped_instances_to_the_match() -> None:
    rule = parse_rule("rule shape: Unsqueeze(x, axes=[0]) => x for x[n]")
    found = first(rule)
    assert found is not None
    assert found.kind is Kind.TYPES
    assert not claimed(Proved(patterns=("",)))(found.instance)


def test_every_element_type_and_many_axes_are_drawn() -> None:
    rule = parse_rule("rule r: Identity(Identity(x)) => x")
    drawn = [i for i, _ in Adversary(rule, 1, 2000).instances(200)]
    types = {a.dtype.name for i in drawn for a in i.feeds.values()}
    assert types == {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}
    assert {a.ndim for i in drawn for a in i.feeds.values()} == set(range(7))
    large = [a for i in drawn for a in i.feeds.values() if a.dtype == np.int64]
    assert any((np.abs(a) > 2**53).any() for a in large)


def test_what_onnx_runtime_says_is_shown(replay: Replay) -> None:
    found = next(contradictions(FALSE_LAWS[0], replay=replay))
    assert found.confirmed
    assert gap(found.left[found.place], found.right[found.place]) is Gap.VALUES


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (np.array([2**53 + 1]), np.array([2**53]), Gap.VALUES),
        (np.array([True]), np.array([False]), Gap.VALUES),
        (np.array([8192.0, 0.25], np.float32), np.array([8192.0, 0.5], np.float32), Gap.VALUES),
        (np.array([1e6, 0.1], np.float32), np.array([1e6, 0.1001], np.float32), Gap.NONE),
    ],
)
def test_exact_elements_are_compared_each_to_itself(left: np.ndarray, right: np.ndarray, wanted: Gap) -> None:
    assert gap(left, right) is wanted


def test_the_sampler_imports_nothing_of_the_kernel() -> None:
    program = (
        "import sys, taso_py.prove.trials.adversary\n"
        "own = [m.rpartition('.')[2] for m in sys.modules if m.startswith('taso_py.prove.')]\n"
        "print(*sorted(own), 'z3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=cli_environment(), capture_output=True, text=True)
    assert done.stdout.split() == [
        "admission", "adversary", "dtypes", "evaluation", "extremes", "marks", "runs", "trials", "witness", "False",
    ], done.stderr  # fmt: skip

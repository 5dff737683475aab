"""A part of `make conformance`: ONNX's own cases and the rules' left sides through the optimiser, in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import onnx
import pytest

from scripts.audit.conformance_cases import Case, all_cases, backend_cases, converted, frozen, rule_cases
from scripts.audit.conformance_report import Summary
from scripts.audit.conformance_run import MODES, Outcome, Runner, respelled, runner
from taso_py.onnx_io.load import load
from taso_py.rules.library import load as load_rules
from tests.helpers.graphs import model

SHARE = 40
"""One backend case in so many."""
PARTS = 6
"""The rules go in so many tests, which run side by side."""
OF_FEATURES = frozenset(
    {
        "rows-and-differences",
        "rows-and-reversed-differences",
        "shared-and-differences",
        "shared-and-reversed-differences",
        "product-less-itself",
        "itself-less-product",
        "polynomial-step-subtracted",
    }
)
"""Rules that take differences apart, of a model's inputs not."""


@lru_cache(maxsize=1)
def plain() -> list[Case]:
    """All backend cases."""
    return backend_cases()


@lru_cache(maxsize=1)
def sample() -> list[Case]:
    """A seeded part of the backend cases, and of those with constant operands."""
    found = [*plain(), *(c for case in plain() if (c := frozen(case)) is not None)]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[k] for k in order[::SHARE]]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runner]:
    with runner() as one:
        yield one


def failures(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.case} {o.verdict} {o.detail}" for o in outcomes if o.verdict not in ("ok", "skipped")]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_backend_cases_pass(runs: Runner, mode: str) -> None:
    outcomes = [runs.run(case, mode) for case in sample()]
    assert not failures(outcomes)
    assert sum(o.verdict == "ok" for o in outcomes) > len(outcomes) / 2


@pytest.mark.slow
def test_converted_cases_pass(runs: Runner) -> None:
    outcomes = [runs.run(case, "all") for case in converted(plain(), 16)]
    assert not failures(outcomes)
    assert sum(o.verdict == "ok" for o in outcomes) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_rule_fires_on_its_left_side_and_changes_nothing(runs: Runner, part: int) -> None:
    rules = list(load_rules().all())[part::PARTS]
    outcomes = [runs.run(case, "rule") for case in rule_cases(1, rules)]
    assert not failures(outcomes)
    # An Identity that is a whole graph stays: it names the output.  What is not proved for all sizes is not used.
    barred = {rule.name for rule in rules if rule.name == "identity" or rule.status != "proved"}
    # A cut of everything is written without axes, and indices that are weights are no operand: typed as no proof is.
    silent = {rule.name for rule in rules} & set(Summary(outcomes, (), 0.0).silent_rules())
    assert barred <= silent
    others = [runs.run(case, "rule") for case in rule_cases(4, [r for r in rules if r.name in silent - barred])]
    assert not failures(others)
    # Neighbouring cuts are put together by tidying before that rule has its turn.
    still = silent & set(Summary(others, (), 0.0).silent_rules())
    assert still <= {"slice-of-concat-both", "concat-of-adjacent-slices"} | barred | OF_FEATURES


def test_a_rewriting_search_gives_the_same_bytes(runs: Runner) -> None:
    cases = list(rule_cases(1, list(load_rules().all())[::24]))
    digests = [[runs.run(case, "best").digest for case in cases] for _ in range(2)]
    assert digests[0] == digests[1]
    assert any(digests[0])


def test_a_wrong_result_is_seen(runs: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a run whose optimiser returns another model must fail."""
    case = next(c for c in plain() if c.name == "test_relu")
    wrong = case.model
    wrong.graph.node[0].op_type = "Neg"
    result = type("Wrong", (), {"model": wrong, "rules": (type("Report", (), {"name": "r", "sites": 1}),)})
    monkeypatch.setattr(Runner, "_pipeline", lambda *_: result)
    assert runs.run(case, "none").verdict == "contract"
    assert runs.run(case, "best").verdict == "mismatch"
    del wrong.graph.output[0].type.tensor_type.shape.dim[0]
    assert runs.run(case, "best").verdict == "contract"


def test_integers_are_compared_exactly_and_with_the_original(runs: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is rounded to the other side is a mismatch; what the test stores is ONNX Runtime's affair."""
    head = "agraph (float[2] x) => (int64[2] y) <float nudge = {1.000001}> "
    right = model(head + "{r = Round(x) y = Cast<to = 7>(r)}")
    wrong = model(head + "{n = Mul(x, nudge) r = Round(n) y = Cast<to = 7>(r)}")
    inputs = {"x": np.array([0.5, 2.0], dtype=np.float32)}
    for stored in ([0, 2], [1, 2]):
        case = Case("tie", "node", right.SerializeToString(), inputs=inputs, outputs={"y": np.array(stored)})
        for after, verdict in ((wrong, "mismatch"), (right, "ok")):
            result = type("Result", (), {"model": after, "rules": (type("Report", (), {"name": "r", "sites": 1}),)})
            monkeypatch.setattr(Runner, "_pipeline", lambda *_, result=result: result)
            outcome = runs.run(case, "best")
            assert outcome.verdict == verdict
            assert outcome.compared == (verdict == "ok")
        assert bool(outcome.deviation) == (stored == [1, 2])
    assert Summary([outcome], (), 0.0).deviations == {"tie": outcome.deviation}


def test_respelling_touches_every_node_that_can_be_written() -> None:
    case = next(c for c in plain() if c.name == "test_relu")
    loaded = load(case.model)
    model, count = respelled(loaded)
    assert count == 1
    assert all(node.origin is None for node in model.nodes.values())


def test_frozen_cases_are_well_formed() -> None:
    for case in sample():
        if case.kind == "frozen":
            model = case.model
            assert {v.name for v in model.graph.input} >= set(case.inputs)
            assert model.graph.initializer
            onnx.checker.check_model(model)


def test_all_kinds_of_cases_are_collected() -> None:
    few = [c for c in plain() if "relu" in c.name]
    kinds = {c.kind for c in all_cases(few, instances=1)}
    assert {"node", "frozen", "converted", "rule"} <= kinds

"""The whole path through the API, on small real networks; nothing here depends on a measured time."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import taso_py
from scripts.bench.networks import mobileone_s0, nasrnn
from taso_py import api
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef
from taso_py.check.check import Checker
from taso_py.check.report import CheckReport
from taso_py.errors import ContractError, MismatchError, ModelError, RuleError, TooLateError, UsageError, WorkerError
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rules
from taso_py.rules.rule import Rule
from taso_py.run import pipeline
from taso_py.stop import StopFlag
from tests.helpers.graphs import model
from tests.helpers.schemas import require_valid_files

FALSE_RULE = "rule halve: Mul(x, 2.0) => x\n"


def double(name: str = "y") -> onnx.ModelProto:
    return model(f"agraph (float[4] x) => (float[4] {name}) {{c = Constant<value_float = 2.0>() {name} = Mul(x, c)}}")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "regions.sqlite"))


def outputs(proto: onnx.ModelProto, seed: int = 0) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    rng = np.random.default_rng(seed)
    feeds = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    return session.run(None, feeds)


@pytest.mark.parametrize("apply", ["best", "all"])
def test_a_search_without_timing_that_does_not_end_in_time_leaves_the_model_as_it_was(apply: str) -> None:
    proto = nasrnn(steps=2, hidden=16)
    result = taso_py.optimize(proto, race=False, apply=apply, time_budget_s=1e-3)
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert result.reason is not None
    assert result.reason.code == "too little time"
    assert "the search without timing did not end" in result.reason.words


def test_mobileone_becomes_one_convolution_per_block_and_that_stays_as_it_is() -> None:
    proto = mobileone_s0(width=0.25, image=32, blocks=(1, 2, 2, 1))
    result = taso_py.optimize(proto, race=False, strict=True, time_budget_s=900)
    assert result.improved is None
    made = [n.op_type for n in result.model.graph.node]
    assert "BatchNormalization" not in made
    assert "Add" not in made
    for before, after in zip(outputs(proto), outputs(result.model), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4 * float(np.abs(before).max()))
    assert result.max_rel_error is not None
    assert result.tolerance is not None
    assert result.max_rel_error <= result.tolerance
    again = taso_py.optimize(result.model, race=False, time_budget_s=900)
    assert not again.rules
    assert again.nodes_after == result.nodes_after


def test_every_place_is_a_value_of_the_original_and_every_error_one_of_an_output() -> None:
    proto = nasrnn(steps=3, hidden=32)
    result = taso_py.optimize(proto, race=False)
    named = {name for node in proto.graph.node for name in node.output}
    for rule in result.rules:
        assert rule.places
        assert set(rule.places) <= named
        assert [found.id for found in parse_rules(rule.law, "law")] == [rule.id]
    products = {node.output[0] for node in proto.graph.node if node.op_type == "MatMul"}
    sums = {n.output[0] for n in proto.graph.node if n.op_type == "Add" and set(n.input) <= products}
    assert {place for rule in result.rules if rule.name == "matmul-sum-joined" for place in rule.places} == sums
    assert {error.output for error in result.errors} == {value.name for value in proto.graph.output}
    assert max(error.relative for error in result.errors) == result.max_rel_error


def test_nasrnn_batches_the_input_half_of_all_steps() -> None:
    proto = nasrnn(steps=3, hidden=32)
    result = taso_py.optimize(proto, race=False, strict=True)
    before = sum(n.op_type == "MatMul" for n in proto.graph.node)
    after = sum(n.op_type in ("MatMul", "Gemm") for n in result.model.graph.node)
    assert after < before / 2
    assert {r.name for r in result.rules}


def test_without_a_race_the_same_bytes_every_time() -> None:
    runs = [taso_py.optimize(nasrnn(steps=2, hidden=16), race=False).model.SerializeToString() for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_callers_process_stays_clean() -> None:
    result = taso_py.optimize(nasrnn(steps=2, hidden=16), time_budget_s=20)
    assert result.stop_reason
    session = onnxruntime.InferenceSession(result.model.SerializeToString())
    feeds = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    assert session.run(None, feeds)


def test_an_unimproved_model_is_the_original(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(double(), path)
    result = taso_py.optimize(path, time_budget_s=20).save(tmp_path / "out.onnx")
    assert result.improved is False
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that takes every rule for proved: what stands behind it must catch false ones."""

    def stamped(rule: Rule, *_: object) -> Rule:
        return replace(rule, status="proved", patterns=DEFINED)

    monkeypatch.setattr("taso_py.run.usable._judged", stamped)


@pytest.mark.usefixtures("believing")
def test_a_wrong_rewrite_is_found_barred_and_reported(tmp_path: Path) -> None:
    rules = tmp_path / "false.rules"
    rules.write_text(FALSE_RULE)
    result = taso_py.optimize(double(), race=False, rules=[rules])
    assert not result.rules
    (rejection,) = result.rejected
    assert rejection.name == "halve"
    assert rejection.reproduction is not None
    assert (rejection.reproduction / "rewritten.onnx").is_file()
    require_valid_files(rejection.reproduction)
    assert (rejection.reproduction / "what.json").is_file()
    assert [n.op_type for n in result.model.graph.node] == ["Constant", "Mul"]


@pytest.mark.usefixtures("believing")
def test_strict_refuses_a_wrong_rewrite(tmp_path: Path) -> None:
    rules = tmp_path / "false.rules"
    rules.write_text(FALSE_RULE)
    with pytest.raises(MismatchError, match="halve"):
        taso_py.optimize(double(), race=False, rules=[rules], strict=True)


@pytest.mark.usefixtures("believing")
def test_the_guilty_rewrite_is_told_from_the_good_ones(tmp_path: Path) -> None:
    rules = tmp_path / "mixed.rules"
    rules.write_text(FALSE_RULE + "rule double-negation: Neg(Neg(x)) => x\nrule relu-twice: Relu(Relu(x)) => Relu(x)\n")
    text = """agraph (float[4] x) => (float[4] y) {
      c = Constant<value_float = 2.0>() a = Neg(x) b = Neg(a) d = Mul(b, c) e = Relu(d) y = Relu(e)}"""
    result = taso_py.optimize(model(text), race=False, rules=[rules])
    assert {r.name for r in result.rejected} == {"halve"}
    assert [n.op_type for n in result.model.graph.node if n.op_type != "Constant"] == ["Mul", "Relu"]


@pytest.mark.usefixtures("believing")
def test_what_nothing_can_compare_is_not_blamed_for_what_is_wrong(tmp_path: Path) -> None:
    rules = tmp_path / "mixed.rules"
    rules.write_text("rule turned: Sin(Mul(Mul(x, c), d)) => Sin(Mul(x, Mul(c, d)))\n" + FALSE_RULE)
    text = """agraph (float[8,64] x) => (float[8,64] y, float[8,64] z) {
      c = Constant<value_float = 333.3>() d = Constant<value_float = 271.7>() t = Constant<value_float = 2.0>()
      a = Mul(x, c) b = Mul(a, d) y = Sin(b) z = Mul(x, t) }"""
    with pytest.raises(MismatchError, match="rule halve changed"):
        taso_py.optimize(model(text), race=False, rules=[rules], apply="all", strict=True)
    result = taso_py.optimize(model(text), race=False, rules=[rules], apply="all")
    assert {r.name: r.reproduction is None for r in result.rejected} == {"halve": False, "turned": True}


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.usefixtures("believing")
def test_a_rewrite_that_onnx_runtime_dies_of_is_no_mismatch_where_it_agrees_without_its_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    opened = Worker.open

    def dying(worker: Worker, candidate: ModelRef, *, level: str | None = None, **others: Any) -> int:
        content = ModelRef.of(candidate).model
        if (always or level is None) and isinstance(content, bytes) and b"LeakyRelu" in content:
            raise WorkerError("worker died (SIGSEGV) during open; it is restarted for the next request")
        return opened(worker, candidate, level=level, **others)

    monkeypatch.setattr(Worker, "open", dying)
    rules = tmp_path / "mixed.rules"
    rules.write_text("rule double-negation: Neg(Neg(x)) => x\nrule leaks: Relu(x) => LeakyRelu(x, alpha=0.0)\n")
    text = "agraph (float[4] x) => (float[4] y) { a = Neg(x) b = Neg(a) y = Relu(b) }"
    if always:
        with pytest.raises(MismatchError, match="leaks"):
            taso_py.optimize(model(text), race=False, rules=[rules], apply="all", strict=True)
        return
    result = taso_py.optimize(model(text), race=False, rules=[rules], apply="all", strict=True)
    (rejection,) = result.rejected
    assert rejection.name == "leaks"
    assert "SIGSEGV" in rejection.reason
    assert rejection.reproduction is not None
    assert [n.op_type for n in result.model.graph.node] == ["Relu"]


@pytest.mark.parametrize("race", [False, True])
@pytest.mark.usefixtures("believing")
def test_a_rewrite_that_would_break_a_promise_to_callers_is_left_out(
    race: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is this program's, and no reason to leave a pipeline without its model."""
    rules = tmp_path / "two.rules"
    rules.write_text("rule double-negation: Neg(Neg(x)) => x\nrule relu-twice: Relu(Relu(x)) => Relu(x)\n")
    proto = model("agraph (float[4] x) => (float[4] y) { a = Neg(x) b = Neg(a) d = Relu(b) y = Relu(d)}")

    def lost(original: onnx.ModelProto, exported: Any, **_: object) -> list[str]:
        count = sum(node.op_type == "Relu" for node in exported.graph)
        return [] if count == 2 else ["a Relu was lost"]

    monkeypatch.setattr("taso_py.run.candidates.check_contract", lost)
    result = taso_py.optimize(proto, race=race, rules=[rules], time_budget_s=20)
    assert {r.name: r.reason for r in result.rejected} == {
        "relu-twice": "the rewritten model breaks the contract: a Relu was lost; please report this"
    }
    if not race:
        assert [n.op_type for n in result.model.graph.node] == ["Relu", "Relu"]
    with pytest.raises(ContractError, match="a Relu was lost"):
        taso_py.optimize(proto, race=race, rules=[rules], strict=True, time_budget_s=20)


def test_a_set_stop_flag_ends_the_search_with_a_result() -> None:
    stop = StopFlag()
    stop.set()
    result = taso_py.optimize(nasrnn(steps=2, hidden=16), stop=stop, time_budget_s=20)
    assert result.stop_reason == "interrupted"
    assert result.improved is False


def test_no_rules_means_no_change() -> None:
    proto = mobileone_s0(width=0.25, image=32)
    result = taso_py.optimize(proto, race=False, rules=[])
    assert not result.rules
    assert result.model.SerializeToString() == proto.SerializeToString()


def test_workloads_are_all_checked_and_recorded() -> None:
    text = "agraph (float[N,8] x) => (float[N,4] y) {a = MatMul(x, A) b = MatMul(x, B) y = Add(a, b)}"
    proto = model(text, A=(8, 4), B=(8, 4))
    result = taso_py.optimize(proto, workloads=[{"N": 1}, {"x": [3, 8]}], time_budget_s=20)
    assert [dict(s) for s in result.shapes] == [{"x": (1, 8)}, {"x": (3, 8)}]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"shapes": {"z": 3}}, UsageError),
        ({"only": ["no-such-rule"]}, UsageError),
        ({"alpha": 0.5}, UsageError),
        ({"time_budget_s": math.nan}, UsageError),
    ],
)
def test_bad_options_are_usage_errors(options: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        taso_py.optimize(double(), race=False, **options)


def test_a_rule_file_with_an_error_names_the_place(tmp_path: Path) -> None:
    rules = tmp_path / "bad.rules"
    rules.write_text("rule a:\n  Relu(x) => Foo(x)\n")
    with pytest.raises(RuleError, match=r"bad.rules:2:14: unknown operator Foo"):
        taso_py.optimize(double(), race=False, rules=[rules])


def test_a_model_that_the_runtime_refuses_is_a_model_error() -> None:
    proto = double()
    proto.opset_import[0].version = 99
    with pytest.raises(ModelError):
        taso_py.optimize(proto, race=False)


@pytest.mark.parametrize("race", [True, False])
def test_without_time_to_check_a_rewrite_the_model_stays_as_it_was(race: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(checker: Checker, *_: object, **__: object) -> CheckReport:
        time.sleep(max(0.0, checker.limits.until - time.monotonic()))
        raise TooLateError("no time is left to compare models")

    monkeypatch.setattr(Checker, "check", late)
    proto = nasrnn(steps=2, hidden=16)
    # By the roofline products that are merged are cheaper.
    result = taso_py.optimize(proto, race=race, time_budget_s=6, cost="roofline")
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert result.reason is not None
    assert (result.reason.code, result.rejected) == ("too little time", ())


def test_a_worker_that_is_lost_in_the_search_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise WorkerError("worker died (SIGKILL) during time")

    monkeypatch.setattr(pipeline, "explore", lost)
    proto = nasrnn(steps=2, hidden=16)
    result = taso_py.optimize(proto, time_budget_s=10)
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert result.reason is not None
    assert result.reason.code == "race ended early"
    assert "worker died (SIGKILL)" in result.reason.words


@pytest.mark.parametrize(
    ("inputs", "body", "words"),
    [
        ("map(int64, float) d", "ai.onnx.ml.DictVectorizer <int64_vocabulary = [1, 2]> (d)", "that cannot be fed"),
        ("float[1000000, 1000000, 2] d", "ReduceMax <keepdims = 0> (d)", "GiB to fill: give an array with"),
    ],
)
def test_what_nobody_can_feed_is_left_as_it_is(inputs: str, body: str, words: str) -> None:
    header = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]>'
    proto = onnx.parser.parse_model(f"{header} g ({inputs}) => (float y) {{ z = {body} y = Relu(z) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    result = taso_py.optimize(proto, race=False)
    assert result.model.SerializeToString() == proto.SerializeToString()
    assert result.reason is not None
    assert result.reason.code == "unsupported"
    assert words in result.reason.words
    with pytest.raises(ModelError):  # what has to run it says so
        api.check(proto, proto)

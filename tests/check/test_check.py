"""Verdicts on whole models: equal, different, random, broken, and ONNX Runtime's own errors."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, Outputs, WorkerConfig
from taso_py.check.check import Checker
from taso_py.check.models import check, check_models
from taso_py.check.oracle import OracleLimits
from taso_py.check.report import CheckReport
from taso_py.check.tolerance import Closeness
from taso_py.errors import ModelError, TooLateError, WorkerError

CONFIG = WorkerConfig(threads=2)


def model(text: str, *, opset: int = 17, ir: int = 8) -> bytes:
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n'
    return onnx.parser.parse_model(header + text).SerializeToString()


def unary(body: str, kind: str = "float", shape: str = "N,4") -> bytes:
    return model(f"g ({kind}[{shape}] x) => ({kind}[{shape}] y) {{ {body} }}")


def verdict(ours: bytes, theirs: bytes, **options: object) -> CheckReport:
    return check(ours, theirs, CONFIG, **options)


def test_equal_functions_pass_on_every_fill_at_two_sizes() -> None:
    found = verdict(unary("a = Relu(x) y = Exp(a)"), unary("a = Relu(x) b = Relu(a) y = Exp(b)"))
    assert found.passed
    assert found.reason is None
    assert found.max_rel_error == 0
    assert found.tolerance == 1e-4
    labels = [case.label for case in found.cases]
    assert len(labels) == 12
    assert labels[:4] == [
        *("normal at x=1,4", "negative at x=1,4"),
        *("normal at x=2,4", "negative at x=2,4"),
    ]
    assert {label.split()[0] for label in labels} == {*("normal", "negative", "large", "tiny", "uniform", "zeros")}


def test_a_difference_on_negative_values_is_seen() -> None:
    found = verdict(unary("y = Relu(x)"), unary("y = Identity(x)"))
    assert not found.passed
    assert "output 'y'[" in (found.reason or "")
    assert "allowed 0.0001" in (found.reason or "")
    assert "\n" not in (found.reason or "")
    assert found.failing_feeds is not None
    assert set(found.failing_feeds) == {"x"}
    assert found.failing_case in {case.label for case in found.cases if case.relative > 1e-4}
    assert found.worst is not None
    assert found.worst.output == "y"


def test_a_small_error_passes_and_is_reported() -> None:
    c = model("g (float[N,4] x) => (float[N,4] y) { c = Constant<value = float {1.00001}>() y = Mul(x, c) }")
    found = verdict(unary("y = Identity(x)"), c)
    assert found.passed
    assert 5e-6 < found.max_rel_error < 2e-5
    assert found.worst is not None
    assert found.worst.relative == found.max_rel_error
    assert found.max_abs_error > 0


def test_closeness_replaces_the_tolerance_of_the_type() -> None:
    ours, shifted = unary("y = Relu(x)"), unary("a = Relu(x) b = Constant<value = float {0.001}>() y = Add(a, b)")
    refused = verdict(ours, shifted)
    assert (refused.passed, refused.rtol, refused.atol) == (False, None, None)
    found = verdict(ours, shifted, closeness=Closeness(0.0, 2e-3))
    assert (found.passed, found.tolerance, found.rtol, found.atol) == (True, None, 0.0, 2e-3)
    assert found.worst is not None
    assert found.worst.excess == pytest.approx(0.5, rel=0.1)
    # Small beside the largest value, which the type's tolerance asks for, and large beside its own.
    small = unary("a = Relu(x) b = Constant<value = float {0.00000001}>() y = Add(a, b)")
    assert verdict(ours, small).passed
    strict = verdict(ours, small, closeness=Closeness(1e-3, 0.0))
    assert not strict.passed
    assert "allowed 0 + 0.001*|y| in every element" in (strict.reason or "")


def test_a_value_that_only_shows_at_the_second_size_is_seen() -> None:
    """Summing over the batch is the identity for batch 1."""
    ours = model("g (float[N,4] x) => (float[M,4] y) { y = Identity(x) }")
    theirs = model("g (float[N,4] x) => (float[M,4] y) { a = Constant<value_ints=[0]>() y = ReduceSum(x, a) }")
    found = verdict(ours, theirs)
    assert not found.passed
    assert "shape (2, 4) became (1, 4)" in (found.reason or "")


def test_the_second_size_falls_back_when_the_original_does_not_run_there() -> None:
    fixed = model("g (float[N,S] x) => (float[M,K] y) { s = Constant<value_ints=[-1,128]>() y = Reshape(x, s) }")
    found = verdict(fixed, fixed)
    assert found.passed
    assert {case.label.split(" at ")[1] for case in found.cases} == {"x=1,128", "x=2,128"}
    only = model("g (float[N,4] x) => (float[4] y) { s = Constant<value_ints=[4]>() y = Reshape(x, s) }")
    single = verdict(only, only)
    assert single.passed
    assert len(single.cases) == 6
    assert any("one size only" in note for note in single.notes)


def test_nan_and_integers_are_exact() -> None:
    assert verdict(unary("y = Log(x)"), unary("y = Log(x)")).passed
    assert not verdict(unary("y = Log(x)"), unary("a = Abs(x) y = Log(a)")).passed
    plus = "c = Constant<value = int64 {%d}>() y = Add(x, c)"
    assert not verdict(unary(plus % 1, "int64"), unary(plus % 2, "int64")).passed


POOL = """g (float[1,1,4,4] x) => (float[1,1,H,W] y) {{
    pads = Constant<value = int64[8] {{0,0,1,1,0,0,1,1}}>()
    q = Pad(x, pads)
    r = {between}(q)
    y = MaxPool<kernel_shape = [3,3]>(r) }}"""


def test_onnx_runtimes_own_error_is_a_warning_and_the_oracle_decides() -> None:
    """ONNX Runtime's optimizer pads with -inf instead of 0 when it fuses Pad into MaxPool."""
    ours = model(POOL.format(between="Identity"))
    found = verdict(ours, ours)
    assert found.passed
    assert found.max_rel_error == 0
    window = "y = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(x)"
    assert not verdict(ours, model(f"g (float[1,1,4,4] x) => (float[1,1,H,W] y) {{ {window} }}")).passed
    if found.own_error > 0.1:  # this ONNX Runtime has the error
        assert any("so does the original" in line for line in found.warnings)
        assert found.tolerance == 1e-2
        # Max of one value keeps the two apart: here only the candidate suffers from the error.
        candidate_only = verdict(model(POOL.format(between="Max")), ours)
        assert not candidate_only.passed
        assert "as deployed" in (candidate_only.reason or "")
        assert candidate_only.max_rel_error == 0


def test_random_outputs_are_compared_by_form_only() -> None:
    text = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) {{ y = RandomNormalLike(x) z = {}(x) }}"
    found = verdict(model(text.format("Neg")), model(text.format("Neg")))
    assert found.passed
    assert any("random outputs" in note and note.endswith("y") for note in found.notes)
    assert found.own_error == 0
    assert not verdict(model(text.format("Neg")), model(text.format("Abs"))).passed
    seeded = unary("y = RandomNormalLike<seed=1.0>(x)")
    assert verdict(seeded, seeded).passed


def test_what_is_drawn_for_some_inputs_only_is_compared_by_form() -> None:
    """A Dropout that trains where the inputs say so: the first ones may not."""
    text = """g (float[64,4] x, float[64] s) => (float[64,4] y, float[64,4] z) {{
      m = ReduceMax<keepdims = 0>(s) c = Constant<value = float {{3}}>() t = Greater(m, c)
      r = Constant<value = float {{0.5}}>() y = Dropout(x, r, t) z = {}(x) }}"""
    found = verdict(model(text.format("Neg")), model(text.format("Neg")))
    assert found.passed
    assert any("random outputs" in note and note.endswith("y") for note in found.notes)
    assert not verdict(model(text.format("Neg")), model(text.format("Abs"))).passed


def test_few_random_numbers_may_repeat_themselves() -> None:
    """One repetition of one draw that is likely to be 1 says nothing."""
    text = "g (float[4] x) => (float[1] y) {{ p = Constant<value_floats = [0.85]>() {}y = Bernoulli<seed={}.0>(p) }}"
    for seed in range(6):
        found = verdict(model(text.format("", seed)), model(text.format("unused = Bernoulli(p) ", seed + 6)))
        assert found.passed
        assert any("random outputs" in note for note in found.notes)


TRAINED = """g (float[N,2,3] x) => (float[N,2,3] y, float[2] drifting, float[N,2,3] z)
<float[2] one = {{1, 1}}, float[2] zero = {{0, 0}}, float[2] mean = {{0, 1}}, float[2] var = {{1, 2}}> {{
  y, m, v = BatchNormalization<training_mode = 1, momentum = 0.5>(x, one, zero, mean, var)
  drifting = Neg(v) z = {}(x) }}"""


def test_outputs_that_drift_from_run_to_run_are_compared_by_form_only() -> None:
    """ONNX Runtime writes the running mean and variance of a training into the weights that it was given."""
    found = verdict(model(TRAINED.format("Neg")), model(TRAINED.format("Neg")))
    assert found.passed
    assert [note for note in found.notes if "does not reproduce" in note and note.endswith("drifting")]
    assert not verdict(model(TRAINED.format("Neg")), model(TRAINED.format("Abs"))).passed


def test_an_original_that_does_not_run_again_is_compared_as_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = Worker.run, list[tuple[int, object]]()

    def once(self: Worker, handle: int, feeds: Feeds, **options: float) -> Outputs:
        if any(handle == h and feeds is f for h, f in seen):
            raise WorkerError("it died")
        seen.append((handle, feeds))
        return run(self, handle, feeds, **options)

    monkeypatch.setattr(Worker, "run", once)
    found = verdict(unary("y = Relu(x)"), unary("y = Relu(x)"))
    assert found.passed
    assert "the original ran only once on the same inputs: it died" in found.notes
    assert not verdict(unary("y = Relu(x)"), unary("y = Abs(x)")).passed


def test_float64_reference_judges_small_models() -> None:
    ours = unary("a = Exp(x) y = Div(x, a)")
    found = verdict(ours, ours, limits=OracleLimits(flops=100))
    assert found.passed
    assert found.reference_error is not None
    assert 0 < found.reference_error < 1e-6
    assert verdict(ours, ours, limits=OracleLimits(flops=1e9)).reference_error is None


def test_contrib_operators_have_no_float64_reference_but_are_checked() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
        "g (float[N,4] x) => (float[N,4] y) { y = com.microsoft.Gelu(x) }"
    )
    gelu = onnx.parser.parse_model(text).SerializeToString()
    found = verdict(gelu, gelu, limits=OracleLimits(flops=100))
    assert found.passed
    assert found.reference_error is None
    assert any("no float64 reference" in note for note in found.notes)


def test_a_candidate_that_does_not_load_or_run_is_a_verdict() -> None:
    ours = unary("y = Neg(x)")
    found = verdict(ours, unary("y = NoSuchOperator(x)"))
    assert not found.passed
    assert "cannot load it" in (found.reason or "")
    assert found.max_rel_error == math.inf
    breaks = "g (float[N,4] x) => (float[N,4] y) { s = Constant<value_ints=[3]>() y = Reshape(x, s) }"
    assert "cannot run it" in (verdict(ours, model(breaks)).reason or "")


def test_an_original_that_does_not_run_is_the_models_error() -> None:
    bad = model("g (float[N,4] x) => (float[3] y) { s = Constant<value_ints=[3]>() y = Reshape(x, s) }")
    with pytest.raises(ModelError, match=r"values that it takes with inputs\[.x.\], or sizes with shapes"):
        verdict(bad, bad)
    with pytest.raises(ModelError, match="cannot load it"):
        verdict(unary("y = NoSuchOperator(x)"), unary("y = Neg(x)"))


def test_overrides_and_workloads_are_used() -> None:
    mine = np.full((3, 4), -2, np.float32)
    found = verdict(unary("y = Abs(x)"), unary("y = Neg(x)"), overrides={"x": mine})
    assert found.passed
    assert [case.label for case in found.cases] == ["normal at x=3,4"]
    both = verdict(unary("y = Abs(x)"), unary("y = Abs(x)"), workloads=[{"x": (5, 4)}, {"N": (7,)}])
    sizes = list(dict.fromkeys(case.label.split(" at ")[1] for case in both.cases))
    assert sizes == ["x=5,4", "x=6,4", "x=7,4"]


def test_little_time_or_few_cases_leave_the_first_two() -> None:
    late = OracleLimits(deadline=time.monotonic() - 1)
    found = verdict(unary("y = Neg(x)"), unary("y = Neg(x)"), limits=late)
    assert [case.label for case in found.cases] == ["normal at x=1,4", "negative at x=1,4"]
    assert any("10 of 12 input sets left out" in note for note in found.notes)
    few = verdict(unary("y = Neg(x)"), unary("y = Neg(x)"), limits=OracleLimits(max_cases=3))
    assert len(few.cases) == 3


def test_one_checker_serves_many_candidates_and_can_stop_early() -> None:
    with Checker(unary("y = Relu(x)"), CONFIG) as checker:
        prepared = checker.prepare()
        assert checker.check(unary("a = Relu(x) y = Relu(a)")).passed
        wrong = checker.check(unary("y = Abs(x)"), deployed=False, first_failure=True)
        assert not wrong.passed
        assert len(wrong.cases) < 12
        assert checker.check(unary("z = Constant<value = float {0}>() y = Max(x, z)")).passed
        assert checker.prepare() is prepared
        assert (
            checker.check(unary("y = Relu(x)"), deadline=time.monotonic() - 1)
            .notes[-1]
            .startswith("candidate compared on 2 of 12")
        )


def test_a_lent_worker_is_used_and_left_running() -> None:
    with Worker(CONFIG) as worker:
        process = worker.info().pid
        with Checker(unary("y = Relu(x)"), CONFIG, worker=worker) as checker:
            assert checker.check(unary("a = Relu(x) y = Relu(a)")).passed
        assert worker.info().pid == process
        assert worker.restarts == 0


def test_low_levels_are_deployed_too() -> None:
    config = WorkerConfig(threads=1, ort_level="basic", denormal_as_zero=True)
    assert check(unary("y = Neg(x)"), unary("y = Neg(x)"), config).passed


def test_half_precision_and_sequences() -> None:
    for kind in ("float16", "double"):
        assert verdict(unary("y = Neg(x)", kind), unary("y = Neg(x)", kind)).passed
        assert not verdict(unary("y = Neg(x)", kind), unary("y = Abs(x)", kind)).passed
    sequence = "g (float[2] x, float[3] z) => (seq(float[N]) y) {{ a = {}(x) y = SequenceConstruct(a, z) }}"
    assert verdict(model(sequence.format("Neg")), model(sequence.format("Neg"))).passed
    assert not verdict(model(sequence.format("Neg")), model(sequence.format("Abs"))).passed


def test_files_are_checked_against_each_other(tmp_path: Path) -> None:
    files = {}
    for name, body in (("a", "y = Relu(x)"), ("b", "a = Relu(x) y = Relu(a)"), ("c", "y = Neg(x)")):
        files[name] = tmp_path / f"{name}.onnx"
        files[name].write_bytes(unary(body))
    assert check_models(files["a"], files["b"], CONFIG).passed
    assert not check_models(files["a"], files["c"], CONFIG).passed
    other = tmp_path / "other.onnx"
    other.write_bytes(unary("y = Relu(x)", shape="N,5"))
    found = check_models(files["a"], other, CONFIG)
    assert not found.passed
    assert found.reason == (
        "a.onnx and other.onnx cannot be compared: input 'x' has shape ('N', 4) in one and ('N', 5) in the other"
    )


@pytest.mark.parametrize("moment", ["prepare", "check", "deployed"])
def test_a_worker_that_stops_at_the_end_of_time_says_nothing_of_a_model(moment: str) -> None:
    """Neither that a candidate is wrong, nor that the original fails in the same way, which would excuse it."""
    ours = unary("y = Relu(x)")
    with Checker(ours, replace(CONFIG, ort_level="basic"), limits=OracleLimits()) as checker:
        stopped = checker._deployed if moment == "deployed" else checker._worker
        if moment != "prepare":
            checker.prepare()
        os.kill(stopped.info().pid, signal.SIGSTOP)
        rescue = threading.Timer(60, os.kill, (stopped.info().pid, signal.SIGKILL))  # else a failure would hang
        rescue.start()
        checker.limits = OracleLimits(until=time.monotonic() + 3)
        with pytest.raises(TooLateError, match="no time is left to compare models"):
            checker.check(ours)
        rescue.cancel()

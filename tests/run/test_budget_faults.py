"""An error budget that nothing keeps, data and metrics that do not fit, signals: one line, and nothing is lost."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError

from taso_py.approximate import candidates, quantise
from taso_py.approximate.samples import Samples, parts_of
from taso_py.backend.protocol import ModelRef
from taso_py.backend.race import RaceResult, Standing
from taso_py.backend.timing import Unconfirmed
from taso_py.check.facts import read_facts
from taso_py.cli import main
from taso_py.errors import RuntimeMissingError, UndecidedError, UsageError, WorkerError, WorkerTimeoutError
from taso_py.options import Options
from taso_py.report.document import html, markdown
from taso_py.report.terminal import result_text
from taso_py.run import approximation
from taso_py.run.budget import Data, require_usable
from taso_py.stop import Interrupted, StopFlag
from tests.helpers import faulty_quantiser
from tests.helpers.approximating import CONFIRMED, COUNT, made_place, optimized, reason
from tests.helpers.precision import CHANNELS, classifier, elementwise, half, samples, saved


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing depends on how fast the machine is."""
    return made_place(tmp_path, monkeypatch)


# ---- nothing that keeps the budget, or nothing at all ----------------------------------------------------------------


def test_beyond_the_budget_the_exact_result_stays(place: Path) -> None:
    result = optimized(budget=1e-6)
    assert reason(result) == "beyond the budget"
    assert result.model == classifier()
    assert "no approximation within the budget" in result_text(result)


def test_an_error_that_only_unseen_samples_have_drops_the_approximation(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximation, "_MOST_TESTED", 1)  # the runner-up, which is dynamic, keeps the budget
    values = samples(COUNT)
    values[list(parts_of(range(COUNT), 0).test)] *= 1000  # far outside of the ranges that were calibrated
    saved(place / "wild.npz", x=values)
    result = optimized(calibration="wild.npz")
    assert reason(result) == "beyond the budget on unseen samples"
    assert result.model == classifier()


@pytest.mark.parametrize("found", [Unconfirmed(), replace(CONFIRMED, low=0.9), replace(CONFIRMED, rounds=3)])
def test_what_a_fresh_measurement_does_not_confirm_is_dropped(
    place: Path, monkeypatch: pytest.MonkeyPatch, found: object
) -> None:
    monkeypatch.setattr(approximation, "confirm", lambda *a, **k: found)
    assert reason(optimized()) in ("too little time", "not confirmed")


@pytest.mark.parametrize("phase", ["race", "confirm"])
@pytest.mark.parametrize(("fault", "code"), [(WorkerTimeoutError, "too little time"), (WorkerError, "did not run")])
def test_a_worker_that_is_late_is_told_from_one_that_died(
    place: Path, monkeypatch: pytest.MonkeyPatch, phase: str, fault: type[WorkerError], code: str
) -> None:
    def failing(*_: object, **__: object) -> RaceResult:
        raise fault("worker did not answer")

    monkeypatch.setattr(approximation, phase, failing)
    result = optimized()
    assert reason(result) == code
    assert result.model == classifier()


FULL = OSError(errno.ENOSPC, "No space left on device")


def failing_with(error: Exception) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise error

    return fails


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FULL, "No space left on device"),
        (RuntimeMissingError("it is gone"), "it is gone"),
        (EncodeError("too large\nto write"), "EncodeError: too large to write"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_whatever_fails_the_exact_result_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr(approximation, "race", failing_with(error))
    result = optimized()
    assert reason(result) == "did not run"
    assert result.approximation is not None
    assert result.approximation.reason is not None
    assert words in result.approximation.reason.words
    result.save("out.onnx")
    assert onnx.load("out.onnx") == classifier()


def test_a_full_disk_costs_the_candidates_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "restored", failing_with(FULL))
    assert reason(optimized()) == "quantiser failed"
    monkeypatch.setattr(approximation, "layers_of", failing_with(FULL))
    assert reason(optimized()) == "did not run"


def test_a_model_too_large_for_the_quantiser_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximation, "INLINE_LIMIT_BYTES", 1000)
    assert reason(optimized()) == "unsupported"


def test_what_wins_no_race_is_dropped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: object, models: Sequence[object], *__: object, **___: object) -> RaceResult:
        return RaceResult(0, tuple(Standing("", 1.0 if k == 0 else 0.5, 6) for k in range(len(models))), 0.0)

    monkeypatch.setattr(approximation, "race", lost)
    assert reason(optimized()) == "nothing faster"


@pytest.mark.parametrize(("model", "shape", "dtype"), [(elementwise, (4,), np.float32), (half, (6,), np.float16)])
def test_a_model_without_layers_to_quantise_comes_back_exact(
    place: Path, model: Callable[[], onnx.ModelProto], shape: tuple[int, ...], dtype: Any
) -> None:
    onnx.save(model(), place / "n.onnx")
    saved(place / "n.npz", x=samples(COUNT, *shape, dtype=dtype))
    assert reason(optimized("n.onnx", calibration="n.npz")) == "nothing to quantise"


def test_weights_that_a_caller_may_override_stay(place: Path) -> None:
    model = classifier()
    model.graph.input.append(
        onnx.helper.make_tensor_value_info("w1", onnx.TensorProto.FLOAT, [CHANNELS, CHANNELS, 3, 3])
    )
    onnx.save(model, place / "o.onnx")
    assert reason(optimized("o.onnx")) == "unsupported"
    assert optimized("o.onnx", freeze_initializers=True).approximate


@pytest.mark.parametrize("fault", ["hangs", "dies"])
def test_a_quantiser_that_fails_loses_nothing(place: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(quantise, "MODULE", faulty_quantiser.__name__)
    monkeypatch.setenv("FAULTY_QUANTISER", fault)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    result = optimized(time_budget_s=20.0)
    assert reason(result) == "quantiser failed"
    assert result.model == classifier()


def test_too_little_time_is_said(place: Path) -> None:
    assert reason(optimized(time_budget_s=1.0)) == "too little time"


# ---- signals ---------------------------------------------------------------------------------------------------------


def test_a_signal_before_or_within_the_second_stage_leaves_the_exact_result(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> RaceResult:
        raise Interrupted

    monkeypatch.setattr(approximation, "race", interrupted)
    result = optimized()
    assert reason(result) == "interrupted"
    assert result.model == classifier()
    stop = StopFlag()
    stop.set()
    assert reason(optimized(stop=stop)) == "interrupted"


# ---- data and metric -------------------------------------------------------------------------------------------------


def test_random_data_is_warned_of_everywhere(place: Path) -> None:
    result = optimized(calibration=None)
    told = result.approximation
    assert told is not None
    assert told.random_data
    assert any("RANDOM" in note for note in result.notes)
    assert "says nothing of real inputs" in (told.warrant or "")
    assert "RANDOM" in markdown(result)
    assert "RANDOM" in html(result)
    assert "give samples of real inputs" in result_text(result)


def test_repeated_samples_are_neither_unseen_nor_counted_twice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(place / "twice.npz", x=np.repeat(samples(COUNT), 2, axis=0))
    result = optimized(calibration="twice.npz")
    told = result.approximation
    assert told is not None
    assert (told.calibration_samples, told.selection_samples, told.test_samples) == (5, 5, 30)
    assert "30 unseen samples" in (told.warrant or "")
    assert any("40 of 80 samples are equal to others, and each counts once" in note for note in result.notes)
    check = ["check", "m.onnx", "m.onnx", "--threads", "1", "--error-budget", "rel=0.2", "--calibration", "twice.npz"]
    assert main(check) == 0
    captured = capsys.readouterr()
    assert "40 samples without a violation" in captured.out
    assert "40 of 80 samples are equal" in captured.err


def test_the_sizes_of_the_samples_are_those_that_are_timed(place: Path) -> None:
    assert [dict(one) for one in optimized().shapes] == [{"x": (1, 3, 12, 12)}]
    saved(place / "four.npz", x=samples(COUNT, 4, 3, 12, 12))
    assert [dict(one) for one in optimized(calibration="four.npz").shapes] == [{"x": (4, 3, 12, 12)}]
    assert [dict(one) for one in optimized(shapes={"batch": 2}).shapes] == [{"x": (2, 3, 12, 12)}]


def test_a_metric_of_the_users_decides(place: Path) -> None:
    numbers = {"same": 0.0, "edge": 2.9, "none": 5.0}
    (place / "metric.py").write_text("".join(f"def {k}(expected, found): return {v}\n" for k, v in numbers.items()))
    result = optimized(budget=1e-9, metric="metric.py:same")
    assert result.approximate
    assert result.approximation is not None
    assert (result.approximation.error, result.approximation.metric) == (0.0, "metric.py:same")
    with pytest.raises(UndecidedError):
        result.save("out.onnx").judged({"max-rel-error": 0.5}).require_gate()
    assert reason(optimized(budget=3.0, metric="metric.py:none")) == "beyond the budget"
    assert optimized(budget=3.0, metric="metric.py:edge").approximate  # with no room, where nothing has any


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "absent.py:f"}, "there is no such file"),
        ({"metric": "metric.txt"}, "is not of the form"),
        ({"budget": 1.5}, "use less"),
        ({"budget": -1}, "must be more than 0"),
        ({"budget": float("nan")}, "must be a finite number"),
        ({"calibration": "absent.npz"}, "no such file"),
        ({"race": False}, "drop it"),
        ({"apply": "all"}, "goes with apply=best alone"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_long(place: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        optimized(**options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--error-budget rel=abc", "must be a number more than 0"),
        ("--error-budget rel=-1", "must be a number more than 0"),
        ("--error-budget rel=0", "must be a number more than 0"),
        ("--error-budget rel=nan", "must be a number more than 0"),
        ("--error-budget rel=inf", "must be a number more than 0"),
        ("--error-budget 0.1", "is not of the form rel=X"),
        ("--error-budget rel=0.1 --error-budget rel=0.2", "given twice"),
        ("--calibration d.npz", "is for an error budget"),
        ("--metric m.py:f", "is for an error budget"),
        ("--error-budget rel=0.1 --no-race", "drop it or --no-race"),
        ("--error-budget rel=0.1 --apply all", "goes with --apply best alone"),
        ("--error-budget rel=0.1 --calibration few.npz", "10 is the least"),
        ("--error-budget rel=0.1 --calibration d.npz --metric bad.py:f", "raised ValueError"),
    ],
)
def test_the_command_line_says_it_in_one_line(
    place: Path, arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(place / "few.npz", x=samples(9))
    (place / "bad.py").write_text("def f(expected, found): raise ValueError\n")
    assert main(["optimize", "m.onnx", *arguments.split()]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_samples_that_the_model_does_not_run_on_are_the_users_matter(place: Path) -> None:
    text = (
        """<ir_version: 8, opset_import: ["": 17]> agraph (float[n] x, float[m] z) => (float[k] y) { y = Add(x, z) }"""
    )
    onnx.save(onnx.parser.parse_model(text), place / "r.onnx")
    saved(place / "r.npz", x=samples(COUNT, 3), z=samples(COUNT, 4))
    with pytest.raises(UsageError, match="does not run on its first sample"):
        optimized("r.onnx", calibration="r.npz")


# ---- what takes too long ---------------------------------------------------------------------------------------------


def test_a_model_that_takes_longer_than_there_is_time_is_not_waited_for() -> None:
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[1] x) => (float[1] y) <int64 many = {1000000000}, bool yes = {1}> {\n"
        "  y = Loop (many, yes, x) <body = b (int64 i, bool c, float[1] a) => (bool d, float[1] e)"
        " { d = Identity(c) e = Add(a, a) }>\n}"
    )
    data = Data(
        facts=read_facts(graph), samples=Samples({"x": samples(20, 1)}, {}, 20, random=False), numbers=tuple(range(20)),
        metric=None, seed=0,
        file=None,
    )  # fmt: skip
    with pytest.raises(WorkerTimeoutError, match="did not answer run"):
        require_usable(ModelRef.of(graph.SerializeToString()), data, Options(), until=time.monotonic() + 5)


def test_a_metric_that_takes_longer_than_there_is_time_leaves_the_exact_result(place: Path) -> None:
    """Each call is shorter than the longest that one may take: their sum is not."""
    (place / "slow.py").write_text("import time\ndef f(expected, found):\n    time.sleep(50)\n    return 0.0\n")
    result = optimized(metric="slow.py:f", time_budget_s=8.0)
    assert reason(result) == "too little time"
    assert result.model == classifier()

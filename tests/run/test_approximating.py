"""`optimize --error-budget`: the exact search first, an approximation of its result, and two books that stay apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from taso_py.approximate import quantise
from taso_py.approximate.layers import approximate_nodes
from taso_py.approximate.samples import parts_of
from taso_py.backend.race import RaceResult, Standing
from taso_py.backend.timing import Confirmation, Unconfirmed
from taso_py.certificate.certify import Certified
from taso_py.cli import main
from taso_py.errors import ApproximateError, CertificateError, GateError, SuperoptError, UsageError
from taso_py.options import Options
from taso_py.report.document import html, markdown
from taso_py.report.terminal import result_text
from taso_py.result import Reason, Result
from taso_py.run import approximation, pipeline
from taso_py.stop import Interrupted, StopFlag
from tests.conftest import tiny_network
from tests.helpers import faulty_quantiser
from tests.helpers.certified import trusting
from tests.helpers.precision import classifier, elementwise, half, samples, saved
from tests.helpers.schemas import require_valid

COUNT = 40
CONFIRMED = Confirmation(
    speedup=2.0, low=1.75, high=2.25, before_ms=4.0, after_ms=2.0, rounds=15, workloads=(), rounds_ms=((4.0, 2.0),)
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and samples; the exact search makes what needs no timing, and the first candidate wins."""
    onnx.save(classifier(), tmp_path / "m.onnx")
    saved(tmp_path / "d.npz", x=samples(COUNT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "cache.sqlite"))
    real = pipeline.optimize

    def optimize(source: Any, options: Options, **further: Any) -> Result:
        assert (options.error_budget, options.calibration, options.metric) == (None, None, None)
        found = real(source, replace(options, race=False), **further)
        if not found.rules:
            return replace(found, improved=False, reason=Reason("nothing faster", "nothing was priced faster"))
        return replace(found, improved=True, speedup=1.5, speedup_low=1.25, speedup_high=1.75)

    monkeypatch.setattr(pipeline, "optimize", optimize)
    monkeypatch.setattr(approximation, "race", raced)
    monkeypatch.setattr(approximation, "confirm", lambda *a, **k: CONFIRMED)
    return tmp_path


def raced(worker: object, models: Sequence[object], *_: object, **__: object) -> RaceResult:
    names = [Standing("", 1.0, 6), *(Standing("", 2.5, 6) for _ in models[1:])]
    return RaceResult(1, tuple(names), 0.0)


def optimized(model: str = "m.onnx", *, budget: float = 0.2, **options: Any) -> Result:
    given = {"calibration": "d.npz", "threads": 1, "time_budget_s": 60.0} | options
    return taso_py.optimize(model, error_budget=budget, **given)


def reason(result: Result) -> str:
    assert result.approximation is not None
    assert not result.approximate
    assert result.approximation.reason is not None
    assert "\n" not in result.approximation.reason.words
    require_valid(result.to_dict())
    return result.approximation.reason.code


# ---- an approximation that is written --------------------------------------------------------------------------------


def test_both_gains_are_told_apart_and_their_error_with_them(place: Path) -> None:
    onnx.save(tiny_network(), place / "t.onnx")
    saved(place / "t.npz", x=samples(COUNT, 3, 8, 8))
    result = optimized("t.onnx", calibration="t.npz")
    told = result.approximation
    assert told is not None
    assert result.approximate
    assert result.rules
    assert (result.speedup, told.exact_speedup, told.speedup, told.total_speedup) == (1.5, 1.5, 2.0, 3.0)
    assert told.total_interval == (1.25 * 1.75, 3.0, 1.75 * 2.25)
    assert (told.calibration_samples, told.selection_samples, told.test_samples) == (5, 5, 30)
    assert told.error is not None
    assert 0 < told.error <= 0.2
    require_valid(result.to_dict())
    for text in (result_text(result), markdown(result), html(result)):
        assert "Two books" in text
        assert "proved rewrites" in text
        assert "not proved" in text
    assert "1.50 from proved rewrites, 2.00 from approximations, 3.00 together" in result_text(result)


def test_where_proved_rewrites_find_nothing_they_gain_one(place: Path) -> None:
    result = optimized()
    told = result.approximation
    assert told is not None
    assert (result.improved, result.reason, result.speedup, told.exact_speedup) == (True, None, 1.0, 1.0)
    assert told.exact_reason == "nothing was priced faster"
    assert {one.name for one in told.approximated} == set(approximate_nodes(result.model)) != set()
    assert told.worst_layer in {one.name for one in told.layers}


def test_what_is_written_keeps_the_interface_and_says_what_it_is(place: Path) -> None:
    result = optimized().save("out.onnx")
    exact, written = classifier(), onnx.load("out.onnx")
    assert (list(written.graph.input), list(written.graph.output)) == ([*exact.graph.input], [*exact.graph.output])
    stated = {entry.key: entry.value for entry in written.metadata_props}
    assert stated["author"] == "somebody"
    about = json.loads(stated["superopt.approximate"])
    assert about["layers"] == [one.name for one in result.approximation.approximated]  # type: ignore[union-attr]
    assert result.bytes_after is not None
    assert result.bytes_after < (result.bytes_before or 0)
    assert not taso_py.api.standing("m.onnx", "out.onnx").current


def test_without_provenance_nothing_is_added(place: Path) -> None:
    assert [entry.key for entry in optimized(provenance=False).model.metadata_props] == ["author"]


def test_the_same_seed_gives_the_same_bytes(place: Path) -> None:
    one, two = (optimized(seed=3).model.SerializeToString(deterministic=True) for _ in range(2))
    assert one == two


def test_the_check_of_the_budget_agrees_and_says_that_its_samples_may_be_known(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optimized().save("out.onnx")
    check = ["check", "m.onnx", "out.onnx", "--threads", "1", "--calibration", "d.npz", "--error-budget"]
    assert main([*check, "rel=0.2"]) == 0
    assert "40 samples without a violation" in capsys.readouterr().out
    assert main([*check, "rel=1e-6", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["passed"], told["budget"]["kept"], told["budget"]["samples"]) == (False, False, 40)


def test_bench_shows_the_error_and_fails_beyond_the_budget(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized().save("out.onnx")
    bench = ["bench", "m.onnx", "out.onnx", "--rounds", "2", "--block", "0.01", "--threads", "1", "--error-budget"]
    assert main([*bench, "rel=0.2", "--calibration", "d.npz", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["budget"] is None for one in told["models"]] == [True, False]
    assert main([*bench, "rel=1e-6"]) == 1
    captured = capsys.readouterr()
    assert "beyond the budget" in captured.out
    assert "RANDOM" in captured.err


# ---- the certificate -------------------------------------------------------------------------------------------------


def test_certify_does_not_call_an_approximation_proved(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized().save("out.onnx").save_certificate("c.json")
    assert main(["certify", "m.onnx", "out.onnx", "c.json", "--json"]) == 9
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is False
    assert set(told["unproved"]) == set(approximate_nodes(onnx.load("out.onnx"))) != set()
    assert "exact part certified" in told["reason"]
    assert "error not proved" in told["reason"]


def test_certify_replays_the_exact_part(place: Path) -> None:
    onnx.save(tiny_network(), place / "c.onnx")
    saved(place / "c.npz", x=samples(COUNT, 3, 8, 8))
    result = optimized("c.onnx", calibration="c.npz").save("out.onnx")
    result.save_certificate("c.json")
    with pytest.raises(ApproximateError) as caught:
        taso_py.certify("c.onnx", "out.onnx", "c.json", prover=trusting)
    assert isinstance(caught.value.certified, Certified)
    assert {law.name for law in caught.value.certified.rules} >= {rule.name for rule in result.rules}
    text = json.loads(Path("c.json").read_text())
    text["steps"] = text["steps"][:-1]
    Path("cut.json").write_text(json.dumps(text))
    with pytest.raises(CertificateError):
        taso_py.certify("c.onnx", "out.onnx", "cut.json", prover=trusting)


def test_a_certificate_holds_for_no_other_approximation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized().save("out.onnx").save_certificate("c.json")
    other = onnx.load("out.onnx")
    other.graph.doc_string = "another"
    onnx.save(other, "other.onnx")
    assert main(["certify", "m.onnx", "other.onnx", "c.json"]) == 1
    assert "another approximate model" in capsys.readouterr().err
    text = json.loads(Path("c.json").read_text())
    del text["unproved"]
    Path("cut.json").write_text(json.dumps(text))
    assert main(["certify", "m.onnx", "out.onnx", "cut.json"]) == 1


def test_there_are_no_decisions_of_an_approximation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SuperoptError, match="proved steps alone"):
        optimized().save_decisions("d.json")
    assert main(["optimize", "m.onnx", "--error-budget", "rel=0.1", "--record", "d.json"]) == 2
    assert "--record holds proved steps alone" in capsys.readouterr().err


# ---- gates -----------------------------------------------------------------------------------------------------------


def test_the_gate_is_about_what_is_written(place: Path) -> None:
    result = optimized().save("out.onnx")
    result.judged({"min-speedup": 1.75, "max-rel-error": 0.2, "max-size": 1.0}).require_gate()
    with pytest.raises(GateError, match="max-rel-error"):
        result.judged({"max-rel-error": 1e-6}).require_gate()
    with pytest.raises(GateError, match="min-speedup"):
        result.judged({"min-speedup": 1.8}).require_gate()


# ---- nothing that keeps the budget, or nothing at all ----------------------------------------------------------------


def test_beyond_the_budget_the_exact_result_stays(place: Path) -> None:
    result = optimized(budget=1e-6)
    assert reason(result) == "beyond the budget"
    assert result.model == classifier()
    assert "no approximation within the budget" in result_text(result)


def test_an_error_that_only_unseen_samples_have_drops_the_approximation(place: Path) -> None:
    values = samples(COUNT)
    values[list(parts_of(COUNT, 0).test)] *= 1000  # far outside of the ranges that were calibrated
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


def test_what_wins_no_race_is_dropped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standings = (Standing("", 1.0, 6), *(Standing("", 0.5, 6) for _ in range(4)))
    monkeypatch.setattr(approximation, "race", lambda w, m, *a, **k: RaceResult(0, standings[: len(m)], 0.0))
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
    model.graph.input.append(onnx.helper.make_tensor_value_info("w1", onnx.TensorProto.FLOAT, [8, 8, 3, 3]))
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


def test_the_sizes_of_the_samples_are_those_that_are_timed(place: Path) -> None:
    assert [dict(one) for one in optimized().shapes] == [{"x": (1, 3, 12, 12)}]
    saved(place / "four.npz", x=samples(COUNT, 4, 3, 12, 12))
    assert [dict(one) for one in optimized(calibration="four.npz").shapes] == [{"x": (4, 3, 12, 12)}]
    assert [dict(one) for one in optimized(shapes={"batch": 2}).shapes] == [{"x": (2, 3, 12, 12)}]


def test_a_metric_of_the_users_decides(place: Path) -> None:
    (place / "metric.py").write_text("def same(expected, found): return 0.0\ndef none(expected, found): return 5.0\n")
    result = optimized(budget=1e-9, metric="metric.py:same")
    assert result.approximate
    assert result.approximation is not None
    assert (result.approximation.error, result.approximation.metric) == (0.0, "metric.py:same")
    assert reason(optimized(budget=3.0, metric="metric.py:none")) == "beyond the budget"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "absent.py:f"}, "there is no file"),
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

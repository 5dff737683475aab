"""bfloat16 by a provider's hint: an approximation like others, in a session file instead of a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from taso_py.approximate import elsewhere as hints
from taso_py.approximate.judge import Judge, Verdict
from taso_py.backend.protocol import CPU
from taso_py.cli import main
from taso_py.errors import ApproximateError, FileTakenError, NotLosslessError, RuntimeMissingError
from taso_py.providers.race import Entrant, ProviderRace
from taso_py.providers.record import read_record, session_file
from taso_py.report.deployment import deployment
from taso_py.report.document import html, markdown
from taso_py.report.terminal import result_text
from taso_py.result import Result
from taso_py.run import approximation
from taso_py.run.approximation import Stage
from tests.conftest import tiny_network
from tests.helpers.approximating import COUNT, made_place, optimized, reason
from tests.helpers.interpreters import OPENVINO, stub_provider
from tests.helpers.precision import elementwise, samples, saved
from tests.helpers.schemas import require_valid

HINTED = '"bf16" in str(self.given.get(STUB))'
ROUNDS = f"return [one * np.float32(1 + 2.0**-9) for one in outputs] if {HINTED} else outputs"
"""What the stub computes where the hint is given: 0.2 % beside the exact values."""
BREAKS = f"return [one * np.float32('nan') for one in outputs] if {HINTED} else outputs"
BF16 = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'}
LONG = {"time_budget_s": 200.0}
"""A limit that no test comes to, on a machine that others use as well."""
F32 = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that has nothing to quantise, and providers that the hint makes three times faster."""
    made_place(tmp_path, monkeypatch)
    onnx.save(elementwise(), tmp_path / "e.onnx")
    saved(tmp_path / "e.npz", x=samples(COUNT, 4))
    timed_as(monkeypatch, {})
    return tmp_path


def timed_as(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], hinted: float = 1.0) -> None:
    """Every block of a provider takes so long, of one with the hint ``hinted``; 3 seconds if nothing is said."""

    def timed(self: ProviderRace, one: Entrant, alive: object, block_s: float) -> tuple[float | None, float]:
        return hinted if "bf16" in str(one.config.ep_options) else seconds.get(one.config.ep, 3.0), 0.0

    monkeypatch.setattr(ProviderRace, "_timed", timed)


def hinted(place: Path, *, after: str = ROUNDS, before: str = "pass", **options: Any) -> Result:
    python = stub_provider(place, after=after, before=before, name=OPENVINO)
    given = {"model": "e.onnx", "calibration": "e.npz", "ep": "openvino", "ep_python": [python]} | LONG
    return optimized(**(given | options))


# ---- what is written -------------------------------------------------------------------------------------------------


def test_the_exact_model_is_written_and_the_hint_beside_it(place: Path) -> None:
    result = hinted(place).save("out.onnx")
    told = result.approximation
    assert told is not None
    assert (result.approximate, told.kind, told.exact_speedup) == (True, "bf16 by provider hint", 1.0)
    assert told.speedup == pytest.approx(3.0)
    assert told.provider is not None
    assert told.provider.ep == OPENVINO
    assert told.error == pytest.approx(2.0**-9, rel=1e-3)
    assert Path("out.onnx").read_bytes() == Path("e.onnx").read_bytes()
    record = read_record(session_file(Path("out.onnx")))
    assert "bf16" in record.options["load_config"]
    assert record.needs_consent is None
    assert record.approximation is not None
    assert "error 0.2 % on 30 unseen samples, budget 20 %; not proved" in record.approximation


def test_both_books_name_it(place: Path) -> None:
    result = hinted(place).save("out.onnx")
    for text in (result_text(result), markdown(result), html(result)):
        assert "Two books" in text
        assert "the whole model on openvino: bf16 by provider hint" in text
        assert "not proved" in text
    told = json.loads(result.to_json())["approximation"]
    assert "bf16" in told["provider"]["options"]["load_config"]
    assert "run it by superopt.session('out.onnx')" in result_text(result)
    how = deployment(result)
    assert how is not None
    assert "superopt.session" in how.code
    assert "--ep-option" in how.again
    assert "bf16" in how.again


def test_certify_names_what_is_not_proved(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hinted(place).save("out.onnx").save_certificate("c.json")
    with pytest.raises(ApproximateError, match=r"exact part certified .*bf16 by provider hint: error not proved"):
        taso_py.certify("e.onnx", "out.onnx", "c.json")
    assert main(["certify", "e.onnx", "out.onnx", "c.json"]) == 9
    assert "run as its session file says, at less precision" in capsys.readouterr().err


def test_an_exact_certificate_does_not_cover_a_session_file_that_approximates(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taso_py.optimize("e.onnx", race=False, threads=1).save("exact.onnx").save_certificate("c.json")
    assert main(["certify", "e.onnx", "exact.onnx", "c.json"]) == 0
    hinted(place).save("out.onnx")
    assert main(["certify", "e.onnx", "out.onnx", "c.json", "--json"]) == 9
    captured = capsys.readouterr()
    assert "out.onnx.session.json runs it as an approximation (bf16 by provider hint: error 0.2 %" in captured.err
    Path("exact.onnx.session.json").write_bytes(Path("out.onnx.session.json").read_bytes())
    assert main(["certify", "e.onnx", "exact.onnx", "c.json"]) == 9
    other = json.loads(Path("out.onnx.session.json").read_text()) | {"sha256": "of another"}
    Path("exact.onnx.session.json").write_text(json.dumps(other))
    assert main(["certify", "e.onnx", "exact.onnx", "c.json"]) == 0


def test_the_race_of_providers_offers_it_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_as(monkeypatch, {CPU: 3.0, OPENVINO: 6.0})
    result = hinted(place, ep="auto")
    assert result.placement is not None
    assert result.placement.ep == CPU
    assert result.approximation is not None
    assert result.approximation.provider is not None
    assert result.approximation.provider.ep == OPENVINO
    assert result.approximation.speedup == pytest.approx(3.0)
    result.save("out.onnx")
    assert read_record(session_file(Path("out.onnx"))).ep == OPENVINO


# ---- never without the flag ------------------------------------------------------------------------------------------


def test_without_a_budget_the_hint_is_refused(place: Path) -> None:
    python = stub_provider(place, after=ROUNDS, name=OPENVINO)
    with pytest.raises(NotLosslessError):
        taso_py.optimize("e.onnx", ep="openvino", ep_python=[python], ep_options=BF16, threads=1, time_budget_s=20)
    ran = taso_py.optimize("e.onnx", ep="openvino", ep_python=[python], threads=1, time_budget_s=20).ran
    assert ran is not None
    assert "f32" in ran.options["load_config"]


def test_whoever_asks_for_the_hint_gets_it_within_the_budget(place: Path) -> None:
    assert hinted(place, ep_options=BF16).approximate


def test_whoever_asks_for_float32_gets_float32(place: Path) -> None:
    result = hinted(place, ep_options=F32)
    assert reason(result) == "nothing to quantise"
    assert result.approximation is not None
    assert not result.approximation.tried


def test_an_exact_result_does_not_inherit_the_hint(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hinted(place).save("out.onnx")
    assert main(["optimize", "e.onnx", "out.onnx", "--no-race", "--threads", "1"]) != 0
    assert "the session file beside it makes an approximation of it" in capsys.readouterr().err
    exact = taso_py.optimize("e.onnx", race=False, threads=1)
    Path("out.onnx").unlink()
    with pytest.raises(FileTakenError, match=r"out\.onnx\.session\.json exists already"):
        exact.save("out.onnx")
    exact.save("out.onnx", force=True)
    assert not session_file(Path("out.onnx")).exists()


def test_a_session_file_in_the_way_is_said_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hinted(place).save("out.onnx")
    Path("out.onnx").unlink()
    command = ["optimize", "e.onnx", "out.onnx", "--ep", "openvino", "--error-budget", "rel=0.2"]
    assert main([*command, "--calibration", "e.npz"]) != 0
    assert "out.onnx.session.json" in capsys.readouterr().err


# ---- faults ----------------------------------------------------------------------------------------------------------


def told_failure(result: Result) -> str:
    assert result.approximation is not None
    (one,) = [one for one in result.approximation.tried if one.kind == "bf16 by provider hint"]
    assert one.ep == OPENVINO
    assert one.failure is not None
    assert "\n" not in one.failure
    return one.failure


def test_nan_is_beyond_any_budget(place: Path) -> None:
    result = hinted(place, after=BREAKS)
    assert reason(result) == "beyond the budget"
    assert "'y' is NaN or infinite" in told_failure(result)
    assert "without bound" in result_text(result)
    result.save("out.onnx")
    record = read_record(session_file(Path("out.onnx")))
    assert record.approximation is None
    assert "f32" in record.options["load_config"]


def test_beyond_the_budget_the_exact_result_stays(place: Path) -> None:
    result = hinted(place, budget=1e-3)
    assert reason(result) == "beyond the budget"
    assert result.model == elementwise()


def test_a_hint_that_is_executed_in_float32_approximates_nothing(place: Path) -> None:
    result = hinted(place, after="return outputs")
    assert reason(result) == "nothing to quantise"
    assert told_failure(result) == "openvino computes in float32 all the same here"
    assert "computes in float32 all the same" in result_text(result)


@pytest.mark.parametrize(
    ("fault", "says"), [("os.kill(os.getpid(), 9)", "worker"), ("time.sleep(1000)", "did not answer open")]
)
def test_a_provider_that_crashes_or_hangs_costs_nothing_else(place: Path, fault: str, says: str) -> None:
    result = hinted(place, before=f"{fault} if {HINTED} else None", time_budget_s=40.0)
    assert reason(result) == "nothing to quantise"
    assert result.model == elementwise()
    assert says in told_failure(result)


def test_a_provider_that_is_not_there_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "e.onnx", "--ep", "openvino", "--error-budget", "rel=0.2", "--calibration", "e.npz"]) == 5
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert OPENVINO in line


def test_what_is_slower_is_dropped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_as(monkeypatch, {}, hinted=4.0)
    result = hinted(place)
    assert reason(result) == "nothing faster"


def test_the_runner_up_is_tested_where_the_fastest_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, kinds = Stage._on_unseen, list[str]()

    def on_unseen(self: Stage, judge: Judge, winner: Any) -> Verdict:
        found = real(self, judge, winner)
        kinds.append(winner.kind)
        return Verdict(0.9, "y", 0, found.samples) if len(kinds) == 1 else found

    monkeypatch.setattr(Stage, "_on_unseen", on_unseen)
    result = hinted(place, model="m.onnx", calibration="d.npz")
    told = result.approximation
    assert told is not None
    assert told.applied
    assert kinds == ["bf16 by provider hint", told.kind]
    assert told_failure(result).startswith("the error is 90 % on 30 unseen samples")
    assert told.warrant is not None
    assert "on which 1 faster failed before: with 95 % confidence 88.4 %" in told.warrant


def test_with_layers_to_quantise_the_faster_of_both_is_taken(place: Path) -> None:
    result = hinted(place, model="m.onnx", calibration="d.npz")
    assert result.approximation is not None
    assert result.approximation.kind == "bf16 by provider hint"  # three times as fast against 2.5
    assert {one.kind for one in result.approximation.tried} >= {"bf16 by provider hint", "int8 static"}
    assert np.isfinite(result.approximation.error or np.inf)


def fails(*_: object, **__: object) -> Any:
    raise RuntimeMissingError("its library is gone")


def test_a_race_that_fails_loses_nothing_exact(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "raced", fails)
    result = hinted(place)
    assert reason(result) == "did not run"
    assert result.model == elementwise()
    assert "its library is gone" in result_text(result)


@pytest.mark.parametrize(
    ("failing", "kinds"), [("hinted", {"int8 static", "int8 dynamic"}), ("here", {"bf16 by provider hint"})]
)
def test_of_two_races_one_that_fails_costs_its_own_candidates(
    place: Path, monkeypatch: pytest.MonkeyPatch, failing: str, kinds: set[str]
) -> None:
    monkeypatch.setattr(*((hints, "raced") if failing == "hinted" else (approximation, "race")), fails)
    result = hinted(place, model="m.onnx", calibration="d.npz")
    assert result.approximation is not None
    assert result.approximation.kind in kinds
    assert any("its library is gone" in (one.failure or "") for one in result.approximation.tried)


# ---- what else may run there -----------------------------------------------------------------------------------------


def by_model(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[Entrant, bool, bool], float]) -> None:
    """A block takes what ``seconds`` says of an entrant, whether it has a hint, and whether it is the exact model."""

    def timed(self: ProviderRace, one: Entrant, alive: object, block_s: float) -> tuple[float | None, float]:
        return seconds(one, "bf16" in str(one.config.ep_options), one.model.name == "exact"), 0.0

    monkeypatch.setattr(ProviderRace, "_timed", timed)


def test_the_original_is_approximated_where_its_rewrite_is_slower_at_less_precision(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def seconds(one: Entrant, hinted: bool, exact: bool) -> float:
        return 0.5 if hinted and not exact and not one.model.name.startswith("int8") else 3.0

    by_model(monkeypatch, seconds)
    onnx.save(tiny_network(), place / "t.onnx")
    saved(place / "t.npz", x=samples(COUNT, 3, 8, 8))
    result = hinted(place, model="t.onnx", calibration="t.npz").save("out.onnx")
    told = result.approximation
    assert told is not None
    assert (told.kind, told.of_original, told.exact_speedup, told.speedup) == ("bf16 by provider hint", True, 1.0, 6.0)
    assert (result.rules, result.speedup, result.nodes_after) == ((), 1.0, result.nodes_before)
    assert Path("out.onnx").read_bytes() == Path("t.onnx").read_bytes()
    assert "bf16" in read_record(session_file(Path("out.onnx"))).options["load_config"]
    require_valid(result.to_dict())
    assert "the whole model of the original on openvino" in result_text(result)
    result.save_certificate("c.json")
    assert main(["certify", "t.onnx", "out.onnx", "c.json"]) == 9
    assert "exact part certified (the original unchanged)" in capsys.readouterr().err


@pytest.mark.parametrize("hint", [False, True])
def test_8_bit_models_run_on_other_providers_too(hint: bool, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(one: Entrant, hinted: bool, exact: bool) -> float:
        elsewhere = one.config.ep == OPENVINO
        return 0.5 if elsewhere and hinted is hint and one.model.name.startswith("int8 static") else 3.0

    by_model(monkeypatch, seconds)
    ep = "cpu,openvino"
    result = hinted(place, model="m.onnx", calibration="d.npz", ep=ep).save("out.onnx")
    told = result.approximation
    assert told is not None
    kind = "int8 static, the rest bf16 by provider hint" if hint else "int8 static"
    assert (told.kind, told.of_original, told.speedup) == (kind, False, 6.0)
    assert told.provider is not None
    assert told.provider.ep == OPENVINO
    assert told.approximated
    record = read_record(session_file(Path("out.onnx")))
    assert record.ep == OPENVINO
    assert ("bf16" in record.options["load_config"]) is hint
    assert record.approximation is not None
    assert record.approximation.startswith(kind)
    require_valid(result.to_dict())
    assert f"{kind}, openvino" in told.sentence()
    assert any(node.op_type == "DequantizeLinear" for node in onnx.load("out.onnx").graph.node)

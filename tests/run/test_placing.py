"""`optimize --ep auto`: the search runs on the provider that wins, and what it and rewriting gain is told apart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from taso_py.backend.protocol import CPU
from taso_py.backend.runtime import available_threads
from taso_py.check.check import Checker
from taso_py.check.report import CheckReport, refused
from taso_py.cli import main
from taso_py.errors import ModelError, OutputError
from taso_py.options import Options
from taso_py.providers.race import Entrant, ProviderRace
from taso_py.providers.record import read_record, session_file, sha256_of
from taso_py.report.document import html, markdown
from taso_py.report.terminal import result_text
from taso_py.result import Result
from taso_py.run import crossing, pipeline
from taso_py.run.crossing import Crossing
from taso_py.stop import StopFlag
from tests.conftest import cli_environment, tiny_network
from tests.helpers.interpreters import STUB, stub_provider
from tests.helpers.schemas import require_valid

Search = Callable[..., Result]
_BUDGET_S = 120.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(tiny_network(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "cache.sqlite"))
    return tmp_path


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """The options of each search; a search makes the rewrite that needs no timing and calls it 1.25 times faster."""
    asked: list[Options] = []
    real = pipeline.optimize

    def optimize(source: Any, options: Options, **further: Any) -> Result:
        asked.append(options)
        found = real(source, replace(options, race=False), **further)
        figures = {"speedup": 1.25, "speedup_low": 1.2, "speedup_high": 1.3}
        return replace(found, improved=True, **figures)

    monkeypatch.setattr(pipeline, "optimize", optimize)
    return asked


def timed_as(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], rewritten: dict[str, float] | None = None
) -> None:
    """Every block of the original takes so long on a provider, every one of another model as long as ``rewritten``."""

    def timed(self: ProviderRace, one: Entrant, alive: object, block_s: float) -> tuple[float | None, float]:
        is_original = one.model == self.entrants[0].model
        return (seconds if is_original or rewritten is None else rewritten)[one.config.ep], 0.0

    monkeypatch.setattr(ProviderRace, "_timed", timed)


def raced(place: Path, *, budget_s: float = _BUDGET_S, **stub: str) -> Result:
    python = stub_provider(place, **stub)
    return taso_py.optimize("m.onnx", ep="auto", ep_python=[python], time_budget_s=budget_s)


def test_the_search_runs_where_the_original_is_fastest(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0}, {CPU: 1.6, STUB: 0.8})
    result = raced(place)
    placement = result.placement
    assert placement is not None
    assert [one.provider for one in searches] == [CPU, STUB]
    assert all(one.time_budget_s < _BUDGET_S for one in searches)
    assert (placement.ep, placement.baseline, placement.python) == (STUB, CPU, str(place / "python"))
    assert (placement.placement_speedup, placement.rewriting_speedup, placement.total_speedup) == (2.0, 1.25, 2.5)
    assert result.speedup == 1.25
    assert [one.ep for one in placement.providers][:2] == [CPU, STUB]
    assert result.ep == STUB
    told = json.loads(result.to_json())
    require_valid(told)
    assert told["placement"]["placement_speedup"] == 2.0
    assert told["placement"]["rewriting_speedup"] == 1.25
    for text in (result_text(result), markdown(result).replace("\\", ""), html(result)):
        assert "placement on Stub" in text
        assert "rewriting there: 1.250; together: 2.500" in text
    saved = result.save("o.onnx")
    for text in (markdown(saved).replace("\\", ""), html(saved).replace("&#39;", "'")):
        assert "superopt.session('o.onnx')" in text
    assert f"next: run it by superopt.session('o.onnx'), under {place / 'python'}" in result_text(saved)
    same = replace(saved, improved=False, rules=(), speedup=None)
    assert "no rewrite is faster, the output is the model as it was" in result_text(same)
    assert "next: run it by superopt.session('o.onnx')" in result_text(same)


def test_the_cpu_keeps_what_nothing_else_runs_faster(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 1.0, STUB: 0.995}, {CPU: 0.8, STUB: 0.8})
    placement = raced(place).placement
    assert placement is not None
    assert (placement.ep, placement.python, placement.placement_speedup) == (CPU, None, 1.0)
    assert [one.provider for one in searches] == [CPU, STUB]
    assert "cpu is the fastest provider for the original" in placement.sentence()


def test_what_is_found_at_home_is_not_given_up_for_a_provider_that_runs_the_original_faster(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0}, {CPU: 0.5, STUB: 0.8})
    result = raced(place)
    assert result.placement is not None
    assert (result.placement.ep, result.placement.placement_speedup, result.ep) == (CPU, 1.0, CPU)
    assert result.improved


def test_what_is_found_at_home_runs_where_it_is_fastest(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.9}, {CPU: 1.6, STUB: 0.95})
    result = raced(place, budget_s=40.0)
    placement = result.placement
    assert placement is not None
    assert (placement.ep, result.ep) == (STUB, STUB)
    assert placement.placement_speedup == pytest.approx(2.0 / 1.9)
    assert (placement.rewriting_speedup, result.speedup) == (2.0, 2.0)
    assert (result.latency_before_ms, result.latency_after_ms) == (1900.0, 950.0)
    assert any("searched for on cpu; on Stub they are faster" in note for note in result.notes)
    require_valid(json.loads(result.to_json()))
    assert read_record(session_file(result.save("o.onnx").output or place)).ep == STUB


def test_a_rewrite_with_other_values_on_another_provider_is_not_placed_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.99}, {CPU: 1.6, STUB: 0.95})

    class Differing(Checker):
        def check(self, candidate: object, **_: object) -> CheckReport:
            return refused("other values")

    monkeypatch.setattr(crossing, "checker_of", lambda setting, *_, **__: Differing(setting.reference, setting.config))
    result = raced(place, budget_s=40.0)
    assert result.placement is not None
    assert (result.placement.ep, [one.provider for one in searches]) == (CPU, [CPU])


def test_what_a_fresh_measurement_does_not_confirm_changes_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0})
    monkeypatch.setattr(Crossing, "_confirmed", lambda *_: None)
    result = raced(place)
    assert [one.provider for one in searches] == [CPU, STUB]
    assert result.placement is not None
    assert (result.placement.moved, result.placement.providers[1].speedup) == (False, 2.0)
    assert any("does not confirm it" in warning for warning in result.warnings)


def test_a_full_disk_in_the_race_of_results_loses_none(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0})

    def best(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Crossing, "best", best)
    result = raced(place)
    assert result.placement is not None
    assert (result.placement.ep, result.speedup, len(searches)) == (CPU, 1.25, 2)


def test_where_time_is_short_the_search_runs_at_home_alone_and_its_result_is_raced_elsewhere(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 1.1, STUB: 1.0}, {CPU: 1.0, STUB: 0.8})
    result = raced(place, budget_s=40.0)
    assert [one.provider for one in searches] == [CPU]
    assert result.placement is not None
    assert (result.placement.ep, result.speedup) == (STUB, pytest.approx(1.25))


def test_where_nothing_was_searched_the_original_is_placed_if_it_is_the_fastest(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 1.9, STUB: 1.0}, {CPU: 1.8, STUB: 1.5})
    result = raced(place, budget_s=40.0)
    assert [one.provider for one in searches] == [CPU, STUB]  # the second with what is left, on the provider that won
    assert result.placement is not None
    assert (result.placement.ep, result.ep, result.placement.placement_speedup) == (STUB, STUB, 1.9)


def test_a_far_slower_provider_is_not_searched_on(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 5.0, STUB: 1.0})
    assert raced(place).ep == STUB
    assert [one.provider for one in searches] == [STUB]


def test_an_interrupt_between_the_searches_keeps_what_was_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 3.0, STUB: 1.0})
    searching = pipeline.optimize

    def optimize(source: Any, options: Options, *, stop: StopFlag, **further: Any) -> Result:
        found = searching(source, options, stop=StopFlag(), **further)
        stop.set()
        return found

    monkeypatch.setattr(pipeline, "optimize", optimize)
    result = raced(place)
    assert [one.provider for one in searches] == [STUB]
    assert result.placement is not None
    assert (result.placement.ep, result.placement.placement_speedup, result.speedup) == (STUB, 3.0, 1.25)


@pytest.mark.parametrize(
    ("stub", "says"),
    [
        ({"after": "return [np.full_like(one, np.nan) for one in outputs]"}, "NaN or infinite"),
        ({"before": "os.kill(os.getpid(), signal.SIGSEGV)"}, "worker died (SIGSEGV)"),
        ({"before": "raise ValueError('Stub: no such node')"}, "no such node"),
    ],
)
def test_a_provider_with_a_fault_is_left_out_and_nothing_is_lost(
    stub: dict[str, str], says: str, place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0})
    python = stub_provider(place, **stub)
    assert (
        main(["optimize", "m.onnx", "o.onnx", "--ep", "auto", "--ep-python", str(python), "--time-budget", "60"]) == 0
    )
    record = read_record(place / "o.onnx.session.json")
    assert (record.ep, record.python) == (CPU, None)
    result = raced(place, **stub)
    assert result.placement is not None
    assert [one.failure is None for one in result.placement.providers] == [True, False]
    assert says in (result.placement.providers[1].failure or "")


def test_where_the_search_on_the_best_fails_it_runs_at_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0})
    real = pipeline.optimize

    def optimize(source: Any, options: Options, **further: Any) -> Result:
        if options.provider == STUB:
            raise ModelError("m.onnx: ONNX Runtime fails on the original: worker died")
        return real(source, replace(options, race=False), **further)

    monkeypatch.setattr(pipeline, "optimize", optimize)
    result = raced(place)
    assert result.placement is not None
    assert (result.placement.ep, result.placement.placement_speedup) == (CPU, 1.0)
    assert any("Stub is left out" in warning for warning in result.warnings)


def test_the_session_file_is_bound_to_the_model_and_as_safe(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options]
) -> None:
    timed_as(monkeypatch, {CPU: 2.0, STUB: 1.0})
    result = raced(place)
    out, file = Path("o.onnx"), session_file(Path("o.onnx"))
    file.write_text("somebody's own")
    with pytest.raises(OutputError, match=r"goes with o\.onnx, exists already"):
        result.save(out)
    assert not out.exists()
    assert file.read_text() == "somebody's own"
    result.save(out, force=True)
    require_valid(json.loads(file.read_text()))
    record = read_record(file)
    assert (record.sha256, record.model, record.ep) == (sha256_of(out), "o.onnx", STUB)
    assert (record.options, record.threads, record.library) == ({}, available_threads(), None)
    assert not [path for path in place.iterdir() if path.name.endswith(".tmp")]


def test_a_session_file_in_the_way_is_found_before_the_search(
    place: Path, searches: list[Options], capsys: pytest.CaptureFixture[str]
) -> None:
    session_file(Path("o.onnx")).write_text("{}")
    assert main(["optimize", "m.onnx", "o.onnx", "--ep", "auto"]) == 4
    assert "o.onnx.session.json exists already" in capsys.readouterr().err
    assert searches == []


def test_one_provider_has_neither_race_nor_session_file(place: Path, searches: list[Options]) -> None:
    result = taso_py.optimize("m.onnx", time_budget_s=_BUDGET_S).save("o.onnx")
    assert result.placement is None
    assert result.to_dict()["placement"] is None
    assert not session_file(Path("o.onnx")).exists()
    assert len(searches) == 1


def test_a_result_of_a_race_is_not_taken_for_that_of_another(
    place: Path, monkeypatch: pytest.MonkeyPatch, searches: list[Options], capsys: pytest.CaptureFixture[str]
) -> None:
    timed_as(monkeypatch, {CPU: 1.0})
    arguments = ["optimize", "m.onnx", "o.onnx", "--ep", "auto", "--time-budget", "60"]
    assert main(arguments) == 0
    assert main(arguments) == 4
    assert "providers are raced anew every time" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0


@pytest.mark.slow
def test_a_real_race_ends_with_a_session_file(place: Path) -> None:
    python = stub_provider(place)
    arguments = ["--ep", "cpu,Stub", "--ep-python", str(python), "--time-budget", "20"]
    assert main(["optimize", "m.onnx", "o.onnx", *arguments]) == 0
    record = read_record(session_file(Path("o.onnx")))
    assert record.ep in (CPU, STUB)
    assert record.sha256 == sha256_of(Path("o.onnx"))


def test_an_interrupt_during_the_race_leaves_the_model_as_it_was(place: Path) -> None:
    mark = place / "hangs"
    python = stub_provider(place, before=f"open({str(mark)!r}, 'w').close(); time.sleep(600)")
    arguments = ["optimize", "m.onnx", "o.onnx", "--ep", "auto", "--ep-python", str(python), "--time-budget", "300"]
    with subprocess.Popen(
        [sys.executable, "-m", "taso_py", *arguments], env=cli_environment(), stderr=subprocess.PIPE, text=True
    ) as run:
        limit = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < limit:
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert run.returncode == 0, error
    assert Path("o.onnx").read_bytes() == Path("m.onnx").read_bytes()
    assert read_record(session_file(Path("o.onnx"))).ep == CPU

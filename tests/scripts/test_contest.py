"""The contest of providers and quantisers: who takes part, one race for all, errors, faults. No test asserts a time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

from scripts.bench import bench, contest, contestants, samples
from scripts.bench.contestants import Contest, Contestant, Given, Who
from scripts.bench.tools import ToolRun
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.errors import ModelError, UsageError
from taso_py.options import CheckOptions
from taso_py.options.providers import OPENVINO
from taso_py.providers.record import ProviderRun, session_file, write_session
from taso_py.run.budget import data_of

ONE, OTHER = WorkerConfig(threads=1), WorkerConfig(threads=1, ort_level="disable")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taso_py.providers.race._BLOCK_S", 0.001)
    monkeypatch.setattr(contest, "GROUPS", 2)


@pytest.fixture
def given(tmp_path: Path) -> Contest:
    return Contest(out=tmp_path / "out", rounds=4, threads=1, options=("--time-budget", "5"))


def changed(model: Path, name: str, factor: float) -> Path:
    """The model with its weights multiplied: the error is near |factor - 1|, NaN stays NaN."""
    proto = onnx.load(model)
    weight = proto.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), weight.name))
    path = model.parent / f"{name}.onnx"
    onnx.save(proto, path)
    return path


def test_everybody_is_timed_in_the_same_rounds_and_a_fault_costs_its_own(tiny_model: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    entrants = [(ONE, tiny_model), (ONE, damaged), (OTHER, changed(tiny_model, "twice", 2))]
    found = contest.race_together(entrants, contest.feeds_for(tiny_model), rounds=5)
    base, broken, other = found.seconds
    assert base.keys() == other.keys()
    assert not broken
    assert found.failures.keys() == {1}
    assert "damaged" in found.failures[1]
    with pytest.raises(ModelError, match="damaged"):
        contest.race_together([(ONE, damaged), (ONE, tiny_model)], contest.feeds_for(tiny_model), rounds=5)


def test_errors_are_of_samples_that_made_nothing_and_equal_sessions_are_one_entrant(
    tiny_model: Path, tmp_path: Path, given: Contest
) -> None:
    file = tmp_path / "model.npz"
    samples.write(tiny_model, file, count=40)
    data = data_of(ModelRef.of(tiny_model), CheckOptions(error_budget=0.05, calibration=file))
    files = {Who.ORIGINAL: tiny_model, Who.OURS_CPU: tiny_model, Who.ORT_STATIC: changed(tiny_model, "off", 1.3)}
    files |= {Who.NNCF: changed(tiny_model, "nan", math.nan)}
    everybody = [Contestant(who=who, model=model, config=ONE) for who, model in files.items()]
    everybody += [
        Contestant(who=Who.OPENVINO, model=tiny_model, config=OTHER),
        Contestant(who=Who.ORT_DYNAMIC, failure="exit 1: no kernel"),
    ]
    row = contest.assess(Given(tiny_model), everybody, data, replace(given, budget=0.05))
    entries = row.entries
    assert entries[Who.OURS_CPU].same_as == "original"
    assert entries[Who.OURS_CPU].seconds == entries[Who.ORIGINAL].seconds
    assert entries[Who.OPENVINO].same_as is None
    assert {entry.samples for who, entry in entries.items() if who is not Who.ORT_DYNAMIC} == {len(data.parts.test)}
    assert entries[Who.ORIGINAL].error == pytest.approx(0, abs=1e-5)
    assert entries[Who.ORT_STATIC].error == pytest.approx(0.3, abs=0.29)
    assert entries[Who.NNCF].error == math.inf
    assert entries[Who.ORT_DYNAMIC].failure == "exit 1: no kernel"
    assert [row.keeps(who) for who in (Who.OPENVINO, Who.ORT_STATIC, Who.NNCF, Who.ORT_DYNAMIC)] == [True, *[False] * 3]


def test_a_result_runs_as_its_session_file_says(tiny_model: Path) -> None:
    assert contestants.deployed_config(tiny_model, 2) == WorkerConfig(threads=2)
    placed = ProviderRun(
        ep=OPENVINO, python="/there/python", options={"num_of_threads": "1"}, threads=1, ort_level="all",
        distribution="onnxruntime-openvino", ort_version="1",
    )  # fmt: skip
    write_session(placed, tiny_model.parent, tiny_model, None)
    wanted = WorkerConfig(OPENVINO, (("num_of_threads", "1"),), 1, python="/there/python")
    assert contestants.deployed_config(tiny_model, 2) == wanted
    changed(tiny_model, tiny_model.stem, 2)
    with pytest.raises(UsageError, match="belongs to another file"):
        contestants.deployed_config(tiny_model, 2)


def test_each_is_made_by_its_own_tool_and_fails_by_itself(
    tiny_model: Path, given: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Sequence[str]] = {}

    def ours(model: Path, output: Path, *, threads: int, options: Sequence[str]) -> ToolRun:
        assert not session_file(output).exists()
        asked[output.name] = options
        output.write_bytes(model.read_bytes())
        return ToolRun("superopt", output, 2.0, result={"improved": False})

    monkeypatch.setattr(contestants, "run_ours", ours)
    given.out.mkdir()
    session_file(given.out / "model.ours-cpu.onnx").write_text("left by an earlier run")
    found = list(contestants.contestants(Given(tiny_model), given))
    assert [one.who for one in found] == [Who.ORIGINAL, Who.OURS_CPU, Who.OURS_AUTO, Who.OPENVINO, Who.BF16]
    assert [one.failure is None for one in found] == [True, True, True, False, False]
    assert "make test-eps" in (found[3].failure or "")
    assert found[1].key == found[0].key
    assert found[1].made_s == 2.0
    few = replace(given, only=("ours-cpu", "nncf"))
    assert [one.who for one in contestants.contestants(Given(tiny_model), few)] == [Who.ORIGINAL, Who.OURS_CPU]
    given = replace(given, budget=0.01, ep_python=(Path("p"),))
    monkeypatch.setattr(
        contestants, "run_ort_static", lambda *_: ToolRun("ort-static", None, 1.0, failure="exit 1: no")
    )
    monkeypatch.setattr(
        contestants, "run_ort_dynamic", lambda model, output, _: ours(model, output, threads=1, options=())
    )
    rest = list(contestants.contestants(Given(tiny_model, Path("s.npz"), Path("c.npz")), given))[-4:]
    assert [one.failure for one in rest[:3]] == [None, "exit 1: no", None]
    assert "--nncf-python" in (rest[3].failure or "")
    options = " ".join(asked["model.ours-budget.onnx"])
    assert options == "--time-budget 5 --ep auto --ep-python p --error-budget rel=0.01 --calibration s.npz"


def stubs(given: Given, _: Contest) -> Iterator[Contestant]:
    yield Contestant(who=Who.ORIGINAL, model=given.model, config=ONE)
    yield Contestant(who=Who.OURS_CPU, model=given.model, config=ONE)
    yield Contestant(who=Who.OURS_AUTO, model=given.model, config=ONE)
    yield Contestant(who=Who.OPENVINO, failure="not here")


def test_the_command_goes_on_where_an_earlier_run_ended(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "contestants", stubs)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    arguments = ["--ep", "auto", "--out", str(tmp_path / "out"), "--rounds", "20", "--threads", "1"]
    arguments += ["--contestant", "ours-auto", "--contestant", "openvino"]
    done = CliRunner().invoke(bench.main, [str(broken), str(tiny_model), *arguments])
    assert done.exit_code == 1, done.output
    assert "model, openvino: not here" in done.output
    told = {one["model"]: one for one in json.loads((tmp_path / "out" / "contest.json").read_text())["models"]}
    assert told["broken"]["failure"]
    assert told["model"]["over_rival"] == {"median": 1, "low": 1, "high": 1}
    assert "| model |" in (tmp_path / "out" / "contest.md").read_text()
    again = CliRunner().invoke(bench.main, [str(tiny_model), str(broken), *arguments])
    assert "model: kept from an earlier run" in again.output
    assert "broken: kept" not in again.output
    other = CliRunner().invoke(bench.main, [str(tiny_model), *arguments, "--time-budget", "7"])
    assert other.exit_code == 2
    assert "other settings" in other.output


def test_a_budget_s_samples_are_there_for_a_model_s_own_time(
    tiny_model: Path, given: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest.drawn, "write", partial(samples.write, count=40))
    given = replace(given, budget=0.01)
    given.out.mkdir()
    with contest.given(tiny_model, given) as (task, data):
        assert data is not None
        assert task.calibration is not None
        seen = np.load(task.calibration)["x"]
        assert len(seen) == len(data.parts.calibration) + len(data.parts.selection)
        own = {data.samples.arrays["x"][number].tobytes() for number in data.parts.test}
        assert not own & {one.tobytes() for one in seen}
    assert list(given.out.iterdir()) == []
    samples.write(tiny_model, tiny_model.with_suffix(".npz"), count=30)
    with contest.given(tiny_model, replace(given, samples=tiny_model.parent)) as (task, _):
        assert task.samples == tiny_model.with_suffix(".npz")
    assert tiny_model.with_suffix(".npz").is_file()


def test_options_of_the_other_kind_of_run_are_refused(tiny_model: Path) -> None:
    done = CliRunner().invoke(bench.main, [str(tiny_model), "--ep-python", str(tiny_model)])
    assert done.exit_code == 2
    assert "are for --ep auto or --budget" in done.output

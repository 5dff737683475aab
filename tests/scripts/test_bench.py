"""The pieces of the bench: running tools, timing files together, verdicts, tables. No test asserts a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from scripts.bench import bench, zoo
from scripts.bench import report as bench_report
from scripts.bench import tools as bench_tools
from scripts.bench.networks import NETWORKS, REFERENCES
from scripts.bench.report import Column, Row, Verdict
from scripts.bench.tools import ToolRun
from taso_py.backend.statistics import Interval
from taso_py.errors import ModelError
from taso_py.search.state import StopReason

SIZE = {"steps": 2, "hidden": 8}
FASTER, EQUAL, SLOWER = Interval(1.2, 1.1, 1.3), Interval(1.01, 0.98, 1.04), Interval(0.8, 0.7, 0.9)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save_model(NETWORKS["nasrnn"](**SIZE), tmp_path / "nasrnn.onnx")
    onnx.save_model(REFERENCES["nasrnn"](**SIZE), tmp_path / "nasrnn.reference.onnx")
    return tmp_path / "nasrnn.onnx"


@pytest.fixture
def settings(tmp_path: Path) -> bench.Settings:
    options = ("--alpha", "1.1")
    return bench.Settings(
        out=tmp_path, zoo=tmp_path, rounds=5, threads=1, block_s=0.001, options=options, tools=("onnxsim",)
    )


def column(speedup: Interval | None, *, same: bool = False, failure: str | None = None) -> Column:
    return Column("superopt", 10, 1.0, same, speedup, failure=failure, growth=1.25)


def row(ours: Column, *, name: str = "m", improved: bool | None = True, share: Interval | None = None) -> Row:
    other = Column("onnxsim", 12, 2.0, False, None, failure="exit 1: no")
    return Row(
        model=name,
        nodes=20,
        latency_ms=3.0,
        improved=improved,
        ours=ours,
        others=(other, Column("onnxslim", 20, 1.0, True, None)),
        reference=FASTER,
        share=share,
    )


@pytest.mark.parametrize(
    ("ours", "improved", "verdict"),
    [
        (column(FASTER), True, Verdict.FASTER),
        (column(FASTER), None, Verdict.FASTER),
        (column(EQUAL), True, Verdict.UNCLEAR),
        (column(SLOWER), True, Verdict.SLOWER),
        (column(None), True, Verdict.SLOWER),
        (column(None, same=True), False, Verdict.SAME),
        (column(FASTER), False, Verdict.CHANGED),
        (column(None, failure="exit 70"), None, Verdict.BROKEN),
    ],
)
def test_verdict(ours: Column, improved: bool | None, verdict: Verdict) -> None:
    assert row(ours, improved=improved).verdict is verdict


def test_failing_verdicts_are_marked() -> None:
    assert {v for v in Verdict if v.failed} == {Verdict.SLOWER, Verdict.CHANGED, Verdict.BROKEN}


def test_goals() -> None:
    assert row(column(FASTER), name="repvgg_a0").missed == ()
    assert row(column(FASTER), name="nasrnn").missed == ("nasrnn: 1.200 times faster, goal 1.7",)
    assert row(column(FASTER), share=SLOWER).missed == ("m: 0.800 of its reference, goal 0.97",)
    unimproved = column(None, same=True)
    assert len(row(unimproved, name="bert_lora", improved=False, share=SLOWER).missed) == 2
    assert row(unimproved, name="bert_lora", improved=False, share=EQUAL).missed == ()


def test_another_tool_that_is_surely_faster_is_a_goal_missed() -> None:
    def beside(over_ours: Interval) -> Row:
        other = Column("onnxslim", 9, 1.0, False, FASTER, over_ours=over_ours)
        return replace(row(column(EQUAL)), others=(other,))

    assert beside(Interval(1.05, 1.005, 1.1)).missed == ()
    assert beside(Interval(1.05, 1.02, 1.1)).missed == ("m: onnxslim's is 1.050 [1.020, 1.100] times as fast as ours",)


def test_the_mean_is_given_without_the_networks_that_hide_the_others() -> None:
    rows = [row(column(Interval(4.0, 4.0, 4.0)), name="mobileone_s0"), row(column(None, same=True))]
    told = bench_report.means_text(rows)
    assert told.startswith("geometric mean: superopt 2.000")
    assert "without mobileone_s0 and nasrnn: superopt 1.000" in told


def test_it_is_told_how_many_searches_ended_before_their_time() -> None:
    reasons = [reason.value for reason in (StopReason.SATURATED, StopReason.STALLED, StopReason.TIME)]
    rows = [replace(row(column(FASTER)), result={"stop_reason": reason}) for reason in reasons]
    told = bench_report.searches_text([*rows, row(column(None, failure="exit 70"))])
    assert told == "searches that ended by themselves: 2 of 3; half of the runs took at most 1 s"


def test_table_markdown_and_json_hold_every_row(tmp_path: Path) -> None:
    rows = [row(column(FASTER), share=EQUAL), row(column(None, same=True), name="same", improved=False)]
    bench_report.write(rows, {"cpu": "c", "threads": 2}, tmp_path)
    text = (tmp_path / "bench.md").read_text()
    expected = "| m | 3.00 | 20 → 10 | 1 | 1.25 | 1.200 [1.100, 1.300] | failed | same file | 1.200 [1.100, 1.300] |"
    assert f"{expected} 1.010 [0.980, 1.040] | ok |" in text
    assert "cpu c, threads 2" in text
    assert "geometric mean: superopt 1.095, onnxsim 1.000, onnxslim 1.000\n" in text
    data = json.loads((tmp_path / "bench.json").read_text())
    assert [(m["model"], m["verdict"]) for m in data["models"]] == [("m", "ok"), ("same", "ok, same bytes")]
    assert data["models"][0]["ours"]["speedup"] == {"median": 1.2, "low": 1.1, "high": 1.3}
    table = bench_report.terminal_table(rows)
    assert table.row_count == 2
    assert len(table.columns) == len(bench_report.head(rows)) == 11


def test_a_tool_that_fails_leaves_one_line_and_no_stale_file(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    output.write_bytes(b"left by an earlier run")
    command = [sys.executable, "-c", "import sys; print('first', file=sys.stderr); sys.exit('the reason')"]
    run = bench_tools.run_tool("onnxsim", command, model, output)
    assert run.failure == "exit 1: the reason"
    assert run.output is None
    assert not output.exists()


def test_a_tool_that_copies_the_file_is_seen_as_such(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    copy = f"import shutil; shutil.copy({str(model)!r}, {str(output)!r})"
    run = bench_tools.run_tool("onnxslim", [sys.executable, "-c", copy], model, output)
    assert run.same_bytes
    assert run.nodes == bench_tools.node_count(model)


def test_every_file_is_timed_in_every_round(model: Path, settings: bench.Settings, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    reference = zoo.reference_path(model)
    rounds, failures = bench.time_together([model, broken, reference], bench.feeds_for(model), settings)
    assert [len(row) for row in rounds] == [2] * settings.rounds
    assert all(seconds > 0 for row in rounds for seconds in row)
    assert failures.keys() == {broken}


def test_a_broken_original_is_an_error(model: Path, settings: bench.Settings, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"broken\.onnx"):
        bench.time_together([broken, model], bench.feeds_for(model), settings)


def test_assess_pairs_tools_with_their_figures(
    model: Path, settings: bench.Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With invented times every ratio is known: original 6, ours 3, onnxslim 4, reference 2 seconds."""
    ours, slim, reference = tmp_path / "ours.onnx", tmp_path / "slim.onnx", zoo.reference_path(model)
    ours.write_bytes(model.read_bytes() * 2)
    slim.write_bytes(b"")
    seconds = {model: 6.0, ours: 3.0, slim: 4.0, reference: 2.0}
    monkeypatch.setattr(bench, "time_together", lambda files, *_: ([[seconds[file] for file in files]] * 20, {}))
    runs = [
        ToolRun("superopt", ours, 1.0, nodes=5, result={"improved": True, "stop_reason": "no further gain"}),
        ToolRun("onnxsim", None, 1.0, failure="exit 1: no"),
        ToolRun("onnxslim", slim, 1.0, nodes=7),
    ]
    found = bench.assess(model, "nasrnn", runs, reference, settings)
    assert found.latency_ms == 6000
    assert found.improved is True
    assert found.result == runs[0].result
    assert found.ours.speedup == Interval(2, 2, 2)
    assert [c.speedup for c in found.others] == [None, Interval(1.5, 1.5, 1.5)]
    assert [c.growth for c in (found.ours, *found.others)] == [2, None, 0]
    assert [c.over_ours for c in (found.ours, *found.others)] == [None, None, Interval(0.75, 0.75, 0.75)]
    assert found.reference == Interval(3, 3, 3)
    assert found.share is not None
    assert found.share.median == pytest.approx(2 / 3)
    copied = bench.assess(
        model, "nasrnn", [ToolRun("superopt", model, 1.0, nodes=9, same_bytes=True)], reference, settings
    )
    assert copied.share is not None
    assert copied.share.median == pytest.approx(1 / 3)
    assert copied.verdict is Verdict.SAME


def fake_tools(monkeypatch: pytest.MonkeyPatch, ours: Callable[[Path, Path], ToolRun]) -> None:
    absent = "exit 1: not installed"
    monkeypatch.setattr(bench, "run_ours", lambda model, output, **_: ours(model, output))
    monkeypatch.setattr(bench, "run_onnxsim", lambda *_: ToolRun("onnxsim", None, 0.0, failure=absent))
    monkeypatch.setattr(bench, "run_onnxslim", lambda *_: ToolRun("onnxslim", None, 0.0, failure=absent))


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 1)])
def test_the_command_writes_its_files_and_its_exit_code_tells(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool, code: int
) -> None:
    def ours(source: Path, output: Path) -> ToolRun:
        if broken:
            return ToolRun("superopt", None, 0.0, failure="exit 70: broken")
        output.write_bytes(source.read_bytes())
        return ToolRun(
            "superopt", output, 0.0, nodes=4, same_bytes=True, result={"improved": False, "stop_reason": "time budget"}
        )

    fake_tools(monkeypatch, ours)
    out = tmp_path / "bench"
    arguments = [str(model), "--out", str(out), "--rounds", "20", "--block", "0.001", "--threads", "1"]
    done = CliRunner().invoke(bench.main, arguments)
    assert done.exit_code == code, done.output
    assert sorted(p.name for p in out.iterdir() if p.suffix != ".onnx") == ["bench.json", "bench.md"]
    (found,) = json.loads((out / "bench.json").read_text())["models"]
    assert found["model"] == "nasrnn"
    assert found["verdict"].startswith("FAIL" if broken else "ok, same")
    assert found["reference"]["low"] > 0


def test_bad_arguments_are_usage_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(bench.main, ["nasrnn", "--rounds", "19"]).exit_code == 2
    done = CliRunner().invoke(bench.main, ["nasrnn", "no_such_model"])
    assert done.exit_code == 2
    assert "'no_such_model' is neither a file nor in the zoo" in done.output
    assert list(tmp_path.iterdir()) == []


def test_without_names_the_whole_zoo_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = {name: zoo.Entry("built in code", NETWORKS[name]) for name in ("tiny_mlp", "tiny_cnn")}
    monkeypatch.setattr(zoo, "ZOO", built)
    fake_tools(monkeypatch, lambda *_: ToolRun("superopt", None, 0.0, failure="exit 70: broken"))
    folders = ["--out", str(tmp_path / "out"), "--zoo", str(tmp_path / "zoo")]
    done = CliRunner().invoke(bench.main, [*folders, "--block", "0.001", "--threads", "1"])
    assert done.exit_code == 1, done.output
    models = json.loads((tmp_path / "out" / "bench.json").read_text())["models"]
    assert [m["model"] for m in models] == ["tiny_mlp", "tiny_cnn"]


def test_a_missing_zoo_model_is_exported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "ZOO", {"tiny_mlp": zoo.Entry("built in code", NETWORKS["tiny_mlp"])})
    path = bench.locate("tiny_mlp", tmp_path / "zoo")
    assert path == tmp_path / "zoo" / "tiny_mlp.onnx"
    assert path.is_file()

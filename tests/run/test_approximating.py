"""`optimize --error-budget`: the exact search first, an approximation of its result, and two books that stay apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from taso_py.approximate.layers import approximate_nodes
from taso_py.backend.protocol import CPU
from taso_py.backend.race import RaceResult
from taso_py.certificate.certify import Certified
from taso_py.cli import main
from taso_py.errors import ApproximateError, CertificateError, GateError, SuperoptError
from taso_py.providers.race import ProviderRace
from taso_py.providers.record import read_record, session_file
from taso_py.report.deployment import deployment
from taso_py.report.document import html, markdown
from taso_py.report.terminal import result_text
from taso_py.run import approximation
from tests.conftest import tiny_network
from tests.helpers.approximating import COUNT, made_place, optimized
from tests.helpers.certified import trusting
from tests.helpers.interpreters import STUB, stub_provider
from tests.helpers.precision import classifier, samples, saved
from tests.helpers.schemas import require_valid


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing depends on how fast the machine is."""
    return made_place(tmp_path, monkeypatch)


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
    how = deployment(result)
    assert how is not None
    assert "--calibration new.npz" in how.again
    assert "t.npz" not in how.again
    assert "1.50 from proved rewrites, 2.00 from approximations, 3.00 together" in result_text(result)


def test_where_proved_rewrites_find_nothing_they_gain_one(place: Path) -> None:
    result = optimized()
    told = result.approximation
    assert told is not None
    assert (result.improved, result.reason, result.speedup, told.exact_speedup) == (True, None, 1.0, 1.0)
    assert told.exact_reason == "nothing was priced faster"
    named = approximate_nodes(result.model, classifier())
    assert set() != {one.name for one in told.approximated} < set(named)
    assert told.approximate_nodes == named
    assert f"{len(told.approximated)} layers and {len(named) - len(told.approximated)} other nodes" in told.sentence()
    assert told.worst_layer in {one.name for one in told.layers}


def test_what_is_written_keeps_the_interface_and_says_what_it_is(place: Path) -> None:
    result = optimized().save("out.onnx")
    exact, written = classifier(), onnx.load("out.onnx")
    assert (list(written.graph.input), list(written.graph.output)) == ([*exact.graph.input], [*exact.graph.output])
    stated = {entry.key: entry.value for entry in written.metadata_props}
    assert stated["author"] == "somebody"
    about = json.loads(stated["superopt.approximate"])
    assert result.approximation is not None
    assert about["layers"] == [one.name for one in result.approximation.approximated]
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
    bench.insert(2, "m.onnx")
    assert main([*bench, "rel=0.2", "--calibration", "d.npz", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all("for each of 2 models" in one["budget"]["warrant"] for one in told["models"][1:])
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
    assert set(told["unproved"]) == set(approximate_nodes(onnx.load("out.onnx"), classifier())) != set()
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


# ---- another provider ------------------------------------------------------------------------------------------------


def test_the_approximation_is_of_the_result_where_that_was_placed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = stub_provider(place)
    seconds = {CPU: 2.0, STUB: 1.0}
    monkeypatch.setattr(ProviderRace, "_timed", lambda self, one, alive, block_s: (seconds[one.config.ep], 0.0))
    asked = []
    real = approximation.race

    def race(worker: Any, models: Sequence[Any], *arguments: Any, **further: Any) -> RaceResult:
        asked.append(worker.config)
        return real(worker, models, *arguments, **further)

    monkeypatch.setattr(approximation, "race", race)
    result = optimized(ep="auto", ep_python=[python], time_budget_s=90.0)
    assert result.approximate
    assert result.placement is not None
    assert result.placement.ep == STUB
    assert [(one.ep, one.python) for one in asked] == [(STUB, str(python))]
    saved = result.save("out.onnx")
    assert read_record(session_file(Path("out.onnx"))).sha256 == saved.output_sha256


# ---- gates -----------------------------------------------------------------------------------------------------------


def test_the_gate_is_about_what_is_written(place: Path) -> None:
    result = optimized().save("out.onnx")
    result.judged({"min-speedup": 1.75, "max-rel-error": 0.2, "max-size": 1.0}).require_gate()
    with pytest.raises(GateError, match="max-rel-error"):
        result.judged({"max-rel-error": 1e-6}).require_gate()
    with pytest.raises(GateError, match="min-speedup"):
        result.judged({"min-speedup": 1.8}).require_gate()

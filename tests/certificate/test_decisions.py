"""Decisions: recorded by `optimize`, made again by `apply` on the same weights, on others, and in part."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import taso_py
from scripts.audit.certificates.false_laws import BOUNDED_LAWS, FALSE_LAWS, FalseLaw
from scripts.bench.networks import mobileone_s0, nasrnn
from taso_py import api
from taso_py.cli import main
from taso_py.errors import DecisionsError, MismatchError, OutputError, UsageError
from tests.conftest import RunCli
from tests.helpers.certified import Case, convnet, overridable, trusting, weight
from tests.helpers.graphs import model

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "convnet": convnet,
    "nasrnn": lambda: nasrnn(steps=2, hidden=16),
    "mobileone": lambda: mobileone_s0(width=0.25, image=32, blocks=(1, 1, 1, 1), branches=1),
}
OLD_CPU = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"}
"""What numpy and its BLAS then compute with: instructions of 2008."""
CONDITIONAL = """agraph (float[4,4] x) => (float[4,4] y, float[4,4] z) {
  a = Mul(x, one) y = Relu(a) b = Mul(y, unit) z = Tanh(b)}"""
ONES = "rule times-one: Mul(x, 1.0) => x\n"


class Recorded(Case):
    """A model, its optimised form and the decisions that led there."""

    def apply(self, model: Path | None = None, **options: Any) -> Any:
        """The decisions made again, on this model unless another is given."""
        return taso_py.apply(model or self.original, self.certificate, **options)

    def rewrite(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Other decisions in the file."""
        document = self.document()
        change(document)
        self.certificate.write_text(json.dumps(document))


def recorded(folder: Path, proto: onnx.ModelProto, **options: Any) -> Recorded:
    """The model optimised without timing, in this folder, and what was decided."""
    case = Recorded(folder / "original.onnx", folder / "optimised.onnx", folder / "decisions.json")
    onnx.save(proto, case.original)
    result = taso_py.optimize(case.original, race=False, cache=folder / "regions.sqlite", **options).save(
        case.optimised
    )
    result.save_decisions(case.certificate)
    return case


def retrained(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with other weights: positive ones stay positive."""
    made, random = onnx.ModelProto(), np.random.default_rng(5)
    made.CopyFrom(proto)
    for tensor in made.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 1:
            other = (array * random.uniform(0.8, 1.2, array.shape)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(other, tensor.name))
    return made


@pytest.fixture
def done(tmp_path: Path) -> Recorded:
    """`convnet` decided on."""
    return recorded(tmp_path, convnet())


@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_model_gives_the_same_bytes_and_another_a_certified_one(name: str, tmp_path: Path) -> None:
    case = recorded(tmp_path, NETWORKS[name]())
    same = case.apply(threads=1).save(tmp_path / "same.onnx")
    assert same.same_model
    assert not same.skipped
    assert (tmp_path / "same.onnx").read_bytes() == case.optimised.read_bytes()
    other = tmp_path / "retrained.onnx"
    onnx.save(retrained(onnx.load(case.original)), other)
    made = case.apply(other).save(tmp_path / "other.onnx")
    assert (made.same_model, made.steps, made.places) == (False, same.steps, same.places)
    stated = {prop.key: prop.value for prop in made.model.metadata_props}
    assert stated["superopt.applied"] == "untimed"
    assert "applied" not in " ".join(prop.key for prop in same.model.metadata_props)
    assert stated["superopt.original"] == hashlib.sha256(other.read_bytes()).hexdigest()
    made.save_certificate(tmp_path / "certificate.json")
    assert taso_py.certify(other, made.output, tmp_path / "certificate.json", prover=trusting).steps == made.steps


def test_an_older_cpu_other_threads_and_an_empty_cache_give_the_same_bytes(done: Recorded, run_cli: RunCli) -> None:
    for number, (extra, threads) in enumerate(((OLD_CPU, 2), (OLD_CPU | {"OMP_NUM_THREADS": "1"}, 1))):
        out = done.original.parent / f"again{number}.onnx"
        home = {"XDG_CACHE_HOME": str(done.original.parent / f"cache{number}")}
        found = run_cli(
            "apply", done.original, done.certificate, "-o", out, "--threads", str(threads), env=extra | home
        )
        assert found.returncode == 0, found.stderr
        assert out.read_bytes() == done.optimised.read_bytes()


def test_the_decision_to_leave_a_model_as_it_is_is_one_and_says_why(tmp_path: Path) -> None:
    case = recorded(tmp_path, model("agraph (float[4] x) => (float[4] y) {y = Tanh(x)}"))
    found = case.apply().save(tmp_path / "out.onnx")
    assert (found.steps, found.nodes_after) == (0, 1)
    assert found.decided == case.document()["measured"]["reason"]["words"]
    assert str(found.decided) in found.text()
    assert (tmp_path / "out.onnx").read_bytes() == case.original.read_bytes()


def conditional(folder: Path) -> Recorded:
    """Two products with ones, which go; both places belong to one step."""
    (folder / "ones.rules").write_text(ONES)
    proto = model(CONDITIONAL, one=(4, 4), unit=(4, 4))
    for name in ("one", "unit"):
        weight(proto, name).CopyFrom(numpy_helper.from_array(np.ones((4, 4), np.float32), name))
    return recorded(folder, proto, rules=[folder / "ones.rules"])


def test_conditions_on_weights_are_decided_again(tmp_path: Path) -> None:
    case = conditional(tmp_path)
    assert case.apply().nodes_after == 2
    proto = onnx.load(case.original)
    weight(proto, "unit").CopyFrom(numpy_helper.from_array(np.full((4, 4), 1.5, np.float32), "unit"))
    onnx.save(proto, tmp_path / "other.onnx")
    with pytest.raises(DecisionsError, match=r"step 1 of 1 \(times-one\)"):
        case.apply(tmp_path / "other.onnx")
    found = case.apply(tmp_path / "other.onnx", partial=True).save(tmp_path / "out.onnx")
    assert [(s.number, s.places, s.of) for s in found.skipped] == [(1, 1, 2)]
    assert [node.op_type for node in found.model.graph.node] == ["Relu", "Mul", "Tanh"]
    found.save_certificate(tmp_path / "certificate.json")
    assert taso_py.certify(tmp_path / "other.onnx", found.output, tmp_path / "certificate.json").places == 1


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_any_step_can_be_lost_and_the_rest_is_still_certified(share: float, tmp_path: Path) -> None:
    case = recorded(tmp_path, nasrnn(steps=2, hidden=16))
    steps = case.document()["steps"]
    number = round(share * (len(steps) - 1))
    case.rewrite(lambda document: document["steps"][number]["places"][0].update(outputs=["nothing"]))
    with pytest.raises(DecisionsError, match=rf"step {number + 1} of .* there is no value nothing"):
        case.apply()
    found = case.apply(partial=True).save(tmp_path / "part.onnx")
    assert found.skipped[0].number == number + 1
    assert found.skipped[0].of == len(steps[number]["places"])
    found.save_certificate(tmp_path / "part.json")
    certified = taso_py.certify(case.original, found.output, tmp_path / "part.json", prover=trusting)
    assert (certified.steps, certified.places) == (found.steps, found.places)


def forged(law: FalseLaw, folder: Path) -> tuple[Path, Path]:
    """A model, and decisions to rewrite it by a law that does not hold there; scripts/audit has them all."""
    case = law.case()
    stated = json.loads(json.dumps(case.document))
    onnx.save(case.original, folder / "m.onnx")
    kept = {name: stated[name] for name in ("original", "freeze_initializers", "metadata", "rules", "steps")}
    (folder / "d.json").write_text(json.dumps({"schema": "superopt.decisions/1", "measured": {}} | kept))
    return folder / "m.onnx", folder / "d.json"


@pytest.mark.parametrize("law", FALSE_LAWS[::8], ids=lambda law: law.rule.name)
def test_decisions_by_a_law_that_is_not_proved_are_refused(law: FalseLaw, tmp_path: Path) -> None:
    with pytest.raises(DecisionsError, match=law.rule.name):
        taso_py.apply(*forged(law, tmp_path))


@pytest.mark.parametrize("law", BOUNDED_LAWS[:2], ids=lambda law: law.rule.name)
def test_decisions_by_a_law_that_holds_elsewhere_are_refused_or_left_out(law: FalseLaw, tmp_path: Path) -> None:
    files = forged(law, tmp_path)
    with pytest.raises(DecisionsError, match=law.rule.name):
        taso_py.apply(*files)
    with suppress(DecisionsError):
        assert taso_py.apply(*files, partial=True).steps == 0


def twice(document: dict[str, Any]) -> None:
    document["rules"].append(document["rules"][0])


def unhashed(document: dict[str, Any]) -> None:
    document["rules"][0]["id"] = "0" * 12


def altered(document: dict[str, Any]) -> None:
    document["rules"][0]["text"] = document["rules"][0]["text"].replace("=>", "==")


@pytest.mark.parametrize(
    ("change", "error", "line"),
    [
        (twice, DecisionsError, "a rule twice"),
        (unhashed, DecisionsError, "is not the one with id 0000"),
        (altered, DecisionsError, "altered|cannot be read|something else"),
        (lambda d: d["rules"].clear(), DecisionsError, "states no rule"),
        (lambda d: d["metadata"].update(licence="mine"), DecisionsError, "metadata licence is none"),
        (lambda d: d["metadata"].update({"superopt.x": "y"}), DecisionsError, "metadata superopt.x is none"),
        (lambda d: d["metadata"].update({"superopt.cpu": "y" * 2**17}), DecisionsError, "has over"),
        (lambda d: d["steps"].extend(d["steps"]), DecisionsError, "step "),
        (lambda d: d["steps"][0].update(places=[]), DecisionsError, "names no place"),
        (lambda d: d["steps"][0]["gives"].update({"y": "Tanh(x)"}), DecisionsError, "where the graph"),
        (lambda d: d.update(freeze_initializers=True), UsageError, "--freeze-initializers"),
        (lambda d: d.update(more=1), UsageError, "more is no field"),
        (lambda d: d.update(schema="superopt.certificate/2"), UsageError, "its schema is not superopt.decisions/1"),
        (lambda d: d.update(steps=3), UsageError, "steps is missing or no list"),
    ],
)
def test_what_the_file_says_is_not_believed(
    change: Callable[[dict[str, Any]], object], error: type[Exception], line: str, done: Recorded
) -> None:
    done.rewrite(change)
    with pytest.raises(error, match=line):
        done.apply()


def test_files_that_hold_no_decisions(done: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = done.certificate.read_text()
    (tmp_path / "short.json").write_text(text[: len(text) // 2])
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "pipe")
    for name in ("short.json", "deep.json", "binary.json", "huge.json", "pipe", "missing.json", "."):
        assert main(["apply", str(done.original), str(tmp_path / name), "-o", str(tmp_path / "out.onnx")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert str(tmp_path / name) in error
    assert not (tmp_path / "out.onnx").exists()


def test_a_model_that_the_steps_were_not_made_for_is_refused_in_one_line(done: Recorded, tmp_path: Path) -> None:
    onnx.save(model("agraph (float[4] x) => (float[4] y) {y = Tanh(x)}"), tmp_path / "other.onnx")
    with pytest.raises(DecisionsError, match=r"step 1 of .* there is no value"):
        done.apply(tmp_path / "other.onnx")
    with pytest.raises(DecisionsError, match="no step holds for this model; the first, step 1"):
        done.apply(tmp_path / "other.onnx", partial=True)


def test_overridable_initializers_need_the_callers_word(tmp_path: Path) -> None:
    case = recorded(tmp_path, overridable(), freeze_initializers=True)
    with pytest.raises(UsageError, match="say so here too"):
        case.apply()
    assert case.apply(freeze_initializers=True).steps > 0


def test_weights_that_leave_the_range_are_refused(done: Recorded, tmp_path: Path) -> None:
    """The folded weight is scale / sqrt(var) times the kernel: here larger than any float32."""
    proto = onnx.load(done.original)
    for name, value in (("scale", 1e38), ("var", 1e-30)):
        weight(proto, name).CopyFrom(numpy_helper.from_array(np.full(4, value, np.float32), name))
    onnx.save(proto, tmp_path / "other.onnx")
    with pytest.raises((DecisionsError, MismatchError)):
        done.apply(tmp_path / "other.onnx")


def test_the_tolerance_that_is_asked_for_counts(done: Recorded) -> None:
    assert done.apply(rtol=1e-3, atol=1e-3).steps > 0
    with pytest.raises(MismatchError, match="change the model's values"):
        done.apply(rtol=0.0, atol=0.0)


def test_the_command_line_records_and_applies(tmp_path: Path, run_cli: RunCli) -> None:
    onnx.save(convnet(), tmp_path / "m.onnx")
    said = run_cli("optimize", "m.onnx", "--no-race", "--record", "d.json", "-o", "a.onnx", "--json")
    assert said.returncode == 0, said.stderr
    decisions = json.loads((tmp_path / "d.json").read_text())
    assert decisions["measured"]["ort_version"] == json.loads(said.stdout)["ort_version"]
    found = run_cli("apply", "m.onnx", "d.json", "-o", "b.onnx", "--certificate", "c.json", "--json")
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert told["output_sha256"] == json.loads(said.stdout)["output_sha256"]
    assert told["skipped"] == []
    assert run_cli("certify", "m.onnx", "b.onnx", "c.json").returncode == 0
    assert run_cli("apply", "m.onnx", "d.json", "-o", "b.onnx").returncode == 4  # it is there already
    assert run_cli("apply", "m.onnx", "d.json", "-o", "x.onnx", "--certificate", "x.onnx").returncode == 2
    before = (tmp_path / "d.json").read_bytes()
    for over in (("-o", "d.json"), ("-o", "y.onnx", "--certificate", "d.json")):
        assert run_cli("apply", "m.onnx", "d.json", *over, "--force").returncode == 4
    assert (tmp_path / "d.json").read_bytes() == before
    with pytest.raises(OutputError, match="a file that is read"):
        taso_py.apply(tmp_path / "m.onnx", tmp_path / "d.json").save(tmp_path / "d.json", force=True)


def test_what_was_applied_to_other_weights_is_no_result_of_a_search(done: Recorded, tmp_path: Path) -> None:
    onnx.save(retrained(onnx.load(done.original)), tmp_path / "other.onnx")
    done.apply(tmp_path / "other.onnx").save(tmp_path / "out.onnx")
    found = api.standing(tmp_path / "other.onnx", tmp_path / "out.onnx", race=False)
    assert "superopt apply made it" in str(found.unlike)

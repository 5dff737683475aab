"""Certificates: written for every kind of step, replayed from the original alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from scripts.audit.certificates.false_laws import FALSE_LAWS, FalseLaw
from scripts.bench.networks import mobileone_s0, nasrnn
from taso_py.backend.pool import WorkerPool
from taso_py.certificate.certify import certify
from taso_py.certificate.numeric import Inputs, mixed_feeds
from taso_py.certificate.record import Trail
from taso_py.check.facts import read_facts
from taso_py.check.shapes import resolve_shapes
from taso_py.cli import main
from taso_py.errors import CertificateError, OutputError, RuntimeMissingError, UsageError
from taso_py.graph.types import TensorType
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.ops.elementwise import Max, Sum
from taso_py.ops.layout import Concat, Split
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Counterexample, Proved, Refuted, Unknown, Verdict
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search import arity
from tests.conftest import RunCli
from tests.helpers.certified import FOLDING, Case, convnet, every_use, optimised, overridable, trusting
from tests.helpers.graphs import model, rewriter, view_of

SIBLINGS = """agraph (float[N,8] x) => (float[N,4] p, float[N,6] q, float[N,2] r) {
  p = MatMul(x, A) q = Gemm(x, B, b) t = MatMul(x, C) r = Relu(t)}"""
LORA = """agraph (float[2,16] x) => (float[2,16] y) {
  base = MatMul(x, W) down = MatMul(x, A) up = MatMul(down, B) s = Mul(up, scale) y = Add(base, s)}"""

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "siblings": lambda: model(SIBLINGS, A=(8, 4), B=(8, 6), C=(8, 2), b=(6,)),
    "lora": lambda: model(LORA, W=(16, 16), A=(16, 2), B=(2, 16), scale=(1,)),
    "convnet": convnet,
    "nasrnn": lambda: nasrnn(steps=2, hidden=16),
    "mobileone": lambda: mobileone_s0(width=0.25, image=32, blocks=(1, 1, 1, 1)),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Workers that several tests share."""
    with WorkerPool() as lent:
        yield lent


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """`convnet` optimised."""
    return optimised(tmp_path_factory.mktemp("convnet"), convnet(), only=FOLDING)


@pytest.mark.parametrize("apply", ["best", "all"])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_optimize_writes_is_certified(name: str, apply: str, tmp_path: Path) -> None:
    case = optimised(tmp_path, NETWORKS[name](), apply=apply)
    found = case.certify()
    assert found.steps >= 1
    assert found.places >= found.steps
    assert found.same_file
    assert found.largest_ulp == 0
    assert {law.id for law in found.rules} == {step["id"] for step in every_use(case.document())}


def test_siblings_merge_by_binary_applications() -> None:
    """Three products of one tensor, one of them inside a Gemm: two merges, and slices tidied into a Split."""
    document = merged()
    merges = [step for step in document["steps"] if step["rule"] == "matmul-shared-input"]
    assert len(merges) == 2
    assert all(len(place["outputs"]) == 2 for step in merges for place in step["places"])
    assert {use["rule"] for use in every_use(document)} >= {"gemm-bias", "split-slices", "slice-of-slice"}


def test_an_output_inside_a_composite_says_so() -> None:
    document = merged()
    step = next(step for step in document["steps"] if any(place["inside"] for place in step["places"]))
    (inside,) = (place["inside"] for place in step["places"])
    assert set(inside.values()) <= {look["value"] for look in step["looks"]}


def merged() -> dict[str, Any]:
    """The certificate of one move that merges `SIBLINGS`, written without ONNX Runtime."""
    proto = NETWORKS["siblings"]()
    loaded = load(proto)
    rules, canonical = rewriter(None, "matmul-shared-input")
    view = view_of(loaded, canonical)
    (group,) = rules.groups(view, rules.all_matches(view))
    outcome = rules.apply(view, group)
    assert outcome is not None
    exported = export(loaded, outcome.view.table)
    trail = Trail(
        source=proto,
        loaded=loaded,
        canonical=canonical,
        applied=outcome.applied,
        table=outcome.view.table,
        exported=exported,
    )
    return json.loads(trail.certificate(onnx.ModelProto.FromString(serialize(exported))))


def test_a_certificate_is_the_same_every_time(done: Case, tmp_path: Path) -> None:
    again = optimised(tmp_path, convnet(), only=FOLDING)
    assert again.certificate.read_bytes() == done.certificate.read_bytes()


def test_names_of_the_original_and_of_new_values_are_told_apart(tmp_path: Path) -> None:
    proto = model(LORA, W=(16, 16), A=(16, 2), B=(2, 16), scale=(1,))
    for node in proto.graph.node:
        node.input[:] = ["#1" if i == "down" else i for i in node.input]
        node.output[:] = ["#1" if o == "down" else o for o in node.output]
    assert optimised(tmp_path, proto, apply="all").certify().steps


def test_an_unchanged_model_has_a_certificate_without_steps(tmp_path: Path) -> None:
    case = optimised(tmp_path, convnet(), rules=[])
    document = case.document()
    assert document["steps"] == document["rules"] == []
    assert document["original"] == document["optimised"]
    assert case.certify().steps == 0
    broken = onnx.load(case.optimised)
    broken.graph.node[0].attribute[0].ints[0] = 0
    onnx.save(broken, case.optimised)
    with pytest.raises(CertificateError, match="attribute pads of node c_node"):
        case.certify()


def test_weights_beside_the_model(tmp_path: Path) -> None:
    proto = convnet()
    folder = tmp_path / "in"
    folder.mkdir()
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="m.weights", size_threshold=0)
    result = taso_py.optimize(folder / "m.onnx", race=False).save(tmp_path / "out.onnx")
    result.save_certificate(tmp_path / "c.json")
    found = taso_py.certify(folder / "m.onnx", tmp_path / "out.onnx", tmp_path / "c.json", prover=trusting)
    assert found.weights
    assert json.loads((tmp_path / "c.json").read_text())["original"]["external"].keys() == {"m.weights"}
    weights = bytearray((tmp_path / "out.onnx.data").read_bytes())
    weights[1] ^= 1
    (tmp_path / "out.onnx.data").write_bytes(weights)
    with pytest.raises(CertificateError, match=r"^weight "):
        taso_py.certify(folder / "m.onnx", tmp_path / "out.onnx", tmp_path / "c.json", prover=trusting)


def test_frozen_initializers_are_an_assumption_on_record(tmp_path: Path) -> None:
    case = optimised(tmp_path, overridable(), freeze_initializers=True, only=FOLDING)
    assert case.document()["freeze_initializers"] is True
    assert case.certify(freeze_initializers=True).weights
    with pytest.raises(UsageError, match="say so with freeze_initializers=True"):
        case.certify()
    text = case.certificate.read_text().replace('"freeze_initializers": true', '"freeze_initializers": false')
    case.certificate.write_text(text)
    with pytest.raises(UsageError, match="made without freeze_initializers=True: leave it out"):
        case.certify(freeze_initializers=True)
    with pytest.raises(CertificateError):
        case.certify()


# ---- rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (Unknown("too hard"), r"is not proved: too hard"),
        (Proved(limit=3), "is proved up to size 3 only"),
        (Refuted(Counterexample({"n": 2}, {}, np.zeros(1), np.ones(1))), "is false: "),
    ],
)
def test_only_a_proof_for_all_sizes_counts(verdict: Verdict, line: str, done: Case) -> None:
    with pytest.raises(CertificateError, match=line):
        taso_py.certify(done.original, done.optimised, done.certificate, prover=lambda rule: verdict)


def test_a_law_is_proved_again_where_a_proof_covers_other_typings(done: Case) -> None:
    elsewhere = taso_py.certify(
        done.original, done.optimised, done.certificate, prover=lambda rule: Proved(patterns=("another",))
    )
    assert elsewhere.steps


def laws_of_arity() -> list[Rule]:
    """For some numbers of operands, with and without broadcasting."""
    alike, others = [TensorType("float32", (2, 3))] * 8, [TensorType("float32", (k,)) for k in range(8)]
    laws = [law for n in (1, 2, 3, 8) for law in arity.expanding_laws(Sum(), alike[:n])]
    laws += [law for o in (Concat(axis=1), Max(), Sum()) for law in arity.expanding_laws(o, others[:4])]
    laws += [law for k in range(3) for law in arity.expanding_laws(Split(1, (2, 3, 4), k), alike[:1])]
    nested = "{0}({0}(x0, x1{1}), x2, {0}(x3, x4, x5{1}){1})"
    for o, attributes in ((Concat(axis=1), ", axis=axis"), (Max(), ""), (Sum(), "")):
        laws.append(arity._flat_law(o, nested.format(o.onnx, attributes), 6, o == Max()))
    return laws + [arity._cutting_law(n) for n in (2, 3, 8)]


@pytest.mark.parametrize("law", laws_of_arity(), ids=lambda law: law.text().split("\n")[1].strip()[:60])
def test_laws_of_arity_are_rules_like_any_other(law: Rule) -> None:
    assert parse_rule(law.text()).id == law.id
    assert not law.unbound()


@pytest.mark.slow
@pytest.mark.parametrize("law", laws_of_arity(), ids=lambda law: law.text().split("\n")[1].strip()[:60])
def test_laws_of_arity_are_proved(law: Rule) -> None:
    verdict = prove(law)
    assert isinstance(verdict, Proved), verdict
    assert verdict.limit is None


# ---- the command line -------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line proves by `trusting`."""
    monkeypatch.setattr("taso_py.prove.prover.prove", trusting)


@pytest.mark.usefixtures("trusted")
def test_certify_says_that_it_holds(done: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", *done.arguments()]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert out.count("\n") == 1
    assert f"{done.optimised} follows from {done.original} by" in out


@pytest.mark.usefixtures("trusted")
def test_certify_says_why_it_does_not_hold(done: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = onnx.load(done.optimised)
    inputs = next(n for n in proto.graph.node if n.op_type == "Sub").input
    inputs[0], inputs[1] = inputs[1], inputs[0]
    onnx.save(proto, tmp_path / "changed.onnx")
    arguments = ["certify", *Case(done.original, tmp_path / "changed.onnx", done.certificate).arguments()]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("superopt: error: input 0 of node d_node (Sub)")
    assert err.count("\n") == 1
    assert main([*arguments, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is False
    assert told["reason"].startswith("input 0 of node d_node")


@pytest.mark.usefixtures("trusted")
def test_certify_json(done: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", *done.arguments(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "superopt.certification/1"
    assert told["holds"] is True
    assert told["same_file"] is True
    assert {"batchnorm-into-conv"} <= {rule["name"] for rule in told["rules"]}


@pytest.mark.usefixtures("trusted")
def test_certify_takes_its_tolerance_from_its_own_command_line_alone(
    done: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RTOL", "ATOL"):
        monkeypatch.setenv(f"SUPEROPT_{name}", "0")
    assert main(["certify", *done.arguments()]) == 0
    assert main(["certify", *done.arguments(), "--rtol", "0", "--atol", "0"]) == 1
    assert "allowed 0 + 0*|y| in every element" in capsys.readouterr().err
    assert main(["certify", *done.arguments(), "--rtol", "0", "--atol", "1"]) == 0


@pytest.mark.usefixtures("trusted")
def test_certify_needs_onnx_runtime(
    done: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("taso_py.backend.runtime.installed_distributions", list)
    assert main(["certify", *done.arguments()]) == 5
    assert capsys.readouterr().err.startswith("superopt: error: ONNX Runtime is not installed: run")
    with pytest.raises(RuntimeMissingError):
        done.certify()
    assert main(["certify", "--help"]) == 0
    assert "exit code 5" in capsys.readouterr().out


@pytest.mark.usefixtures("trusted")
def test_what_was_frozen_must_be_said_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = optimised(tmp_path, overridable(), freeze_initializers=True, only=FOLDING)
    assert main(["certify", *case.arguments()]) == 2
    assert "if nobody overrides them, say so with --freeze-initializers" in capsys.readouterr().err
    assert main(["certify", "--freeze-initializers", *case.arguments()]) == 0


def test_inputs_may_be_given(done: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 3, 8, 8), np.float32))
    assert done.certify(seed=3).inputs == done.certify().inputs
    with pytest.raises(UsageError, match="x"):
        done.certify(shapes={"x": (2, 3, 8, 8)})
    assert main(["certify", "--input", f"x={tmp_path / 'x.npy'}", *done.arguments()]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("law", [law for law in FALSE_LAWS if law.shows], ids=lambda law: law.rule.name)
def test_models_are_compared_whoever_believes_in_the_rules(law: FalseLaw, pool: WorkerPool, tmp_path: Path) -> None:
    files = law.case().written(tmp_path)
    with pytest.raises(CertificateError, match=r"^the models do not agree in ONNX Runtime: output 'z'"):
        certify(*files, prover=lambda rule: Proved(patterns=DEFINED), pool=pool)


def test_zeros_stand_beside_other_numbers() -> None:
    """So a divisor vanishes in one place while another is read."""
    text = """agraph (bool[4,4] c, float[4,4] x, float[4,4] y) => (float[4,4] z, float[4,4] s) {
      q = Div(x, y) d = Div(y, y) s = Add(d, d) z = Where(c, q, x)}"""
    feeds = mixed_feeds(read_facts(model(text)).inputs, resolve_shapes(read_facts(model(text)).inputs, {}), Inputs(), 0)
    assert feeds["c"].dtype == np.bool_
    for name in ("x", "y"):
        assert {0.0, 1.0, -1.0} <= set(feeds[name].ravel().tolist())


def test_exit_codes(done: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, other, certificate = done.arguments()
    (tmp_path / "c.json").write_text("{}")
    assert main(["certify", original, other, str(tmp_path / "c.json")]) == 2
    assert main(["certify", original, other]) == 2
    assert main(["certify", str(tmp_path / "no.onnx"), other, certificate]) == 3
    assert main(["certify", original, str(tmp_path / "c.json"), certificate]) == 3
    assert capsys.readouterr().err.count("\n") == 4


def test_optimize_writes_a_certificate(run_cli: RunCli, tmp_path: Path) -> None:
    onnx.save(convnet(), tmp_path / "m.onnx")
    ran = run_cli("optimize", "m.onnx", "-o", "o.onnx", "--no-race", "--certificate", "c.json")
    assert ran.returncode == 0, ran.stderr
    assert Case(tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / "c.json").certify().steps


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--certificate", "o.onnx"), "--certificate and --output are both o.onnx"),
        (("--certificate", "c.json", "--report", "c.json"), "--certificate and --report are both c.json"),
        (("--certificate", "c.json", "--dry-run"), "drop --dry-run or --certificate"),
    ],
)
def test_a_certificate_needs_a_place_of_its_own(
    arguments: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(convnet(), tmp_path / "m.onnx")
    assert main(["optimize", "m.onnx", "-o", "o.onnx", *arguments]) == 2
    assert line in capsys.readouterr().err


def test_a_certificate_never_replaces_a_model(done: Case) -> None:
    result = taso_py.optimize(done.original, race=False, rules=[])
    with pytest.raises(OutputError, match="would overwrite"):
        result.save_certificate(done.original, force=True)
    with pytest.raises(OutputError, match="exists already"):
        result.save_certificate(done.certificate)


@pytest.mark.slow
def test_the_prover_proves_what_a_certificate_needs(done: Case) -> None:
    assert taso_py.certify(done.original, done.optimised, done.certificate).rules

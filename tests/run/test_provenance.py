"""Where a result comes from stands in it, and a later run reads it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from taso_py import api
from taso_py.backend import runtime
from taso_py.certificate.document import Digest
from taso_py.errors import OutputError
from taso_py.onnx_io.ours import is_ours, metadata_of
from taso_py.options import Options
from taso_py.rules.library import load as load_library
from taso_py.run import provenance
from taso_py.run.provenance import MACHINE, Key, identity, machine_note, made_again, stated
from taso_py.run.subject import worker_config
from taso_py.run.usable import stated_rules
from taso_py.version import VERSION
from tests.conftest import RunCli, tiny_network

FIXED: dict[str, Any] = {"race": False, "threads": 1}


@pytest.fixture
def done(tiny_model: Path) -> Path:
    """`tiny_model` beside its result."""
    output = tiny_model.with_name("model.superopt.onnx")
    assert taso_py.optimize(tiny_model, **FIXED).save(output).changed
    return output


def restated(path: Path, **entries: str | None) -> None:
    """The model in the file with other entries of metadata; None: without."""
    proto = onnx.load(path)
    told = {entry.key: entry.value for entry in proto.metadata_props}
    told |= {f"superopt.{name.replace('_', '-')}": text for name, text in entries.items() if text is not None}
    del proto.metadata_props[:]
    kept = {key: text for key, text in told.items() if entries.get(key.removeprefix("superopt."), "") is not None}
    onnx.helper.set_model_props(proto, kept)
    onnx.save(proto, path)


def test_an_untimed_result_names_all_that_decided_it_and_no_machine(tiny_model: Path, done: Path) -> None:
    told = stated(onnx.load(done))
    assert set(told) == {Key.VERSION, Key.RULES, Key.OPTIONS, Key.ORIGINAL, Key.SHAPES}
    assert told[Key.VERSION] == VERSION
    assert told[Key.ORIGINAL] == hashlib.sha256(tiny_model.read_bytes()).hexdigest()
    assert told[Key.SHAPES] == "x=1,3,8,8"
    assert json.loads(told[Key.OPTIONS]) == {"no-race": True, "threads": 1}
    again = taso_py.optimize(tiny_model, race=False, threads=1, time_budget_s=77.0, cache=tiny_model.with_name("c"))
    assert again.model.SerializeToString(deterministic=True) == onnx.load(done).SerializeToString(deterministic=True)


def test_a_timed_result_names_the_machine_too(tiny_model: Path) -> None:
    library = load_library()
    found = identity(tiny_model, Options(threads=3, ep="cpu", seed=5), library)
    assert set(MACHINE) - set(found) <= {Key.GPU}
    assert (found[Key.PROVIDER], found[Key.THREADS]) == ("CPUExecutionProvider", "3")
    assert json.loads(found[Key.OPTIONS]) == {"seed": 5}
    assert found == identity(tiny_model, Options(threads=3, ep="CPUExecutionProvider", seed=5), library)


def test_every_option_that_decides_the_result_is_told(tiny_model: Path, tmp_path: Path) -> None:
    library = load_library()
    np.save(tmp_path / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    others = {
        "shapes": {"x": (1, 3, 8, 8)}, "inputs": {"x": tmp_path / "x.npy"}, "seed": 1, "ep": "cuda",
        "ep_options": {"a": "b"}, "threads": 77, "ort_level": "basic", "only": ("a",), "disable": ("a",),
        "workloads": ({"x": (1,)},), "allow_bounded": True, "allow_overflow": True, "apply": "all", "alpha": 2.0,
        "cost": "roofline", "objective": "flops", "race": False, "min_gain": 0.5, "freeze_initializers": True,
        "allow_contrib": True, "time_budget_s": 7.0, "max_growth": 3.0,
    }  # fmt: skip
    quiet = {"rules", "cache", "provenance", "strict"}
    base = identity(tiny_model, Options(), library)
    assert others.keys() | quiet <= {field.name for field in dataclasses.fields(Options)}
    for name, value in others.items():
        assert identity(tiny_model, Options(**{name: value}), library) != base, name
    assert identity(tiny_model, Options(cache=tmp_path / "c", strict=True), library) == base
    np.save(tmp_path / "y.npy", np.zeros((1, 3, 8, 8), np.float32))
    one, same, other = (
        identity(tiny_model, Options(inputs={"x": tmp_path / name}), library)
        for name in ("x.npy", "../" + tmp_path.name + "/x.npy", "y.npy")
    )
    assert one == same != other


def test_external_weights_are_part_of_the_original(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    before = identity(path, Options(), load_library())
    content = bytearray((tmp_path / "w.bin").read_bytes())
    content[0] ^= 1
    (tmp_path / "w.bin").write_bytes(content)
    after = identity(path, Options(), load_library())
    assert {key for key in before if before[key] != after[key]} == {Key.DATA}


def test_what_an_earlier_run_said_does_not_outlive_its_graph(tiny_model: Path) -> None:
    restated(tiny_model, cpu="another", note="of ours", version="0.0.0")
    told = stated(taso_py.optimize(tiny_model, **FIXED).model)
    assert (told[Key.VERSION], Key.CPU in told) == (VERSION, False)
    assert stated(taso_py.optimize(tiny_model, **FIXED, provenance=False).model) == {}


OWN = {
    "superopt.note": "mine",
    "superopt.version": "of the house",
    "superopt.shapes": "any",
    "superopt.interrupted": "no",
}
"""A user's own, some of it where we would say something."""


@pytest.mark.parametrize("options", [FIXED, FIXED | {"provenance": False}])
def test_what_a_user_says_under_our_prefix_stays(tiny_model: Path, options: dict[str, Any]) -> None:
    own = {key.removeprefix("superopt."): text for key, text in OWN.items()}
    restated(tiny_model, cpu="another", **own)
    made = taso_py.optimize(tiny_model, **options)
    told = metadata_of(made.model)
    assert made.changed
    assert OWN.items() <= told.items()
    assert Key.CPU not in told
    assert set(stated(made.model)) == ({Key.RULES, Key.OPTIONS, Key.ORIGINAL} if options is FIXED else set())


def test_all_that_we_write_is_recognisably_ours(tiny_model: Path, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "gpu_of", lambda _: "NVIDIA H100")
    told = metadata_of(onnx.load(done)) | provenance.machine("CPUExecutionProvider", 2) | {Key.VERSION: VERSION}
    weights = Digest("0" * 64, {"w.bin": "0" * 64})
    told |= made_again({**told, Key.DATA: ""}, weights) | identity(tiny_model, Options(), load_library())
    assert set(Key) - set(told) == {Key.INTERRUPTED, Key.APPROXIMATE}
    assert [key for key, text in told.items() if not is_ours(key, text)] == []


@pytest.mark.parametrize(
    "own", [{"cpu": "another"}, {"cpu": "another", "note": "mine", "rules": "mine", "threads": "few"}]
)
def test_a_certificate_holds_for_a_rewritten_result_of_ours(tiny_model: Path, own: dict[str, str]) -> None:
    restated(tiny_model, **own)
    output, certificate, decisions = (tiny_model.with_name(name) for name in ("o.onnx", "c.json", "d.json"))
    result = taso_py.optimize(tiny_model, **FIXED).save(output)
    result.save_certificate(certificate)
    result.save_decisions(decisions)
    assert taso_py.certify(tiny_model, output, certificate).steps > 0
    again = taso_py.apply(tiny_model, decisions, threads=1).save(tiny_model.with_name("again.onnx"))
    assert again.output_sha256 == result.output_sha256


# ---- the machine -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"onnxruntime": "1.2.3"}, "ONNX Runtime 1.2.3 (here "),
        ({"cpu": "Another\nCPU"}, "CPU Another CPU (here "),
        ({"provider": "CUDAExecutionProvider"}, "provider CUDAExecutionProvider (here CPUExecutionProvider)"),
        ({"threads": "99", "cpu": "Other"}, "CPU Other"),
        ({"threads": "99"}, "threads 99 (here 2)"),
    ],
)
def test_a_model_made_for_something_else_is_told_of_in_one_line(
    run_cli: RunCli, tiny_model: Path, entries: dict[str, str], says: str
) -> None:
    assert machine_note("m", onnx.load(tiny_model), worker_config(Options())) == ()
    restated(tiny_model, **entries)
    for command in ("inspect model.onnx --threads 2", "optimize model.onnx --threads 2 --no-race --dry-run"):
        ran = run_cli(*command.split())
        assert ran.returncode == 0
        assert ran.stderr.startswith("superopt: model.onnx was optimised for ")
        assert says in ran.stderr
        assert ran.stderr.count("\n") == 1
    assert taso_py.inspect(tiny_model).to_dict()["provenance"] == {f"superopt.{k}": v for k, v in entries.items()}


def test_a_model_made_for_this_machine_is_not(tiny_model: Path) -> None:
    here = provenance.machine("CPUExecutionProvider", 2)
    restated(tiny_model, **{key.removeprefix("superopt."): text for key, text in here.items()})
    assert taso_py.inspect(tiny_model, threads=2).notes == ()
    assert len(taso_py.inspect(tiny_model, threads=3).notes) == 1


def test_inspect_needs_no_runtime_to_compare(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "DISTRIBUTIONS", ())
    restated(tiny_model, onnxruntime="1.2.3")
    assert taso_py.inspect(tiny_model).notes == ()


# ---- a second run ----------------------------------------------------------------------------------------------------


def test_a_second_run_says_that_it_is_done(run_cli: RunCli, tiny_model: Path) -> None:
    run = ("optimize", "model.onnx", "--no-race")
    assert run_cli(*run).returncode == 0
    written = tiny_model.with_name("model.superopt.onnx").read_bytes()
    again = run_cli(*run)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("model.superopt.onnx is already the result for model.onnx ")
    assert "--force" in again.stdout
    told = json.loads(run_cli(*run, "--json").stdout)
    assert (told["schema"], told["current"]) == ("superopt.standing/1", True)
    assert told["output_sha256"] == hashlib.sha256(written).hexdigest()
    assert run_cli(*run, "-o", "model.superopt.onnx").returncode == 0
    assert run_cli("optimize", "model.onnx", "model.superopt.onnx", "--no-race").returncode == 0
    forced = run_cli(*run, "--force")
    assert (forced.returncode, "written: model.superopt.onnx" in forced.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--no-race --seed 4", "for this model with other options (--seed)"),
        ("--no-race --disable conv-scaled --alpha 2", "other options (--alpha, --disable)"),
        ("--no-race --rules none", "with other rules"),
        ("", "other options (--no-race)"),
        ("--no-race --certificate c.json", "--certificate asks for more"),
        ("--no-race --report r.json", "--report asks for more"),
    ],
)
def test_what_is_ours_for_something_else_is_refused_and_why(
    run_cli: RunCli, tiny_model: Path, arguments: str, says: str
) -> None:
    assert run_cli("optimize", "model.onnx", "--no-race").returncode == 0
    known = {path: path.read_bytes() for path in tiny_model.parent.iterdir()}
    ran = run_cli("optimize", "model.onnx", *arguments.split())
    assert (ran.returncode, ran.stdout) == (4, "")
    assert ran.stderr.startswith("superopt: error: model.superopt.onnx exists already: ")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert known == {path: path.read_bytes() for path in tiny_model.parent.iterdir()}


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({}, None),
        ({"version": "0.0.1"}, "superopt 0.0.1, and this is"),
        ({"original": "0" * 64}, "for another model"),
        ({"original-data": "0" * 16}, "for another model"),
        ({"original": None}, "does not say so"),
        ({"interrupted": "yes"}, "interrupted"),
        ({"options": "{"}, "other options"),
        ({"options": '{"no-race": true, "threads": 1, "a\\nb": []}'}, "other options (--a b)"),
        ({"rules": "0"}, "with other rules"),
    ],
)
def test_standing_goes_by_what_the_file_says(
    tiny_model: Path, done: Path, entries: dict[str, str | None], says: str | None
) -> None:
    restated(done, **entries)
    found = api.standing(tiny_model, done, **FIXED)
    assert found.current == (says is None)
    assert (says or "") in (found.unlike or "")


def test_a_result_of_another_machine_is_refused(tiny_model: Path, done: Path) -> None:
    wanted = identity(tiny_model, Options(threads=2), stated_rules(Options(threads=2)))
    restated(done, **{key.removeprefix("superopt."): text for key, text in wanted.items()})
    assert api.standing(tiny_model, done, threads=2).current
    found = api.standing(tiny_model, done, threads=3)
    assert "made for threads 2 (here 3)" in (found.unlike or "")


def test_files_that_are_none_of_ours(tiny_model: Path, done: Path) -> None:
    foreign = tiny_model.with_name("foreign.onnx")
    for content in (b"", b"text", tiny_network().SerializeToString() + b"\x00", done.read_bytes()[:-40]):
        foreign.write_bytes(content)
        assert not api.standing(tiny_model, foreign, **FIXED).current
    foreign.write_bytes(tiny_model.read_bytes())
    assert "is a copy of" in (api.standing(tiny_model, foreign, **FIXED).unlike or "")
    for output in (tiny_model, tiny_model.parent, tiny_model.with_name("gone.onnx")):
        with pytest.raises(OutputError):
            api.standing(tiny_model, output, **FIXED)


def test_a_result_without_its_weights_is_not_there(tmp_path: Path) -> None:
    model, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save_model(tiny_network(), model, save_as_external_data=True, location="w.bin", size_threshold=0)
    taso_py.optimize(model, **FIXED).save(output)
    assert api.standing(model, output, **FIXED).current
    (tmp_path / "o.onnx.data").unlink()
    assert "o.onnx.data" in (api.standing(model, output, **FIXED).unlike or "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("model.onnx a.onnx -o b.onnx", "OUT a.onnx and --output b.onnx are both given"),
        ("model.onnx -o -", "--output -"),
        ("model.onnx -", "--output -"),
        ("model.onnx a.onnx b.onnx", "unexpected extra argument"),
        ("model.onnx --certificate -", "--certificate -"),
    ],
)
def test_where_the_result_goes_is_said_once_and_is_a_file(
    run_cli: RunCli, tiny_model: Path, arguments: str, says: str
) -> None:
    ran = run_cli("optimize", *arguments.split(), "--no-race")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert [path.name for path in tiny_model.parent.iterdir()] == ["model.onnx"]


def test_out_counts_before_the_variable(run_cli: RunCli, tiny_model: Path) -> None:
    ran = run_cli("optimize", "model.onnx", "a.onnx", "--no-race", env={"SUPEROPT_OUTPUT": "b.onnx"})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {path.name for path in tiny_model.parent.iterdir()} == {"model.onnx", "a.onnx"}

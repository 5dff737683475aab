"""Files that go with others: what lies beside MODEL and OUT is found, kept, and never taken for something else."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import taso_py
from taso_py import api
from taso_py.cli import main
from taso_py.errors import FileTakenError, ModelError, OutputError
from taso_py.onnx_io.artifact import CopiedFile
from taso_py.onnx_io.load import load
from taso_py.progress import ProgressReport
from taso_py.providers.record import session_file
from taso_py.stop import StopFlag
from tests.conftest import RunCli, tiny_network
from tests.test_deployed import placed

STRANGE = os.fsdecode(b"\xff")
"""No UTF-8."""


def external(folder: Path, model: str = "m.onnx", weights: str = "w.bin") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / model
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location=weights, size_threshold=0)
    return path


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with files is found out before."""

    def begun(*arguments: object, **further: object) -> None:
        raise AssertionError

    monkeypatch.setattr(api, "optimize", begun)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(tiny_network().SerializeToString())
    return tmp_path


def refused(capfd: pytest.CaptureFixture[str], arguments: str, code: int, says: str) -> None:
    assert main(["optimize", *arguments.split(" ")]) == code
    said = capfd.readouterr().err
    assert said.count("\n") == 1, said
    assert says in said


# ---- names -----------------------------------------------------------------------------------------------------------


def test_a_name_that_only_a_session_file_is_too_long_for_is_no_obstacle(here: Path) -> None:
    out = Path("a" * 245 + ".onnx")
    assert main(["optimize", "model.onnx", "-o", str(out), "--no-race"]) == 0
    assert out.is_file()
    assert main(["optimize", "model.onnx", "-o", str(out), "--no-race"]) == 0
    assert taso_py.session(out).get_inputs()[0].name == "x"


@pytest.mark.usefixtures("here", "no_search")
@pytest.mark.parametrize("further", ["--no-race", "--ep cpu,"])
def test_a_name_that_is_too_long_for_what_goes_with_it_is_refused_at_once(
    further: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model = external(Path()) if further == "--no-race" else Path("model.onnx")
    refused(capfd, f"{model} -o {'a' * 249}.onnx {further}", 4, "name too long")


@pytest.mark.usefixtures("here", "no_search")
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("--record d/../r.json --report r.json", 2, "choose two names"),
        ("--certificate linked/c.json --report c.json", 2, "choose two names"),
        ("--certificate out.onnx.data", 4, "overwrite a file that is read"),
        ("--report model.onnx.json --certificate out.onnx.session.json", 4, "overwrite a file that is read"),
        ("--cache out.onnx", 4, "out.onnx would overwrite a file that is read"),
        ("--rules out.onnx", 4, "out.onnx would overwrite a file that is read"),
        ("--input x=x.npy --certificate x.npy", 4, "x.npy would overwrite a file that is read"),
    ],
)
def test_no_file_has_two_uses(options: str, code: int, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("d").mkdir()
    Path("linked").symlink_to(".")
    Path("x.npy").touch()
    if "--rules" in options:
        Path("out.onnx").touch()
    refused(capfd, f"model.onnx -o out.onnx --no-race --force {options}", code, says)


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here", "no_search")
@pytest.mark.parametrize(
    ("out", "taken", "says"),
    [
        ("out.onnx", "out.onnx.data", "out.onnx.data exists already"),
        ("other/out.onnx", "other/w.bin", "w.bin exists already"),
        ("w.bin --force", None, "w.bin would overwrite a file that is read"),
        ("other/w.bin", None, "also what weights of m.onnx are called"),
    ],
)
def test_a_file_of_weights_that_is_in_the_way_is_found_out_at_once(
    out: str, taken: str | None, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    external(Path())
    Path("other").mkdir()
    if taken is not None:
        Path(taken).write_text("mine")
    refused(capfd, f"m.onnx -o {out}", 4, says)
    assert taken is None or Path(taken).read_text() == "mine"


def test_a_copy_is_not_replaced_by_its_own_weights(tmp_path: Path) -> None:
    model, folder = external(tmp_path / "a"), tmp_path / "b"
    folder.mkdir()
    with pytest.raises(OutputError, match="also what weights"):
        CopiedFile(model).write(folder, tmp_path / "c" / "w.bin")


def test_weights_inside_attributes_are_not_taken_for_others_of_their_files_name(tmp_path: Path) -> None:
    """Those of initializers move to OUT.data; these stay where they are, or come along under their own name."""
    folder, other, constant = tmp_path / "a", tmp_path / "b", np.ones(4, np.float32)
    folder.mkdir()
    other.mkdir()
    made = tiny_network()
    value = numpy_helper.from_array(constant.reshape(1, 4, 1, 1), "k")
    made.graph.node[2].output[0] = "r"
    made.graph.node.append(helper.make_node("Constant", [], ["k"], value=value))
    made.graph.node.append(helper.make_node("Add", ["r", "k"], ["y"]))
    external_attributes = {"size_threshold": 0, "convert_attribute": True, "location": "m.onnx.data"}
    onnx.save_model(made, folder / "m.onnx", save_as_external_data=True, **external_attributes)
    result = taso_py.optimize(folder / "m.onnx", race=False)
    assert not result.as_given
    with pytest.raises(OutputError, match="also what weights of the model are called"):
        result.save(other / "m.onnx")
    assert list(other.iterdir()) == []
    result.save(other / "n.onnx")
    assert api.check(folder / "m.onnx", other / "n.onnx").passed


def as_links(folder: Path, blobs: Path, *names: str) -> Path:
    """The model of a folder, of which these files are links: as in caches of model hubs."""
    blobs.mkdir()
    for number, name in enumerate(names):
        (folder / name).rename(blobs / str(number))
        (folder / name).symlink_to(blobs / str(number))
    return folder / "m.onnx"


def test_a_model_that_is_a_link_has_its_weights_beside_the_link(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    external(snapshot)
    model = as_links(snapshot, blobs, "m.onnx", "w.bin")
    kept = taso_py.optimize(model, rules=(), race=False)
    with pytest.raises(OutputError, match=r"w.bin, which holds the weights .* overwrite a file that is read"):
        kept.save(snapshot / "out.onnx")  # beside the link ONNX Runtime would not follow the weights'
    kept.save(blobs / "out.onnx")
    rewritten = taso_py.optimize(model, race=False).save(snapshot / "rewritten.onnx")
    assert api.check(model, snapshot / "rewritten.onnx").passed
    assert not rewritten.as_given
    assert (snapshot / "w.bin").is_symlink()
    assert (blobs / "w.bin").read_bytes() == (blobs / "1").read_bytes()
    assert api.check(model, blobs / "out.onnx").passed


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("force", ["", " --force"])
def test_a_copy_that_would_replace_a_link_is_refused_before_the_search(
    force: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether a rewrite or a copy comes out is known only after it."""
    external(here / "snapshot")
    as_links(here / "snapshot", here / "blobs", "m.onnx", "w.bin")
    says = "w.bin would overwrite a file that is read: choose another output name"
    refused(capfd, f"snapshot/m.onnx -o snapshot/out.onnx{force}", 4, says)
    assert sorted(path.name for path in Path("snapshot").iterdir()) == ["m.onnx", "w.bin"]
    assert Path("snapshot/w.bin").is_symlink()


def test_decisions_that_rewrite_may_be_applied_beside_a_link(here: Path) -> None:
    external(here / "snapshot")
    model = as_links(here / "snapshot", here / "blobs", "m.onnx", "w.bin")
    assert main(["optimize", str(model), "-o", "out.onnx", "--no-race", "--record", "d.json"]) == 0
    assert main(["apply", str(model), "d.json", "-o", "snapshot/out.onnx"]) == 0
    assert api.check(model, here / "snapshot" / "out.onnx").passed


def test_weights_beside_a_model_that_is_a_link_serve_its_copy_too(tmp_path: Path) -> None:
    external(tmp_path / "snapshot")
    model, out = as_links(tmp_path / "snapshot", tmp_path / "blobs", "m.onnx"), tmp_path / "snapshot" / "out.onnx"
    assert main(["optimize", str(model), "-o", str(out), "--no-race", "--rules", "none"]) == 0
    assert out.read_bytes() == model.read_bytes()
    assert api.check(model, out).passed


# ---- session files ---------------------------------------------------------------------------------------------------


def test_a_session_file_of_another_model_goes_with_what_is_overwritten(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    result = taso_py.optimize(tiny_model, race=False)
    result.save(out)
    record = placed(out)
    result.save(out, force=True)
    assert session_file(out).is_file(), "it is that of the same bytes"
    placed(out, sha256="0" * 64)
    result.save(out, force=True)
    assert not session_file(out).exists()
    assert taso_py.session(out).get_inputs()[0].name == "x"
    session_file(out).write_text(replace(record, model="gone").to_json())
    out.unlink()
    with pytest.raises(FileTakenError, match="is for an earlier model"):
        result.save(out)
    session_file(out).write_text("somebody else's")
    result.save(out)
    assert session_file(out).read_text() == "somebody else's"


@pytest.mark.usefixtures("no_search")
def test_a_session_file_that_is_in_the_way_is_found_out_at_once(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = Path("out.onnx")
    out.write_bytes(tiny_network().SerializeToString())
    placed(out)
    out.unlink()
    refused(capfd, "model.onnx -o out.onnx --no-race", 4, "is for an earlier model")


# ---- a model that changes --------------------------------------------------------------------------------------------


def replaced(model: Path) -> None:
    other = tiny_network()
    other.graph.node[2].op_type = "Sigmoid"
    model.with_name("other").write_bytes(other.SerializeToString())
    model.with_name("other").replace(model)


@pytest.mark.parametrize(("change", "word"), [(replaced, "changed"), (Path.unlink, "removed")])
@pytest.mark.parametrize("rules", [None, ()])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_model_that_changes_while_it_is_optimised_is_no_model(
    tiny_model: Path, change: object, word: str, rules: tuple[()] | None, interrupted: bool
) -> None:
    stop, changed = StopFlag(), list[str]()

    def listen(told: ProgressReport) -> None:
        if told.phase == "search" and not changed:
            changed.append(told.phase)
            change(tiny_model)
            if interrupted:
                stop.set()

    with pytest.raises(ModelError, match=rf"model.onnx(: there is no such file| was {word} while)"):
        taso_py.optimize(tiny_model, rules=rules, race=False, progress=listen, stop=stop)
    assert changed


def test_what_was_read_is_what_is_copied_and_certified(tiny_model: Path, tmp_path: Path) -> None:
    copied = taso_py.optimize(tiny_model, rules=(), race=False)
    rewritten = taso_py.optimize(tiny_model, race=False)
    assert load(tiny_model).stamps.keys() == {tiny_model}
    replaced(tiny_model)
    with pytest.raises(ModelError, match="was changed"):
        copied.save(tmp_path / "copy.onnx")
    rewritten.save(tmp_path / "rewritten.onnx")
    for write in (rewritten.save_certificate, rewritten.save_decisions):
        with pytest.raises(ModelError, match="was changed"):
            write(tmp_path / "c.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "rewritten.onnx"]


# ---- names that are not UTF-8 ----------------------------------------------------------------------------------------


def test_a_name_that_is_not_utf8_is_spelled_in_reports(here: Path, run_cli: RunCli) -> None:
    out, summary = here / f"o{STRANGE}.onnx", here / "summary.md"
    told = ("--report", "r.html", "--junit", "j.xml", "--github-summary", "--certificate", "c.json")
    done = run_cli("optimize", "model.onnx", "-o", out, "--no-race", *told, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 0, done.stderr
    assert r"o\udcff.onnx" in (here / "r.html").read_text(encoding="utf-8")
    assert r"o\udcff.onnx" in summary.read_text(encoding="utf-8")
    assert run_cli("diff", "model.onnx", out, "--report", "d.md").returncode == 0
    assert r"o\udcff.onnx" in (here / "d.md").read_text(encoding="utf-8")


def strictly(text: str) -> dict[str, Any]:
    """JSON as readers in other languages take it: no half of a character anywhere, spelled or not."""
    text.encode()
    found: dict[str, Any] = json.loads(text)
    json.dumps(found, ensure_ascii=False).encode()
    return found


def test_a_name_that_is_not_utf8_comes_back_out_of_json(here: Path, run_cli: RunCli) -> None:
    out = here / f"o %41{STRANGE}.onnx"
    arguments = ("optimize", "model.onnx", "-o", out.name, "--no-race", "--json")
    told = strictly(run_cli(*arguments, "--report", "r.json").stdout)
    again = strictly(run_cli(*arguments).stdout)
    inspected = strictly(run_cli("inspect", out, "--json").stdout)
    compared = strictly(run_cli("diff", "model.onnx", out, "--json").stdout)["second"]
    reported = strictly((here / "r.json").read_text(encoding="utf-8"))
    uris = (told["output"], reported["output"], again["output"], inspected["input"], compared["path"])
    assert {unquote_to_bytes(urlsplit(uri).path) for uri in uris} == {os.fsencode(out)}
    assert {uri.partition("/")[0] for uri in uris} == {"file:"}
    assert (told["input"], again["schema"]) == ("model.onnx", "superopt.standing/1")


def test_a_line_of_json_spells_the_bytes(here: Path, run_cli: RunCli) -> None:
    done = run_cli("inspect", f"no{STRANGE}.onnx", "--json", "--log-format", "json")
    assert strictly(done.stdout)["error"].startswith(r"no\xff.onnx does not exist")
    assert strictly(done.stderr)["message"].startswith(r"no\xff.onnx does not exist")


@pytest.mark.usefixtures("here", "no_search")
def test_an_output_that_cannot_name_its_weights_is_refused_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    external(Path())
    refused(capfd, f"m.onnx -o o{STRANGE}.onnx", 4, "its name is not UTF-8")


def test_a_model_that_onnx_runtime_cannot_open_by_its_name_is_one_line(here: Path, run_cli: RunCli) -> None:
    strange, folder = here / f"m{STRANGE}.onnx", here / f"d{STRANGE}"
    folder.mkdir()
    for path in (strange, folder / "m.onnx"):
        path.write_bytes(tiny_network().SerializeToString())
    assert run_cli("inspect", strange).returncode == 0
    for done in (
        run_cli("check", strange, "model.onnx"),
        run_cli("check", "m.onnx", "m.onnx", cwd=folder),
        run_cli("optimize", "m.onnx", "--no-race", cwd=folder),
        run_cli("certify", folder / "m.onnx", folder / "m.onnx", "c.json"),
    ):
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1, done.stderr
        assert "is not UTF-8, and ONNX Runtime opens no such file" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("command", ["optimize", "inspect", "diff"])
def test_weights_whose_name_is_not_utf8_are_refused(command: str, tmp_path: Path, run_cli: RunCli) -> None:
    model = external(tmp_path, weights="WWWW.bin")
    model.write_bytes(model.read_bytes().replace(b"WWWW.bin", b"W\xffWW.bin"))
    (tmp_path / "WWWW.bin").rename(tmp_path / f"W{STRANGE}WW.bin")
    done = run_cli(command, model, *([model] if command == "diff" else []))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert r"external data has the name b'W\xffWW.bin', which is not UTF-8" in done.stderr


def test_weights_whose_name_the_locale_does_not_have_are_one_line(tmp_path: Path, run_cli: RunCli) -> None:
    external(tmp_path, weights="gewichte_ü.bin")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_cli("optimize", "m.onnx", "--no-race", env=ascii_only)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert "this locale has no such names" in done.stderr


# ---- others ----------------------------------------------------------------------------------------------------------


def test_an_output_that_is_there_is_not_read_whole(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Path("out.onnx").open("wb") as file:
        file.truncate(2**42)
    refused(capfd, "model.onnx -o out.onnx --no-race", 4, "it is not a model of superopt's")


def test_what_cannot_be_written_keeps_nothing_else_from_being_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gate.xml").touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    assert main(["optimize", "absent.onnx", "--junit", "gate.xml", "--github-summary"]) == 3
    assert "absent.onnx does not exist" in (here / "summary.md").read_text()
    assert Path("gate.xml").read_text() == ""

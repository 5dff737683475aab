"""Certificates and decisions that somebody wrote to break their reader: one line each, and not much memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from scripts.audit.certificates.subjects import own_digest
from taso_py.certificate import document as documents
from taso_py.certificate.document import read, read_decisions
from taso_py.errors import CertificateError, DecisionsError, ModelError, UsageError
from taso_py.files import DEEPEST, parse_json
from taso_py.prove.verdict import Counterexample, Disagreement, Proved
from taso_py.rules.library import DEEPEST as DEEPEST_LAW
from tests.helpers.certified import FOLDING, Case, convnet, optimised

Document = dict[str, Any]
HERE = "@@"
"""Stands where a text is put into the JSON."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """`convnet` optimised."""
    return optimised(tmp_path_factory.mktemp("convnet"), convnet(), only=FOLDING)


def fitting(document: Document) -> Document:
    """The certificate with its digest made to fit."""
    return document | {"sha256": own_digest(document)}


def as_decisions(document: Document) -> Document:
    """The steps of a certificate as decisions."""
    kept = {name: document[name] for name in ("original", "freeze_initializers", "metadata", "rules", "steps")}
    return {"schema": "superopt.decisions/1", "measured": {}} | kept


def names_of(document: Document) -> Document:
    """The sizes and attributes that the first place of all names."""
    names: Document = document["steps"][0]["places"][0]["substitution"]["names"]
    return names


class Written:
    """A document as both kinds of file; what ``HERE`` stands for is put in as it is."""

    def __init__(self, done: Case, folder: Path, document: Document, here: str = "") -> None:
        self.done, self.certificate, self.decisions = done, folder / "c.json", folder / "d.json"
        for path, content in ((self.certificate, fitting(document)), (self.decisions, as_decisions(document))):
            path.write_text(json.dumps(content).replace(f'"{HERE}"', here))

    def certify(self, **options: Any) -> Any:
        return Case(self.done.original, self.done.optimised, self.certificate).certify(**options)

    def apply(self) -> Any:
        return taso_py.apply(self.done.original, self.decisions)

    def refused(self, line: str) -> None:
        """Both readers say so."""
        for path, reader in ((self.certificate, read), (self.decisions, read_decisions)):
            with pytest.raises(UsageError, match=line) as error:
                reader(path)
            assert str(path) in str(error.value)


# ---- depth --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [DEEPEST, 300, 600, 900, 50_000])
def test_what_is_nested_too_deeply_is_read_by_nobody(levels: int, done: Case, tmp_path: Path) -> None:
    document = done.document()
    names_of(document)["more"] = HERE
    Written(done, tmp_path, document, "[" * levels + "]" * levels).refused("it is nested too deeply")
    with pytest.raises(ValueError, match="it is nested too deeply"):
        parse_json('{"a":' * levels + "1" + "}" * levels)


@pytest.mark.parametrize("half", [r"\ud800", r"\uDCFF", r"a\udfffb"])
@pytest.mark.parametrize("place", ["metadata", "rules", "names"])
def test_half_of_a_character_is_read_by_nobody(half: str, place: str, done: Case, tmp_path: Path) -> None:
    """No file, model or message can hold it."""
    document = done.document()
    if place == "metadata":
        document["metadata"]["superopt.x"] = HERE
    elif place == "rules":
        document["rules"][0]["text"] = HERE
    else:
        document["original"]["external"] = {"a.data": HERE}
    Written(done, tmp_path, document, f'"{half}"').refused("half of a character")
    assert parse_json(r'["\ud83d\ude00"]') == ["\U0001f600"]


def test_what_is_nested_a_little_is_another_substitution(done: Case, tmp_path: Path) -> None:
    document = done.document()
    names_of(document)["more"] = HERE
    written = Written(done, tmp_path, document, "[" * 50 + "]" * 50)
    with pytest.raises(CertificateError, match=r"substitution names more is \[\["):
        written.certify()


DEEP_LAWS: dict[str, Callable[[int], str]] = {
    "minus": lambda n: f"LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha={'-' * n}a)",
    "calls": lambda n: f"Relu(x) => x for x[m] when {'max(' * n}m{', 1)' * n} == 5",
    "operators": lambda n: f"{'Relu(' * n}x{')' * n} => Relu(x)",
    "sums": lambda n: f"{'x + ' * n}x => Relu(x)",
    "sizes": lambda n: f"Relu(Relu(x)) => Relu(x) for x[m{' + 1' * n}]",
    "names": lambda n: f"let v0 = x in {''.join(f'let v{k} = Relu(v{k - 1}) in ' for k in range(1, n))}v{n - 1} => x",
}


@pytest.mark.parametrize("levels", [DEEPEST_LAW + 2, 1000, 3000])
@pytest.mark.parametrize("kind", DEEP_LAWS)
def test_a_law_that_is_nested_too_deeply(kind: str, levels: int, done: Case, tmp_path: Path) -> None:
    document = done.document()
    document["rules"] = [{"id": "0" * 12, "name": "deep", "text": f"rule deep: {DEEP_LAWS[kind](levels)}\n"}]
    written = Written(done, tmp_path, document)
    line = r"^rule deep of the file cannot be read: rule deep:1:1: .*nested too deeply"
    with pytest.raises(CertificateError, match=line):
        written.certify()
    with pytest.raises(DecisionsError, match=line):
        written.apply()


# ---- size ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", ["[]", "{}", "0", '""'])
def test_what_has_more_values_than_anyone_writes_is_not_taken_apart(
    piece: str, done: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = done.document()
    names_of(document)["more"] = HERE
    written = Written(done, tmp_path, document, "[" + f"{piece}," * documents.MAXIMAL_VALUES + "0]")
    monkeypatch.setattr(documents, "parse_json", None)  # would be taken for a fault of ours if it were called
    written.refused(r"it has \d+ lists, objects and entries, and 2000000 are the most")


def test_a_file_that_is_too_long_is_not_read(done: Case, tmp_path: Path) -> None:
    document = done.document()
    document["rules"][0]["text"] = "x" * documents.MAXIMAL_BYTES
    Written(done, tmp_path, document).refused("is too long: .* bytes, and 33554432 are the most")


def test_rules_that_take_minutes_to_be_parsed_are_not(done: Case, tmp_path: Path) -> None:
    document = done.document()
    text = "rule long: " + "x + " * (documents.MAXIMAL_LAW // 8) + "x => x"
    document["rules"] += [{"id": "0" * 12, "name": "long", "text": text}] * 2
    Written(done, tmp_path, document).refused(r"rules have \d+ characters, and 2097152 are the most")


# ---- numbers and names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1e400", "1" * 400 + ".0"])
def test_a_number_beyond_the_floats_is_not_read_as_infinity(number: str, done: Case, tmp_path: Path) -> None:
    document = done.document()
    names_of(document)["more"] = HERE
    Written(done, tmp_path, document, number).refused("is beyond what a float holds")


@pytest.mark.parametrize("part", ["original", "optimised"])
@pytest.mark.parametrize("name", ["", "a\0.data", "a" * 5000 + ".data", "a" * 256, "a/" * 3000 + "b.data"])
def test_a_name_that_no_file_has(name: str, part: str, done: Case, tmp_path: Path) -> None:
    document = done.document()
    document[part]["external"] = {name: "0" * 64}
    written = Written(done, tmp_path, document)
    with pytest.raises(UsageError, match=rf"c\.json: {part}\.external names .*, as no file can be called") as error:
        written.certify()
    assert str(error.value).isascii()


def test_a_name_that_some_file_may_have_is_another_digest(done: Case, tmp_path: Path) -> None:
    document = done.document()
    document["optimised"] = {"sha256": "0" * 64, "external": {"a" * 250 + ".data": "0" * 64}}
    with pytest.raises(CertificateError, match="the certificate was made for another file"):
        Written(done, tmp_path, document).certify()


@pytest.mark.parametrize("place", ["a pipe", "/dev/zero", "a folder"])
def test_weights_that_lie_in_no_file_are_not_waited_for(place: str, done: Case, tmp_path: Path) -> None:
    """A certificate without steps, of a model that is said to be the original: both are digested first of all."""
    os.mkfifo(tmp_path / "a pipe")
    (tmp_path / "a folder").mkdir()
    proto = onnx.load(done.original)
    tensor = proto.graph.initializer[0]
    onnx.save(proto, tmp_path / "m.onnx")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    (tmp_path / "n.onnx").write_bytes(proto.SerializeToString())
    document = done.document() | {"steps": [], "rules": [], "weights": {}, "metadata": {}}
    document["original"] = document["optimised"] = {"sha256": sha256_of(tmp_path / "m.onnx"), "external": {}}
    (tmp_path / "c.json").write_text(json.dumps(fitting(document)))
    with pytest.raises(ModelError, match=f"{place} (is no regular file|cannot be read)"):
        taso_py.certify(tmp_path / "m.onnx", tmp_path / "n.onnx", tmp_path / "c.json")


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- verdicts -----------------------------------------------------------------------------------------------------


def test_a_law_whose_proof_and_instances_disagree_is_refused_with_what_they_say(done: Case) -> None:
    array = np.ones((2, 3), np.float32)
    against = Counterexample({"k": 2}, {"x": array}, array, 2 * array)
    found = Disagreement(Proved(), against, "values")
    with pytest.raises(CertificateError, match=r"refused: proof and instance disagree on values.* at x\[2, 3\]; k=2$"):
        done.certify(prover=lambda _: found)

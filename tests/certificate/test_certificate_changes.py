"""Whatever is changed in a certificate or in the model that it speaks of is found, and told in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from scripts.audit.certificates.subjects import own_digest
from taso_py.certificate.elements import Distance, admitted
from taso_py.errors import CertificateError, ModelError, UsageError
from taso_py.rules.parser import parse_rule
from tests.helpers.certified import FOLDING, Case, convnet, every_use, optimised, weight


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """`convnet` optimised."""
    return optimised(tmp_path_factory.mktemp("convnet"), convnet(), only=FOLDING)


# ---- changes to the optimised model -----------------------------------------------------------------------------


def node(proto: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    return next(n for n in proto.graph.node if n.op_type == op_type)


def shifted(proto: onnx.ModelProto, name: str, ulps: int) -> None:
    tensor = weight(proto, name)
    bits = numpy_helper.to_array(tensor).copy()
    bits.reshape(-1).view(np.int32)[5 % bits.size] += ulps
    tensor.CopyFrom(numpy_helper.from_array(bits, name))


def shifted_all(proto: onnx.ModelProto, name: str) -> None:
    tensor = weight(proto, name)
    bits = numpy_helper.to_array(tensor).copy()
    bits.view(np.int32)[...] += 1
    tensor.CopyFrom(numpy_helper.from_array(bits, name))


def swap_attributes(proto: onnx.ModelProto) -> None:
    attributes = node(proto, "Conv").attribute
    attributes.append(onnx.helper.make_attribute("group", 1)) if len(attributes) < 2 else None
    kept = list(attributes)
    del attributes[:]
    attributes.extend(kept[::-1])


def swap_edges(proto: onnx.ModelProto) -> None:
    inputs = node(proto, "Sub").input
    inputs[0], inputs[1] = inputs[1], inputs[0]


def reorder(proto: onnx.ModelProto) -> None:
    """Sub and Conv change places: not even a valid order."""
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([*nodes[1:], nodes[0]])


def rename_weight(proto: onnx.ModelProto) -> None:
    weight(proto, "kept").name = "other"
    node(proto, "Mul").input[1] = "other"


MODEL_CHANGES: dict[str, tuple[Callable[[onnx.ModelProto], Any], str]] = {
    "a computed weight": (lambda p: shifted(p, "w/folded", 2), r"^weight w/folded at \[.*\] is .*, 2 units in the"),
    "a part of a weight": (lambda p: setattr(weight(p, "kept").segment, "end", 4), "^weight kept .* it has a segment$"),
    "an untouched weight": (lambda p: shifted(p, "kept", 1), r"^weight kept at \[.*\] is .*, bit for bit another"),
    "an attribute": (
        lambda p: node(p, "Conv").attribute[0].ints.__setitem__(0, 0),
        r"^attribute \w+ of node .*\(Conv\) is \[0, 1",
    ),
    "every element of a computed weight": (
        lambda p: shifted_all(p, "w/folded"),
        r"^weight w/folded differs by a unit in the last place in 108 of 108 elements from what .*: 1 may$",
    ),
    "an empty input": (
        lambda p: node(p, "Tanh").input.append(""),
        r"^input 1 of node z_node \(Tanh\) is '', and the certificate leads to None",
    ),
    "an empty output": (lambda p: node(p, "Tanh").output.append(""), r"^node z_node \(Tanh\) is missing"),
    "a field that ONNX lacks": (
        lambda p: node(p, "Tanh").MergeFromString(b"\xfa\x3f\x01\x41"),
        r"^graph.node\[\d\] of the optimised model holds a field that ONNX does not define",
    ),
    "a weight's doc string": (
        lambda p: setattr(weight(p, "kept"), "doc_string", "d"),
        "^the doc_string of weight kept is 'd'",
    ),
    "the order of attributes": (swap_attributes, "^the order of the attributes of node .*Conv"),
    "an attribute added": (
        lambda p: node(p, "Relu").attribute.append(onnx.helper.make_attribute("alpha", 1.0)),
        r"^attribute alpha of node y_node \(Relu\) was added",
    ),
    "swapped inputs": (swap_edges, r"^input 0 of node d_node \(Sub\) is 'y', and the certificate leads to 'k'"),
    "a node's name": (lambda p: setattr(node(p, "Tanh"), "name", "t"), r"^the name of node z_node \(Tanh\) is 't'"),
    "an operator": (lambda p: setattr(node(p, "Tanh"), "op_type", "Erf"), r"^the op_type of node z_node \(Tanh\)"),
    "a deleted node": (lambda p: p.graph.node.remove(node(p, "Mul")), r"^node e_node \(Mul\) is missing"),
    "an added node": (
        lambda p: p.graph.node.append(onnx.helper.make_node("Neg", ["z"], ["more"], name="more")),
        r"^node more \(Neg\) is nothing that the certificate leads to",
    ),
    "the order": (reorder, r"stands where .* should stand"),
    "a weight's name": (rename_weight, "^input 1 of node e_node .Mul. is 'other'"),
    "a weight more": (
        lambda p: p.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "more")),
        "^weight more is nothing",
    ),
    "metadata": (lambda p: p.metadata_props.add(key="k", value="v"), r"^metadata_props\[k\] of the model is not what"),
    "a doc string": (lambda p: setattr(node(p, "Tanh"), "doc_string", "d"), r"^doc_string of node z_node"),
    "an input's type": (
        lambda p: setattr(p.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2),
        r"^graph\.input\[0\].* of the model is not what",
    ),
    "the opset": (lambda p: setattr(p.opset_import[0], "version", 18), r"^opset_import"),
    "a stated shape": (
        lambda p: p.graph.value_info.append(onnx.helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, [1])),
        "^value_info d is nothing",
    ),
}


@pytest.mark.parametrize("name", MODEL_CHANGES)
def test_a_changed_model_is_refused_with_a_line_that_names_it(name: str, done: Case, tmp_path: Path) -> None:
    change, line = MODEL_CHANGES[name]
    proto = onnx.load(done.optimised)
    change(proto)
    onnx.save(proto, tmp_path / "changed.onnx")
    with pytest.raises(CertificateError, match=line) as error:
        Case(done.original, tmp_path / "changed.onnx", done.certificate).certify()
    assert "\n" not in str(error.value)


def test_a_computed_weight_may_be_off_by_one_unit_in_the_last_place(done: Case, tmp_path: Path) -> None:
    proto = onnx.load(done.optimised)
    shifted(proto, "w/folded", 1)
    onnx.save(proto, tmp_path / "changed.onnx")
    found = Case(done.original, tmp_path / "changed.onnx", done.certificate).certify()
    assert found.largest_ulp == 1
    assert not found.same_file


def test_how_many_elements_may_be_off_grows_with_the_weight() -> None:
    wanted = np.linspace(1, 2, 250_000, dtype=np.float32)
    assert [admitted(n) for n in (1, 99_999, 100_000, 250_000)] == [1, 1, 2, 3]
    for count, refused in ((3, False), (4, True)):
        found = wanted.copy()
        found.view(np.int32)[:count] += 1
        assert (Distance(wanted, found).refused(computed=True) is not None) is refused
        assert Distance(wanted, found).refused(computed=False) is not None


def test_zeros_of_other_signs_count() -> None:
    wanted, found = np.zeros(9, np.float32), np.negative(np.zeros(9, np.float32))
    assert "in 9 of 9 elements" in str(Distance(wanted, found).refused(computed=True))


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e38])
def test_a_computed_weight_is_no_other_number(value: float, done: Case, tmp_path: Path) -> None:
    proto = onnx.load(done.optimised)
    array = numpy_helper.to_array(weight(proto, "w/folded")).copy()
    array[0, 0, 0, 0] = value
    weight(proto, "w/folded").CopyFrom(numpy_helper.from_array(array, "w/folded"))
    onnx.save(proto, tmp_path / "changed.onnx")
    with pytest.raises(CertificateError, match=r"weight w/folded at \[0, 0, 0, 0\]"):
        Case(done.original, tmp_path / "changed.onnx", done.certificate).certify()


def test_another_original_is_refused(done: Case, tmp_path: Path) -> None:
    proto = onnx.load(done.original)
    shifted(proto, "kept", 1)
    onnx.save(proto, tmp_path / "other.onnx")
    with pytest.raises(CertificateError, match="the original is not the model that was optimised: sha256"):
        Case(tmp_path / "other.onnx", done.optimised, done.certificate).certify()


# ---- changes to the certificate ---------------------------------------------------------------------------------


def first(document: dict[str, Any]) -> dict[str, Any]:
    """The first step that looks through an operator, or the first at all."""
    return next((step for step in document["steps"] if step["looks"]), document["steps"][0])


def restate(document: dict[str, Any], change: Callable[[str], str], *, consistent: bool) -> None:
    """Another law under the name of the first step's; ``consistent``: its id everywhere too."""
    step = first(document)
    law = next(law for law in document["rules"] if law["id"] == step["id"])
    law["text"] = change(law["text"])
    if not consistent:
        return
    old, law["id"] = law["id"], parse_rule(law["text"]).id
    assert old != law["id"]
    for use in every_use(document):
        use["id"] = law["id"] if use["id"] == old else use["id"]


def falsified(text: str) -> str:
    """A normalisation that adds the mean."""
    assert "Sub(b, m)" in text
    return text.replace("Sub(b, m)", "Add(b, m)")


def set_size(document: dict[str, Any]) -> None:
    names = first(document)["places"][0]["substitution"]["names"]
    names[next(iter(names))] = 99


def set_tensor(document: dict[str, Any]) -> None:
    tensors = first(document)["places"][0]["substitution"]["tensors"]
    tensors[next(iter(tensors))] = "k"


def swap_first_number(step: dict[str, Any]) -> None:
    """The same number, but not as JSON has it."""
    names = step["places"][0]["substitution"]["names"]
    name = next(k for k, v in names.items() if isinstance(v, int))
    names[name] = float(names[name])


def law(text: str) -> dict[str, str]:
    rule = parse_rule(text)
    return {"id": rule.id, "name": rule.name, "text": text}


DOCUMENT_CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a dropped step": (lambda d: d["steps"].pop(0), "^(step 1 of|input|node|weight|attribute|the )"),
    "a dropped last step": (lambda d: d["steps"].pop(), "^(weight|input|node|attribute|the )"),
    "a step twice": (lambda d: d["steps"].insert(0, d["steps"][0]), "^step 2 of"),
    "a size": (set_size, r"^step 1 of \d+ \(.*\): substitution names \w+ is 99, where the graph gives"),
    "a tensor": (set_tensor, r"^step 1 of \d+ \(.*\): substitution tensors \w+ is k, where the graph gives x"),
    "a place": (lambda d: first(d)["places"][0].update(outputs=["z"]), r"^step 1 of .*: it does not match at z"),
    "no place": (lambda d: first(d)["places"].clear(), r"^step 1 of .*: it changes nothing"),
    "an unknown value": (
        lambda d: first(d)["places"][0].update(outputs=["#77"]),
        r"^step 1 of .*: there is no value #77 at this point",
    ),
    "inside of nothing": (
        lambda d: d["steps"][-1]["places"][0].update(inside={"b": "c"}),
        r"^step \d of \d.*: inside b is c, where the graph has no such thing",
    ),
    "no look": (lambda d: first(d)["looks"].clear(), r"^step 1 of .*: it does not match at b"),
    "another look": (
        lambda d: first(d)["looks"][0]["definitions"].update(c="Conv(x, w)"),
        r"^step 1 of .*: definitions c is Conv\(x, w\), where the graph gives",
    ),
    "a definition": (
        lambda d: first(d)["gives"].update(b="Relu()(x)"),
        r"^step 1 of .*: b is Relu\(\)\(x\), where the graph gives",
    ),
    "another direction": (lambda d: first(d).update(backwards=True), "holds in one direction only"),
    "another rule": (lambda d: first(d).update(id="0" * 12), "states no rule .* with id 000000000000"),
    "an altered law": (
        lambda d: restate(d, falsified, consistent=False),
        r"^rule batchnorm-into-conv of the file is not the one with id \w+: it was altered",
    ),
    "a false law": (
        lambda d: restate(d, falsified, consistent=True),
        r"^rule batchnorm-into-conv \(\w+\) is not proved: it is not in the library",
    ),
    "no law": (lambda d: d["rules"][0].update(text="rule"), "^rule .* of the file cannot be read"),
    "two laws": (lambda d: d["rules"][0].update(text=d["rules"][0]["text"] * 2), "has the text of something else"),
    "a weight": (lambda d: d["weights"].clear(), "^weight .* is missing"),
    "a place twice": (lambda d: first(d)["places"].extend(first(d)["places"]), r"^step 1 of .*: b is replaced twice"),
    "a look twice": (
        lambda d: first(d)["looks"].extend(first(d)["looks"]),
        r"^step 1 of .*: what it looks through is not what its places need",
    ),
    "a rule twice": (lambda d: d["rules"].append(d["rules"][0]), "^the certificate states a rule twice"),
    "rules in another order": (lambda d: d["rules"].reverse(), "^the rules of the certificate stand in another order"),
    "a rule for nothing": (
        lambda d: d["rules"].append(law(r"rule involution:\n  Neg(Neg(x))\n  => x\n".replace(r"\n", "\n"))),
        "^rule involution of the file is used by no step",
    ),
    "a remark": (
        lambda d: d["rules"][0].update(text=d["rules"][0]["text"] + "# well\n"),
        "^rule .* of the file is not written as it was",
    ),
    "its own sha256": (lambda d: d.update(sha256="0"), "^the certificate was altered after it was written"),
    "the digest of the result": (
        lambda d: d["optimised"].update(sha256="0" * 64),
        "^the certificate was made for another file, sha256 0000",
    ),
    "a truth for a number": (
        lambda d: swap_first_number(first(d)),
        r"^step 1 of .*: substitution names \w+ is .*, where the graph gives",
    ),
    "metadata": (lambda d: d["metadata"].update(k="v"), "metadata k is none that a certificate may add"),
    "own metadata": (lambda d: d["metadata"].update({"superopt.version": "9"}), r"^metadata_props\[superopt.version\]"),
}


KEEPING_ITS_DIGEST = {"its own sha256"}


@pytest.mark.parametrize("name", DOCUMENT_CHANGES)
def test_a_changed_certificate_is_refused_with_a_line_that_names_it(name: str, done: Case, tmp_path: Path) -> None:
    change, line = DOCUMENT_CHANGES[name]
    document = done.document()
    change(document)
    if name not in KEEPING_ITS_DIGEST:
        document["sha256"] = own_digest(document)
    (tmp_path / "changed.json").write_text(json.dumps(document))
    with pytest.raises(CertificateError, match=line) as error:
        Case(done.original, done.optimised, tmp_path / "changed.json").certify()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "nonsense",
        '{"schema": "superopt.certificate/2"}',
        '{"schema": "superopt.certificate/9"}',
        "[NaN]",
    ],
)
def test_what_is_no_certificate_is_a_usage_error(text: str, done: Case, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(UsageError, match=r"c\.json"):
        Case(done.original, done.optimised, tmp_path / "c.json").certify()
    with pytest.raises(UsageError, match="cannot be read"):
        Case(done.original, done.optimised, tmp_path / "missing.json").certify()


@pytest.mark.parametrize("path", ["steps", "rules", "weights", "original", "freeze_initializers", "metadata"])
def test_a_certificate_of_another_shape_is_a_usage_error(path: str, done: Case, tmp_path: Path) -> None:
    document = done.document()
    document[path] = 7
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=rf"{path} is missing or no "):
        Case(done.original, done.optimised, tmp_path / "c.json").certify()


def test_a_certificate_says_everything_once_and_nothing_else(done: Case, tmp_path: Path) -> None:
    text = done.certificate.read_text()
    for changed, line in (
        (text.replace('"weights": {', '"weights": {}, "weights": {', 1), "'weights' stands in it twice"),
        (text.replace('"weights": {', '"more": {}, "weights": {', 1), "more is no field of such a file"),
        (text.replace('"looks": [', '"more": 0, "looks": [', 1), "more is no field of such a file"),
    ):
        assert changed != text
        (tmp_path / "c.json").write_text(changed)
        with pytest.raises(UsageError, match=line):
            Case(done.original, done.optimised, tmp_path / "c.json").certify()


def test_models_that_cannot_be_read(done: Case, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"\x00nonsense")
    for bad in (tmp_path / "broken.onnx", tmp_path / "missing.onnx"):
        for case in (Case(bad, done.optimised, done.certificate), Case(done.original, bad, done.certificate)):
            with pytest.raises(ModelError, match=bad.name):
                case.certify()

"""Cases in which everything fits together but one thing: digests are those of the files, and of the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from scripts.audit.certificates.subjects import Case, Document, edited, own_digest
from taso_py.rules.parser import parse_rule

Edit = Callable[[Case], Any]


def forgeries(case: Case) -> Iterator[tuple[str, Case, bool]]:
    """Every forgery that the case allows: its kind, the case, and whether its digests are left as they are."""
    for kind, edits in (("forged model", _MODEL), ("forged steps", _STEPS), ("forged claims", _CLAIMS)):
        for name, edit in edits.items():
            changed = _attempt(case, name, edit)
            if changed is not None:
                yield kind, changed, edit in _WITH_DIGESTS


def _attempt(case: Case, name: str, edit: Edit) -> Case | None:
    try:
        made = edited(case, name, edit)
    except (IndexError, KeyError, StopIteration):
        return None  # this case has nothing of the kind
    same = made.document == case.document and made.optimised == case.optimised and made.original == case.original
    return None if same and made.freeze_initializers == case.freeze_initializers else made


# ---- the optimised model ----------------------------------------------------------------------------------------


def _computed(case: Case) -> onnx.TensorProto:
    """A computed weight of two elements or more."""
    names = case.document["weights"]
    return next(t for t in case.optimised.graph.initializer if t.name in names and np.prod(t.dims) > 1)


def _shift(count: int | None, ulps: int) -> Edit:
    def edit(case: Case) -> None:
        tensor = _computed(case)
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[:count].view(np.int32)[...] += ulps
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    return edit


def _kept_weight(case: Case) -> None:
    known = set(case.document["weights"])
    tensor = next(
        t for t in case.optimised.graph.initializer if t.name not in known and t.data_type == onnx.TensorProto.FLOAT
    )
    array = numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[:1].view(np.int32)[...] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _node(case: Case, *kinds: str) -> onnx.NodeProto:
    return next(n for n in case.optimised.graph.node if not kinds or n.op_type in kinds)


def _swapped_operands(case: Case) -> None:
    node = next(n for n in case.optimised.graph.node if len(n.input) == 2 and n.input[0] != n.input[1])
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _attribute(case: Case) -> None:
    attribute = next(a for n in case.optimised.graph.node for a in n.attribute if a.ints or a.HasField("i"))
    if attribute.ints:
        attribute.ints[0] += 1
    else:
        attribute.i += 1


def _more(field: str, make: Callable[[Case], Any]) -> Edit:
    return lambda case: getattr(case.optimised.graph, field).append(make(case))


def _another_output(case: Case) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto()
    info.CopyFrom(case.optimised.graph.output[0])
    info.name = case.optimised.graph.node[0].output[0]
    return info


def _reorder_nodes(case: Case) -> None:
    nodes = list(case.optimised.graph.node)
    del case.optimised.graph.node[:]
    case.optimised.graph.node.extend([nodes[-1], *nodes[:-1]])
    if len(nodes) < 2:
        raise IndexError


def _weight(case: Case) -> onnx.TensorProto:
    return next(t for t in case.optimised.graph.initializer if t.raw_data and len(t.dims) > 0)


def _more_data(case: Case) -> None:
    tensor = _weight(case)
    tensor.raw_data += b"\0" * 4


def _less_data(case: Case) -> None:
    tensor = _weight(case)
    tensor.raw_data = tensor.raw_data[:-4]


def _weight_twice(case: Case) -> None:
    """Under the same name, with other elements: who reads a model takes the one or the other."""
    tensor = _weight(case)
    other = numpy_helper.from_array(numpy_helper.to_array(tensor) * 0, tensor.name)
    case.optimised.graph.initializer.append(other)


def _weight_as_input(case: Case) -> None:
    tensor = _weight(case)
    info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    case.optimised.graph.input.append(info)


def _elsewhere(key: str, value: str) -> Edit:
    """A weight that is said to lie beside the model."""

    def edit(case: Case) -> None:
        tensor = _weight(case)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for name, text in ({"location": "optimised.onnx"} | {key: value}).items():
            tensor.external_data.add(key=name, value=text)

    return edit


def _unknown_field(case: Case) -> None:
    case.optimised.MergeFromString(b"\xfa\x3f\x01\x41")


def _unknown_field_of_node(case: Case) -> None:
    case.optimised.graph.node[0].MergeFromString(b"\xfa\x3f\x01\x41")


_MODEL: Mapping[str, Edit] = {
    "every element of a computed weight is a neighbour": _shift(None, 1),
    "two elements of a small computed weight are neighbours": _shift(2, 1),
    "an element of a computed weight is two units away": _shift(1, 2),
    "a kept weight is a neighbour": _kept_weight,
    "operands swapped": _swapped_operands,
    "an attribute changed": _attribute,
    "an empty input more": lambda c: _node(c).input.append(""),
    "an empty output more": lambda c: _node(c).output.append(""),
    "an input more": lambda c: _node(c).input.append(_node(c).input[0]),
    "a node more": _more("node", lambda c: onnx.helper.make_node("Neg", [c.optimised.graph.input[0].name], ["more"])),
    "a node twice": _more("node", lambda c: c.optimised.graph.node[-1]),
    "an output more": _more("output", _another_output),
    "an output less": lambda c: c.optimised.graph.output.pop(),
    "a graph input more": _more(
        "input", lambda c: onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [1])
    ),
    "a weight more": _more("initializer", lambda c: numpy_helper.from_array(np.ones(1, np.float32), "more")),
    "a stated shape more": _more(
        "value_info", lambda c: onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [1])
    ),
    "a weight documented": lambda c: setattr(c.optimised.graph.initializer[0], "doc_string", "more"),
    "another order of nodes": _reorder_nodes,
    "another operator": lambda c: setattr(_node(c), "op_type", "Neg"),
    "another domain": lambda c: setattr(_node(c), "domain", "com.microsoft"),
    "another opset": lambda c: setattr(c.optimised.opset_import[0], "version", 18),
    "an opset more": lambda c: c.optimised.opset_import.add(domain="more", version=1),
    "a function more": lambda c: c.optimised.functions.add(name="more", domain="more"),
    "metadata of its own": lambda c: c.optimised.metadata_props.add(key="superopt.more", value="more"),
    "a field that ONNX does not know": _unknown_field,
    "a node's field that ONNX does not know": _unknown_field_of_node,
    "a weight with data of two kinds": lambda c: _weight(c).float_data.extend([9.0] * 4),
    "a weight with data to spare": _more_data,
    "a weight without its last data": _less_data,
    "a weight of a huge shape": lambda c: _weight(c).dims.__setitem__(0, 2**50),
    "a weight of a negative size": lambda c: _weight(c).dims.__setitem__(0, -4),
    "a weight of no type": lambda c: setattr(_weight(c), "data_type", 0),
    "a weight of a type that there is not": lambda c: setattr(_weight(c), "data_type", 99),
    "a weight of texts": lambda c: setattr(_weight(c), "data_type", onnx.TensorProto.STRING),
    "a part of a weight": lambda c: setattr(_weight(c).segment, "begin", 1),
    "a weight twice": _weight_twice,
    "a weight that a caller may override": _weight_as_input,
    "a weight in the model's own file": _elsewhere("offset", "0"),
    "a weight in the folder above": _elsewhere("location", "../optimised.onnx"),
    "a weight in the folder": _elsewhere("location", "."),
    "a weight before the file begins": _elsewhere("offset", "-4"),
    "a weight behind the end of all files": _elsewhere("offset", "99999999999999999999"),
    "a weight at no number": _elsewhere("offset", "\u0660x"),
    "the original instead": lambda c: c.optimised.CopyFrom(c.original),
}


# ---- the steps --------------------------------------------------------------------------------------------------


def _steps(change: Callable[[list[Document]], list[Document]]) -> Edit:
    def edit(case: Case) -> None:
        steps = case.document["steps"]
        if not steps:
            raise IndexError
        case.document["steps"] = change(steps)

    return edit


def _first_place(change: Callable[[Document], Any]) -> Edit:
    return lambda case: change(case.document["steps"][0]["places"][0])


def _swap_tensors(place: Document) -> None:
    tensors = place["substitution"]["tensors"]
    names = list(tensors)
    one, other = names[0], names[1]
    tensors[one], tensors[other] = tensors[other], tensors[one]


def _other_size(place: Document) -> None:
    names = place["substitution"]["names"]
    names[next(k for k, v in names.items() if isinstance(v, int))] += 1


def _fewer_axes(place: Document) -> None:
    blocks = place["substitution"]["blocks"]
    name = next(k for k, v in blocks.items() if v)
    blocks[name] = blocks[name][1:]


def _with_look(change: Callable[[Document], Any]) -> Edit:
    return lambda case: change(next(look for step in case.document["steps"] for look in step["looks"]))


def _misdefined(step: Document) -> None:
    gives = step["gives"]
    name = next(iter(gives))
    gives[name] = gives[name] + " "


def _exchanged(case: Case) -> None:
    """Each step names the rule of the next."""
    steps = case.document["steps"]
    named = [(s["rule"], s["id"], s["backwards"]) for s in steps]
    if len(set(named)) < 2:
        raise IndexError
    for step, (rule, law, backwards) in zip(steps, [*named[1:], named[0]], strict=True):
        step |= {"rule": rule, "id": law, "backwards": backwards}


_STEPS: Mapping[str, Edit] = {
    "the first step dropped": _steps(lambda s: s[1:]),
    "the last step dropped": _steps(lambda s: s[:-1]),
    "the first step twice": _steps(lambda s: [s[0], *s]),
    "the last step twice": _steps(lambda s: [*s, s[-1]]),
    "the last step first": _steps(lambda s: [s[-1], *s[:-1]]),
    "the steps reversed": _steps(lambda s: s[::-1]),
    "no step": lambda c: c.document.update(steps=[], rules=[], weights={}, metadata={}),
    "two tensors swapped": _first_place(_swap_tensors),
    "another size": _first_place(_other_size),
    "fewer axes": _first_place(_fewer_axes),
    "no place": lambda c: c.document["steps"][0].update(places=[]),
    "a place twice": _steps(lambda s: [s[0] | {"places": [*s[0]["places"], s[0]["places"][0]]}, *s[1:]]),
    "no output": _first_place(lambda p: p.update(outputs=[])),
    "an output twice": _first_place(lambda p: p.update(outputs=[*p["outputs"], p["outputs"][0]])),
    "inside of something": _first_place(lambda p: p["inside"].update({p["outputs"][0]: p["outputs"][0]})),
    "no look": _with_look(lambda look: look.clear()),
    "a look elsewhere": _with_look(lambda look: look.update(value="x")),
    "a look at something else": _with_look(lambda look: look["definitions"].update({look["value"]: "Relu(x)"})),
    "another definition": _steps(lambda s: [_misdefined(s[0]), s][1]),
    "the other direction": _steps(lambda s: [s[0] | {"backwards": not s[0]["backwards"]}, *s[1:]]),
    "rules exchanged": _exchanged,
}


# ---- what the certificate claims --------------------------------------------------------------------------------


def _forged_copy(case: Case) -> None:
    """Another model, said to be the original unchanged."""
    if not case.document["steps"]:
        raise IndexError
    case.document.update(steps=[], rules=[], weights={}, metadata={}, optimised=case.document["original"])
    case.document["sha256"] = own_digest(case.document)


def _unfrozen(case: Case) -> Any:
    """Steps that need constants, and nobody who says that they are."""
    if not case.freeze_initializers:
        raise IndexError
    case.document["freeze_initializers"] = False
    return replace(case, freeze_initializers=False)


def _by_its_word(case: Case) -> None:
    if not case.freeze_initializers:
        case.document["freeze_initializers"] = True


def _secretly_frozen(case: Case) -> Any:
    return replace(case, freeze_initializers=not case.freeze_initializers)


def _idle_rule(case: Case) -> None:
    law = case.document["rules"][0]
    text = "rule idle:\n  Neg(Neg(x))\n  => x\n"
    case.document["rules"] = [*case.document["rules"], law | {"id": parse_rule(text).id, "name": "idle", "text": text}]


def _strange_files(case: Case) -> None:
    case.document["optimised"]["external"] = {"a\0\ud800" + "a" * 5000 + ".data": "0" * 64}
    case.document["sha256"] = own_digest(case.document)


def _name(value: Callable[[], Any]) -> Edit:
    """One more name, of which the graph knows nothing."""
    return _first_place(lambda place: place["substitution"]["names"].update(more=value()))


def _nested(levels: int) -> list[Any]:
    whole: list[Any] = []
    for _ in range(levels):
        whole = [whole]
    return whole


def _text(law: str) -> Edit:
    return lambda case: case.document["rules"][0].update(text=law)


def _large(case: Case) -> None:
    """A rule of large sizes, which holds; its id is that of its text."""
    rule = parse_rule("rule large: Relu(Relu(x)) => Relu(x) for x[100000, 100000]")
    case.document["rules"] = [{"id": rule.id, "name": rule.name, "text": rule.text()}]


_CLAIMS: Mapping[str, Edit] = {
    "a copy": _forged_copy,
    "constants that nobody vouches for": _unfrozen,
    "constants by the certificate's word alone": _by_its_word,
    "constants against the certificate": _secretly_frozen,
    "a rule that nothing uses": _idle_rule,
    "a rule twice": lambda c: c.document["rules"].append(c.document["rules"][0]),
    "a rule under another name": lambda c: c.document["rules"][0].update(name="another"),
    "a rule with a remark": lambda c: c.document["rules"][0].update(text=c.document["rules"][0]["text"] + "# more\n"),
    "a rule without an end": _text("rule a: " + "Relu(" * 5000),
    "a rule of many signs": _text(f"rule a: LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha={'-' * 3000}a)"),
    "a rule of many calls": _text("rule a: " + "Relu(" * 3000 + "x" + ")" * 3000 + " => x"),
    "a rule of large sizes": _large,
    "lists in lists": _name(lambda: _nested(500)),
    "a number beyond the floats": _name(lambda: float("inf")),
    "half of a letter": _name(lambda: "\ud800\n\x1b[31m"),
    "a long text": _name(lambda: "x" * 2**20),
    "files that cannot be": _strange_files,
    "a weight that was not computed": lambda c: c.document["weights"].update(more="x: float32[1]"),
    "no computed weight": lambda c: c.document["weights"].clear(),
    "foreign metadata": lambda c: c.document["metadata"].update(more="more"),
    "metadata that the model lacks": lambda c: c.document["metadata"].update({"superopt.more": "more"}),
}  # fmt: skip
_WITH_DIGESTS = frozenset({_forged_copy, _strange_files})

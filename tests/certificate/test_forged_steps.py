"""Steps that nobody's search takes, written by hand: each ends with one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from scripts.audit.certificates.subjects import fitted, fitted_to_nothing
from taso_py.errors import CertificateError, DecisionsError
from taso_py.prove.verdict import Proved
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from tests.helpers.graphs import model

ABS = "rule abs-max: Abs(Add(Add(x, y), z)) => Max(Add(Add(x, y), z), Neg(Add(Add(x, y), z))) for x[*s], y[*s], z[*s]"
SWAP = "rule swap: Add(Add(x, y), z) => Add(Add(x, z), y) for x[*s], y[*s], z[*s]"
TURN = "rule turn: Add(Add(x, y), z) => Add(Add(y, z), x) for x[*s], y[*s], z[*s]"
DOUBLE = "rule double: Neg(Neg(x)) => x for x[*s]"
ORDERS = {SWAP: ("xyw", "xwy"), TURN: ("xyw", "ywx", "wxy")}
Document = dict[str, Any]


def stated(text: str) -> dict[str, str]:
    rule = parse_rule(text)
    return {"id": rule.id, "name": rule.name, "text": rule.text()}


def place(output: str, **tensors: str) -> Document:
    return {
        "outputs": [output],
        "inside": {},
        "substitution": {"tensors": tensors, "names": {}, "blocks": {"s": [2, 3]}},
    }


def step(law: str, places: Sequence[Document], gives: Mapping[str, str]) -> Document:
    rule = parse_rule(law)
    return {"rule": rule.name, "id": rule.id, "backwards": False, "looks": [], "places": places, "gives": gives}


class Forged:
    """The same steps as a certificate and as decisions, for a model that is said to come back as it was."""

    def __init__(self, folder: Path, proto: onnx.ModelProto, laws: Sequence[str], steps: Sequence[Document]) -> None:
        self.model, self.certificate, self.decisions = (folder / name for name in ("m.onnx", "c.json", "d.json"))
        onnx.save(proto, self.model)
        document = fitted(fitted_to_nothing([stated(law) for law in laws], list(steps)), self.model, self.model)
        self.certificate.write_text(json.dumps(document))
        kept = {name: document[name] for name in ("original", "freeze_initializers", "metadata", "rules", "steps")}
        self.decisions.write_text(json.dumps({"schema": "superopt.decisions/1", "measured": {}} | kept))

    def certify(self) -> None:
        taso_py.certify(self.model, self.model, self.certificate, prover=lambda _: Proved(patterns=DEFINED))

    def apply(self, **options: Any) -> Any:
        return taso_py.apply(self.model, self.decisions, **options)


def circle(folder: Path, law: str) -> Forged:
    """First the sums are made anew, so that one id stands for each; then the law makes them of each other."""
    orders = ORDERS[law]
    count = len(orders)
    text = " ".join(
        f"a{k} = Add({a}, {b}) b{k} = Add(a{k}, {c}) p{k} = Abs(b{k})" for k, (a, b, c) in enumerate(orders)
    )
    outputs = ", ".join(f"float[2,3] p{k}" for k in range(count))
    proto = model(f"agraph (float[2,3] x, float[2,3] y, float[2,3] w) => ({outputs}) {{ {text} }}")
    gives = {f"p{k}": f"Max()(#{2 * k + 1}, #{2 * k + 2})" for k in range(count)}
    for k, (a, b, c) in enumerate(orders):
        inner = f"#{2 * count + k + 1}"
        gives |= {inner: f"Add()({a}, {b})", f"#{2 * k + 1}": f"Add()({inner}, {c})"}
        gives[f"#{2 * k + 2}"] = f"Neg()(#{2 * k + 1})"
    named = [dict(zip("xyz", order, strict=True)) for order in orders]
    first = step(ABS, [place(f"p{k}", **tensors) for k, tensors in enumerate(named)], gives)
    second = step(law, [place(f"#{2 * k + 1}", **tensors) for k, tensors in enumerate(named)], {})
    return Forged(folder, proto, (ABS, law), (first, second))


@pytest.mark.parametrize("law", ORDERS)
def test_places_that_replace_each_other_in_a_circle(law: str, tmp_path: Path) -> None:
    forged = circle(tmp_path, law)
    with pytest.raises(CertificateError, match=r"^step 2 of 2 \(\w+\): it changes nothing, or closes a cycle"):
        forged.certify()
    with pytest.raises(DecisionsError, match=r"^step 2 of 2 \(\w+\): it changes nothing, or closes a cycle"):
        forged.apply()
    found = forged.apply(partial=True)
    assert [(s.number, s.places, s.of) for s in found.skipped] == [(2, len(ORDERS[law]), len(ORDERS[law]))]


def test_a_place_within_what_an_earlier_one_replaces(tmp_path: Path) -> None:
    proto = model("agraph (float[2,3] x) => (float[2,3] p) {a = Neg(x) b = Neg(a) c = Neg(b) p = Abs(c)}")
    forged = Forged(tmp_path, proto, (DOUBLE,), [step(DOUBLE, [place("b", x="x"), place("c", x="a")], {})])
    with pytest.raises(
        CertificateError, match=r"^step 1 of 1 \(double\): b is replaced at one place, and another relies"
    ):
        forged.certify()

"""Steps that nobody's search takes, written by hand: each ends with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from scripts.audit.certificates.circles import ORDERS, circle, place, stated, step
from scripts.audit.certificates.subjects import Case, fitted, fitted_to_nothing
from taso_py.errors import CertificateError, DecisionsError
from taso_py.prove.verdict import Proved
from taso_py.rules.coverage import DEFINED
from tests.helpers.graphs import model

DOUBLE = "rule double: Neg(Neg(x)) => x for x[*s]"


class Forged:
    """The same steps as a certificate and as decisions, for a model that is said to come back as it was."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.model, self.certificate, self.decisions = (folder / name for name in ("m.onnx", "c.json", "d.json"))
        onnx.save(case.original, self.model)
        document = fitted(case.document, self.model, self.model)
        self.certificate.write_text(json.dumps(document))
        kept = {name: document[name] for name in ("original", "freeze_initializers", "metadata", "rules", "steps")}
        self.decisions.write_text(json.dumps({"schema": "superopt.decisions/1", "measured": {}} | kept))

    def certify(self) -> None:
        taso_py.certify(self.model, self.model, self.certificate, prover=lambda _: Proved(patterns=DEFINED))

    def apply(self, **options: Any) -> Any:
        return taso_py.apply(self.model, self.decisions, **options)


@pytest.mark.parametrize("law", ORDERS)
def test_places_that_replace_each_other_in_a_circle(law: str, tmp_path: Path) -> None:
    forged = Forged(tmp_path, circle(law))
    with pytest.raises(CertificateError, match=r"^step 2 of 2 \(\w+\): it changes nothing, or closes a cycle"):
        forged.certify()
    with pytest.raises(DecisionsError, match=r"^step 2 of 2 \(\w+\): it changes nothing, or closes a cycle"):
        forged.apply()
    found = forged.apply(partial=True)
    assert [(s.number, s.places, s.of) for s in found.skipped] == [(2, len(ORDERS[law]), len(ORDERS[law]))]


def test_a_place_within_what_an_earlier_one_replaces(tmp_path: Path) -> None:
    proto = model("agraph (float[2,3] x) => (float[2,3] p) {a = Neg(x) b = Neg(a) c = Neg(b) p = Abs(c)}")
    document = fitted_to_nothing([stated(DOUBLE)], [step(DOUBLE, [place("b", x="x"), place("c", x="a")], {})])
    forged = Forged(tmp_path, Case("a place within another", proto, proto, document))
    with pytest.raises(
        CertificateError, match=r"^step 1 of 1 \(double\): b is replaced at one place, and another relies"
    ):
        forged.certify()

"""One of something is told in the singular, and seconds are told by whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taso_py.certificate.certify import Certified
from taso_py.report.certification import certification_text
from taso_py.report.proofs import verification_text
from taso_py.rules.lock import Finding
from taso_py.rules.parser import parse_rule
from tests.helpers.judging import DOUBLE, full_record


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ((1, 1, 1), "by 1 proved rule in 1 place, 1 weight computed again; both agree on 1 set of inputs"),
        ((2, 3, 2), "by 2 proved rules in 3 places, 2 weights computed again; both agree on 2 sets of inputs"),
    ],
)
def test_what_a_certificate_holds_is_counted(figures: tuple[int, int, int], words: str) -> None:
    laws, places, weights = figures
    rules: Any = (None,) * laws
    found = Certified(1, places, rules, weights, largest_ulp=0, same_file=True, inputs=laws)
    told = certification_text(Path("a.onnx"), Path("b.onnx"), found)
    assert told == f"b.onnx follows from a.onnx {words}"


def test_seconds_of_all_processes_are_not_those_of_the_run() -> None:
    rules = [parse_rule(DOUBLE), parse_rule(DOUBLE.replace("double", "twice"))]
    text = verification_text([Finding(rule, full_record(), 30.0, recorded=False) for rule in rules], 31.0)
    header, row, last = text.splitlines()[0], text.splitlines()[1], text.splitlines()[-1]
    assert header.endswith("s, all processes")
    assert row.split()[-1] == "60"
    assert last.startswith("2 rules, all as expected, 31.0 s")

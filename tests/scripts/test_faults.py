"""The audit that disturbs runs finds what a fault leaves, and nothing where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from scripts.audit import faults
from scripts.audit.faults import Subject, disturbed

MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { t = Relu(x) y = Relu(t) }'


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return Subject(path, 6.0, tmp_path)


def test_a_run_that_is_asked_to_end_is_no_finding(subject: Subject) -> None:
    ending = disturbed(subject, "SIGTERM", 2.0, 0)
    assert [wrong for wrong in ending.wrong if "after the signal" not in wrong] == []
    assert ending.code in (0, 143)


def test_codes_and_what_is_left_are_findings(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(run: object, place: faults.Place, chance: object) -> None:
        (place.temporary / "left").touch()
        place.out.write_bytes(b"no model")

    monkeypatch.setattr(faults, "FAULTS", {"cache damaged": (strike, frozenset({99}))})
    ending = disturbed(subject, "cache damaged", 0.1, 0)
    assert {"leaves left", "exit code 4"} <= set(ending.wrong)
    assert "check refuses the output" in ending.wrong


def test_a_run_that_lasts_too_long_is_a_finding(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "GRACE_S", -100.0)
    monkeypatch.setattr(faults, "GRACE_SHARE", -100.0)
    ending = disturbed(subject, "cache damaged", 0.1, 0)
    assert any(wrong.startswith("lasts") for wrong in ending.wrong)

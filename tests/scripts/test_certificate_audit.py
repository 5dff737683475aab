"""A sample of what `scripts/audit/certification.py` tries in full: nothing altered or forged is certified."""

from __future__ import annotations

import pytest

from scripts.audit.certificates.subjects import HONEST
from scripts.audit.certification import Attempt, report, run

SAMPLE = tuple(honest for honest in HONEST if honest.name in ("siblings apply=best", "overridable apply=all"))
KINDS = {
    *("honest", "altered certificate", "altered optimised", "altered original"),
    *("forged model", "forged steps", "forged claims", "places in a circle", "false or bounded rule", "rules believed"),
}


@pytest.mark.slow
def test_nothing_altered_or_forged_is_certified() -> None:
    found = run(SAMPLE, 60)
    assert {attempt.kind for attempt in found} == KINDS
    assert not [a for a in found if a.wrong], report(found)


def test_a_report_shows_what_went_wrong() -> None:
    found = [
        Attempt("honest", "a", True, None),
        Attempt("honest", "b", True, "no"),
        Attempt("forged", "c", False, None),
        Attempt("forged", "d", False, "no"),
        Attempt("forged", "e", False, "no", proper=False),
    ]
    assert [a.name for a in found if a.wrong] == ["b", "c", "e"]
    assert report(found).count("WRONG") == 3

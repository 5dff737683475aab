"""The gate as JUnit XML, the form in which CI servers read tests: one case for the run, one for each condition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from taso_py.gate import Verdict
from taso_py.result import Result

_OUTCOMES: Mapping[Verdict, Literal["failure", "error"] | None] = {
    "passed": None,
    "missed": "failure",
    "too noisy": "error",
    "not decided": "error",
}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test case; ``outcome`` None: passed."""

    name: str
    outcome: Literal["failure", "error", "skipped"] | None
    line: str
    seconds: float = 0.0


def cases_of(result: Result) -> list[Case]:
    """The run itself, which has ended well, and every condition of its gate."""
    found = [Case("optimize", None, "", result.elapsed_s)]
    return found + [Case(one.name, _OUTCOMES[one.verdict], one.line()) for one in result.gate]


def cases_of_failure(line: str, conditions: Mapping[str, float]) -> list[Case]:
    """A run that has ended with an error, and conditions that were never judged."""
    return [Case("optimize", "error", line), *(Case(name, "skipped", "there is no result") for name in conditions)]


def junit_text(model: str, cases: Sequence[Case]) -> str:
    """One suite with the model's name."""
    counts = {f"{kind}s": sum(case.outcome == kind for case in cases) for kind in ("failure", "error")}
    counts |= {"skipped": sum(case.outcome == "skipped" for case in cases)}
    figures = {"tests": str(len(cases)), **{name: str(count) for name, count in counts.items()}}
    figures["time"] = f"{sum(case.seconds for case in cases):.3f}"
    root = ET.Element("testsuites", figures)
    suite = ET.SubElement(root, "testsuite", {"name": f"superopt {_spelled(model)}", **figures})
    classname = f"superopt.{_spelled(model).replace('.', '_')}"  # readers take what precedes the last dot for a package
    for case in cases:
        entry = {"classname": classname, "name": case.name, "time": f"{case.seconds:.3f}"}
        element = ET.SubElement(suite, "testcase", entry)
        if case.outcome is not None:
            ET.SubElement(element, case.outcome, {"message": _spelled(case.line)}).text = _spelled(case.line)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _spelled(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)

"""The process in which the rules of a user's files are proved, one for each question: it can be ended at any moment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from taso_py.errors import RuleError
from taso_py.processes.crew import MEMORY_BYTES
from taso_py.processes.isolated import serve
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule, RuleSet

CHILD = "taso_py.run.proving"
"""The name of this module where another asks it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: a rule, and what else its proof may be like."""

    rule: Rule
    allow_bounded: bool
    allow_overflow: bool

    def written(self) -> bytes:
        """The question as it travels; rules do so as text, because hashes of terms hold in one process only."""
        rule = self.rule
        told = {"text": rule.text(), "file": rule.file, "line": rule.line}
        return json.dumps(told | {"bounded": self.allow_bounded, "overflow": self.allow_overflow}).encode()


def judged(rule: Rule, answer: bytes) -> Rule:
    """The rule with what was found out; `RuleError` where it may not rewrite."""
    found: dict[str, Any] = json.loads(answer)
    if "refused" in found:
        raise RuleError(found["refused"])
    patterns, types = (None if found[name] is None else tuple(found[name]) for name in ("patterns", "types"))
    return replace(
        rule, status=found["status"], patterns=patterns, limit=found["limit"], types=types, overflow=found["overflow"]
    )


def _judged(_words: tuple[str, ...], given: bytes) -> bytes:
    from taso_py.prove.verify import proved

    asked = json.loads(given)
    rule = replace(parse_rule(asked["text"]), file=asked["file"], line=asked["line"])
    try:
        (found,) = proved(RuleSet((rule,)), allow_bounded=asked["bounded"], allow_overflow=asked["overflow"])
    except RuleError as error:
        return json.dumps({"refused": str(error)}).encode()
    told = ("status", "patterns", "limit", "types", "overflow")
    return json.dumps({name: getattr(found, name) for name in told}).encode()


if __name__ == "__main__":
    serve(_judged, memory=MEMORY_BYTES)

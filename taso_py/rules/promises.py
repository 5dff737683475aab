"""What a rule file promises of its laws: said in its header, the comments before its first rule.

``# promise: refuted`` speaks of every law of the file, ``# promise: refuted NAME NAME`` of these; a law of which
nothing is said is to be proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from taso_py.errors import RuleError
from taso_py.rules.rule import Rule

Promise = Literal["proved", "refuted", "vacuous", "unknown"]
"""The verdict that is expected; ``vacuous``: no instance satisfies the law's declarations."""


def with_promises(rules: Sequence[Rule], text: str, file: str) -> list[Rule]:
    """The rules of a file with what its header promises of each.

    `RuleError` for a promise that there is not, and for one of a rule that is not there.
    """
    general = "proved"
    named: dict[str, str] = {}
    known = {rule.name for rule in rules}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and line[0] != "#":
            break
        match line.split():
            case ["#", "promise:", word, *names] if word in get_args(Promise):
                strange = next((name for name in names if name not in known), None)
                if strange is not None:
                    raise RuleError(f"{file}:{number}:1: promises something of {strange}, which is no rule of the file")
                named |= dict.fromkeys(names, word)
                general = general if names else word
            case ["#", "promise:", *words]:
                given, options = " ".join(words[:1]) or "nothing", ", ".join(get_args(Promise))
                raise RuleError(f"{file}:{number}:1: promises {given}: give one of {options}")
    return [replace(rule, promise=named.get(rule.name, general)) for rule in rules]

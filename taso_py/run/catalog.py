"""The rules that there are, and the proof of one: the whole of `superopt rules list` and `superopt rules show`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from taso_py.errors import UnprovedError, UsageError
from taso_py.options import RuleOptions
from taso_py.report.rules import ListedRule
from taso_py.rules import location
from taso_py.rules.library import GENERATED, NEVER, load_file, load_library
from taso_py.rules.lock import load_lock
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.prove.verdict import Proved

_ID_DIGITS = 8
"""So many digits of a rule's id stand for it."""


def list_rules(options: RuleOptions) -> tuple[ListedRule, ...]:
    """Every rule of the library, or of the files given, with what is on record of it."""
    return _listed(load_library(options.rules))


def find_rule(name: str, options: RuleOptions) -> ListedRule:
    """The rule of this name, or whose id begins so; the library's files that are never used count too.

    `UsageError` where there is none.
    """
    found = list(load_library(options.rules)) + (_unused_laws() if options.rules is None else [])
    for rule in found:
        if rule.name == name or (len(name) >= _ID_DIGITS and rule.id.startswith(name)):
            return _listed([rule])[0]
    near = difflib.get_close_matches(name, [rule.name for rule in found], n=1)
    hint = f"did you mean '{near[0]}'?" if near else "`superopt rules list` names them all"
    raise UsageError(f"there is no rule '{name}': {hint}")


def proof_of(rule: Rule) -> Proved:
    """The proof, made again with all its obligations; `UnprovedError` where there is none."""
    from taso_py.prove.prover import prove
    from taso_py.prove.verdict import Proved
    from taso_py.prove.verify import in_words

    verdict = prove(rule)
    if not isinstance(verdict, Proved):
        raise UnprovedError(f"rule {rule.name} is {in_words(verdict)}")
    return verdict


def _listed(rules: Iterable[Rule]) -> tuple[ListedRule, ...]:
    lock = load_lock()
    return tuple(ListedRule(rule, lock.record(rule)) for rule in rules)


def _unused_laws() -> list[Rule]:
    """The laws of the files that are never used: they are shown, with what refutes them, but not listed."""
    paths = sorted(p for p in location.rules_directory().glob("*.rules") if p.name in NEVER | {GENERATED})
    return [rule for path in paths for rule in load_lock().stamped(load_file(path))]

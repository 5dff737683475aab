"""All mutants of a law: distinct, bound, and each with the kind of change that made it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from scripts.audit.mutation.axes import axis_variants
from scripts.audit.mutation.clauses import RuleEdit, clause_variants
from scripts.audit.mutation.sampling import BAD_DRAW
from scripts.audit.mutation.scope import Scope
from scripts.audit.mutation.terms import side_variants
from taso_py.errors import RuleError
from taso_py.graph.table import Values
from taso_py.rules.instances import draw
from taso_py.rules.library import GENERATED, load, load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.term import Comparison

MOST = 200
"""Mutants of one law."""
_MORE_FILES = ("compiler.rules", "taso_axioms.rules", GENERATED)
"""Files with laws that the library does not load."""
_ATTEMPTS = 60
"""Draws of an instance of equal types; a mutant that has none is not well typed."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed law; ``focus`` is a condition that holds where the original law did not apply."""

    rule: Rule
    kind: str
    law: str
    focus: Comparison | None = None

    @property
    def id(self) -> str:
        """The content hash of the changed law."""
        return self.rule.id

    def text(self) -> str:
        """The changed law in the rule language."""
        return self.rule.text()


def laws(directory: Path | None = None) -> tuple[Rule, ...]:
    """The laws that are mutated: the whole library, and what else there is to prove."""
    home = directory or rules_directory()
    if directory is not None:
        return tuple(r for path in sorted(home.glob("*.rules")) for r in load_file(path))
    found = {r.name: r for r in load().all()}
    for name in _MORE_FILES:
        for law in load_file(home / name):
            found.setdefault(law.name, law)
    return tuple(found.values())


def mutants_of(law: Rule, most: int = MOST) -> tuple[Mutant, ...]:
    """Up to ``most`` distinct mutants, from every kind of change in turn; the same ones in every run."""
    found: dict[str, Mutant] = {}
    seen = {law.id}
    for number, edit in enumerate(_edits(law)):
        rule = replace(edit.rule, name=f"{law.name}-mutant-{number}", doc="", status="tested")
        if _bound(rule) and rule.id not in seen:
            seen.add(rule.id)
            found[rule.id] = Mutant(rule, edit.kind, law.name, edit.focus)
    return tuple(_taken(found.values(), most))


def well_typed(law: Rule, count: int, seed: int = 0) -> list[Mutant]:
    """Up to ``count`` mutants of a law that have an instance of equal types, of as many kinds as there are."""
    order = random.Random(f"{seed} {law.id}")
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants_of(law, MOST):
        kinds.setdefault(mutant.kind, []).append(mutant)
    rows = list(kinds.values())
    order.shuffle(rows)
    for row in rows:
        order.shuffle(row)
    found: list[Mutant] = []
    for mutant in (m for turn in zip_longest(*rows) for m in turn if m is not None):
        if len(found) == count:
            break
        if has_instance(mutant.rule):
            found.append(mutant)
    return found


def has_instance(rule: Rule) -> bool:
    """Whether an instance of equal types on both sides is drawn, in one direction of the rule."""
    random_ = np.random.default_rng(zlib.crc32(rule.id.encode()))
    for directed in rule.directions():
        try:
            if draw(directed, random_, Values(), _ATTEMPTS) is not None:
                return True
        except BAD_DRAW:
            continue
    return False


def _edits(law: Rule) -> Iterator[RuleEdit]:
    scope = Scope.of(law)
    yield from clause_variants(law)
    yield from (RuleEdit(kind, rule) for kind, rule in axis_variants(law))
    yield from (RuleEdit(e.kind, replace(law, right=e.side)) for e in side_variants(law.right, scope))
    yield from (RuleEdit(e.kind, replace(law, left=e.side)) for e in side_variants(law.left, scope))


def _bound(rule: Rule) -> bool:
    try:
        rule.check()
    except RuleError:
        return False
    return rule.left != rule.right


def _taken(mutants: Iterable[Mutant], most: int) -> list[Mutant]:
    """Weakened clauses first, then one of every kind in turn, in an order that the content hash gives."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in sorted(mutants, key=lambda m: zlib.crc32(m.id.encode())):
        clause = mutant.kind.startswith(("condition", "declaration"))
        kinds.setdefault("" if clause else mutant.kind, []).append(mutant)
    first = kinds.pop("", [])
    rest = [m for row in zip_longest(*kinds.values()) for m in row if m is not None]
    return [*first, *rest][:most]


def reread(mutant: Mutant) -> Mutant:
    """The mutant as its text says; what is proved is what can be written down."""
    return replace(mutant, rule=parse_rule(mutant.text()))

"""Proofs where a match stands: laws proved again at numbers of axes, axes and orders that no proof on record covers.

A verdict costs at most about a second and is remembered per user, under the law, the sources and the typing.  What is
remembered saves time and is believed by the search only; `certify` proves all again.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from taso_py.graph.types import INTEGERS
from taso_py.prove.typings.site import Site
from taso_py.prove.verdict import Proved
from taso_py.rules.alpha import names_of, normal_law
from taso_py.rules.coverage import AXES, FLAGS, LISTS, Typing, covered
from taso_py.rules.element_types import indexing, typed
from taso_py.rules.lock import key_of
from taso_py.rules.rule import Rule, RuleSet
from taso_py.rules.term import names_in
from taso_py.rules.unify import Binding

STEPS = 4_000
"""Steps of a proof at a site: about a second."""


@dataclass(frozen=True, slots=True)
class SiteProofs:
    """Proves directed rules at sites; ``path`` is a database of earlier verdicts, None for none."""

    path: Path | None = None
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, rule: Rule, typing: Typing, binding: Binding) -> bool:
        """Whether the rule is proved for a typing; the binding says what its names are there."""
        site = site_of(rule, typing, binding)
        if site is None:
            return False
        key = _key(rule, site, typing.signature(whole=True))
        if key not in self._known:
            remembered = self._remembered(key)
            self._known[key] = proved_there(rule, site, typing) if remembered is None else remembered
            if remembered is None:
                self._remember(key, self._known[key])
        return self._known[key]

    def _remembered(self, key: str) -> bool | None:
        try:
            with closing(self._opened()) as database:
                row = database.execute("SELECT proved FROM sites WHERE key = ?", (key,)).fetchone()
        except (sqlite3.Error, OSError):
            return None
        return None if row is None else bool(row[0])

    def _remember(self, key: str, proved: bool) -> None:
        try:
            with closing(self._opened()) as database, database:
                database.execute("INSERT OR REPLACE INTO sites VALUES (?, ?)", (key, int(proved)))
        except (sqlite3.Error, OSError):
            return  # a verdict that is not remembered is found again

    def _opened(self) -> sqlite3.Connection:
        """The database; one of its own in memory without a path."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path or ":memory:", timeout=5)
        database.execute("CREATE TABLE IF NOT EXISTS sites (key TEXT PRIMARY KEY, proved INTEGER NOT NULL)")
        return database


def extended(rules: RuleSet, sites: SiteProofs) -> RuleSet:
    """The rules, of which proved ones may be proved again where they match."""
    return RuleSet(tuple(replace(r, at_site=sites) if r.patterns is not None else r for r in rules))


def _key(rule: Rule, site: Site, signature: str) -> str:
    """What a verdict is remembered under: all that the proof is given, and the signature that it must cover."""
    given = [sorted(part.items()) for part in (site.ones, site.blocks, site.names, site.lengths)]
    return hashlib.sha256(f"{key_of(rule)}\0{given}\0{site.dtype}\0{signature}".encode()).hexdigest()


def proved_there(rule: Rule, site: Site, typing: Typing) -> bool:
    """Whether a directed rule is proved at a match's typing."""
    from taso_py.prove.prover import prove_at  # and with it Z3, which most searches never need

    verdict = prove_at(normal_law(rule), site, STEPS)
    return isinstance(verdict, Proved) and covered(verdict.patterns, typing.signature(whole=True))


def site_of(rule: Rule, typing: Typing, binding: Binding) -> Site | None:
    """How a match is typed, under the names of the normal law; None where its numbers are of several types.

    Nor are there proofs for integers beside casts: they wrap at other sizes.
    """
    names = names_of(rule)
    types = {v: typing.type_of(binding.tensors[v]) for v in names.tensors}
    numbers = {t.dtype for v, t in types.items() if v not in indexing(rule)} - {"bool"}
    if len(numbers) > 1 or (typed(rule) and numbers & INTEGERS):
        return None
    ones = {f"x{k}": tuple(d == 1 for d in types[v].dims) for k, v in enumerate(names.tensors)}
    blocks = {f"s{k}": len(binding.blocks[b]) for k, b in enumerate(names.blocks) if b in binding.blocks}
    stated = _axis_names(rule) | {n for n, v in binding.names.items() if isinstance(v, float) and math.isinf(v)}
    given = {f"n{k}": binding.names[n] for k, n in enumerate(names.sizes) if n in stated and n in binding.names}
    lengths = {f"n{k}": len(v) for k, n in enumerate(names.sizes) if isinstance(v := binding.names.get(n), tuple)}
    return Site(ones, blocks, _concrete(given), lengths, next(iter(numbers), "float32"))


def _axis_names(rule: Rule) -> set[str]:
    """Names that stand for axes, permutations, flags and lists of positions on the left."""
    stated = AXES + FLAGS + LISTS
    return {n for a in rule.left.applications() for field, e in a.attributes if field in stated for n in names_in(e)}


def _concrete(names: Mapping[str, Any]) -> Mapping[str, Any]:
    def known(value: object) -> bool:
        if isinstance(value, tuple):
            return all(isinstance(v, int) for v in value)
        return isinstance(value, (int, str)) or (isinstance(value, float) and math.isinf(value))

    return {name: value for name, value in names.items() if known(value)}

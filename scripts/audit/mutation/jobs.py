"""What worker processes do for the drivers: judge laws, prove one law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from scripts.audit.mutation.equations import changes, true_equation
from scripts.audit.mutation.judgement import Against, site_of_plain
from scripts.audit.mutation.mutants import Mutant, laws, mutants_of, well_typed
from scripts.audit.mutation.oracle import Case, judged
from scripts.audit.mutation.workers import called
from taso_py.prove.prover import prove_all_sizes, prove_at
from taso_py.prove.sites import STEPS
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.alpha import normal_law
from taso_py.rules.coverage import covered
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

PROVER = "taso_py.prove.prover:prove"
QUICK = "scripts.audit.mutation.jobs:quick"
_QUICK_STEPS = 20_000
"""Steps of a quick proof: a few seconds."""
_SITES = 12
"""Instances of one law at which it is proved anew."""
_CHANGES = 4
"""Changes of an equation that are tried until one is false."""
DEEP = (1, 2, 3)
"""Seeds of the draws that a proved law has to stand in addition."""


@lru_cache(maxsize=1)
def _laws() -> dict[str, Rule]:
    return {law.name: law for law in laws()}


@lru_cache(maxsize=4)
def _mutants(law: str) -> dict[str, Mutant]:
    return {m.id: m for m in mutants_of(_laws()[law])}


def quick(rule: Rule) -> Proved | Unknown:
    """The prover without its bounded proofs and with few steps."""
    return prove_all_sizes(rule, _QUICK_STEPS)


def drawn(law: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Well typed mutants of a law as plain data."""
    found = well_typed(_laws()[law], count, seed)
    return [{"id": m.id, "law": law, "kind": m.kind, "text": m.text()} for m in found]


def proved_at_sites(text: str, against: Mapping[str, Mapping[str, Any]]) -> str:
    """An instance that speaks against a proved law and at whose site the law is proved anew, in words; or nothing.

    A match that no proof on record covers is accepted after such a proof.
    """
    rule = parse_rule(text)
    directions = {"<" if d.backwards else ">": d for d in rule.directions()}
    some = sorted(((Against(**a), key) for key, a in against.items()), key=lambda item: item[0])
    for example, key in some[:_SITES]:
        if example.site is not None and key[0] in directions:
            verdict = prove_at(normal_law(directions[key[0]]), site_of_plain(example.site), STEPS)
            if isinstance(verdict, Proved) and covered(verdict.patterns, key):
                return f"{example.text} (proved at its site)"
    return ""


def judge_mutants(law: str, ids: Sequence[str], seeds: Sequence[int] = (0,)) -> list[dict[str, Any]]:
    """Judgements of some mutants of a law, by the draws of all seeds together."""
    mutants = _mutants(law)
    return judge([Case(mutants[i].rule, mutants[i].focus) for i in ids], seeds)


def judge_texts(texts: Sequence[str], seeds: Sequence[int] = (0,)) -> list[dict[str, Any]]:
    """Judgements of laws given as texts."""
    return judge([Case(parse_rule(t)) for t in texts], seeds)


def judge(cases: Sequence[Case], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Judgements as plain data; with several seeds the look is a thorough one."""
    found = judged(cases, seeds[0], thorough=len(seeds) > 1)
    for seed in seeds[1:]:
        for judgement, more in zip(found, judged(cases, seed, thorough=True), strict=True):
            judgement.add(more)
    return [{**j.plain(), "seeds": len(seeds)} for j in found]


def make_equations(seed: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """True equations, and false ones made of them: (number, kind, id, text) and the judgement of each."""
    true = {n: e for n in numbers if (e := true_equation(n, seed)) is not None}
    oracle = dict(zip(true, judge([Case(e) for e in true.values()], (0,)), strict=True))
    found = [_made(n, "true", e, oracle[n]) for n, e in true.items() if oracle[n]["truth"] != "none"]
    random = np.random.default_rng((seed, *numbers))
    changed = [(n, c) for n, e in true.items() if oracle[n]["truth"] == "equal" for c in changes(e, random, _CHANGES)]
    verdicts = judge([Case(c) for _, c in changed], (0,))
    best: dict[int, dict[str, Any]] = {}
    for (n, c), verdict in zip(changed, verdicts, strict=True):
        partly = verdict["mistyped"] + verdict["refused"] > 0
        if verdict["truth"] == "different" and (n not in best or (best[n]["partly"] and not partly)):
            best[n] = {**_made(n, f"false: {c.doc}", c, verdict), "partly": partly}
    return [*found, *best.values()]


def _made(number: int, kind: str, rule: Rule, oracle: dict[str, Any]) -> dict[str, Any]:
    return {"number": number, "kind": kind, "id": rule.id, "text": rule.text(), "oracle": oracle}


def prove(text: str, prover: str = PROVER) -> dict[str, Any]:
    """The verdict on a law as plain data."""
    verdict = called(prover, (parse_rule(text),))
    name = type(verdict).__name__.lower()
    if name == "proved":
        kept = {n: getattr(verdict, n) for n in ("limit", "ranks", "patterns")}
        return {"verdict": name, **kept, "why": verdict.method}
    return {"verdict": name, "why": getattr(verdict, "why", "")}

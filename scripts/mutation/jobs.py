"""What worker processes do for the drivers: judge laws, prove one law."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from scripts.mutation.equations import changes, true_equation
from scripts.mutation.mutants import Mutant, laws, mutants_of
from scripts.mutation.oracle import Case, judged
from scripts.mutation.workers import called
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

PROVER = "taso_py.prove.prover:prove"
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

"""The verdict on one rule: what the prover says, checked against ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.errors import RuleError
from taso_py.ops.algebra import Algebra
from taso_py.prove.classes import bitwise, kind_of, specials_change
from taso_py.prove.prover import prove, prove_all_sizes
from taso_py.prove.refute import counterexample, differs, refute, replayed
from taso_py.prove.replay import Replay, replaying
from taso_py.prove.verdict import Counterexample, Proved, Refuted, Unknown, Verdict
from taso_py.prove.witness import Survey, seed_of, smallest, summary, survey
from taso_py.rules.instances import Instance
from taso_py.rules.lock import Record, admitted, with_verdict
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.printer import condition_text
from taso_py.rules.rule import Rule, RuleSet
from taso_py.rules.term import Comparison, Condition, Membership, Predicate

Prover: TypeAlias = Callable[[Rule], Proved | Unknown]
Specials: TypeAlias = Literal["kept", "changed", "open"]
"""Whether NaN and Inf stay where they are: both sides are the same operations; seen to change; neither."""
Role: TypeAlias = Literal["necessary", "droppable", "undecided"]

VACUOUS = "vacuous: no instance satisfies its declarations and conditions"
_LOOKED_AT = 6
"""Instances beside the witness on which class, bits and NaN are looked at."""
_SHOWN = 64
"""Most elements of a counterexample whose values are recorded."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that is found out about one rule; all but the verdict only where it is proved."""

    verdict: Verdict
    witness: str = ""
    kind: Algebra | None = None
    specials: Specials | None = None
    bitwise: bool = False
    conditions: tuple[tuple[str, Role], ...] = ()
    """Each condition, and whether the law is false without it, proved without it, or neither."""
    seconds: float = 0.0


def judge(rule: Rule, *, prover: Prover = prove, replay: Replay | None = None) -> Judgement:
    """The verdict on a rule, and for a proved one its class and what each condition is good for."""
    with replaying(replay) as run:
        *_, last = stages(rule, prover, run)
        return last


def stages(rule: Rule, prover: Prover, replay: Replay) -> Iterator[Judgement]:
    """The judgement without the conditions' roles, which take as long again, then with them."""
    start = time.perf_counter()
    judgement = _described(*decided(rule, prover, replay), replay)
    if isinstance(judgement.verdict, Proved) and rule.conditions:
        untold = tuple((condition_text(c), _UNDECIDED) for c in rule.conditions)
        yield replace(judgement, conditions=untold, seconds=time.perf_counter() - start)
        told = tuple((condition_text(c), role(rule, c, prover, replay)) for c in rule.conditions)
        judgement = replace(judgement, conditions=told)
    yield replace(judgement, seconds=time.perf_counter() - start)


_UNDECIDED: Role = "undecided"


def decided(rule: Rule, prover: Prover, replay: Replay) -> tuple[Verdict, Survey]:
    """The verdict alone, and the instances that speak for or against it."""
    found = prover(rule)
    seen = survey(rule, replay)
    return _verdict(rule, found, seen, replay), seen


def _verdict(rule: Rule, found: Proved | Unknown, seen: Survey, replay: Replay) -> Verdict:
    """A proof needs a witness and no contradiction; what is not proved may be refuted."""
    if isinstance(found, Proved):
        if seen.contradiction is not None:
            return Refuted(counterexample(seen.contradiction))
        if seen.vacuous:
            return Unknown(VACUOUS)
        return found if seen.witness is not None else Unknown("proved, but no instance of it was seen to agree")
    against = refute(rule, seed=seed_of(rule), replay=replay)
    if against is not None and replayed(rule, against, replay):
        return Refuted(against)
    return Unknown(VACUOUS) if seen.vacuous and against is None else found


def _described(verdict: Verdict, seen: Survey, replay: Replay) -> Judgement:
    witness = seen.witness
    if not isinstance(verdict, Proved) or witness is None:
        return Judgement(verdict)
    trials = [witness, *smallest(seen.trials, _LOOKED_AT)]
    instances = [t.instance for t in trials]
    same = bitwise(instances)
    specials: Specials = "kept" if same else "changed" if specials_change(trials, replay) else "open"
    return Judgement(verdict, summary(witness.instance), kind_of(instances), specials, same)


def role(rule: Rule, condition: Condition, prover: Prover, replay: Replay) -> Role:
    """What the rule is without one of its conditions: false, proved, or neither."""
    if isinstance(condition, Predicate) and condition.name == "constant":
        return "droppable"  # it says when folding pays; proofs are for all values
    weaker = replace(rule, conditions=tuple(c for c in rule.conditions if c != condition))
    try:
        weaker.check()
    except RuleError:
        return "undecided"
    found = (prove_all_sizes if prover is prove else prover)(weaker)
    if isinstance(found, Proved) and found.limit is None:
        return "droppable"
    against = differs(weaker, seed=seed_of(rule), replay=replay, among=lambda i: not _holds(condition, i))
    return "necessary" if against else "undecided"


def _holds(condition: Condition, instance: Instance) -> bool:
    binding = instance.binding
    match condition:
        case Comparison():
            return binding.holds(condition)
        case Membership(variable, menu):
            return binding.names.get(variable) in [binding.value(m) for m in menu]
        case _:
            places = [binding.tensors[v] for v in condition.variables]
            arrays = [instance.weights.get(v, instance.feeds.get(v)) for v in places]
            constant = all(v in instance.weights for v in places)
            return constant and bool(PREDICATES[condition.name].holds(*arrays, *condition.arguments))


def record(judgement: Judgement) -> Record:
    """The judgement as the lock keeps it."""
    match judgement.verdict:
        case Proved(limit, ranks, method, cases, facts, patterns):
            return Record(
                "proved", "", limit, ranks, method, cases, facts, judgement.kind or "", judgement.specials or "",
                judgement.bitwise, judgement.conditions, patterns, judgement.witness,
            )  # fmt: skip
        case Refuted(against):
            return Record("refuted", counterexample=plain(against))
        case Unknown(why):
            return Record("unknown", why)


def plain(against: Counterexample) -> dict[str, Any]:
    """A counterexample as JSON has it; values only when they are few."""
    arrays = [*against.inputs.values(), against.left, against.right]
    few = sum(a.size for a in arrays) <= _SHOWN
    return {
        "shapes": str(against),
        "inputs": {name: _listed(a) for name, a in sorted(against.inputs.items())} if few else None,
        "left": _listed(against.left) if few else _first_difference(against.left, against.right),
        "right": _listed(against.right) if few else _first_difference(against.right, against.left),
    }


def _listed(array: npt.NDArray[np.generic]) -> Any:
    """Nested lists of short numbers; NaN and Inf as text, which JSON has no number for."""
    if array.ndim:
        return [_listed(np.asarray(part)) for part in array]
    if array.dtype.kind != "f":
        return array.item()
    value = float(str(array[()]))
    return value if np.isfinite(value) else str(value)


def _first_difference(array: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> Any:
    """One element that shows it, or the shape."""
    if array.shape != other.shape:
        return f"shape {list(array.shape)}"
    places = np.argwhere(~np.isclose(array.astype(np.float64), other.astype(np.float64), rtol=1e-3, atol=1e-3))
    place = tuple(int(k) for k in places[0]) if len(places) else (0,) * array.ndim
    return f"{_listed(np.asarray(array[place]))} at {list(place)}"


def proved(rules: RuleSet, *, allow_bounded: bool, prover: Prover = prove) -> RuleSet:
    """The rules of a user's files with their status; `RuleError` when one of them may not rewrite."""
    stamped: list[Rule] = []
    failures: list[str] = []
    with Replay() as replay:
        for rule in rules:
            known = rule
            if not admitted(rule.status, allow_bounded):
                judgement = next(stages(rule, prover, replay))
                known = with_verdict(rule, record(judgement))
                if not admitted(known.status, allow_bounded):
                    failures.append(f"{rule.file}:{rule.line}:1: rule {rule.name} is {in_words(judgement.verdict)}")
            stamped.append(known)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise RuleError(f"{failures[0]}{more}; only proved rules are used")
    return RuleSet(tuple(stamped))


def in_words(verdict: Verdict) -> str:
    """A verdict in one line."""
    match verdict:
        case Proved(limit):
            return "proved" if limit is None else f"proved up to size {limit} only (--allow-bounded admits it)"
        case Refuted(against):
            return f"refuted: the sides differ at {against}"
        case Unknown(why):
            return f"not proved: {why}"

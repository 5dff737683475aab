"""The verdict on one rule: what the prover says, checked against ONNX Runtime."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.errors import RuleError
from taso_py.ops.algebra import Algebra
from taso_py.prove.prover import prove, prove_all_sizes
from taso_py.prove.trials.adversary import Contradiction, Kind, contradictions, rounding_explains
from taso_py.prove.trials.classes import bitwise, kind_of, specials_change
from taso_py.prove.trials.inclusion import claimed
from taso_py.prove.trials.magnitude import overflow
from taso_py.prove.trials.refute import counterexample, counterexample_at, differs, refute, replayed
from taso_py.prove.trials.runs import Replay, replaying
from taso_py.prove.trials.vacuity import contradictory
from taso_py.prove.trials.witness import Survey, seed_of, smallest, summary, survey
from taso_py.prove.verdict import Counterexample, Disagreement, Proved, Reason, Refuted, Unknown, Verdict
from taso_py.rules.instance import LARGEST
from taso_py.rules.instances import Instance, oversized
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
NO_WITNESS = "proved, but no instance of it was seen to agree"
DISAGREEMENT_SCHEMA = "superopt.disagreement/1"
_ADVERSARY_S = 0.15
"""Work of the adversarial sampler on one proved law, in seconds of a slow machine."""
_ROLE_STEPS = 4_000
"""Steps of a proof without one of the conditions: most fail, and then take all that they are given."""
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
    _: KW_ONLY
    conditions: tuple[tuple[str, Role], ...] = ()
    """Each condition, and whether the law is false without it, proved without it, or neither."""
    seconds: float = 0.0
    overflow: str = ""
    """Where the right side overflows float32 and the left side does not; empty: nowhere."""


def judge(rule: Rule, *, prover: Prover = prove, replay: Replay | None = None) -> Judgement:
    """The verdict on a rule, and for a proved one its class and what each condition is good for."""
    with replaying(replay) as run:
        *_, last = stages(rule, prover, run)
        return last


def stages(rule: Rule, prover: Prover, replay: Replay) -> Iterator[Judgement]:
    """The judgement without the conditions' roles, which take as long again, then with them."""
    start = time.perf_counter()
    judgement = _described(*decided(rule, prover, replay), replay)
    if isinstance(judgement.verdict, Proved):
        judgement = replace(judgement, overflow=overflow(rule) or "")
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
        disagreement = contradicted(rule, found, seen, replay)
        if disagreement is not None or found.limit is None:
            return disagreement or _witnessed(rule, found, seen)
    if contradictory(rule):
        return Unknown(VACUOUS, Reason.CONTRADICTORY)
    if seen.undrawn and isinstance(found, Unknown) and found.reason is Reason.UNTYPED:
        return found
    against = refute(rule, seed=seed_of(rule), replay=replay)
    if against is not None and replayed(rule, against, replay):
        return Refuted(against)
    odd = next((c for c in contradictions(rule, replay=replay) if c.confirmed), None)
    if odd is not None:
        return Refuted(against_of(odd))
    if isinstance(found, Proved):
        return _witnessed(rule, found, seen)
    return _undrawn(rule, seen) if seen.undrawn and against is None else found


def contradicted(rule: Rule, proof: Proved, seen: Survey, replay: Replay) -> Disagreement | None:
    """An instance that the proof's claim includes and that contradicts it: one of the two is a bug of ours."""
    includes = claimed(proof)
    trials = [t for t in seen.contradictions if includes(t.instance) and not rounding_explains(t)]
    if trials:
        worst = max(trials, key=lambda t: t.gap)
        return Disagreement(proof, counterexample(worst), worst.gap.name.lower())
    odd = next(contradictions(rule, replay=replay, includes=includes, seconds=_ADVERSARY_S), None)
    if odd is not None and odd.kind is Kind.LOST and overflow(rule):
        return None  # out of the range of floats, which the rule's mark tells
    return None if odd is None else Disagreement(proof, against_of(odd), odd.kind.value, odd.why)


def _witnessed(rule: Rule, proof: Proved, seen: Survey) -> Verdict:
    if seen.witness is not None:
        return proof
    if contradictory(rule):
        return Unknown(VACUOUS, Reason.CONTRADICTORY)
    return _undrawn(rule, seen) if seen.undrawn else Unknown(NO_WITNESS, Reason.UNSEEN)


def _undrawn(rule: Rule, seen: Survey) -> Unknown:
    if oversized(rule):
        return Unknown(
            f"what it declares is too large to try: no tensor of over {LARGEST:,} elements is drawn", Reason.UNDRAWN
        )
    return Unknown(f"no instance was drawn in {seen.attempts:,} attempts", Reason.UNDRAWN)


def against_of(found: Contradiction) -> Counterexample:
    """A contradiction in the rule's own words and direction; empty where the right side cannot be built."""
    left = found.left[found.place]
    right = found.right[found.place] if found.right else np.empty(0, left.dtype)
    sides = (right, left) if found.flipped else (left, right)
    return counterexample_at(found.instance, *sides)


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
    if isinstance(condition, Predicate) and condition.kind == "constant":
        return "droppable"  # it says when folding pays; proofs are for all values
    weaker = replace(rule, conditions=tuple(c for c in rule.conditions if c != condition))
    try:
        weaker.check()
    except RuleError:
        return "undecided"
    found = prove_all_sizes(weaker, _ROLE_STEPS) if prover is prove else prover(weaker)
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
            return constant and bool(PREDICATES[condition.kind].holds(*arrays, *condition.arguments))


def record(judgement: Judgement) -> Record:
    """The judgement as the lock keeps it."""
    match judgement.verdict:
        case Proved() as found:
            return Record(
                "proved", limit=found.limit, ranks=found.ranks, method=found.method, cases=found.cases,
                facts=found.facts, kind=judgement.kind or "", nan=judgement.specials or "", bitwise=judgement.bitwise,
                conditions=judgement.conditions, patterns=found.patterns, witness=judgement.witness,
                types=found.types, overflow=judgement.overflow,
            )  # fmt: skip
        case Refuted(against):
            return Record("refuted", counterexample=plain(against))
        case Unknown(why, reason):
            return Record("unknown", why, reason="" if reason is Reason.OPEN else reason.value)
        case Disagreement(_, against, difference, why):
            return Record("unknown", disagreement_words(difference, why), counterexample=plain(against))


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
    one, two = array.astype(np.float64), other.astype(np.float64)
    apart = ~np.isclose(one, two, rtol=1e-3, atol=1e-3, equal_nan=True)
    places = np.argwhere(apart if apart.any() else (one != two) & ~(np.isnan(one) & np.isnan(two)))
    place = tuple(int(k) for k in places[0]) if len(places) else (0,) * array.ndim
    return f"{_listed(np.asarray(array[place]))} at {list(place)}"


def proved(rules: RuleSet, *, allow_bounded: bool, allow_overflow: bool = False, prover: Prover = prove) -> RuleSet:
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
    if not failures and not allow_overflow:
        _demand_range(stamped)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise RuleError(f"{failures[0]}{more}; only proved rules are used")
    return RuleSet(tuple(stamped))


def _demand_range(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if rule.overflow:
            where = f"{rule.file}:{rule.line}:1: rule {rule.name}"
            raise RuleError(f"{where} is proved for real numbers, but {rule.overflow}; --allow-overflow admits it")


def in_words(verdict: Verdict) -> str:
    """A verdict in one line."""
    match verdict:
        case Proved(limit):
            return "proved" if limit is None else f"proved up to size {limit} only (--allow-bounded admits it)"
        case Refuted(against):
            return f"refuted: the sides differ at {against}"
        case Unknown(why):
            return f"not proved: {why}"
        case Disagreement(_, against, difference, why):
            return f"refused: {disagreement_words(difference, why)} at {against}"


def disagreement_words(difference: str, why: str) -> str:
    """How a proof and an instance disagree, in one line."""
    return f"proof and instance disagree on {difference}{': ' if why else ''}{why}, which is a bug of superopt"


def report(rule: Rule, found: Disagreement) -> str:
    """Everything that a report of the bug needs, as one JSON object: the law, the claim, the instance, both sides."""
    against = found.counterexample
    arrays = {name: {"type": str(a.dtype), "shape": list(a.shape), "values": _listed(a)}
              for name, a in sorted(against.inputs.items())}  # fmt: skip
    whole = {
        "schema": DISAGREEMENT_SCHEMA,
        "rule": rule.text(),
        "id": rule.id,
        "place": f"{rule.file}:{rule.line}",
        "proof": asdict(found.proof),
        "difference": found.difference,
        "why": found.why,
        "attributes": {name: str(value) for name, value in against.stated()},
        "inputs": arrays,
        "left": {"type": str(against.left.dtype), "values": _listed(against.left)},
        "right": {"type": str(against.right.dtype), "values": _listed(against.right)},
    }
    return json.dumps(whole, indent=2)

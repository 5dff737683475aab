"""One candidate law decided: its forms tested on random instances, then proved, the most general first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from taso_py.prove.prover import prove_with_conditions
from taso_py.prove.trials.runs import Gap, Replay, Sampler, Trial
from taso_py.prove.trials.witness import seed_of
from taso_py.prove.verdict import Unknown
from taso_py.rules.rule import Rule

_TESTS = 18
"""Random instances, of both directions, that a law must survive before it is proved."""
_DRAWS = 400

Fate = Literal["proved", "refuted", "unknown", "derivable"]


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a candidate: its rules where it is proved, else why not."""

    fate: Fate
    rules: tuple[Rule, ...] = ()
    why: str = ""


def settle(forms: Iterable[Sequence[Rule]], replay: Replay, steps: int) -> Settled:
    """The most general proved forms of a law; `refuted` when every form has a counterexample.

    ``steps`` is what all its proofs may take together: what is proved does not depend on the machine.
    """
    why = ""
    for together in forms:
        proved: list[Rule] = []
        for form in together:
            trials = surviving(form, replay)
            if trials is None:
                continue
            form, verdict, steps = prove_with_conditions(form, steps)
            if isinstance(verdict, Unknown):
                why = why or f"unknown: {verdict.why}"
            elif any(t.agrees for t in trials):
                proved.append(form)
            else:
                why = why or "proved, but no instance of it was seen to agree"
        if proved:
            return Settled("proved", tuple(proved))
    return Settled("unknown", why=why) if why else Settled("refuted")


def surviving(rule: Rule, replay: Replay) -> list[Trial] | None:
    """Random instances of the rule in ONNX Runtime; None when there are none, or the sides of one of them differ."""
    sampler = Sampler(rule, seed_of(rule), attempts=_DRAWS)
    first = sampler.draw()
    if first is None or any(t.gap >= Gap.UNDEFINED for t in replay.trials([first])):
        return None
    drawn = [first, *(d for d in (sampler.draw() for _ in range(_TESTS - 1)) if d is not None)]
    trials = replay.trials(drawn)
    return trials if all(t.gap < Gap.UNDEFINED for t in trials) else None

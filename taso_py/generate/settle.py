"""One candidate law decided: its forms tested on random instances, then proved, the most general first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from taso_py.prove.prover import prove
from taso_py.prove.replay import Gap, Replay, Sampler
from taso_py.prove.verdict import Proved, Refuted, Unknown, Verdict
from taso_py.prove.verify import decided
from taso_py.prove.witness import seed_of
from taso_py.rules.rule import Rule

_TESTS = 18
"""Random instances, of both directions, that a law must survive before it is proved."""
_DRAWS = 400

Fate = Literal["proved", "refuted", "unknown", "derivable"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a candidate: its rules where it is proved, else why not."""

    fate: Fate
    rules: tuple[Rule, ...] = ()
    why: str = ""


def settle(forms: Iterable[Sequence[Rule]], replay: Replay) -> Outcome:
    """The most general proved forms of a law; `refuted` when every form has a counterexample."""
    why = ""
    for together in forms:
        proved: list[Rule] = []
        for form in together:
            if not survives(form, replay):
                continue
            verdict, _ = decided(form, prove, replay)
            if isinstance(verdict, Proved) and verdict.limit is None:
                proved.append(form)
            else:
                why = why or _why(verdict)
        if proved:
            return Outcome("proved", tuple(proved))
    return Outcome("unknown", why=why) if why else Outcome("refuted")


def _why(verdict: Verdict) -> str:
    match verdict:
        case Proved():
            return "proved for bounded sizes only"
        case Refuted():
            return "refuted by an instance that the random ones missed"
        case Unknown(why):
            return f"unknown: {why}"


def survives(rule: Rule, replay: Replay) -> bool:
    """Whether random instances of the rule exist and their sides agree in ONNX Runtime."""
    sampler = Sampler(rule, seed_of(rule), attempts=_DRAWS)
    first = sampler.draw()
    if first is None or any(t.gap >= Gap.UNDEFINED for t in replay.trials([first])):
        return False
    drawn = [first, *(d for d in (sampler.draw() for _ in range(_TESTS - 1)) if d is not None)]
    return all(t.gap < Gap.UNDEFINED for t in replay.trials(drawn))

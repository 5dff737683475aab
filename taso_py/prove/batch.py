"""Many rules judged at once, in a crew of processes: one that dies or hangs costs its rule, not the rest."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from taso_py.processes.crew import Crew, Lost, Work
from taso_py.prove.prover import prove
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Reason, Unknown
from taso_py.prove.verify import Judgement, Prover, stages
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

LIMIT_S = 300.0
"""The longest that one rule may take."""


_FRAMES = 10_000
"""Of Python's stack in a process that proves: terms are walked through by recursion, some 20 frames a level."""


def judged(
    rules: Sequence[Rule], *, jobs: int, limit_s: float = LIMIT_S, prover: Prover = prove
) -> Iterator[tuple[Rule, Judgement]]:
    """Each rule with its judgement, as they come; leaving early ends the processes.

    ``prover`` is a function of a module, because it is called in other processes.
    """
    # Rules travel as text: hashes of terms hold in one process only.
    tasks = [(rule.text(), rule.file, rule.line) for rule in rules]
    with Crew(begin, prover, min(jobs, len(rules)), limit_s) as crew:
        for number, answer in crew.answers(tasks):
            yield rules[number], _unless_known(answer) if isinstance(answer, Lost) else answer


def _unless_known(lost: Lost) -> Judgement:
    """What is known of a rule whose process was lost: its first judgement, if there was one."""
    return replace(lost.so_far or Judgement(Unknown(lost.why, Reason.UNFINISHED)), seconds=lost.seconds)


def begin(prover: Prover) -> Work:
    """What a process does: the stages of a rule's judgement."""
    sys.setrecursionlimit(_FRAMES)
    replay = Replay()
    replay.worker.info()  # what starts it is not on the rules' time
    gc.freeze()
    gc.set_threshold(5_000_000)  # a proof leaves some ten thousand objects in cycles: a megabyte

    def judge(task: tuple[str, str, int]) -> Iterator[Judgement]:
        text, file, line = task
        yield from stages(replace(parse_rule(text), file=file, line=line), prover, replay)

    return judge

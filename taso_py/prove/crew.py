"""Many rules judged at once, each in a process of its own crew: one that dies or hangs costs its rule, not the rest."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TypeAlias

from taso_py.prove.prover import prove
from taso_py.prove.replay import Replay
from taso_py.prove.verdict import Unknown
from taso_py.prove.verify import Judgement, Prover, stages
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

LIMIT_S = 300.0
"""The longest that one rule may take."""
_START_S = 120.0
"""The longest that a process may take to begin."""

_Answer: TypeAlias = tuple[bool, Judgement] | None
"""Whether it is the last one, and what is known so far; None: work on the rule begins."""


def judged(
    rules: Sequence[Rule], *, jobs: int, limit_s: float = LIMIT_S, prover: Prover = prove
) -> Iterator[tuple[Rule, Judgement]]:
    """Each rule with its judgement, as they come; leaving early ends the processes.

    ``prover`` is a function of a module, because it is called in other processes.
    """
    waiting = deque(rules)
    crew = [_Member(prover, limit_s) for _ in range(min(jobs, len(rules)))]
    try:
        while waiting or any(m.rule is not None for m in crew):
            for member in crew:
                if member.rule is None and waiting:
                    member.give(waiting.popleft())
            for member in _ready(crew):
                done = member.answer()
                if done is not None:
                    yield done
    finally:
        for member in crew:
            member.stop()


def _ready(crew: Sequence[_Member]) -> list[_Member]:
    """Members that have said something, died, or are late; waits until there is one."""
    busy = [m for m in crew if m.rule is not None]
    patience = max(0.0, min(m.deadline for m in busy) - time.monotonic())
    spoken = wait([m.connection for m in busy], timeout=patience)
    now = time.monotonic()
    return [m for m in busy if m.connection in spoken or now >= m.deadline]


@dataclass(slots=True)
class _Member:
    """One process, started at its first rule and again after it was lost."""

    prover: Prover
    limit_s: float
    rule: Rule | None = None
    begin: float = 0.0
    begun: bool = False
    so_far: Judgement | None = None
    process: SpawnProcess | None = None
    connection: Connection = field(init=False)

    @property
    def deadline(self) -> float:
        """When the rule has taken too long."""
        return self.begin + (self.limit_s if self.begun else _START_S)

    def give(self, rule: Rule) -> None:
        """Starts work on a rule, which travels as text: hashes of terms hold in one process only."""
        if self.process is None:
            self._start()
        self.rule, self.begin, self.begun, self.so_far = rule, time.monotonic(), False, None
        with suppress(OSError):  # a process that is gone is found out when its answer is read
            self.connection.send((rule.text(), rule.file, rule.line))

    def answer(self) -> tuple[Rule, Judgement] | None:
        """The rule with its last judgement; None while there is no last one."""
        assert self.rule is not None
        try:
            answer = self._received()
        except TimeoutError:
            return self._lost(f"no verdict within {self.limit_s:.0f} s")
        except (EOFError, OSError):
            return self._lost("the prover's process died")
        if answer is None:
            self.begin, self.begun = time.monotonic(), True
            return None
        last, judgement = answer
        if not last:
            self.so_far = judgement
            return None
        rule, self.rule = self.rule, None
        return rule, judgement

    def _received(self) -> _Answer:
        if not self.connection.poll():
            raise TimeoutError
        answer: _Answer = self.connection.recv()
        return answer

    def _lost(self, why: str) -> tuple[Rule, Judgement]:
        """What is known of a rule whose process is gone: its first judgement, if there was one."""
        assert self.rule is not None
        rule, known = self.rule, self.so_far or Judgement(Unknown(why))
        self.stop()
        self.rule = None
        return rule, replace(known, seconds=time.monotonic() - self.begin)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.prover), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        """Ends the process; its ONNX Runtime worker ends with it."""
        process, self.process = self.process, None
        if process is None:
            return
        self.connection.close()
        process.kill()
        process.join()


def _serve(connection: Connection, prover: Prover) -> None:
    """A member's own loop; a terminal's Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Replay() as replay, suppress(EOFError, OSError):
        replay.worker.info()  # what starts it is not on the rules' time
        while True:
            text, file, line = connection.recv()
            rule = replace(parse_rule(text), file=file, line=line)
            for answer in _answers(rule, prover, replay):
                connection.send(answer)


def _answers(rule: Rule, prover: Prover, replay: Replay) -> Iterator[_Answer]:
    known = Judgement(Unknown("not judged"))
    yield None
    try:
        for known in stages(rule, prover, replay):
            yield False, known
    except Exception as error:  # noqa: BLE001 - a fault of the prover's costs this rule, and says so
        yield True, Judgement(Unknown(f"internal error: {type(error).__name__}: {error}"))
        return
    yield True, known

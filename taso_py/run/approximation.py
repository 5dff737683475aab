"""The second stage: approximations of an exact model, chosen on some samples, confirmed, and tested on others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx

from taso_py.approximate import hinted as hints
from taso_py.approximate.candidates import FAULTS, GUARD, Bench, Candidate
from taso_py.approximate.choosing import Chooser
from taso_py.approximate.judge import Judge, Verdict
from taso_py.approximate.layers import LAYERS, gains, layers_of
from taso_py.approximate.model import overridable
from taso_py.approximate.quantise import QuantiseError, Quantiser
from taso_py.approximate.record import HINT, ApproximatedLayer, TriedApproximation, figure
from taso_py.approximate.samples import LEAST_TESTED
from taso_py.backend.client import Worker
from taso_py.backend.kernels import Kernel
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.race import RaceResult, race
from taso_py.backend.runtime import multiplies_bytes
from taso_py.backend.timing import MIN_CONFIRM_ROUNDS, Confirmation, Unconfirmed, confirm
from taso_py.errors import TooLateError
from taso_py.onnx_io.artifact import INLINE_LIMIT_BYTES
from taso_py.options import Options
from taso_py.options.providers import short_name
from taso_py.options.spelling import spelled
from taso_py.progress import Progress
from taso_py.run.budget import Data
from taso_py.run.dropped import DroppedError, fault
from taso_py.run.run import Clock
from taso_py.run.subject import weight_bytes

_WHOLE, _LAYERS, _LOOKED, _CHOSEN, _RACED, _TESTED = 0.25, 0.35, 0.48, 0.6, 0.7, 0.85
"""Shares of the stage's time by whose end whole models are made, all layers together, layers looked at one by one,
chosen, candidates raced and the winner tested; the confirmation has the rest."""
_HINTED = 0.3
"""The part of the stage's time that providers with a hint may be judged in; what follows shares the rest."""
_RACED_HERE = 0.65
"""By whose end candidates are raced in the exact model's process, where others are raced beside it afterwards."""
_LEAST_S = 8.0
"""Below this nothing is begun."""
_CONFIRM_ROUNDS, _BLOCK_S, _PROFILE_S = 15, 0.25, 0.5
_PATIENCE_S = 2.0
_HINT_ROUNDS, _LEAST_RACE_S = 6, 2.0
_NO_LAYER = "no Conv, MatMul or Gemm of the model has constant float32 weights"
_MOST_TESTED = 2
"""Models that are tested on the unseen samples: each further one warrants less."""
_MOST_TOLD = 20
"""Sets of layers that were measured and not taken: so many are on record."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """One approximate stage; what is known of it so far is in ``told``."""

    original: ModelRef
    exact: onnx.ModelProto
    options: Options
    data: Data
    feeds: Sequence[Feeds]
    """One for each workload, to time models on."""
    config: WorkerConfig
    folder: Path
    clock: Clock
    progress: Progress
    hinted: Sequence[WorkerConfig] = ()
    """Providers that may run the exact model with less precision, by a hint."""
    begin: float = field(default_factory=time.monotonic)
    told: list[TriedApproximation] = field(default_factory=list)
    layers: tuple[ApproximatedLayer, ...] = ()
    tested: int = 0
    """Models that were tested on the unseen samples."""

    def at(self, share: float) -> float:
        """The moment when this share of the stage's time is used up, as time.monotonic() has it."""
        return self.begin + share * (self.clock.begin + self.clock.budget - self.begin)

    def run(self) -> tuple[Candidate, Verdict, Confirmation]:
        """The approximation that is confirmed and keeps the budget on unseen samples; else `DroppedError`."""
        self._require_possible()
        path = self.folder / "exact.onnx"
        path.write_bytes(self.exact.SerializeToString(deterministic=True))
        exact = ModelRef("exact", path)
        threads = WorkerConfig(threads=self.config.threads)
        last = self.at(1.0) + _PATIENCE_S
        with (
            Worker(self.config) as worker, Worker(threads) as oracle,
            worker.keeping_to(last), oracle.keeping_to(last),
        ):  # fmt: skip
            judge = Judge(self.original, self.data.samples, worker, oracle, self.data.metric)
            candidates = self._candidates(judge, exact, path)
            oracle.stop()  # nothing may run beside what is timed
            return self._first_that_holds(judge, exact, self._raced(worker, exact, candidates))

    def _first_that_holds(
        self, judge: Judge, exact: ModelRef, order: Sequence[Candidate]
    ) -> tuple[Candidate, Verdict, Confirmation]:
        """The first of these that keeps the budget on unseen samples, confirmed; why the first one does not, if none.

        Nothing is confirmed beside a process that is at work.
        """
        first: DroppedError | None = None
        for one in order[:_MOST_TESTED]:
            if first is not None and time.monotonic() >= self.at(_TESTED):
                break
            try:
                verdict = self._tested(judge, one)
                judge.oracle.stop()
                judge.worker.stop()
                return one, verdict, self._confirmed(exact, one)
            except DroppedError as error:
                first = first or error
                self._drop(one, str(error))
            except FAULTS as error:
                first = first or fault(error)
                self._drop(one, str(error))
            except TooLateError:
                if first is None:
                    raise
                break
        assert first is not None
        raise first

    def _drop(self, candidate: Candidate, why: str) -> None:
        """Puts on record why a candidate that was raced is not the result."""
        same = [k for k, one in enumerate(self.told) if one == candidate.told(one.speedup)]
        for k in same[-1:]:
            self.told[k] = candidate.told(self.told[k].speedup, why)

    def _phase(self, name: str, total: int | None = None) -> None:
        """Tells the user that a phase begins, and what is left of the time budget."""
        self.progress.phase(name, total)
        self.progress.update(remaining_s=self.clock.left())

    def _require_possible(self) -> None:
        if self.at(1.0) - self.begin < _LEAST_S:
            words = f"{max(0.0, self.at(1.0) - self.begin):.0f} s were left for approximations"
            raise DroppedError("too little time", f"{words}: raise {spelled('time_budget_s')}")
        # The weights first: protobuf does not tell a size that it could not write.
        if weight_bytes(self.exact) > INLINE_LIMIT_BYTES or self.exact.ByteSize() > INLINE_LIMIT_BYTES:
            raise DroppedError("unsupported", "the model is too large for ONNX Runtime's quantiser, which takes 2 GB")

    def _candidates(self, judge: Judge, exact: ModelRef, path: Path) -> list[Candidate]:
        """Everything that keeps the budget on the samples of the selection."""
        found = self._by_hint(judge, exact)
        try:
            found += self._quantised(judge, exact, path)
        except (DroppedError, TooLateError, *FAULTS) as error:
            if not found:
                raise self._with_hints(error) from None
        keeping = [one for one in found if one.verdict.error <= GUARD * self.budget]
        keeping = keeping or [one for one in found if one.verdict.error <= self.budget]  # the test decides
        self.told += [one.told() for one in found if one not in keeping]
        if not keeping:
            raise DroppedError("beyond the budget", self._beyond(found))
        return _distinct(keeping)

    def _by_hint(self, judge: Judge, exact: ModelRef) -> list[Candidate]:
        """The exact model on each provider that a hint makes less precise."""
        found: list[Candidate] = []
        for config in self.hinted:
            self._phase(f"approximate: bfloat16 on {short_name(config.ep)}")
            one = hints.hinted(
                config, exact, judge, self.data.parts.selection, beyond=self.budget, until=self.at(_HINTED)
            )  # fmt: skip
            if isinstance(one, Candidate):
                found.append(one)
            else:
                self.told.append(one)
        if self.hinted:
            self.begin = time.monotonic()
        return found

    def _with_hints(self, error: Exception) -> Exception:
        """The reason why nothing is made 8-bit, and why no provider's hint is followed either."""
        why = [one for one in self.told if one.kind == HINT]
        if not isinstance(error, DroppedError) or not why:
            return error
        words = "; ".join(f"{one.kind}: {one.failure}" for one in why)
        return DroppedError(error.reason.code, f"{error}; {words}")

    def _quantised(self, judge: Judge, exact: ModelRef, path: Path) -> list[Candidate]:
        """Models with 8-bit layers, the whole models first."""
        names = () if self.options.freeze_initializers else overridable(self.exact)
        if names:
            words = f"a caller may override '{names[0]}', which 8-bit weights would not hear of"
            raise DroppedError("unsupported", f"{words}: {spelled('freeze_initializers')}")
        if not self.exact.functions and not any(node.op_type in LAYERS for node in self.exact.graph.node):
            raise DroppedError("nothing to quantise", _NO_LAYER)
        parts = self.data.parts
        quantiser = Quantiser(path, self.folder, self.at(_WHOLE), not multiplies_bytes())
        self._phase("approximate: whole models", 4)
        try:
            quantiser.prepare([self.data.samples.feeds(number) for number in parts.calibration])
        except QuantiseError as error:
            raise DroppedError("quantiser failed", str(error)) from None
        bench = Bench(
            exact=self.exact, quantiser=quantiser, judge=judge, selection=parts.selection,
            budget=self.budget, allow_contrib=self.options.allow_contrib, until=self.at(_WHOLE),
            layers=layers_of(onnx.load(quantiser.prepared)),
        )  # fmt: skip
        if not bench.layers:
            raise DroppedError("nothing to quantise", _NO_LAYER)
        whole = bench.whole_models(lambda number: self.progress.update(done=number))
        bench.until = quantiser.until = self.at(_LAYERS)
        self._phase("approximate: layers", len(bench.layers))
        layered = bench.all_layers()
        self.told += bench.failed
        if not whole and not layered:
            raise DroppedError("quantiser failed", bench.failed[0].failure or "it made no model")
        return whole + layered + self._chosen(bench, judge.worker, exact, layered)

    def _beyond(self, found: Sequence[Candidate]) -> str:
        least, budget = min(one.verdict.error for one in found), self.budget
        words = f"the least error of {len(found)} candidates is {self._figure(least)}"
        return f"{words}, the budget {self._figure(budget)}"

    @property
    def budget(self) -> float:
        """The largest error allowed."""
        assert self.options.error_budget is not None
        return self.options.error_budget

    def _figure(self, error: float) -> str:
        return figure(error, self.options.metric)

    def _chosen(self, bench: Bench, worker: Worker, exact: ModelRef, layered: Sequence[Candidate]) -> list[Candidate]:
        """The layers that pay, chosen one after the other; nothing where nobody can say what a layer gains.

        ``layered``: all layers by each calibrator, of which the one with the least error is taken.
        """
        best = min(layered, key=lambda one: (one.verdict.mean, one.verdict.error), default=None)
        if best is None or best.calibrator is None:
            return []
        before, after = self._profiled(worker, exact), self._profiled(worker, best.reference)
        if not before or not after:
            return []
        saved = gains(bench.layers, before, after)
        bench.until = bench.quantiser.until = self.at(_CHOSEN)
        chooser = Chooser(
            bench=bench, method=best.calibrator, gains=saved, until=self.at(_CHOSEN),
            tell=lambda done: self.progress.update(done=done),
        )  # fmt: skip
        chooser.look(self.at(_LOOKED))
        alone = chooser.alone
        self.layers = tuple(
            ApproximatedLayer(k.name, k.operator, False, error_alone=alone.get(k.name), gain_s=saved.get(k.name))
            for k in bench.layers
        )
        found = chooser.chosen()
        self.told += [one.told() for one in chooser.measured if one not in found][:_MOST_TOLD]
        return found

    def _profiled(self, worker: Worker, model: ModelRef) -> tuple[Kernel, ...]:
        """Its kernels; none where ONNX Runtime cannot tell."""
        try:
            return worker.profile(model, self.feeds[0], budget_s=_PROFILE_S)
        except FAULTS:
            return ()

    def _raced(self, worker: Worker, exact: ModelRef, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that are faster than the exact model, the fastest first."""
        self._phase("approximate: race")
        here = [one for one in candidates if one.config is None]
        beside = [one for one in candidates if one.config is not None]
        share = _RACED_HERE if beside else _RACED
        races = (
            (here, partial(self._raced_here, worker, exact, here, share)),
            (beside, partial(self._raced_beside, exact, beside)),
        )
        faster, failed = list[tuple[float, Candidate]](), list[Exception]()
        for some, timed in races:
            try:
                faster += timed() if some else []
            except FAULTS as error:  # what the other race finds is no worse for it
                failed.append(error)
                self.told += [one.told(failure=str(error)) for one in some]
            worker.stop()
        if faster:
            return [one for _, one in sorted(faster, key=lambda item: -item[0])]
        if failed:
            raise failed[0]
        speeds = [one.speedup for one in self.told if one.speedup is not None]
        if not speeds:
            raise DroppedError("too little time", f"no time was left for the race: raise {spelled('time_budget_s')}")
        words = f"the best of {len(speeds)} that keep the budget runs at {max(speeds):.3f} times"
        raise DroppedError("nothing faster", f"{words} the exact model's speed")

    def _raced_here(
        self, worker: Worker, exact: ModelRef, candidates: Sequence[Candidate], share: float
    ) -> list[tuple[float, Candidate]]:
        """Models in the exact model's process; the winner, and those that are as much faster, with their speed-ups."""
        with worker.keeping_to(self.at(share) + _PATIENCE_S):
            found: RaceResult = race(
                worker, [exact, *(one.reference for one in candidates)], self.feeds, deadline=self.at(share),
                block_s=_BLOCK_S, least_gain=self.options.min_gain, max_sessions=4,
            )  # fmt: skip
        timed = found.standings[1:]
        self.told += [one.told(s.speedup, s.failure) for one, s in zip(candidates, timed, strict=True)]
        if not found.winner:
            return []
        best = timed[found.winner - 1].speedup or 1.0
        faster = [(best, candidates[found.winner - 1])]
        for number, (one, standing) in enumerate(zip(candidates, timed, strict=True), start=1):
            speed = min(standing.speedup or 0.0, best)
            if number != found.winner and not standing.slower and speed >= 1 + self.options.min_gain:
                faster.append((speed, one))
        return faster

    def _raced_beside(self, exact: ModelRef, candidates: Sequence[Candidate]) -> list[tuple[float, Candidate]]:
        """The exact model on providers with a hint, each in a process of its own; those that are faster."""
        configs = [one.config for one in candidates if one.config is not None]
        deadline = max(self.at(_RACED), time.monotonic() + _LEAST_RACE_S)
        timed = hints.raced(self.config, configs, exact, self.feeds, rounds=_HINT_ROUNDS, deadline=deadline)
        self.told += [one.told(t.speedup, t.failure) for one, t in zip(candidates, timed, strict=True)]
        return [
            (found.speedup, one)
            for one, found in zip(candidates, timed, strict=True)
            if found.speedup is not None and found.speedup >= 1 + self.options.min_gain
        ]

    def _tested(self, judge: Judge, winner: Candidate) -> Verdict:
        """The error on samples that were used for nothing else, as the winner is deployed."""
        self._phase("approximate: test", len(self.data.parts.test))
        self.tested += 1
        if winner.config is None:
            found = self._on_unseen(judge, winner)
        else:
            with Worker(winner.config) as worker, worker.keeping_to(self.at(_TESTED) + _PATIENCE_S):
                found = self._on_unseen(judge.on(worker), winner)
        if found.error > self.budget:
            words = f"the error is {self._figure(found.error)} on {found.samples} unseen samples"
            told = f"{words}, the budget {self._figure(self.budget)}"
            raise DroppedError("beyond the budget on unseen samples", told)
        return found

    def _on_unseen(self, judge: Judge, winner: Candidate) -> Verdict:
        return judge.verdict(
            winner.reference, self.data.parts.test, beyond=self.budget, until=self.at(_TESTED), least=LEAST_TESTED
        )

    def _confirmed(self, exact: ModelRef, winner: Candidate) -> Confirmation:
        self._phase("approximate: confirm")
        deadline = max(self.at(1.0), time.monotonic() + 1.0)
        if winner.config is None:
            found = confirm(
                self.config, exact, winner.reference, self.feeds, deadline=deadline,
                rounds=_CONFIRM_ROUNDS, block_s=_BLOCK_S, seed=self.options.seed,
            )  # fmt: skip
        else:
            found = hints.confirmed(
                self.config, winner.config, exact, self.feeds, deadline=deadline,
                rounds=_CONFIRM_ROUNDS, seed=self.options.seed,
            )  # fmt: skip
        if isinstance(found, Confirmation) and found.improves(self.options.min_gain):
            return found
        if isinstance(found, Unconfirmed) or found.rounds < MIN_CONFIRM_ROUNDS:
            more = f"raise {spelled('time_budget_s')}"
            if found.delayed:
                raise DroppedError("too noisy", f"other processes had the CPUs during the confirmation: {more}")
            raise DroppedError("too little time", f"no time was left to confirm the approximation: {more}")
        interval = f"{found.speedup:.3f} [{found.low:.3f}, {found.high:.3f}]"
        raise DroppedError("not confirmed", f"a fresh measurement of the approximation gave {interval}")


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of candidates that differ in their calibrator alone, and so in no instruction, the one with the least error."""
    best: dict[tuple[object, ...], Candidate] = {}
    for one in candidates:
        key = (one.kind, one.whole, one.layers, one.config)
        if key not in best or one.verdict.error < best[key].verdict.error:
            best[key] = one
    return list(best.values())

"""The second stage: approximations of an exact model, chosen on some samples, confirmed, and tested on others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx

from taso_py.approximate.candidates import FAULTS, Bench, Candidate
from taso_py.approximate.choosing import Chooser
from taso_py.approximate.elsewhere import Elsewhere
from taso_py.approximate.judge import Judge, Verdict
from taso_py.approximate.layers import LAYERS, gains, layers_of
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
from taso_py.onnx_io.read import overridable
from taso_py.options import Options
from taso_py.options.spelling import spelled
from taso_py.progress import Progress
from taso_py.run.alternatives import Alternatives, within
from taso_py.run.budget import Data
from taso_py.run.dropped import DroppedError, fault
from taso_py.run.run import Clock
from taso_py.run.subject import weight_bytes

_WHOLE, _LAYERS, _LOOKED, _CHOSEN, _RACED, _TESTED = 0.25, 0.35, 0.48, 0.6, 0.7, 0.85
"""Shares of the stage's time by whose end whole models are made, all layers together, layers looked at one by one,
chosen, candidates raced and the winner tested; the confirmation has the rest."""
_HINTED = 0.3
"""The part of the stage's time that providers with a hint may be judged in; what follows shares the rest."""
_RACED_HERE, _MOVED, _RACED_ALL, _TESTED_ALL = 0.65, 0.7, 0.78, 0.9
"""By whose end, where there are other places, candidates are raced in the exact model's process, the fastest are judged
elsewhere, raced beside it, and tested.
"""
_LEAST_S = 8.0
"""Below this nothing is begun."""
_CONFIRM_ROUNDS, _BLOCK_S, _PROFILE_S = 15, 0.25, 0.5
_PATIENCE_S = 2.0
_NO_LAYER = "no Conv, MatMul or Gemm of the model has constant float32 weights"
_MOST_TESTED = 3
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
    places: Sequence[Elsewhere] = ()
    """Where else candidates may run."""
    differs: bool = False
    """Whether the exact model is another one than the original."""
    begin: float = field(default_factory=time.monotonic)
    told: list[TriedApproximation] = field(default_factory=list)
    layers: tuple[ApproximatedLayer, ...] = ()
    speeds: list[tuple[float, Candidate]] = field(default_factory=list)
    """Of the candidates that were raced where the exact model runs."""
    tested: int = 0
    """Models that were tested on the unseen samples."""

    @property
    def _tested_until(self) -> float:
        return self.at(_TESTED_ALL if self.places else _TESTED)

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
            others = self._alternatives(exact)
            candidates = self._candidates(judge, others, path)
            return self._first_that_holds(judge, others, self._raced(judge, others, candidates))

    def _alternatives(self, exact: ModelRef) -> Alternatives:
        return Alternatives(
            original=self.original, exact=exact, differs=self.differs, config=self.config, places=self.places,
            selection=self.data.parts.selection, feeds=self.feeds, budget=self.budget,
            least=1 + self.options.min_gain, told=self.told,
        )  # fmt: skip

    def _first_that_holds(
        self, judge: Judge, others: Alternatives, order: Sequence[Candidate]
    ) -> tuple[Candidate, Verdict, Confirmation]:
        """The first of these that keeps the budget on unseen samples, confirmed; why the first one does not, if none.

        Nothing is confirmed beside a process that is at work.
        """
        first: DroppedError | None = None
        for one in order[:_MOST_TESTED]:
            if first is not None and time.monotonic() >= self._tested_until:
                break
            try:
                verdict = self._tested(judge, one)
                judge.oracle.stop()
                judge.worker.stop()
                return one, verdict, self._confirmed(others, one)
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

    def _candidates(self, judge: Judge, others: Alternatives, path: Path) -> list[Candidate]:
        """Everything that keeps the budget on the samples of the selection."""
        found = others.by_hint(judge, self.at(_HINTED), self._phase)
        if any(place.hint for place in self.places):
            self.begin = time.monotonic()
        try:
            found += self._quantised(judge, others.exact, path)
        except (DroppedError, TooLateError, *FAULTS) as error:
            if not found:
                raise self._with_hints(error) from None
        keeping = within(found, self.budget)
        self.told += [one.told() for one in found if one not in keeping]
        if not keeping:
            raise DroppedError("beyond the budget", self._beyond(found))
        return _distinct(keeping)

    def _with_hints(self, error: Exception) -> Exception:
        """The reason why nothing is made 8-bit, and why no provider's hint is followed either."""
        why = [one for one in self.told if one.kind == HINT]
        if not isinstance(error, DroppedError) or not why:
            return error
        words = "; ".join(f"{one.kind}: {one.failure}" for one in why)
        return DroppedError(error.reason.code, f"{error}; {words}")

    def _quantised(self, judge: Judge, exact: ModelRef, path: Path) -> list[Candidate]:
        """Models with 8-bit layers, the whole models first."""
        names = overridable(self.exact, freeze=self.options.freeze_initializers)
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
        if not worker.config.tells_kernel_times:
            return ()
        try:
            return worker.profile(model, self.feeds[0], budget_s=_PROFILE_S)
        except FAULTS:
            return ()

    def _raced(self, judge: Judge, others: Alternatives, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that are faster than the exact model, the fastest first; nothing is timed beside the oracle at work."""
        self._phase("approximate: race")
        judge.oracle.stop()
        here = [one for one in candidates if one.config is None]
        beside = [one for one in candidates if one.config is not None]
        failed = list[Exception]()
        faster = self._timed(here, partial(self._raced_here, judge.worker, others.exact, here), failed)
        beside += self._moved(judge, others, here)
        faster += self._timed(beside, partial(others.raced, beside, self.at(_RACED_ALL)), failed)
        if faster:
            return [one for _, one in sorted(faster, key=lambda item: -item[0])]
        if failed:
            raise failed[0]
        speeds = [one.speedup for one in self.told if one.speedup is not None]
        if not speeds:
            raise DroppedError("too little time", f"no time was left for the race: raise {spelled('time_budget_s')}")
        words = f"the best of {len(speeds)} that keep the budget runs at {max(speeds):.3f} times"
        raise DroppedError("nothing faster", f"{words} the exact model's speed")

    def _timed(
        self, some: Sequence[Candidate], race: Callable[[], list[tuple[float, Candidate]]], failed: list[Exception]
    ) -> list[tuple[float, Candidate]]:
        """What a race of these finds; what other races find is no worse for one that fails."""
        if not some:
            return []
        try:
            return race()
        except FAULTS as error:
            failed.append(error)
            self.told += [one.told(failure=str(error)) for one in some]
            return []

    def _moved(self, judge: Judge, others: Alternatives, here: Sequence[Candidate]) -> list[Candidate]:
        """The fastest 8-bit models in other places, where they keep the budget."""
        judge.worker.stop()
        if self.places and here:
            self._phase("approximate: 8-bit models on other providers")
        speeds = {one: speed for speed, one in self.speeds}
        fastest = sorted(here, key=lambda one: -speeds.get(one, 0.0))
        try:
            return others.moved(judge, fastest, self.at(_MOVED))
        finally:
            judge.oracle.stop()

    def _raced_here(
        self, worker: Worker, exact: ModelRef, candidates: Sequence[Candidate]
    ) -> list[tuple[float, Candidate]]:
        """Models in the exact model's process; the winner, and those that are as much faster, with their speed-ups."""
        share = _RACED_HERE if self.places else _RACED
        with worker.keeping_to(self.at(share) + _PATIENCE_S):
            found: RaceResult = race(
                worker, [exact, *(one.reference for one in candidates)], self.feeds, deadline=self.at(share),
                block_s=_BLOCK_S, least_gain=self.options.min_gain, max_sessions=4,
            )  # fmt: skip
        timed = found.standings[1:]
        self.told += [one.told(s.speedup, s.failure) for one, s in zip(candidates, timed, strict=True)]
        self.speeds = [(s.speedup or 0.0, one) for one, s in zip(candidates, timed, strict=True)]
        if not found.winner:
            return []
        best = timed[found.winner - 1].speedup or 1.0
        faster = [(best, candidates[found.winner - 1])]
        for number, (one, standing) in enumerate(zip(candidates, timed, strict=True), start=1):
            speed = min(standing.speedup or 0.0, best)
            if number != found.winner and not standing.slower and speed >= 1 + self.options.min_gain:
                faster.append((speed, one))
        return faster

    def _tested(self, judge: Judge, winner: Candidate) -> Verdict:
        """The error on samples that were used for nothing else, as the winner is deployed."""
        self._phase("approximate: test", len(self.data.parts.test))
        self.tested += 1
        if winner.config is None:
            found = self._on_unseen(judge, winner)
        else:
            with Worker(winner.config) as worker, worker.keeping_to(self._tested_until + _PATIENCE_S):
                found = self._on_unseen(judge.on(worker), winner)
        if found.error > self.budget:
            words = f"the error is {self._figure(found.error)} on {found.samples} unseen samples"
            told = f"{words}, the budget {self._figure(self.budget)}"
            raise DroppedError("beyond the budget on unseen samples", told)
        return found

    def _on_unseen(self, judge: Judge, winner: Candidate) -> Verdict:
        return judge.verdict(
            winner.reference, self.data.parts.test, beyond=self.budget, until=self._tested_until, least=LEAST_TESTED
        )

    def _confirmed(self, others: Alternatives, winner: Candidate) -> Confirmation:
        self._phase("approximate: confirm")
        deadline = max(self.at(1.0), time.monotonic() + 1.0)
        if winner.config is None:
            found = confirm(
                self.config, others.exact, winner.reference, self.feeds, deadline=deadline,
                rounds=_CONFIRM_ROUNDS, block_s=_BLOCK_S, seed=self.options.seed,
            )  # fmt: skip
        else:
            found = others.confirmed(winner, deadline, _CONFIRM_ROUNDS, self.options.seed)
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
        key = (one.kind, one.whole, one.layers, one.config, one.of_original)
        if key not in best or one.verdict.error < best[key].verdict.error:
            best[key] = one
    return list(best.values())

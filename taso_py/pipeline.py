"""load > search > check > race: the whole of `superopt optimize` as one readable function."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from taso_py.artifact import Artifact, CopiedFile, GivenProto, external_locations
from taso_py.backend.client import Worker
from taso_py.backend.pool import WorkerPool, lent
from taso_py.backend.race import race
from taso_py.backend.runtime import cpu_name, require_runtime
from taso_py.backend.timing import Confirmation, confirm
from taso_py.candidates import Candidate, Workshop, rule_reports, shortlist, work_folder
from taso_py.check.check import Checker
from taso_py.check.oracle import Limits as CheckLimits
from taso_py.cost.cache import Cache
from taso_py.cost.measured import MeasuredCost
from taso_py.cost.model import CostModel, FlopsCost, RooflineCost
from taso_py.cost.roofline import Roofline
from taso_py.graph.model import Model
from taso_py.graph.types import BYTES
from taso_py.inspection import inspect
from taso_py.options import Options
from taso_py.progress import Progress
from taso_py.result import Result
from taso_py.rules.library import Library
from taso_py.rules.library import load as load_rules
from taso_py.search.canonical import Canonical
from taso_py.search.moves import Rewriter
from taso_py.search.strategy import Backtracking, Exhaustive, Found, Limits, StopReason
from taso_py.search.view import View
from taso_py.setting import Setting, prepare, weight_bytes
from taso_py.stop import StopFlag
from taso_py.version import VERSION

__all__ = ["inspect", "optimize"]

_SEARCH_SHARE, _CHECK_SHARE = 0.60, 0.15
"""Parts of the time budget; the race has the rest."""
_RACED = 6
"""Candidates that are checked and raced."""
_CONFIRM_ROUNDS = 15
_STATES, _UNTIMED_STATES = 5000, 200
"""States that a search builds at most."""
_PATIENCE, _UNTIMED_PATIENCE = 150, 60
"""States without a gain after which a search gives up; without timing nobody waits for a deadline."""
_FILE_GROWTH = 0.1
"""Largest growth of the weights, as a share of the original's."""


@dataclass(slots=True)
class _Clock:
    """The time budget and where it went."""

    budget: float
    begin: float = field(default_factory=time.monotonic)
    phases: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)

    def at(self, share: float) -> float:
        """The moment when this share of the budget is used up."""
        return self.begin + share * self.budget

    def left(self) -> float:
        """Seconds until the budget is used up."""
        return self.begin + self.budget - time.monotonic()

    def lap(self, phase: str) -> None:
        """The time since the last lap belongs to ``phase``."""
        now = time.monotonic()
        self.phases[phase] = self.phases.get(phase, 0.0) + now - self._last
        self._last = now

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begin


def optimize(
    source: Path | onnx.ModelProto,
    options: Options,
    *,
    progress: Progress,
    stop: StopFlag,
    pool: WorkerPool | None = None,
) -> Result:
    """The fastest checked rewrite of ``source`` that a fresh measurement confirms; else ``source`` itself.

    ``pool`` lends its workers to the run, the checker's included, and keeps them alive for the next one.
    """
    clock = _Clock(options.time_budget_s)
    require_runtime()
    progress.phase("load")
    library = load_rules(options.rules, options.only, options.disable)
    setting = prepare(source, options)
    clock.lap("load")
    with lent(pool, setting.config) as worker:
        baseline = _baseline(worker, setting, options)
        clock.lap("baseline")
        job = _Job(source, options, setting, library, worker, clock, progress, stop, baseline, pool is not None)
        if setting.loaded.unsupported is not None:
            return job.unchanged("unsupported", f"returned unchanged: {setting.loaded.unsupported}")
        if options.race and baseline is not None and clock.left() < _race_seconds(baseline, setting):
            need = clock.elapsed() + _race_seconds(baseline, setting)
            return job.unchanged(
                StopReason.TIME.value, f"too little time to race: use --time-budget {4 * need:.0f} or more"
            )
        with work_folder() as folder, job.checker() as checker:
            workshop = job.workshop(checker, folder)
            found, checked = job.search_and_check(workshop)
            result = job.decide(workshop, found, checked)
    clock.lap("race")
    return replace(result, elapsed_s=clock.elapsed(), phases_s=dict(clock.phases))


def _baseline(worker: Worker, setting: Setting, options: Options) -> float | None:
    """Seconds of one run of the original; opening it tells whether ONNX Runtime can run it at all."""
    handle = worker.open(setting.reference)
    try:
        worker.run(handle, setting.feeds[0])
        if not options.race:
            return None
        blocks = worker.time_blocks([handle], [setting.feeds[0]], rounds=3, block_s=0.1)
        return min(block[0] for block in blocks)
    finally:
        worker.close(handle)


def _race_seconds(baseline: float, setting: Setting) -> float:
    """What the shortest race and confirmation of one candidate take."""
    return 30 * max(0.02, 2 * baseline) * len(setting.feeds) * 2


@dataclass(slots=True)
class _Job:
    """One run: what the phases share."""

    source: Path | onnx.ModelProto
    options: Options
    setting: Setting
    library: Library
    worker: Worker
    clock: _Clock
    progress: Progress
    stop: StopFlag
    baseline: float | None
    shared_worker: bool = False
    """Whether the checker uses the same worker, instead of one that knows nothing of the search."""
    roofline: Roofline = field(init=False)

    def __post_init__(self) -> None:
        self.roofline = Roofline(self.setting.sizes)

    # ---- search ----------------------------------------------------------------------------------------------

    def search_and_check(self, workshop: Workshop) -> tuple[Found, list[Candidate]]:
        """The search and its checked candidates; again without the rules that turned out wrong, if there were any."""
        while True:
            barred = len(workshop.barred)
            found = self.search(workshop.barred)
            self.log_trace(found)
            self.clock.lap("search")
            checked = self.check(workshop, found)
            self.clock.lap("check")
            late = self.options.race and self.clock.left() < (1 - _SEARCH_SHARE) * self.clock.budget
            if len(workshop.barred) == barred or late or self.stop:
                return found, checked

    def search(self, barred: Iterable[str] = ()) -> Found:
        """States that cost less than the original, as far as the cost model can tell."""
        loaded = self.setting.loaded
        self.progress.phase("search")
        canonical = Canonical.of(self.library.canonical, self.library.cleanup)
        rewriter = Rewriter.of(self.library.search.without(barred), canonical)
        view = View.of(loaded.model, canonical.expand, loaded.folder.value)
        start = self.baseline or self.roofline.total(loaded.model)
        if self.options.apply == "all":
            return Exhaustive(rewriter, self.roofline).run(view, start, self._stopped, self._report(start))
        with Cache(self.options.cache) as cache:
            strategy = Backtracking(rewriter, self._cost_model(cache), self.roofline, self._limits(), self._file_growth)
            return strategy.run(view, start, self._stopped, self._report(start))

    def log_trace(self, found: Found) -> None:
        """The best state's moves, for ``-v``: rule, sites, and the cost in ms before and after."""
        names = self.setting.loaded.values.names
        for step in found.states[0].trace if found.states else ():
            sites = ", ".join(names.get(o, f"#{o}") for site in step.sites[:3] for o in site.outputs)
            more = f" and {len(step.sites) - 3} more" if len(step.sites) > 3 else ""
            cost = f"{1000 * step.before:.3f} -> {1000 * step.after:.3f} ms"
            self.progress.log("detail", f"{step.rule} at {sites}{more}: {cost}")

    def _limits(self) -> Limits:
        timed = self.options.race
        return Limits(
            # Without timing nothing may depend on the clock: the same bytes every time.
            self.clock.at(_SEARCH_SHARE) if timed else float("inf"),
            self.options.alpha,
            states=_STATES if timed else _UNTIMED_STATES,
            patience=_PATIENCE if timed else _UNTIMED_PATIENCE,
            constant_bytes=max(2**20, _FILE_GROWTH * weight_bytes(self.setting.loaded.proto)),
        )

    def _cost_model(self, cache: Cache) -> CostModel:
        if self.options.objective == "flops":
            return FlopsCost(self.roofline)
        if self.options.cost == "roofline" or not self.options.race:
            return RooflineCost(self.roofline)
        config = self.setting.config
        environment = "|".join(map(str, (config, self.worker.info().ort_version, cpu_name())))
        return MeasuredCost(
            self.worker,
            cache,
            self.roofline,
            environment,
            self.clock.at(_SEARCH_SHARE),
            self.setting.sizes,
        )

    def _file_growth(self, model: Model) -> float:
        """Bytes of folded constants that the table adds, less those that it no longer needs."""
        original = self.setting.loaded.model
        return _constant_bytes(model) - _constant_bytes(original)

    def _stopped(self) -> bool:
        return bool(self.stop)

    def _report(self, start: float) -> Callable[[int, float], None]:
        def report(count: int, best: float) -> None:
            self.progress.update(
                candidates=count, best=start / best if best > 0 else None, remaining_s=self.clock.left()
            )

        return report

    # ---- check -----------------------------------------------------------------------------------------------

    def checker(self) -> Checker:
        """The checker of this model; computes the original's outputs at its first use."""
        options, setting = self.options, self.setting
        share = _SEARCH_SHARE + _CHECK_SHARE
        return Checker(
            setting.reference,
            setting.config,
            workloads=options.workloads or (options.shapes,),
            overrides=setting.overrides,
            seed=options.seed,
            limits=CheckLimits(
                deadline=self.clock.at(share) if options.race else float("inf"),
                flops=self.roofline.flops(setting.loaded.model),
            ),
            facts=setting.facts,
            worker=self.worker if self.shared_worker else None,
        )

    def workshop(self, checker: Checker, folder: Path) -> Workshop:
        """Where candidates are made and checked."""
        options = self.options
        return Workshop(
            self.setting.loaded,
            checker,
            self.library.all(),
            folder,
            self._provenance() if options.provenance else {},
            options.allow_contrib,
            options.strict,
        )

    def _provenance(self) -> dict[str, str]:
        names = ",".join(rule.name for rule in self.library.search)
        return {
            "superopt.version": VERSION,
            "superopt.rules": hashlib.sha256(names.encode()).hexdigest()[:16],
            "superopt.options": f"ep={self.options.ep} seed={self.options.seed}",
        }

    def check(self, workshop: Workshop, found: Found) -> list[Candidate]:
        """The checked candidates, best first; a wrong one bars its guilty rule and the next best takes its place."""
        start = self.baseline or self.roofline.total(self.setting.loaded.model)
        deadline = self.clock.at(_SEARCH_SHARE + _CHECK_SHARE) if self.options.race else float("inf")
        wanted = _RACED if self.options.race else 1
        states = list(found.states) if self.options.apply == "all" else shortlist(found.states, start, wanted)
        self.progress.phase("check", len(states))
        checked: list[Candidate] = []
        for number, state in enumerate(states):
            if checked and self.options.race and time.monotonic() > deadline:
                break
            candidate = workshop.candidate(state, deadline)
            if candidate is not None:
                checked.append(candidate)
            self.progress.update(done=number + 1)
        return checked or self._second_choice(workshop, found, deadline)

    def _second_choice(self, workshop: Workshop, found: Found, deadline: float) -> list[Candidate]:
        """When every candidate held a barred rule: the best state without one."""
        for state in found.states if workshop.barred else ():
            candidate = workshop.candidate(state, deadline)
            if candidate is not None:
                return [candidate]
            if time.monotonic() > deadline:
                break
        return []

    # ---- race ------------------------------------------------------------------------------------------------

    def decide(self, workshop: Workshop, found: Found, checked: Sequence[Candidate]) -> Result:
        """The winner of the race, if a fresh measurement confirms it; else the original."""
        rejected = tuple(workshop.rejected)
        if not checked:
            return replace(self.unchanged(found.reason.value), rejected=rejected)
        if not self.options.race:
            return replace(self._rewritten(checked[0], found, None), rejected=rejected)
        self.progress.phase("race")
        models = [self.setting.reference, *(c.reference for c in checked)]
        now = time.monotonic()
        standings = race(
            self.worker,
            models,
            self.setting.feeds,
            deadline=now + 0.5 * max(1.0, self.clock.left()),
            max_sessions=2 if self.setting.large else 8,
        )
        if standings.winner == 0:
            return replace(self.unchanged(found.reason.value), rejected=rejected)
        winner = checked[standings.winner - 1]
        self.progress.phase("confirm")
        confirmation = confirm(
            self.setting.config,
            self.setting.reference,
            winner.reference,
            self.setting.feeds,
            deadline=time.monotonic() + max(1.0, self.clock.left()),
            rounds=_CONFIRM_ROUNDS,
            seed=self.options.seed,
        )
        if confirmation is None or not confirmation.improves(self.options.min_gain):
            return replace(self.unchanged(found.reason.value), rejected=rejected)
        return replace(self._rewritten(winner, found, confirmation), rejected=rejected)

    # ---- results ---------------------------------------------------------------------------------------------

    def _frame(self, artifact: Artifact, stop_reason: str) -> Result:
        setting, loaded = self.setting, self.setting.loaded
        before = self.roofline.flops(loaded.model)
        nodes = len(loaded.proto.graph.node)
        return Result(
            input=loaded.path,
            improved=False,
            nodes_before=nodes,
            nodes_after=nodes,
            opaque_nodes=sum(loaded.opaque.values()),
            flops_before=int(before),
            flops_after=int(before),
            stop_reason=stop_reason,
            elapsed_s=self.clock.elapsed(),
            phases_s=dict(self.clock.phases),
            ep=setting.config.ep,
            threads=setting.config.threads,
            shapes=tuple(dict(a.shapes) for a in setting.assignments),
            cpu=cpu_name(),
            ort_version=self.worker.info().ort_version,
            seed=self.options.seed,
            artifact=artifact,
            sources=_sources(loaded.path),
        )

    def unchanged(self, stop_reason: str, note: str | None = None) -> Result:
        """The original, byte for byte."""
        artifact = CopiedFile(self.source) if isinstance(self.source, Path) else GivenProto(self.source)
        result = self._frame(artifact, stop_reason)
        improved = False if self.options.race else None
        return replace(result, improved=improved, notes=(note,) if note else ())

    def _rewritten(self, winner: Candidate, found: Found, confirmed: Confirmation | None) -> Result:
        report, state = winner.report, winner.state
        start = state.trace[0].before
        result = replace(
            self._frame(winner.artifact, found.reason.value),
            improved=None if confirmed is None else True,
            predicted_speedup=start / state.cost if state.cost > 0 else None,
            max_abs_error=report.max_abs_error,
            max_rel_error=report.max_rel_error,
            tolerance=report.tolerance,
            nodes_after=len(winner.artifact.model.graph),
            flops_after=int(self.roofline.flops(state.model)),
            rules=rule_reports(state, self.library.all(), start),
            notes=report.warnings,
        )
        if confirmed is None:
            return result
        return replace(
            result,
            speedup=confirmed.speedup,
            speedup_low=confirmed.low,
            speedup_high=confirmed.high,
            latency_before_ms=confirmed.before_ms,
            latency_after_ms=confirmed.after_ms,
        )


def _sources(path: Path | None) -> tuple[Path, ...]:
    if path is None:
        return ()
    return (path, *(path.parent / location for location in sorted(external_locations(path))))


def _constant_bytes(model: Model) -> float:
    """Bytes of the constants that the running nodes of a table read."""
    constant = model.values.constant
    used = {i for v, n in model.nodes.items() if v not in constant for i in n.inputs if i is not None and i in constant}
    total = 0.0
    for value in used:
        elements = model.type(value).elements if model.type(value).known else 0
        total += BYTES.get(model.type(value).dtype, 4) * (elements if isinstance(elements, int) else 0)
    return total

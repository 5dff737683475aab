"""The search phase: rules, a cost model and limits put together for one job."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from taso_py.backend.accelerators import gpu_of
from taso_py.backend.runtime import cpu_name
from taso_py.cost.cache import Cache
from taso_py.cost.database import BUSY_S
from taso_py.cost.measured import MeasuredCost
from taso_py.cost.model import CostModel, FlopsCost, RooflineCost
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table
from taso_py.report.rewrites import places_text
from taso_py.rules.rule import RuleSet
from taso_py.run.calibration import Timed
from taso_py.run.growth import growth
from taso_py.run.losses import Losses
from taso_py.run.proposing import Proposals, proposed
from taso_py.run.rewrites import places_of_steps
from taso_py.run.run import PROPOSE_SHARE, SEARCH_SHARE, Run
from taso_py.run.selecting import Selection
from taso_py.run.sessions import OpenModels
from taso_py.run.subject import weight_bytes
from taso_py.search.bundles import ONLY_TOGETHER
from taso_py.search.canonical import Canonicalizer
from taso_py.search.exhaustive import Exhaustive
from taso_py.search.lowering import lowered
from taso_py.search.moves import Rewriter
from taso_py.search.receding import Receding
from taso_py.search.removal import removing, without_idle_nodes
from taso_py.search.rounding import rounding_bodies
from taso_py.search.state import Found, State, StopReason
from taso_py.search.strategy import ROUNDS, Backtracking, Limits
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime, Watch

_PLACES = 20_000
"""Nodes of the original at which a search looks for matches."""
_STATES, _UNTIMED_STATES = 5000, 120
"""States that a search builds at most."""
_PATIENCE, _UNTIMED_PATIENCE = 150, 40
"""States without a gain after which a search begins again without one of its rules."""
_PATIENCE_SHARE = 0.3
"""Part of the search's time without a gain after which it ends; without timing it ends by itself."""
_SEEDS, _SEED_SHARE, _SEED_PATIENCE = 3, 0.12, 20
"""States that a quick search by the roofline hands to the measured one, its share of the time, its patience."""
_GRACE_SHARE = 0.5
"""Most of the time for quick searches that one may take while it gains."""
_WRITTEN_OUT_SHARE = 0.6
"""The share of a search on the graph written out, which is larger and begins further from the end."""
_SEEKING = 0.85
"""Part of the search's time in which states are sought; the rest is for simplifying the best one."""
_FEW_KERNELS = 0.1
"""Kernels for each node of the graph below which the provider compiles the graph as a whole."""
_CACHE_SHARE, _LEAST_PATIENCE_S = 0.05, 1.0
"""How long a cache that another process has locked is waited for: a share of the time budget, or so many seconds."""
_FILE_GROWTH, _SMALL_GROWTH = 0.1, 2**20
"""Largest growth of the weights where none is stated: a share of the original's, or this many bytes."""
_NODES, _NODES_OF_GROWING = 2.0, 6.0
"""Largest growth of the number of nodes in one move: what multiplies weights makes ten nodes of one in many places."""


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search found; ``tidied`` is the original less what is idle in it."""

    found: Found
    tidied: State | None = None
    selection: Selection | None = None
    """Times states in the whole model, where anything is timed."""
    judged: tuple[Timed, ...] = ()
    """States that it has timed."""


def explore(job: Run, models: OpenModels) -> Explored:
    """States that cost less than the original, as far as the cost model can tell, without the barred rules.

    Without timing it is all or nothing: what a search has reached when the time is up depends on the machine.
    """
    job.begin("search")
    watch = Watch(job.stopped)
    end = job.clock.at(SEARCH_SHARE if job.options.race else 1.0)
    try:
        with watch.until(end):
            explored = _explored(job, models, watch)
    except OutOfTime:  # before there was anything to go on from
        explored = Explored(Found((), StopReason.INTERRUPTED if job.stop else StopReason.TIME, 0))
    if not job.options.race and not job.stop and time.monotonic() > end:
        return Explored(Found((), StopReason.TIME, 0))
    return explored


def _explored(job: Run, models: OpenModels, watch: Watch) -> Explored:
    barred = models.workshop.barred
    rewriter, view = start_of(job, barred, watch)
    if job.options.apply == "all":
        found = Exhaustive(rewriter, job.roofline).run(view, job.start_cost, job.stopped, job.reporter())
        return Explored(replace(found, kept=len(view.kept)))
    late = partial(_is_late, job)
    tidied = without_idle_nodes(view, _rules(job, barred), job.roofline, job.start_cost, late)
    if tidied is not None:
        tidied = replace(tidied, matches=rewriter.later(tidied.view))
    selection = _selection(job, models, rewriter, view) if job.options.race else None
    cost = _cost_model(job)
    in_place = isinstance(cost, MeasuredCost) or _is_compiled(job)
    proposals = _proposals(job, rewriter, view, selection if in_place else None, tidied)
    search = Backtracking(rewriter, cost, job.roofline, _limits(job), barred=proposals.losers | ONLY_TOGETHER)
    seeds = (*([] if tidied is None else [tidied]), *proposals.states)
    found = search.run(view, job.start_cost, job.stopped, job.reporter(), seeds)
    return Explored(replace(found, kept=len(view.kept)), tidied, selection, proposals.judged)


def _selection(job: Run, models: OpenModels, rewriter: Rewriter, view: View) -> Selection:
    return Selection(
        job=job, models=models, rewriter=rewriter, start=view, deadline=job.deadline(PROPOSE_SHARE), limits=_limits(job)
    )


def single_gains(job: Run) -> dict[str, float]:
    """What each rule gains by itself on the original graph, as a share of its time: wherever it matches, in one sweep.

    Places that get slower do not count, as the search would leave them out.  A rule that time did not suffice for, or
    that matches nowhere, is absent.
    """
    job.begin("single rules")
    found: dict[str, float] = {}
    with suppress(OutOfTime):
        rewriter, view = start_of(job, (), Watch(job.stopped, job.deadline(SEARCH_SHARE)))
        cost = _cost_model(job)
        for group in rewriter.groups(view, rewriter.all_matches(view)):
            if job.stopped():
                break
            outcome = rewriter.apply(view, group, ROUNDS)
            estimate = cost.difference(view.table, outcome.view.table) if outcome is not None else None
            if estimate is not None:
                saved = -sum(min(0.0, part.seconds) for part in estimate.parts)
                name = group[0].rule.name
                found[name] = max(found.get(name, 0.0), saved / job.start_cost)
                job.progress.update(candidates=len(found), remaining_s=job.clock.left())
    return found


def start_of(job: Run, barred: Iterable[str], watch: Watch) -> tuple[Rewriter, View]:
    """The rules but the barred ones, and the original; of a very large one the places that hold most of the time."""
    loaded = job.setting.loaded
    rules = _rules(job, barred)
    # Rules of the user's own are moves only: should one turn out wrong, it is told from the others rule by rule.
    tidying = [] if job.options.rules else removing(rules)
    canonical = Canonicalizer.of(job.library.canonical, RuleSet.of([*job.library.cleanup, *tidying]))
    rewriter = Rewriter.of(rules, canonical)
    if job.options.rules:
        rewriter = replace(rewriter, receding=Receding.of(()))
    rounding, read = rounding_bodies(loaded.proto), loaded.folder.value
    view = View.of(loaded.table, canonical.expand, read, watch, rounding=rounding, scopes=loaded.scopes)
    view.unsought = _cheap(view.table, job.roofline)
    return rewriter, view


def _cheap(table: Table, roofline: Roofline) -> frozenset[int]:
    """All but the nodes that take the most time by the roofline, of which there are `_PLACES` at most."""
    if len(table.nodes) <= _PLACES:
        return frozenset()
    dearest = sorted(table.nodes, key=lambda value: -roofline.node(table, value, table.nodes[value]))
    return frozenset(dearest[_PLACES:])


def _rules(job: Run, barred: Iterable[str]) -> RuleSet:
    """The moves: what tidies up after others is one, too, where there are others."""
    if not job.library.search:
        return job.library.search
    gone = {name for told in barred for name in (told, told.removesuffix("-reversed"))}
    return (job.library.search | job.library.cleanup).without(gone)


def log_trace(job: Run, found: Found) -> None:
    """The best state's moves, for ``-v``: rule, sites, and the cost in ms before and after."""
    best = next(iter(found.selected), found.simplest) or next(iter(found.states), None)
    trace = () if best is None else best.trace
    for step, places in zip(trace, places_of_steps(trace, job.setting.loaded.table), strict=True):
        cost = f"{1000 * step.before:.3f} -> {1000 * step.after:.3f} ms"
        job.progress.log("detail", f"{step.rule} at {places_text(places)}: {cost}")


def _is_late(job: Run) -> bool:
    """Whether the search has to end."""
    return job.stopped() or time.monotonic() > job.deadline(SEARCH_SHARE)


def _proposals(
    job: Run, rewriter: Rewriter, view: View, selection: Selection | None, tidied: State | None
) -> Proposals:
    """Where the roofline alone would go: cheap to find, so that measuring can begin near a good end.

    Rules from files start from the graph with its composite operators written out, where there are such: the library
    has rules for composites, other rules may have none.
    """
    if job.options.rules:
        start = lowered(view, job.library.canonical, job.roofline, job.deadline(SEARCH_SHARE))
        if start is not None:
            written_out = View.of(
                start.table, rewriter.canonical.expand, view.read_constant, view.watch, rounding=view.rounding
            )
            states = _QuickSearch(job, rewriter, written_out, start.cost, _WRITTEN_OUT_SHARE)(frozenset(), ())
            return Proposals(tuple(replace(state, trace=(*start.trace, *state.trace)) for state in states))
    if selection is None:
        return Proposals()
    quick = _QuickSearch(job, rewriter, view, job.roofline.total(view.table), _SEED_SHARE)
    return Proposals(quick(frozenset(), ())) if job.options.rules else proposed(selection, quick, tidied)


@dataclass(frozen=True, slots=True)
class _QuickSearch:
    """A search by the roofline from one view, in a share of the time that the whole search has left."""

    job: Run
    rewriter: Rewriter
    view: View
    cost: float
    share: float

    def __call__(self, barred: frozenset[str], seeds: tuple[State, ...]) -> tuple[State, ...]:
        job = self.job
        limits = replace(_limits(job), patience=_SEED_PATIENCE, patience_s=0.0)
        if job.options.race:  # without timing the same states are reached on every machine
            now = time.monotonic()
            slice_s = self.share * max(0.0, job.deadline(SEARCH_SHARE) - now)
            last = now + _GRACE_SHARE * max(0.0, job.deadline(PROPOSE_SHARE) - now)
            limits = replace(limits, deadline=now + slice_s, grace=slice_s, last=max(last, now + slice_s))
        search = Backtracking(
            self.rewriter, RooflineCost(job.roofline), job.roofline, limits, barred=barred | ONLY_TOGETHER
        )
        return search.seek(self.view, self.cost, job.stopped, lambda count, best: None, seeds).states[:_SEEDS]


def _limits(job: Run) -> Limits:
    timed = job.options.race
    deadline = job.deadline(_SEEKING * SEARCH_SHARE)
    return Limits(
        deadline,
        last=job.deadline(SEARCH_SHARE),
        alpha=job.options.alpha,
        states=_STATES if timed else _UNTIMED_STATES,
        patience=_PATIENCE if timed else _UNTIMED_PATIENCE,
        patience_s=_PATIENCE_SHARE * max(0.0, deadline - time.monotonic()) if timed else 0.0,
        nodes=_NODES if job.options.max_growth is None else _NODES_OF_GROWING,
        constant_bytes=_most_new_bytes(job),
        file_growth=growth(job.setting.loaded.table),
    )


def _most_new_bytes(job: Run) -> float:
    """How many bytes the weights may grow by."""
    weights, most = weight_bytes(job.setting.loaded.proto), job.options.max_growth
    return max(_SMALL_GROWTH, _FILE_GROWTH * weights) if most is None else (most - 1) * weights


def cache_of(job: Run) -> Cache:
    """What earlier runs measured and found."""
    if job.cache is None:
        patience = min(BUSY_S, max(_LEAST_PATIENCE_S, _CACHE_SHARE * job.clock.budget))
        job.cache = Cache(job.options.cache, patience_s=patience)
    return job.cache


def selected(job: Run, explored: Explored, promising: Sequence[State]) -> list[State]:
    """The fastest selection of the moves of promising states, and of others, in the whole model."""
    selection = explored.selection
    if selection is None:
        return []
    sizes = ",".join(f"{k}={v}" for k, v in sorted(job.setting.sizes.items()))
    losses = Losses(cache_of(job), f"{sizes}|{environment(job)}", job.worker.ort_version())
    return selection.best(promising, explored.tidied, explored.judged, explored.found.gains, losses)


def environment(job: Run) -> str:
    """Everything a time depends on besides a model."""
    return "|".join(
        map(str, (job.setting.config, job.worker.ort_version(), cpu_name(), gpu_of(job.setting.config.ep) or ""))
    )


def _is_compiled(job: Run) -> bool:
    """Whether the provider makes a few kernels of the whole graph, as OpenVINO and TensorRT do.

    A place by itself then says nothing of its price in the model, and takes seconds to compile: whole models alone are
    timed.
    """
    if job.profile is None or job.options.cost == "roofline" or job.options.objective == "flops":
        return False
    kernels = sum(operator.kernels for operator in job.profile.operators)
    return kernels <= _FEW_KERNELS * len(job.setting.loaded.table.nodes)


def _cost_model(job: Run) -> CostModel:
    if job.options.objective == "flops":
        return FlopsCost(job.roofline)
    if job.options.cost == "roofline" or not job.options.race or _is_compiled(job):
        return RooflineCost(job.roofline)
    deadline = job.deadline(SEARCH_SHARE)
    return MeasuredCost(
        worker=job.worker,
        cache=cache_of(job),
        roofline=job.roofline,
        environment=environment(job),
        start=job.start_cost,
        deadline=deadline,
        sizes=job.setting.sizes,
    )

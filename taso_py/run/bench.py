"""Which model is faster: the whole of `superopt bench`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.backend.timing import BenchReport
from taso_py.backend.timing import bench as time_models
from taso_py.check.facts import InputSpec, interface_difference, read_facts
from taso_py.check.fitting import fitted_instead
from taso_py.check.inputs import make_feeds, with_arrays
from taso_py.check.report import BudgetReport
from taso_py.check.shapes import Assignment, Shape, resolve_shapes
from taso_py.errors import ModelError, TimeBudgetError, TooLateError, UsageError, WorkerTimeoutError
from taso_py.files import load_arrays
from taso_py.options import BenchOptions
from taso_py.options.spelling import spelled
from taso_py.providers.choosing import worker_config
from taso_py.report.benchmark import Benchmark
from taso_py.run.budget import data_of, kept, notes_of, require_usable
from taso_py.run.subject import Model, blaming, named, reference, require_runnable

_LEAST_ROUNDS = 2
"""An interval of one round would claim to be certain."""


def bench(models: Sequence[Model], options: BenchOptions) -> Benchmark:
    """Times the models in alternating blocks on the same inputs; `UsageError` where their interfaces differ.

    `TimeBudgetError` where the time budget ends before two rounds are timed.
    """
    until = time.monotonic() + options.time_budget_s
    try:
        found = _timed(models, options, until)
    except (ModelError, TooLateError, WorkerTimeoutError):
        if time.monotonic() < until:
            raise
        raise _too_late(0) from None
    if found.rounds < min(_LEAST_ROUNDS, options.rounds):
        raise _too_late(found.rounds)
    return found


def _too_late(rounds: int) -> TimeBudgetError:
    words = f"the time budget ended after {rounds} of the rounds, and {_LEAST_ROUNDS} are the least that say anything"
    return TimeBudgetError(f"no verdict: {words}; raise {spelled('time_budget_s')}")


def _timed(models: Sequence[Model], options: BenchOptions, until: float) -> Benchmark:
    require_runnable(*models)
    references = [reference(model) for model in models]
    first, *others = [read_facts(one) for one in references]
    for model, other in zip(models[1:], others, strict=True):
        if (reason := interface_difference(first, other)) is not None:
            raise UsageError(f"{named(model)} cannot be timed against {named(models[0])}: {reason}")
    arrays = load_arrays(options.inputs)
    budgets, sample, notes = _budgets(references, options, until)
    given = with_arrays(options.shapes or sample, arrays)
    config = worker_config(options)

    def timed_at(specs: Sequence[InputSpec], sizes: Assignment) -> BenchReport:
        feeds = make_feeds(specs, sizes, seed=options.seed, overrides=arrays)
        rounds, block_s, seed = options.rounds, options.block_s, options.seed
        return time_models(references, config, feeds, rounds=rounds, block_s=block_s, deadline=until, seed=seed)

    sizes = resolve_shapes(first.inputs, given)
    with blaming(models[0]) if len(models) == 1 else nullcontext():
        try:
            timed = timed_at(first.inputs, sizes)
        except ModelError:
            with Worker(WorkerConfig(threads=config.threads)) as worker, worker.keeping_to(until):
                fit = fitted_instead(worker, references[0], first, given, arrays, seed=options.seed)
            if fit is None:
                raise
            sizes = resolve_shapes(fit.inputs, given, fit.sizes)
            timed = timed_at(fit.inputs, sizes)
    return Benchmark(
        models=tuple(map(named, models)),
        rows=timed.rows,
        rounds=timed.rounds,
        threads=config.threads,
        ep=config.ep,
        shapes=dict(sizes.shapes),
        budgets=budgets,
        stop_reason="completed" if timed.rounds == options.rounds else "time budget",
        notes=(*notes, *_cut_note(timed.rounds, options)),
    )


def _cut_note(rounds: int, options: BenchOptions) -> tuple[str, ...]:
    if rounds == options.rounds:
        return ()
    return (f"the time budget ended after {rounds} of {options.rounds} rounds, for which the figures hold",)


def _budgets(
    models: Sequence[ModelRef], options: BenchOptions, until: float
) -> tuple[tuple[BudgetReport | None, ...], Mapping[str, Shape], tuple[str, ...]]:
    """Of each model whether it keeps the budget against the first, sizes of samples, and notes; nothing without one."""
    if options.error_budget is None:
        return (), {}, ()
    data = data_of(models[0], options)
    require_usable(models[0], data, options, until=until)
    others = models[1:]
    found = (None, *(kept(models[0], one, data, options, until=until, models=len(others)) for one in others))
    return found, {} if data.samples.random else data.samples.shapes, notes_of(data)

"""Which model is faster: the whole of `superopt bench`."""

from __future__ import annotations

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
from taso_py.errors import ModelError, UsageError
from taso_py.files import load_arrays
from taso_py.options import BenchOptions
from taso_py.providers.choosing import worker_config
from taso_py.report.benchmark import Benchmark
from taso_py.run.budget import data_of, kept, notes_of, require_usable
from taso_py.run.subject import Model, blaming, named, reference, require_runnable


def bench(models: Sequence[Model], options: BenchOptions) -> Benchmark:
    """Times the models in alternating blocks on the same inputs; `UsageError` where their interfaces differ."""
    require_runnable(*models)
    references = [reference(model) for model in models]
    first, *others = [read_facts(one) for one in references]
    for model, other in zip(models[1:], others, strict=True):
        if (reason := interface_difference(first, other)) is not None:
            raise UsageError(f"{named(model)} cannot be timed against {named(models[0])}: {reason}")
    arrays = load_arrays(options.inputs)
    budgets, sample, notes = _budgets(references, options)
    given = with_arrays(options.shapes or sample, arrays)
    config = worker_config(options)

    def timed_at(specs: Sequence[InputSpec], sizes: Assignment) -> BenchReport:
        feeds = make_feeds(specs, sizes, seed=options.seed, overrides=arrays)
        return time_models(references, config, feeds, rounds=options.rounds, block_s=options.block_s, seed=options.seed)

    sizes = resolve_shapes(first.inputs, given)
    with blaming(models[0]) if len(models) == 1 else nullcontext():
        try:
            timed = timed_at(first.inputs, sizes)
        except ModelError:
            with Worker(WorkerConfig(threads=config.threads)) as worker:
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
        notes=notes,
    )


def _budgets(
    models: Sequence[ModelRef], options: BenchOptions
) -> tuple[tuple[BudgetReport | None, ...], Mapping[str, Shape], tuple[str, ...]]:
    """Of each model whether it keeps the budget against the first, sizes of samples, and notes; nothing without one."""
    if options.error_budget is None:
        return (), {}, ()
    data = data_of(models[0], options)
    require_usable(models[0], data, options)
    found = (None, *(kept(models[0], model, data, options, models=len(models) - 1) for model in models[1:]))
    return found, {} if data.samples.random else data.samples.shapes, notes_of(data)

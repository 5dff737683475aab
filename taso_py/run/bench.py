"""Which model is faster: the whole of `superopt bench`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from taso_py.backend.timing import bench as time_models
from taso_py.check.facts import interface_difference, read_facts
from taso_py.check.inputs import make_feeds, override_shapes
from taso_py.check.shapes import resolve_shapes
from taso_py.errors import UsageError
from taso_py.files import load_arrays
from taso_py.options import BenchOptions
from taso_py.providers.choosing import worker_config
from taso_py.report.benchmark import Benchmark
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
    sizes = resolve_shapes(first.inputs, {**options.shapes, **override_shapes(arrays)})
    feeds = make_feeds(first.inputs, sizes, seed=options.seed, overrides=arrays)
    config = worker_config(options)
    with blaming(models[0]) if len(models) == 1 else nullcontext():
        timed = time_models(
            references, config, feeds, rounds=options.rounds, block_s=options.block_s, seed=options.seed
        )
    return Benchmark(
        models=tuple(map(named, models)),
        rows=timed.rows,
        rounds=timed.rounds,
        threads=config.threads,
        ep=config.ep,
        shapes=dict(sizes.shapes),
    )

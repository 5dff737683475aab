"""What an error budget is measured on: samples of a file or random ones, in parts, and the metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.approximate.judge import Judge
from taso_py.approximate.measure import warrant
from taso_py.approximate.metric import Metric, MetricError
from taso_py.approximate.samples import Numbers, Parts, Samples, drawn, parts_of, read_samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef, WorkerConfig
from taso_py.backend.runtime import available_threads
from taso_py.check.facts import ModelFacts, read_facts
from taso_py.check.inputs import with_arrays
from taso_py.check.report import BudgetReport
from taso_py.check.shapes import Shape, resolve_shapes
from taso_py.errors import ModelError, UsageError
from taso_py.files import load_arrays
from taso_py.options import BenchOptions, CheckOptions, Options
from taso_py.options.spelling import spelled
from taso_py.providers.choosing import worker_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What a budget is measured on, and by."""

    facts: ModelFacts
    samples: Samples
    numbers: Numbers
    """Of those samples that are equal to none before them: the others add nothing."""
    metric: Metric | None
    seed: int
    file: Path | None
    """Where the samples are from."""

    @property
    def parts(self) -> Parts:
        """Disjoint parts, the same for the same seed; UsageError for too few samples."""
        return parts_of(self.numbers, self.seed, self.file)


def data_of(original: ModelRef, options: Options | CheckOptions | BenchOptions) -> Data:
    """The samples and the metric that the options name; random samples where they name none.

    UsageError for what does not fit the model, or cannot be read.
    """
    facts, arrays = read_facts(original), load_arrays(options.inputs)
    metric = None if options.metric is None else Metric.of(options.metric)
    if options.calibration is not None:
        samples = read_samples(options.calibration, facts.inputs, arrays)
    else:
        sizes = resolve_shapes(facts.inputs, with_arrays(_shapes(options), arrays))
        samples = drawn(facts.inputs, sizes, options.seed, arrays)
    return Data(
        facts=facts, samples=samples, numbers=samples.distinct(), metric=metric, seed=options.seed,
        file=options.calibration,
    )  # fmt: skip


def _shapes(options: Options | CheckOptions | BenchOptions) -> Mapping[str, Shape]:
    workloads = options.workloads if isinstance(options, Options) else ()
    return workloads[0] if workloads else options.shapes


def require_usable(
    original: ModelRef, data: Data, options: Options | CheckOptions | BenchOptions, *, until: float = math.inf
) -> None:
    """One run of the original on a sample, and one call of the metric, before anything long begins.

    UsageError where the model does not run on it, or the metric gives no number; ModelError where it does not load.
    WorkerTimeoutError or TooLateError where that is not known ``until`` then (time.monotonic()).
    """
    if data.samples.random and data.metric is None:
        return  # what is drawn is what every other run of the model takes
    config = WorkerConfig(threads=options.threads or available_threads())
    with Worker(config) as worker, worker.keeping_to(until):
        handle = worker.open(original, level="disable", ep=CPU)
        try:
            expected: dict[str, Any] = worker.run(handle, data.samples.feeds(0))
        except ModelError as error:
            if data.samples.random:
                raise
            named = spelled("calibration", options.calibration)
            raise UsageError(f"{named}: the model does not run on its first sample: {error}") from None
    if data.metric is not None:
        try:
            data.metric.error(expected, expected, until=until)
        except MetricError as error:
            raise UsageError(str(error)) from None


def notes_of(data: Data) -> tuple[str, ...]:
    """What has to be said of the samples, one line each."""
    if data.samples.random:
        return (_random_note(),)
    repeated = data.samples.count - len(data.numbers)
    if not repeated:
        return ()
    named = spelled("calibration", data.file)
    return (f"{named}: {repeated} of {data.samples.count} samples are equal to others, and each counts once",)


def _random_note() -> str:
    """The warning that goes with random data."""
    return (
        "the error budget is held against RANDOM data alone, which says nothing of real inputs: "
        f"give samples of them with {spelled('calibration', metavar='FILE.npz')}"
    )


def kept(
    first: ModelRef,
    second: ModelRef,
    data: Data,
    options: CheckOptions | BenchOptions,
    *,
    until: float,
    models: int = 1,
) -> BudgetReport:
    """The second model, as it is deployed, against the first with the optimiser off, on all different samples.

    ``models`` are compared with the first, and the warrant is for all of them at once.

    ModelError or WorkerError where one does not run, UsageError where the metric gives no number, TooLateError or
    WorkerTimeoutError where that is not known ``until`` then (time.monotonic()).
    """
    config = worker_config(options)
    assert options.error_budget is not None
    plain = WorkerConfig(threads=config.threads)
    with Worker(config) as worker, Worker(plain) as oracle, worker.keeping_to(until), oracle.keeping_to(until):
        judge = Judge(first, data.samples, worker, oracle, data.metric, patience_s=worker.timeout)
        try:
            found = judge.verdict(second, data.numbers, until=until)
        except MetricError as error:
            raise UsageError(str(error)) from None
    keeps = found.error <= options.error_budget
    return BudgetReport(
        budget=options.error_budget,
        metric=options.metric,
        calibration=None if options.calibration is None else str(options.calibration),
        samples=found.samples,
        error=found.error,
        output=found.output,
        sample=found.sample,
        kept=keeps,
        warrant=warrant(found.samples, random=data.samples.random, unseen=False, models=models) if keeps else None,
    )

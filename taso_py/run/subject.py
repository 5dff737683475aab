"""What is fixed before a search begins: the model, its sizes and inputs, the rules, and how sessions run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import onnx

from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.runtime import available_threads, require_runtime
from taso_py.check.branches import BranchedChecker
from taso_py.check.check import Checker
from taso_py.check.facts import ModelFacts, read_facts
from taso_py.check.fitting import Fit, fitted
from taso_py.check.inputs import make_feeds, with_arrays
from taso_py.check.oracle import OracleLimits
from taso_py.check.shapes import Assignment, resolve_shapes
from taso_py.check.tolerance import Closeness
from taso_py.errors import ModelError, UnfedInputError, WorkerError
from taso_py.files import load_arrays, require_model_file, require_text_name
from taso_py.onnx_io.load import Loaded, load, unread
from taso_py.options import RewriteOptions
from taso_py.options.spelling import spelled
from taso_py.providers.choosing import worker_config
from taso_py.run.provenance import machine_note

Model: TypeAlias = Path | onnx.ModelProto

LARGE_MODEL_BYTES = 500 * 2**20
"""Above this at most two sessions are alive at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model under one set of options."""

    loaded: Loaded
    reference: ModelRef
    """The original as ONNX Runtime opens it."""
    facts: ModelFacts
    assignments: tuple[Assignment, ...]
    """One per workload."""
    feeds: tuple[Feeds, ...]
    overrides: Mapping[str, Any]
    sizes: Mapping[str, int]
    """Sizes of the table's symbols in the first workload."""
    found: Mapping[str, int] | None = None
    """Sizes of the inputs' symbols that were found by trial, because the model does not run at the default ones."""
    config: WorkerConfig

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the reader on what was chosen for them."""
        chosen = [a.describe() for a in self.assignments if a.shrunk]
        past = machine_note(named(self.loaded.path or self.loaded.proto), self.loaded.proto, self.config)
        text = "the default sizes take too much memory, used instead: {}; choose others with {}"
        if self.found is not None:
            text = "the default sizes and inputs do not fit the model, found by trial: {}; choose others with {}"
            chosen = [a.describe() for a in self.assignments]
        sizes = (text.format(one, spelled("shapes")) for one in dict.fromkeys(chosen))
        return (*past, *open_note(self.loaded), *sizes)

    def file_bytes(self) -> tuple[int, int]:
        """Bytes of the files of weights beside the model's own, and of that, where it has one."""
        sizes = {file: size for file, (_, size, _) in self.loaded.stamps.items()}
        inside = sizes.pop(self.loaded.path, None) if self.loaded.path is not None else None
        return sum(sizes.values()), weight_bytes(self.loaded.proto) if inside is None else inside

    @property
    def large(self) -> bool:
        """Whether memory allows only two sessions."""
        return weight_bytes(self.loaded.proto) > LARGE_MODEL_BYTES


def open_note(loaded: Loaded) -> tuple[str, ...]:
    """One line where weights are no constants because a caller may override them."""
    names = loaded.overridable
    if not names:
        return ()
    count = f"{len(names)} initializers, first '{names[0]}', are" if len(names) > 1 else f"initializer '{names[0]}' is"
    which = "none of them is overridden" if len(names) > 1 else "it is never overridden"
    words = f"listed among the inputs, where callers may override what they hold: no rewrite relies on it; if {which}"
    return (f"{count} {words}, optimize with {spelled('freeze_initializers')}",)


def prepare(source: Model, options: RewriteOptions) -> Subject:
    """Reads the model and resolves sizes; `ModelError` or `UsageError` when that cannot be done."""
    loaded = load(source, freeze_initializers=options.freeze_initializers)
    facts = read_facts(loaded.proto)
    overrides = load_arrays(options.inputs)
    workloads = options.workloads or (options.shapes,)
    assignments = tuple(resolve_shapes(facts.inputs, with_arrays(workload, overrides)) for workload in workloads)
    feeds = tuple(make_feeds(facts.inputs, a, seed=options.seed, overrides=overrides) for a in assignments)
    return Subject(
        loaded=loaded,
        reference=reference(source),
        facts=facts,
        assignments=assignments,
        feeds=feeds,
        overrides=overrides,
        sizes=loaded.sizes_of(assignments[0].shapes),
        config=worker_config(options),
    )


def prepared_or_unfed(source: Model, options: RewriteOptions) -> Subject:
    """As `prepare`; where nobody can make up what its inputs take, a model that is not carried, and has none."""
    try:
        return prepare(source, options)
    except UnfedInputError as error:
        bare = unprepared(source, options)
        loaded = replace(bare.loaded, unsupported=str(error))
        return replace(bare, loaded=loaded, reference=reference(source), config=worker_config(options))


def fitting(subject: Subject, options: RewriteOptions, worker: Worker, seconds: float) -> Subject | None:
    """The subject with inputs that its model runs with, instead of those that it refused; None if there are none."""
    workloads = options.workloads or (options.shapes,)
    sizes = with_arrays(workloads[0], subject.overrides)
    fit = fitted(worker, subject.reference, subject.facts, sizes, subject.overrides, seed=options.seed, seconds=seconds)
    return None if fit is None else refitted(subject, options, fit)


def refitted(subject: Subject, options: RewriteOptions, fit: Fit) -> Subject:
    """The subject with inputs and sizes that were found by trial."""
    workloads = options.workloads or (options.shapes,)
    facts = replace(subject.facts, inputs=fit.inputs)
    given = (with_arrays(workload, subject.overrides) for workload in workloads)
    assignments = tuple(resolve_shapes(facts.inputs, one, fit.sizes) for one in given)
    feeds = (make_feeds(facts.inputs, a, seed=options.seed, overrides=subject.overrides) for a in assignments)
    return replace(
        subject,
        facts=facts,
        assignments=assignments,
        feeds=tuple(feeds),
        sizes=subject.loaded.sizes_of(assignments[0].shapes),
        found=fit.sizes or None,
    )


def unprepared(source: Model, options: RewriteOptions) -> Subject:
    """The model without sizes and inputs, for a run that was stopped before they were known.

    Nor is it known then where the provider is: to look for it may take a minute, and nothing will run.
    """
    return Subject(
        loaded=unread(source),
        reference=ModelRef.of(source if isinstance(source, Path) else b""),
        facts=ModelFacts((), (), random=False, narrowest="float32"),
        assignments=(),
        feeds=(),
        overrides={},
        sizes={},
        config=WorkerConfig(options.provider, threads=options.threads or available_threads()),
    )


def checker_of(
    subject: Subject, options: RewriteOptions, *, limits: OracleLimits | None = None, worker: Worker | None = None
) -> Checker:
    """The checker of what becomes of the model; computes the original's outputs at its first use."""
    chosen: dict[str, Any] = {
        "workloads": options.workloads or (options.shapes,),
        "overrides": subject.overrides,
        "seed": options.seed,
        "limits": limits,
        "closeness": Closeness.of(options.rtol, options.atol),
        "facts": subject.facts,
        "sizes": subject.found,
        "worker": worker,
    }
    loaded = subject.loaded
    if loaded.scopes:
        return BranchedChecker(subject.reference, subject.config, flat=loaded.proto, scopes=loaded.scopes, **chosen)
    return Checker(subject.reference, subject.config, **chosen)


def require_runnable(*models: Model) -> None:
    """RuntimeMissingError without ONNX Runtime, `ModelError` for a file that cannot hold a model."""
    require_runtime()
    for model in models:
        if isinstance(model, Path):
            require_model_file(model)
            require_text_name(model)


@contextmanager
def blaming(model: Model) -> Iterator[None]:
    """Where a worker dies of a model, or hangs, it is the model that cannot be run."""
    try:
        yield
    except WorkerError as error:
        raise ModelError(f"{named(model)}: ONNX Runtime fails on it: {error}") from None


def reference(model: Model) -> ModelRef:
    """How ONNX Runtime opens a model."""
    return ModelRef.of(model if isinstance(model, Path) else model.SerializeToString())


def weight_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of the initializers, external ones included, by their declared shapes."""
    return sum(math.prod(tensor.dims) * _item_bytes(tensor.data_type) for tensor in proto.graph.initializer)


def _item_bytes(element: int) -> int:
    """Of an element type; 1 for one that onnx does not know."""
    try:
        return max(1, onnx.helper.tensor_dtype_to_np_dtype(element).itemsize)
    except KeyError:
        return 1


def named(model: Model) -> str:
    """What a model is called in messages: its path as it was given."""
    return str(model) if isinstance(model, Path) else "model"

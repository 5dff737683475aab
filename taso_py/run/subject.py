"""What is fixed before a search begins: the model, its sizes and inputs, the rules, and how sessions run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from taso_py.backend.protocol import Feeds, ModelRef, WorkerConfig
from taso_py.backend.runtime import available_threads
from taso_py.check.facts import ModelFacts, read_facts
from taso_py.check.inputs import make_feeds, override_shapes
from taso_py.check.shapes import Assignment, resolve_shapes
from taso_py.files import load_arrays
from taso_py.onnx_io.load import Loaded, load
from taso_py.options import Options

LARGE_MODEL_BYTES = 500 * 2**20
"""Above this at most two sessions are alive at a time."""


@dataclass(frozen=True, slots=True)
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
    config: WorkerConfig

    @property
    def large(self) -> bool:
        """Whether memory allows only two sessions."""
        return weight_bytes(self.loaded.proto) > LARGE_MODEL_BYTES


def prepare(source: Path | onnx.ModelProto, options: Options) -> Subject:
    """Reads the model and resolves sizes; `ModelError` or `UsageError` when that cannot be done."""
    loaded = load(source, freeze_initializers=options.freeze_initializers)
    reference = ModelRef.of(source if isinstance(source, Path) else source.SerializeToString())
    facts = read_facts(loaded.proto)
    overrides = load_arrays(options.inputs)
    given = override_shapes(overrides)
    workloads = options.workloads or (options.shapes,)
    assignments = tuple(resolve_shapes(facts.inputs, {**workload, **given}) for workload in workloads)
    feeds = tuple(make_feeds(facts.inputs, a, seed=options.seed, overrides=overrides) for a in assignments)
    return Subject(
        loaded,
        reference,
        facts,
        assignments,
        feeds,
        overrides,
        loaded.sizes_of(assignments[0].shapes),
        WorkerConfig(
            options.provider,
            tuple(options.ep_options.items()),
            options.threads or available_threads(),
            options.ort_level,
        ),
    )


def weight_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of the initializers, external ones included, by their declared shapes."""
    total = 0
    for tensor in proto.graph.initializer:
        elements = int(np.prod(tensor.dims, dtype=np.int64)) if tensor.dims else 1
        total += elements * max(1, onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    return total

"""Measured cost: what a rewrite saves, timed inside ONNX Runtime on the places that it changes.

Both forms of a region are opened with ONNX Runtime's own optimiser on and timed in alternating blocks, so that what
ONNX Runtime would have done by itself is not counted as a gain.  Differences below the noise are ties.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taso_py.backend.client import Worker
from taso_py.cost.cache import Cache, Measurement
from taso_py.cost.model import Estimate
from taso_py.cost.regions import Fragment, Region, regions
from taso_py.cost.roofline import Roofline
from taso_py.errors import ModelError, TypingError, WorkerError
from taso_py.graph.model import Model
from taso_py.onnx_io.fragment import fragment

_ROUNDS = 5
_BLOCK_S = 0.03
_TIE = 0.01
"""Differences below this share of the region's own time are ties whatever the noise says."""


@dataclass(slots=True)
class MeasuredCost:
    """Regions timed in a worker and remembered in a cache; the roofline after ``deadline`` (monotonic)."""

    worker: Worker
    cache: Cache
    roofline: Roofline
    environment: str
    """Everything a time depends on besides the region: provider and options, level, version, threads, CPU."""
    deadline: float
    sizes: Mapping[str, int]
    on_measured: Callable[[int], None] = lambda count: None
    timed: int = 0

    def difference(self, before: Model, after: Model) -> Estimate:
        places = regions(before, after)
        keys = [self._key(before, after, p) for p in places]
        known = self.cache.get_many(list(dict.fromkeys(keys)))
        total, measured = 0.0, True
        slower: set[int] = set()
        for key, place in zip(keys, places, strict=True):
            found = known.get(key) or self._measure(before, after, place, key)
            if found is None:
                measured = False
                continue
            known[key] = found
            if abs(found.seconds) > found.noise:
                total += found.seconds
                if found.seconds > 0:
                    slower.update(v for v, n in place.after.nodes if before.nodes.get(v) is not n)
        if not measured:
            return Estimate(self.roofline.difference(before, after), measured=False)
        return Estimate(total, measured=True, slower=frozenset(slower))

    def _key(self, before: Model, after: Model, place: Region) -> str:
        sizes = ",".join(f"{k}={v}" for k, v in sorted(self.sizes.items()))
        text = f"{place.before.key(before)} => {place.after.key(after)} | {sizes} | {before.opset} | {self.environment}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _measure(self, before: Model, after: Model, place: Region, key: str) -> Measurement | None:
        if time.monotonic() > self.deadline:
            return None
        try:
            rounds = self._time(before, place.before, after, place.after)
        except (ModelError, TypingError, WorkerError):
            return None
        if len(rounds) < 3:
            return None
        differences = [b - a for a, b in rounds]
        middle = statistics.median(differences)
        spread = statistics.median(abs(d - middle) for d in differences)
        base = statistics.median(a for a, _ in rounds)
        noise = max(2 * spread, _TIE * base)
        found = Measurement(middle, noise, len(rounds), self.worker.info().ort_version, time.time())
        self.cache.put_many({key: found})
        self.timed += 1
        self.on_measured(self.timed)
        return found

    def _time(self, before: Model, old: Fragment, after: Model, new: Fragment) -> list[tuple[float, float]]:
        handles: list[int] = []
        feeds: list[dict[str, Any]] = []
        try:
            for model, piece in ((before, old), (after, new)):
                proto = fragment(
                    piece.nodes, piece.inputs, piece.outputs, model.values, model.opset, sizes=dict(self.sizes)
                )
                handles.append(self.worker.open(proto.SerializeToString()))
                feeds.append(_feeds(proto))
            rounds = self.worker.time_blocks(
                handles, feeds, rounds=_ROUNDS, block_s=_BLOCK_S, deadline=self.deadline + 5.0
            )
        finally:
            for handle in handles:
                self.worker.close(handle)
        return [(a, b) for a, b in rounds]


def _feeds(proto: Any) -> dict[str, Any]:
    """Random values for the fragment's inputs; integers are zeros, which every index range admits."""
    from onnx import helper

    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for value in proto.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if np.issubdtype(dtype, np.floating):
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            feeds[value.name] = np.zeros(shape, dtype)
    return feeds

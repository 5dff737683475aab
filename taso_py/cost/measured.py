"""Measured cost: what a rewrite saves, timed inside ONNX Runtime on the places that it changes.

Both forms of a region are opened with ONNX Runtime's own optimiser on and timed in alternating blocks, so that what
ONNX Runtime would have done by itself is not counted as a gain.  Differences below the noise are ties.

Other programs slow a machine down for minutes, by up to a half and more: only the ratio of two forms that were timed
together is to be trusted.  All new forms of one place are therefore priced by their ratio to its old form, the old form
has one price in a run, and the old forms of all places together never cost more than the whole original.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef
from taso_py.cost.cache import Cache
from taso_py.cost.measurement import Measurement
from taso_py.cost.model import Estimate, Part
from taso_py.cost.regions import Fragment, Region, regions
from taso_py.cost.roofline import Roofline
from taso_py.errors import ModelError, TypingError, WorkerError
from taso_py.graph.table import Table
from taso_py.onnx_io.fragment import fragment
from taso_py.onnx_io.stored import StoredWeights, normal_values

_ROUNDS = 3
_MOST_ROUNDS = 9
_BLOCK_S = 0.006
"""Short blocks without warm runs: the fastest of them tell signs and ties as well as 20 ms after a warm run."""
_REQUEST_S = 30.0
"""Longest time that one request to the worker may take."""
_GRACE_S = 5.0
"""A region that was begun before the deadline may end this much after it."""
_TIE = 0.02
"""Differences below this share of the region's own time are ties whatever the noise says."""


@dataclass(slots=True, kw_only=True)
class MeasuredCost:
    """Regions timed in a worker and remembered in a cache, until ``deadline`` (time.monotonic())."""

    worker: Worker
    cache: Cache
    roofline: Roofline
    environment: str
    """Everything a time depends on besides the region: provider and options, level, version, threads, CPU."""
    start: float
    """Seconds of one run of the original."""
    deadline: float
    sizes: Mapping[str, int]
    on_measured: Callable[[int], None] = lambda count: None
    timed: int = 0
    _stored: StoredWeights | None = field(default_factory=StoredWeights.if_possible)
    """What the models of places read as their weights; None: they carry them."""
    _old: dict[str, float] = field(default_factory=dict)
    """Seconds of old forms, by their keys, when each was first asked for."""
    _pace: float = 1.0
    """What the prices of old forms are multiplied by: they were timed in slower moments than the original."""

    def difference(self, before: Table, after: Table) -> Estimate | None:
        places = list(takewhile(lambda _: time.monotonic() <= self.deadline, regions(before, after)))
        if time.monotonic() > self.deadline:
            return None
        forms = [p.before.key(before) for p in places]
        texts = [f"{form} => {p.after.key(after)} | {before.opset}" for form, p in zip(forms, places, strict=True)]
        keys = [self._key(text) for text in texts]
        known = self.cache.get_many(list(dict.fromkeys(keys)))
        olds, changes = [], []
        for form, key, place in zip(forms, keys, places, strict=True):
            if key not in known:
                found = self._measure(before, after, place, key)
                if found is None:
                    return None
                known[key] = found
            old, change = self._prices(form, known[key])
            olds.append(old)
            changes.append(change)
        if sum(olds) > 0:
            self._pace = min(self._pace, self.start / sum(olds))
        parts = [Part(place.ids, self._pace * change) for place, change in zip(places, changes, strict=True)]
        return Estimate(sum(p.seconds for p in parts), tuple(parts))

    def _prices(self, form: str, found: Measurement) -> tuple[float, float]:
        """Seconds of an old form, and what the new one takes more."""
        change = found.after - found.before
        if not found.samples:
            return found.before, change
        old = self._old.setdefault(form, found.before)
        return old, old * change / found.before if abs(change) > found.noise else 0.0

    def _key(self, change: str) -> str:
        sizes = ",".join(f"{k}={v}" for k, v in sorted(self.sizes.items()))
        return hashlib.sha256(f"{change} | {sizes} | {self.environment}".encode()).hexdigest()

    def _measure(self, before: Table, after: Table, place: Region, key: str) -> Measurement | None:
        if time.monotonic() > self.deadline:
            return None
        try:
            rounds = self._time(before, place.before, after, place.after)
        except (ModelError, TypingError, WorkerError):
            return self._estimated(before, after, place)
        if len(rounds) < _ROUNDS:
            return None
        found = Measurement.now(*_fastest(rounds), len(rounds), self.worker.ort_version())
        self.cache.put_many({key: found})
        self.timed += 1
        self.on_measured(self.timed)
        return found

    def _estimated(self, before: Table, after: Table, place: Region) -> Measurement:
        """The roofline's word on a region that cannot run on its own; not remembered."""
        old = sum(self.roofline.node(before, v, n) for v, n in place.before.nodes)
        new = sum(self.roofline.node(after, v, n) for v, n in place.after.nodes)
        return Measurement.now(old, new, 0.0, 0, "")

    def _time(self, before: Table, old: Fragment, after: Table, new: Fragment) -> list[tuple[float, float]]:
        handles: list[int] = []
        feeds: list[dict[str, Any]] = []
        inputs = _Inputs()
        try:
            for model, piece in ((before, old), (after, new)):
                proto, directory = self._proto(model, piece)
                ref = ModelRef("place", proto.SerializeToString(), directory)
                handles.append(self.worker.open(ref, timeout=_REQUEST_S))
                feeds.append(inputs.of(proto))
            return self._rounds(handles, feeds)
        finally:
            for handle in handles:
                self.worker.close(handle)

    def _proto(self, table: Table, piece: Fragment) -> tuple[onnx.ModelProto, Path | None]:
        """A model of one form and where its weights lie, if not in itself."""
        parts = (piece.nodes, piece.inputs, piece.outputs, table.values, table.opset)
        if self._stored is not None:
            try:
                return fragment(*parts, sizes=self.sizes, stored=self._stored), self._stored.directory
            except OSError:
                self._stored = None
        return fragment(*parts, sizes=self.sizes), None

    def _rounds(self, handles: list[int], feeds: list[dict[str, Any]]) -> list[tuple[float, float]]:
        """Few rounds where the difference is plain, more where it is near the noise."""
        rounds: list[tuple[float, float]] = []
        while len(rounds) < _MOST_ROUNDS:
            fresh = self.worker.time_blocks(
                handles,
                feeds,
                rounds=_ROUNDS,
                block_s=_BLOCK_S,
                deadline=self.deadline + _GRACE_S,
                warm=False,
            )
            rounds += [(a, b) for a, b in fresh]
            if len(fresh) < _ROUNDS:
                break
            before, after, noise = _fastest(rounds)
            if not noise / 3 <= abs(after - before) <= 3 * noise:
                break
        return rounds


def _fastest(rounds: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Seconds of the old and of the new form, and the size below which their difference is a tie.

    Other processes can only add time, so each form counts with its fastest block; how far the second fastest
    lies above it tells the noise.
    """
    before, after = (sorted(form) for form in zip(*rounds, strict=True))
    noise = max(before[1] - before[0], after[1] - after[0], _TIE * before[0])
    return before[0], after[0], noise


class _Inputs:
    """Random inputs, the same array for the same input; integers are zeros, which every index range admits."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, Any, tuple[int, ...]], Any] = {}
        self._random = np.random.default_rng(0)

    def of(self, proto: onnx.ModelProto) -> dict[str, Any]:
        return {value.name: self._array(value) for value in proto.graph.input}

    def _array(self, value: onnx.ValueInfoProto) -> Any:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        key = (value.name, dtype, shape)
        if key not in self._drawn:
            floating = np.issubdtype(dtype, np.floating)
            self._drawn[key] = normal_values(self._random, shape, dtype) if floating else np.zeros(shape, dtype)
        return self._drawn[key]

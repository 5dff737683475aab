"""For tests of timing: a worker whose blocks take as long as a test says, and tiny models for real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx.parser

from taso_py.backend.client import Worker
from taso_py.backend.protocol import Feeds, ModelRef, Timings, WorkerConfig
from taso_py.errors import ModelError, WorkerError

NEVER = float("inf")
ONE = [{"workload": 0}]
X: Feeds = {"x": np.ones((4, 4), np.float32)}


def text_model(body: str) -> bytes:
    header = '<ir_version: 8, opset_import: ["" : 17]>\n'
    return onnx.parser.parse_model(f"{header}g (float[N,4] x) => (float[N,4] y) {{ {body} }}").SerializeToString()


class ScriptedWorker(Worker):
    """A worker whose blocks take as long as ``seconds(model name, workload, round)`` says."""

    def __init__(
        self, seconds: Callable[[str, int, int], float], *, broken: Sequence[str] = (), undelayed: float = NEVER
    ) -> None:
        super().__init__(WorkerConfig())
        self.undelayed = undelayed
        self.seconds = seconds
        self.broken = broken
        self.names: dict[int, str] = {}
        self.alive: set[int] = set()
        self.most_alive = 0
        self.timed: dict[str, int] = {}
        self.warm = set[bool]()
        """Whether a run before each block was asked for."""

    def open(self, model: Any, **_options: Any) -> int:
        if f"load {model.name}" in self.broken:
            raise ModelError(f"{model.name}: cannot load")
        handle = len(self.names) + 1
        self.names[handle] = model.name
        self.alive.add(handle)
        self.most_alive = max(self.most_alive, len(self.alive))
        return handle

    def close(self, handle: int) -> None:
        self.alive.discard(handle)

    def run(self, handle: int, feeds: Feeds, *_arguments: Any, **_options: Any) -> dict[str, Any]:
        if f"run {self.names[handle]}" in self.broken:
            raise WorkerError(f"worker died running {self.names[handle]}")
        return {}

    def time_blocks(self, handles: Any, feeds: Any, *, warm: bool = True, **_options: Any) -> list[list[float]]:
        assert set(handles) <= self.alive
        self.warm.add(warm)
        row = []
        for handle, feed in zip(handles, feeds, strict=True):
            name = self.names[handle]
            if f"time {name}" in self.broken and f"run {name}" not in self.broken:
                self.broken = [*self.broken, f"run {name}"]
                raise WorkerError("worker died (SIGSEGV) during time")
            number = self.timed[name] = self.timed.get(name, 0) + 1
            row.append(self.seconds(name, feed["workload"], number))
        return [row]

    def time_undelayed(self, handles: Any, feeds: Any, *, rounds: int, warm: bool = True, **_options: Any) -> Timings:
        """Of each request at most ``undelayed`` rounds count."""
        clean = int(min(rounds, self.undelayed))
        found = [[np.array([s]) for s in self.time_blocks(handles, feeds, warm=warm)[0]] for _ in range(clean)]
        return Timings(found, rounds - clean, [[0.0] * len(row) for row in found])


def refs(*names: str) -> list[ModelRef]:
    return [ModelRef(name, b"") for name in names]

"""What ONNX Runtime's profiler tells: how long each kernel of the graph that it made takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SUFFIX = "_kernel_time"
_HOLDS_OTHERS = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators whose time is that of the kernels in their bodies, which are told as well."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One node of the optimised graph; ``seconds`` of one run of the model, from the faster half of its calls."""

    name: str
    operator: str
    """As ONNX Runtime has it after fusion: FusedConv, Gelu, ReorderInput."""
    seconds: float
    calls: int
    """In one run."""


def kernels_of(profile: Path, runs: int) -> tuple[Kernel, ...]:
    """The kernels in a profile of so many runs, in the order of their first call.

    Others can only add time to a call, and the profiler counts whole microseconds: hence the mean of the faster half.
    """
    calls: dict[tuple[str, str], list[int]] = defaultdict(list)
    operators: dict[tuple[str, str], str] = {}
    for event in _kernel_events(json.loads(profile.read_text(encoding="utf-8"))):
        about = event.get("args", {})
        key = (str(about.get("node_index", "")), event["name"].removesuffix(_SUFFIX))
        calls[key].append(event["dur"])
        operators[key] = about.get("op_name", "")
    return tuple(
        Kernel(key[1], operators[key], 1e-6 * _faster_half(took) * len(took) / runs, round(len(took) / runs))
        for key, took in calls.items()
        if operators[key] not in _HOLDS_OTHERS
    )


def nodes_by_provider(profile: Path) -> dict[str, tuple[str, ...]]:
    """The nodes that each provider ran, by name; a graph that one has compiled is one node."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for event in _kernel_events(json.loads(profile.read_text(encoding="utf-8"))):
        found[str(event.get("args", {}).get("provider", ""))][event["name"].removesuffix(_SUFFIX)] = None
    return {provider: tuple(names) for provider, names in found.items()}


def _kernel_events(events: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (e for e in events if e.get("cat") == "Node" and str(e.get("name", "")).endswith(_SUFFIX))


def _faster_half(took: list[int]) -> float:
    fast = sorted(took)[: (len(took) + 1) // 2]
    return sum(fast) / len(fast)

"""Two models that somebody gives, compared once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.branches import BranchedChecker, read
from taso_py.check.check import Checker
from taso_py.check.facts import interface_difference, read_facts
from taso_py.check.oracle import OracleLimits
from taso_py.check.report import CheckReport, refused
from taso_py.check.shapes import Shape
from taso_py.check.tolerance import Closeness
from taso_py.onnx_io.load import flat


def check(
    original: ModelRef | Path | bytes,
    candidate: ModelRef | Path | bytes,
    config: WorkerConfig,
    *,
    workloads: Sequence[Mapping[str, Shape]] = (),
    overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    limits: OracleLimits | None = None,
    closeness: Closeness | None = None,
) -> CheckReport:
    """One candidate against one original; the original may use half of the time that ``limits`` leaves.

    Where both have the same If nodes, every one of them is made to go either way as well.
    """
    whole = limits or OracleLimits()
    now = time.monotonic()
    half = replace(whole, deadline=now + (whole.deadline - now) / 2)
    with _checker(
        ModelRef.of(original), ModelRef.of(candidate), config,
        workloads=workloads, overrides=overrides, seed=seed, limits=half, closeness=closeness,
    ) as checker:  # fmt: skip
        return checker.check(candidate, deadline=whole.deadline)


def check_models(
    first: ModelRef | Path | bytes,
    second: ModelRef | Path | bytes,
    config: WorkerConfig,
    *,
    workloads: Sequence[Mapping[str, Shape]] = (),
    overrides: Mapping[str, Any] | None = None,
    seed: int = 0,
    limits: OracleLimits | None = None,
    closeness: Closeness | None = None,
) -> CheckReport:
    """``superopt check A B``: the interfaces must agree, then `check` with A as the original."""
    one, other = ModelRef.of(first), ModelRef.of(second)
    reason = interface_difference(read_facts(one), read_facts(other))
    if reason is not None:
        return refused(f"{one.name} and {other.name} cannot be compared: {reason}")
    return check(
        one, other, config, workloads=workloads, overrides=overrides, seed=seed, limits=limits, closeness=closeness
    )


def _checker(original: ModelRef, candidate: ModelRef, config: WorkerConfig, **options: Any) -> Checker:
    one, other = flat(read(original)), flat(read(candidate))
    if not one.scopes or {*one.scopes.values()} != {*other.scopes.values()}:
        return Checker(original, config, **options)
    facts = read_facts(original)
    return BranchedChecker(original, config, flat=one.proto, scopes=one.scopes, facts=facts, unlike=True, **options)

"""Two models that somebody gives, compared once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.branches import BranchedChecker, read
from taso_py.check.check import Checker
from taso_py.check.facts import interface_difference, read_facts
from taso_py.check.oracle import OracleLimits
from taso_py.check.report import CheckReport, refused
from taso_py.onnx_io.load import flat


def check(
    original: ModelRef | Path | bytes,
    candidate: ModelRef | Path | bytes,
    config: WorkerConfig,
    *,
    limits: OracleLimits | None = None,
    **options: Any,
) -> CheckReport:
    """One candidate against one original, which may use half of the time that ``limits`` leaves.

    Where both have the same If nodes, every one of them is made to go either way as well.  ``options``: of `Checker`.
    """
    whole = limits or OracleLimits()
    now = time.monotonic()
    half = replace(whole, deadline=now + (whole.deadline - now) / 2)
    with _checker(ModelRef.of(original), ModelRef.of(candidate), config, limits=half, **options) as checker:
        return checker.check(candidate, deadline=whole.deadline)


def check_models(
    first: ModelRef | Path | bytes, second: ModelRef | Path | bytes, config: WorkerConfig, **options: Any
) -> CheckReport:
    """``superopt check A B``: the interfaces must agree, then `check` with A as the original."""
    one, other = ModelRef.of(first), ModelRef.of(second)
    reason = interface_difference(read_facts(one), read_facts(other))
    if reason is not None:
        return refused(f"{one.name} and {other.name} cannot be compared: {reason}")
    return check(one, other, config, **options)


def _checker(original: ModelRef, candidate: ModelRef, config: WorkerConfig, **options: Any) -> Checker:
    one, other = flat(read(original)), flat(read(candidate))
    if not one.scopes or {*one.scopes.values()} != {*other.scopes.values()}:
        return Checker(original, config, **options)
    facts = read_facts(original)
    return BranchedChecker(original, config, flat=one.proto, scopes=one.scopes, facts=facts, unlike=True, **options)

"""What superopt relies on of an execution provider, check by check: the first thing to run on a new one.

Every check has a process to crash in and a time to hang in; what one of them meets is that check's failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Finding, WorkerConfig
from taso_py.errors import ConformanceError, ModelError, RuntimeMissingError, WorkerError
from taso_py.options.providers import CUDA, short_name
from taso_py.providers.lossless import PROBE_S, executed_errors, loss
from taso_py.providers.probe import busy_probe, precision_probe, resizable_probe, small_probe

Outcome = Literal["passed", "failed", "skipped"]

_NO_OPTION = "superopt_no_such_option"
_MEMORY: Mapping[str, tuple[tuple[str, str], ...]] = {
    CUDA: (("gpu_mem_limit", str(2**30)), ("arena_extend_strategy", "kSameAsRequested")),
}
"""Options that bound a provider's memory, as it reads them back."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a provider keeps, or does not."""

    name: str
    outcome: Outcome
    detail: str
    """What was found, or why it was not looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """What a provider keeps of what superopt relies on."""

    ep: str
    name: str
    """As ONNX Runtime calls it."""
    python: str | None
    """The interpreter that it ran under; null: superopt's own."""
    library: str | None
    ort_version: str | None
    options: Mapping[str, str]
    """Provider options, those that make it compute in float32 included."""
    threads: int
    passed: bool
    lossless: bool
    """Whether it computes in float32: optimize refuses any other."""
    checks: tuple[Check, ...]

    def require_passed(self) -> None:
        """Raise ConformanceError where a check failed."""
        failed = [one for one in self.checks if one.outcome == "failed"]
        if failed:
            first = failed[0]
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise ConformanceError(f"{self.name} fails the check of its {first.name}: {first.detail}{more}")


def conformance(config: WorkerConfig) -> Conformance:
    """Every check of the configuration's provider; where it does not start, that is the one that fails."""
    version, checks = None, list[Check]()
    with Worker(config, timeout=PROBE_S) as worker:
        for name, look in _CHECKS.items():
            checks.append(_checked(name, look, worker))
            if checks[0].outcome == "failed":
                break
        else:
            version = worker.ort_version()
    checks += [Check(name, "skipped", "it does not start") for name in list(_CHECKS)[len(checks) :]]
    return Conformance(
        ep=short_name(config.ep), name=config.ep, python=config.python, library=config.library, ort_version=version,
        options=dict(config.ep_options), threads=config.threads,
        passed=all(one.outcome != "failed" for one in checks),
        lossless=any(one.name == _PRECISION and one.outcome == "passed" for one in checks), checks=tuple(checks),
    )  # fmt: skip


def _checked(name: str, look: Callable[[Worker], Finding], worker: Worker) -> Check:
    try:
        found = look(worker)
    except (ModelError, RuntimeMissingError, WorkerError) as error:
        return Check(name, "failed", str(error))
    outcome: Outcome = "skipped" if found.passed is None else "passed" if found.passed else "failed"
    return Check(name, outcome, found.detail)


def _starts(worker: Worker) -> Finding:
    """It makes a session and runs a small model itself."""
    small = small_probe()
    places = worker.places(small.model, small.feeds)
    other = ", ".join(f"{len(nodes)} on {name}" for name, nodes in places.items())
    return Finding(worker.config.ep in places, f"nodes of a small model: {other or 'none are told of'}")


def _beside(check: str, *, threads: int | None = None) -> Callable[[Worker], Finding]:
    """A check that only the worker can make."""

    def look(worker: Worker) -> Finding:
        probe = busy_probe() if threads is not None else small_probe()
        if threads is None:
            return worker.conform(check, probe.model, probe.feeds)
        with _another(worker, threads=threads) as other:
            return other.conform(check, probe.model, probe.feeds)

    return look


def _profile(worker: Worker) -> Finding:
    """Its kernels are in the profile."""
    probe = precision_probe()
    kernels = worker.profile(probe.model, probe.feeds, budget_s=0.05)
    own = worker.places(probe.model, probe.feeds).get(worker.config.ep, ())
    untold = "" if worker.config.tells_kernel_times else "; not how long they take: they are started, not awaited"
    return Finding(bool(kernels and own), f"{len(kernels)} kernels, {len(own)} of them its own{untold}")


def _sizes(worker: Worker) -> Finding:
    """A session serves several sizes of a symbol, one after the other."""
    handle = worker.open(resizable_probe())
    try:
        for size in (1, 3, 2):
            x = np.arange(4 * size, dtype=np.float32).reshape(size, 4)
            if not np.array_equal(worker.run(handle, {"x": x})["y"], 2 * x):
                return Finding(False, f"wrong values at size {size}")
    finally:
        worker.close(handle)
    return Finding(True, "sizes 1, 3 and 2 of one session")


def _memory(worker: Worker) -> Finding:
    """Its memory can be bounded, where there is an option for that."""
    bound = _MEMORY.get(worker.config.ep)
    small = small_probe()
    if bound is None:
        return worker.conform("memory", small.model, small.feeds)
    with _another(worker, more=bound) as other:
        return other.conform("provider options", small.model, small.feeds)


def _error_text(worker: Worker) -> Finding:
    """A misspelt option is refused, by name."""
    if worker.config.ep == CPU:
        return Finding(None, "the CPU provider takes no options and ignores them")
    small = small_probe()
    try:
        with _another(worker, more=((_NO_OPTION, "1"),)) as other:
            other.places(small.model, small.feeds)
    except (ModelError, RuntimeMissingError) as error:
        said = str(error)
        return Finding(_NO_OPTION in said, said if _NO_OPTION in said else f"refused without its name: {said}")
    return Finding(False, "a misspelt option is accepted in silence")


def _precision(worker: Worker) -> Finding:
    """It computes in float32."""
    errors = executed_errors(worker)
    why = loss(errors)
    told = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    others = [name for name in precision_probe().exact if name not in errors]
    rest = f"; not looked at, as others compute them: {', '.join(others)}" if others else ""
    return Finding(why is None, f"float32: largest relative errors {told}{rest}" if why is None else why)


def _another(worker: Worker, *, threads: int | None = None, more: tuple[tuple[str, str], ...] = ()) -> Worker:
    """A worker that differs in these."""
    config = worker.config
    options = dict(config.ep_options) | dict(more)
    if threads is not None and "num_of_threads" in options:
        options["num_of_threads"] = str(threads)
    return Worker(
        replace(config, ep_options=tuple(options.items()), threads=threads or config.threads), timeout=PROBE_S
    )


_PRECISION = "precision"
_CHECKS: Mapping[str, Callable[[Worker], Finding]] = {
    "start": _starts,
    "session options": _beside("session options"),
    "provider options": _beside("provider options"),
    "threads": _beside("threads", threads=1),
    "profile": _profile,
    "binding": _beside("binding"),
    "sizes": _sizes,
    "memory": _memory,
    "error text": _error_text,
    _PRECISION: _precision,
}


def check_names() -> Iterator[str]:
    """The names of all checks, in their order."""
    return iter(_CHECKS)

"""Does a provider compute in float32: read back from what it computes, whatever its options say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef, WorkerConfig
from taso_py.errors import ModelError, NotLosslessError, RuntimeMissingError, WorkerError
from taso_py.options.providers import short_name
from taso_py.options.spelling import spelled
from taso_py.providers.probe import FP32_ERROR, precision_probe, worst_error

PROBE_S = 120.0
"""How long a provider may take to make and run the probe: compilers of graphs take their time."""


def executed_errors(worker: Worker) -> Mapping[str, float]:
    """By output of the probe, how far the worker's provider is from the exact values, relative to the largest."""
    probe = precision_probe()
    handle = worker.open(ModelRef.of(probe.model), timeout=PROBE_S)
    try:
        found = worker.run(handle, probe.feeds, timeout=PROBE_S)
    finally:
        worker.close(handle)
    return {name: worst_error(exact, np.asarray(found[name])) for name, exact in probe.exact.items()}


def loss(errors: Mapping[str, float]) -> str | None:
    """Why such errors are not those of float32, in words; None where they are."""
    name, error = max(errors.items(), key=lambda item: item[1])
    if error <= FP32_ERROR:
        return None
    size = "NaN or infinite" if np.isinf(error) else f"off by {error:.1e} of the largest value"
    return f"the {name} values of a float32 probe are {size}, where rounding is at most {FP32_ERROR:.0e}"


def require_lossless(worker: Worker) -> None:
    """NotLosslessError unless the worker's provider computes in float32; the CPU provider of our own does.

    RuntimeMissingError where it does not run the probe at all.
    """
    if is_plain(worker.config):
        return
    called = spelled("ep", short_name(worker.config.ep))
    try:
        why = loss(executed_errors(worker))
    except (ModelError, WorkerError) as error:
        raise RuntimeMissingError(f"{called} does not run a small model of float32: {error}") from None
    if why is not None:
        raise NotLosslessError(
            f"{called} is not lossless with these options: {why}; see superopt eps, "
            "or leave out options that ask for less precision"
        )


def is_plain(config: WorkerConfig) -> bool:
    """Whether it is the CPU provider of our own ONNX Runtime."""
    return (config.ep, config.python, config.library) == (CPU, None, None)

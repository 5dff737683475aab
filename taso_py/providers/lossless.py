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
    """By output of the probe, how far the worker's provider is from the exact values, relative to the largest.

    Without those that another provider computes in its stead, whose precision says nothing of its own.
    """
    probe = precision_probe()
    handle = worker.open(ModelRef.of(probe.model), timeout=PROBE_S)
    try:
        found = worker.run(handle, probe.feeds, timeout=PROBE_S)
    finally:
        worker.close(handle)
    places = worker.places(probe.model, probe.feeds, timeout=PROBE_S)
    if worker.config.ep not in places:
        return {}
    others = [node for provider, nodes in places.items() if provider != worker.config.ep for node in nodes]
    # A node is called as its output is; what ONNX Runtime makes of it may have more behind that.
    own = [name for name in probe.exact if not any(node.startswith(name) for node in others)]
    return {name: worst_error(probe.exact[name], np.asarray(found[name])) for name in own}


def loss(errors: Mapping[str, float]) -> str | None:
    """Why such errors are not those of float32, in words; None where they are. Without any nothing is known."""
    if not errors:
        return "it computes nothing of a float32 probe itself: other providers do"
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

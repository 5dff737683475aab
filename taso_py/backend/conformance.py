"""The worker's side of `superopt eps --test`: what can be seen only beside the session itself.

Each check makes a session of its own at the configuration's provider and says what it found; what it raises is a
failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np
import onnxruntime as ort

from taso_py.backend import values
from taso_py.backend.accelerators import Memory
from taso_py.backend.protocol import CPU, Conform, Finding, Open, WorkerConfig

_BUSY_S = 0.4
_SPARE = 0.25
"""CPUs that may be busy beyond the threads asked for: the interpreter's own, and what starts and ends."""


class Maker(Protocol):
    """What makes sessions."""

    config: WorkerConfig

    def options(self, request: Open) -> ort.SessionOptions:
        """The options of a session."""
        ...

    def created(self, request: Open, options: ort.SessionOptions) -> ort.InferenceSession:
        """A session at the provider that is asked for."""
        ...

    def memory(self, ep: str) -> Memory:
        """Where the tensors of a provider lie."""
        ...


def conform(host: Maker, request: Conform) -> Finding:
    """What one check finds."""
    return _CHECKS[request.check](host, request)


def _session_options(host: Maker, request: Conform) -> Finding:
    """Options of the session are what they were set to."""
    key, value = "session.intra_op.allow_spinning", "0"
    options = host.options(request.opened)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.enable_mem_pattern = False
    options.add_session_config_entry(key, value)
    read = host.created(request.opened, options).get_session_options()
    told = {
        "graph_optimization_level": read.graph_optimization_level == options.graph_optimization_level,
        "enable_mem_pattern": read.enable_mem_pattern is False,
        key: read.get_session_config_entry(key) == value,
    }
    wrong = [name for name, holds in told.items() if not holds]
    return Finding(not wrong, f"{', '.join(wrong)}: read back otherwise" if wrong else f"read back: {', '.join(told)}")


def _provider_options(host: Maker, request: Conform) -> Finding:
    """Provider options are accepted, and read back where the provider tells them."""
    given = dict(host.config.ep_options)
    session = host.created(request.opened, host.options(request.opened))
    told = session.get_provider_options().get(host.config.ep, {})
    if not given:
        return Finding(None, "none are given")
    if not told:
        return Finding(True, f"accepted: {', '.join(given)}; the provider tells none back")
    wrong = [f"{name}={told.get(name)}" for name, value in given.items() if told.get(name) != value]
    return Finding(not wrong, f"read back: {', '.join(wrong or given)}")


def _threads(host: Maker, request: Conform) -> Finding:
    """No more CPUs are busy than there should be threads, spinning included."""
    session = host.created(request.opened, host.options(request.opened))
    session.run(None, request.feeds)
    begin, used = time.perf_counter(), time.process_time()
    while (took := time.perf_counter() - begin) < _BUSY_S:
        session.run(None, request.feeds)
    busy = (time.process_time() - used) / took
    return Finding(busy <= host.config.threads + _SPARE, f"{host.config.threads} asked for, {busy:.2f} CPUs busy")


def _binding(host: Maker, request: Conform) -> Finding:
    """Inputs and outputs may stay on the device, with the same values as over the host."""
    session = host.created(request.opened, host.options(request.opened))
    memory = host.memory(host.config.ep)
    plain = session.run(None, request.feeds)
    binding = values.bind(session, request.feeds, memory)
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    places = {str(one.device_name()).lower() for one in binding.get_outputs()}
    if places != {memory.kind}:
        return Finding(False, f"outputs lie on {', '.join(sorted(places))}, not on {memory.kind}")
    same = all(np.allclose(a, b, 1e-5, 1e-6) for a, b in zip(plain, binding.copy_outputs_to_cpu(), strict=True))
    return Finding(same, f"inputs and outputs on {memory.kind}" if same else "other values than without binding")


def _arena(host: Maker, request: Conform) -> Finding:
    """The CPU provider's arena can be switched off."""
    if host.config.ep != CPU:
        return Finding(None, "no option of this provider that bounds its memory is known")
    options = host.options(request.opened)
    options.enable_cpu_mem_arena = False
    session = host.created(request.opened, options)
    session.run(None, request.feeds)
    off = session.get_session_options().enable_cpu_mem_arena is False
    return Finding(off, "runs without its arena" if off else "the arena stays on")


_CHECKS: Mapping[str, Callable[[Maker, Conform], Finding]] = MappingProxyType(
    {
        "session options": _session_options,
        "provider options": _provider_options,
        "threads": _threads,
        "binding": _binding,
        "memory": _arena,
    }
)

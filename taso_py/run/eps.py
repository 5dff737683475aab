"""Which execution providers there are, and what one of them keeps: the whole of `superopt eps`."""

from __future__ import annotations

from taso_py.backend.runtime import require_runtime
from taso_py.options import EpsOptions, SessionOptions
from taso_py.providers.choosing import worker_config
from taso_py.providers.listing import Offers, list_providers
from taso_py.providers.suite import Conformance, conformance


def eps(options: EpsOptions) -> Offers:
    """Every provider of our own environment and of those that are named; each is tried in a process of its own."""
    return list_providers(options.ep_python, () if options.ep_library is None else (options.ep_library,))


def conform(ep: str, options: EpsOptions) -> Conformance:
    """What a provider keeps of what superopt relies on."""
    if not options.ep_python:
        require_runtime()
    return conformance(worker_config(SessionOptions(ep=ep, **vars(options))))

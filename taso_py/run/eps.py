"""Which execution providers there are, and what one of them keeps: the whole of `superopt eps`."""

from __future__ import annotations

from taso_py.options import EpsOptions
from taso_py.providers.listing import Offers, list_providers


def eps(options: EpsOptions) -> Offers:
    """Every provider of our own environment and of those that are named; each is tried in a process of its own."""
    return list_providers(options.ep_python, () if options.ep_library is None else (options.ep_library,))

"""Python's cyclic collector while a model is taken apart or put together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Within the block, or the function that this decorates, the collector rests.

    A model of 100,000 nodes is millions of objects, which refer to each other and all stay: walking through them again
    and again takes as long as making them.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()

"""Python's cyclic collector while a model is taken apart or put together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from taso_py.stop import Interrupted


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
    except Interrupted:  # half a model is left, which goes with the process: to look through it takes seconds
        gc.freeze()
        raise
    finally:
        if was:
            gc.enable()

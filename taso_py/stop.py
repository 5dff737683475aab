"""A request to stop that the search polls: set by the first Ctrl-C, by the caller, or by nobody."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Once set, stays set; the search ends with the best result verified so far.

    Not a `threading.Event`: a signal handler may run while the main thread holds the event's lock.
    """

    __slots__ = ("_stopped",)

    def __init__(self) -> None:
        self._stopped = False

    def __bool__(self) -> bool:
        return self._stopped

    def set(self) -> None:
        """Ask to stop at the next convenient point."""
        self._stopped = True


@contextmanager
def stop_on_interrupt(stop: StopFlag) -> Iterator[StopFlag]:
    """Within the block the first SIGINT sets `stop` and the second raises KeyboardInterrupt.

    Outside the main thread Python allows no handlers: there the flag is left to the caller.
    """
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if stop:
            signal.default_int_handler(number, frame)
        stop.set()

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous if previous is not None else signal.default_int_handler)

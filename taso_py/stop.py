"""A request to stop: by the first signal, by the caller, or by nobody."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

from taso_py.streams import LEVELS, formatted

_LIMIT = getattr(signal, "SIGXCPU", None)
"""Its processor time is over (``ulimit -S -t``): comes again with every second that it uses beyond that."""
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
"""What asks a program to end."""

FINISH_S = 4.0
"""What it may take to confirm something that was found when a signal came; then it is given up."""
ECHO_S = 1.0
"""SIGTERM or SIGHUP that comes again so soon is the same request: `timeout`, and a shell whose terminal goes away, send
theirs to a process and then to its group.  A second Ctrl-C is somebody's wish, however soon.
"""
_MOMENT_S = 0.01
"""How soon it is looked again whether a module is still being imported."""
_CLEAR_LINE = b"\r\x1b[2K"


class Interrupted(BaseException):
    """A stop was asked for within a block that may be left at any point."""


class Ended(KeyboardInterrupt):
    """A signal that ends the program at once, what it holds being released on the way."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}")
        self.number = number


class StopFlag:
    """Once set, stays set; the search ends with the best result verified so far.

    Not a `threading.Event`: a signal handler may run while the main thread holds the event's lock.
    """

    __slots__ = ("_abandoned_by", "_began", "_finished_by", "_stopped", "signal")

    def __init__(self, began: float | None = None) -> None:
        self._stopped = False
        self._abandoned_by: frozenset[int] = frozenset()
        self._finished_by: frozenset[int] = frozenset()
        self.signal: int | None = None
        """The first signal, if it was one that asked."""
        self._began = began

    def __bool__(self) -> bool:
        return self._stopped

    def begun(self) -> float:
        """From when, by `time.monotonic`, the time of what may be stopped counts: for the first that asks, from the
        moment that was given, so that a program's imports are in it; for others, which are parts of that, from now.
        """
        began, self._began = self._began, None
        return time.monotonic() if began is None else began

    def set(self, number: int | None = None) -> None:
        """Ask to stop at the next convenient point."""
        self._stopped = True
        self.signal = number

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """Within the block a signal raises `Interrupted` at once, and so does one that came before."""
        self._abandoned_by = frozenset(SIGNALS)
        try:
            self.leave()
            yield
        finally:
            self._abandoned_by = self._finished_by = frozenset()

    def keep(self, *numbers: int) -> None:
        """From here on the block is worth finishing: these signals (none named: all of them) only set the flag."""
        self._finished_by = frozenset(numbers)
        self._abandoned_by = self._abandoned_by.difference(numbers or SIGNALS)

    @property
    def may_be_left(self) -> bool:
        """Whether a signal came by which the block may be left."""
        return self.signal in self._abandoned_by

    def leave(self) -> None:
        """Raise `Interrupted` if a signal came by which the block may be left."""
        if self.may_be_left:
            raise Interrupted

    def give_up(self) -> None:
        """Raise `Interrupted` if a signal came that should finish the block, and it is not confirmed yet."""
        if self.signal in self._finished_by:
            raise Interrupted

    def finishes_by(self, number: int) -> bool:
        """Whether this signal ends the block with something that is found, but not confirmed yet."""
        return number in self._finished_by


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: an exception out of a signal aborts the process in some libraries' C++."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Ending:
    """A handler that raises `Ended`: where a module is being imported as soon as that is done, and for an echo not."""

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: dict[int, float] = {}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if is_importing(frame):
            again = threading.Timer(_MOMENT_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
        elif not self.is_echo(number):
            raise Ended(number)

    def is_echo(self, number: int) -> bool:
        """Whether this is a signal again that has been heard a moment before, or that comes by itself again."""
        now = time.monotonic()
        lasts_s = math.inf if number == _LIMIT else ECHO_S
        if number != signal.SIGINT and now - self._heard.get(number, -math.inf) < lasts_s:
            return True
        self._heard[number] = now
        return False


def end_at_signals() -> None:
    """From now on signals end the program as an exception does, so that what it holds is released.

    By default only SIGINT does so in Python.  A signal that the process was started to ignore (nohup, a script's
    background) stays ignored.
    """
    ending = Ending()
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, ending)


@dataclass(frozen=True, slots=True)
class _Handling:
    """What the signals of a block do."""

    stop: StopFlag
    ending: Ending = field(default_factory=Ending)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """The first one sets the flag and says so; further ones end the program."""
        if self.stop:
            self.ending(number, frame)
            return
        self.ending.is_echo(number)  # heard from now on
        self.stop.set(number)
        finishes = self.stop.finishes_by(number)
        if finishes:
            signal.setitimer(signal.ITIMER_REAL, FINISH_S)
        _tell(number, "finishing with what was found" if finishes else "stopping with what is confirmed so far")
        self._leave(frame)

    def late(self, _: int, frame: FrameType | None) -> None:
        """The time is over in which something could be finished, or a module imported."""
        self.stop.give_up()
        self._leave(frame)

    def _leave(self, frame: FrameType | None) -> None:
        if self.stop.may_be_left and is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _MOMENT_S)
        else:
            self.stop.leave()


def is_hurried(kind: type[BaseException] | None) -> bool:
    """Whether a block ends by what no error is: somebody who asked to stop waits for nothing."""
    return kind is not None and not issubclass(kind, Exception)


@contextmanager
def stop_on_interrupt(stop: StopFlag, signals: tuple[int, ...] = (signal.SIGINT,)) -> Iterator[StopFlag]:
    """Within the block the first signal sets `stop` and says so, and the second raises `Ended`.

    What is worth finishing has `FINISH_S` seconds for that.
    Outside the main thread Python allows no handlers: there the flag is left to the caller. A signal that the process
    was started to ignore (nohup, a script's background) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    handling = _Handling(stop)
    wanted = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handling.interrupt) for number in wanted}
    previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, handling.late)
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler if handler is not None else default)


def _tell(number: int, doing: str) -> None:
    """One line on stderr; past the streams' own buffers, which the interrupted code may be writing to."""
    name = signal.Signals(number).name
    more = "" if number == _LIMIT else "; once more to quit at once"
    text = f"superopt: {name}: {doing}{more}"
    line = formatted(text, level=LEVELS["warning"], logger=__name__)
    with suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stderr.fileno()
        over = _CLEAR_LINE if os.isatty(descriptor) else b""  # where a progress bar stands
        os.write(descriptor, over + f"{line}\n".encode())

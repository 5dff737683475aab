"""A process that does what it is told: what `taso_py.processes.isolated` is tested with."""

from __future__ import annotations

import os
import signal

from taso_py.processes.isolated import serve

OBEDIENT = "tests.processes.obedient"


def _done(words: tuple[str, ...], given: bytes) -> bytes:
    match words:
        case ("die",):
            os.kill(os.getpid(), signal.SIGSEGV)
        case ("leave",):
            os._exit(4)
        case ("hang",):
            signal.pause()
        case ("fill",):
            return bytes(1 << 33)
        case ("print",):
            print("more words than were asked for", flush=True)
        case ("fail",):
            raise ValueError("no\nmore")
    return given + str(os.getpid()).encode()


if __name__ == "__main__":
    serve(_done)

"""`python -m taso_py`, and the console script `superopt`."""

from __future__ import annotations

import signal
import sys

from taso_py.stop import patient


def run() -> None:
    """Run the command line and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, patient)
    try:
        from taso_py.cli import main  # takes long enough for a Ctrl-C

        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    run()

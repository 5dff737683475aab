"""`python -m taso_py`, and the console script `superopt`."""

from __future__ import annotations

import sys

from taso_py.stop import Ended, end_at_signals


def run() -> None:
    """Run the command line and exit with its code."""
    end_at_signals()
    try:
        from taso_py.cli import main  # takes long enough for a Ctrl-C

        code = main()
    except Ended as request:
        code = 128 + request.number
    sys.exit(code)


if __name__ == "__main__":
    run()

"""`python -m taso_py`, and the console script `superopt`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line and exit with its code."""
    try:
        from taso_py.cli import main  # takes long enough for a Ctrl-C
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(main())


if __name__ == "__main__":
    run()

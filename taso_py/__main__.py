"""`python -m taso_py`, and the console script `superopt`."""

from __future__ import annotations

import sys

from taso_py.cli import main


def run() -> None:
    """Run the command line and exit with its code."""
    sys.exit(main())


if __name__ == "__main__":
    run()

"""`python -m taso_py`, and the console script `superopt`."""

from __future__ import annotations

import sys

from taso_py.errors import RuntimeMissingError
from taso_py.stop import Ended, end_at_signals


def run() -> None:
    """Run the command line and exit with its code."""
    end_at_signals()
    try:
        from taso_py.cli import main  # takes long enough for a Ctrl-C

        code = main()
    except Ended as request:
        code = 128 + request.number
    except ImportError as error:  # the command line could not even be loaded
        missing = RuntimeMissingError.of_import(error)
        if missing is None:
            raise
        print(f"superopt: error: {missing}", file=sys.stderr)
        code = missing.exit_code
    sys.exit(code)


if __name__ == "__main__":
    run()

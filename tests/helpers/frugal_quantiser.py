"""The quantiser's process with so little memory that it takes one sample after the other."""

from __future__ import annotations

import sys

from taso_py.approximate import quantiser
from taso_py.processes.isolated import serve

if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    quantiser._PIECE_SHARE = 0.0
    serve(quantiser.worked)

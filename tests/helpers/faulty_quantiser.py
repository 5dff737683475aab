"""A quantiser's process that hangs or dies, by what FAULTY_QUANTISER says."""

from __future__ import annotations

import os
import time

from taso_py.processes.isolated import serve


def worked(words: tuple[str, ...], _: bytes) -> bytes:
    if os.environ["FAULTY_QUANTISER"] == "hangs":
        time.sleep(600)
    os._exit(7)


if __name__ == "__main__":
    serve(worked)

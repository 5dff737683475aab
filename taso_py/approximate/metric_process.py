"""The process in which a user's metric is called: ``python -m taso_py.approximate.metric_process``."""

from __future__ import annotations

import functools
import importlib.util
import pickle
import sys
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any

from taso_py.processes.isolated import serve

_MEMORY_BYTES = 16 << 30


@functools.cache
def _function(file: str, name: str) -> Callable[[Any, Any], Any]:
    spec = importlib.util.spec_from_file_location("superopt_metric", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(Path(file).parent))  # last: what it imports beside itself hides nothing of ours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{type(error).__name__} while it was imported: {error}") from error
    found: object = getattr(module, name, None)
    if not callable(found):
        raise TypeError(f"it has no function {name}")
    return found


def called(words: tuple[str, ...], given: bytes) -> bytes:
    """The number that a function says, as text."""
    file, name = words
    expected, found = pickle.loads(given)  # noqa: S301 - from our own parent
    function = _function(file, name)
    try:
        value = function(expected, found)
    except Exception as error:
        raise ValueError(f"it raised {type(error).__name__}: {error}") from error
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"it returned {value!r:.60}, which is no number")
    return repr(float(number)).encode()


if __name__ == "__main__":
    serve(called, _MEMORY_BYTES)

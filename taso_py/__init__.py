"""ONNX superoptimizer: proved rewrites, searched by cost, checked and measured in ONNX Runtime.

The functions are those of `taso_py.api`, which alone has `check` and `generate`: `taso_py.check` and
`taso_py.generate` are packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taso_py.version import VERSION

if TYPE_CHECKING:
    from taso_py.api import apply, bench, certify, conform, derive, diff, eps, inspect, optimize, rank, verify
    from taso_py.deployed import session
    from taso_py.options import Options
    from taso_py.progress import ProgressReport
    from taso_py.result import Result, RuleReport

__all__ = [
    "Options",
    "ProgressReport",
    "Result",
    "RuleReport",
    "__version__",
    "apply",
    "bench",
    "certify",
    "conform",
    "derive",
    "diff",
    "eps",
    "inspect",
    "optimize",
    "rank",
    "session",
    "verify",
]

__version__ = VERSION

_HOMES = {
    "Options": "taso_py.options",
    "ProgressReport": "taso_py.progress",
    "Result": "taso_py.result",
    "RuleReport": "taso_py.result",
    "session": "taso_py.deployed",
}
"""Where the names are that `taso_py.api` does not have."""


def __getattr__(name: str) -> Any:
    """What is imported when it is asked for: `superopt --help`, and every worker that is started, would wait for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "taso_py.api")), name)

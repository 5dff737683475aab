"""The package that is installed as `superopt`: the functions of `taso_py.api` under the name of the program.

Its names are those of `taso_py`, the same objects, and `check` and `generate` besides, which are packages there.
"""

from __future__ import annotations

import sys

from taso_py import (
    Options,
    ProgressReport,
    Result,
    RuleReport,
    __version__,
    api,
    apply,
    bench,
    certify,
    conform,
    derive,
    diff,
    eps,
    errors,
    inspect,
    optimize,
    options,
    progress,
    rank,
    session,
    stop,
    verify,
)
from taso_py.api import check, find_rule, generate, list_rules, open_cache, proof_of, standing

__all__ = [
    "Options",
    "ProgressReport",
    "Result",
    "RuleReport",
    "__version__",
    "api",
    "apply",
    "bench",
    "certify",
    "check",
    "conform",
    "derive",
    "diff",
    "eps",
    "errors",
    "find_rule",
    "generate",
    "inspect",
    "list_rules",
    "open_cache",
    "optimize",
    "options",
    "progress",
    "proof_of",
    "rank",
    "session",
    "standing",
    "stop",
    "verify",
]

# The same modules under this name too: a second copy of a class of errors would catch nothing.
for _module in (api, errors, options, progress, stop):
    sys.modules[f"{__name__}.{_module.__name__.removeprefix('taso_py.')}"] = _module

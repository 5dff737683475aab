"""The real command line in a process of its own, with a result that is known beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, cli_environment

_PROGRAM = """
import os, signal, sys, types
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU"):  # nohup has set some to be ignored
    signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
sys.path.insert(0, {root!r})
import taso_py.run
from taso_py.result import Reason
from tests.cli.test_cli import outcome
def optimize(model, options, progress, stop):
    {before}
    return outcome(model, {fields})
module = types.ModuleType("taso_py.run.pipeline")
module.optimize = optimize
sys.modules["taso_py.run.pipeline"] = taso_py.run.pipeline = module
from taso_py.cli import main
sys.exit(main(sys.argv[1:]))
"""

NOISY = "improved=True, speedup=1.2, speedup_low=1.02, speedup_high=1.5, max_rel_error=1e-6, reason=None"
"""The fields of a result whose interval is too wide to say whether it reaches 1.1."""


def run_stubbed(
    *arguments: str | Path, cwd: Path, fields: str = "", before: str = "pass", **settings: Any
) -> subprocess.CompletedProcess[str]:
    """`superopt ARGUMENTS`, whose optimisation runs ``before`` and gives the `outcome` with these keywords."""
    program = _PROGRAM.format(root=str(ROOT), fields=fields, before=before)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=cwd, env=cli_environment(), text=True, timeout=120, **streams,
    )  # fmt: skip

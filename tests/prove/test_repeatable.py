"""A proof asks Z3 the same questions in the same order, whatever Python's hash seed and whatever was proved before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ASKED = Path(__file__).parents[1] / "helpers" / "asked_questions.py"
LAWS = (
    "max-pool-of-max-pool", "relu-max-pool", "merge-groups", "pad-nothing", "batchnorm-before-conv", "softmax-shift",
    "slice-of-concat-both", "conv-concat-conv-0e529712",
)  # fmt: skip


def questions(laws: tuple[str, ...], seed: int) -> list[str]:
    """The lines of `asked_questions` about the laws, in a new process with this hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, str(ASKED), *laws]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


def test_questions_depend_on_the_law_alone() -> None:
    first, second = questions(LAWS, 0), questions(LAWS[::-1], 1)
    assert len(first) == len(LAWS)
    assert all(" Proved " in line for line in first)
    assert all(int(line.split()[2]) > 0 for line in first)
    assert sorted(first) == sorted(second)

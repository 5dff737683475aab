"""Crews of processes: a task that takes too much costs itself, not the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from taso_py.processes import crew
from taso_py.processes.crew import Crew, Lost, Work


def begin(_: None) -> Work:
    """Work that fills as many bytes as the task says."""

    def fill(task: int) -> Iterator[int]:
        yield sum(len(bytearray(piece)) for piece in [task])

    return fill


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of a process's data")
def test_a_task_that_wants_too_much_memory_is_lost_alone() -> None:
    small = 1 << 20
    with Crew(begin, None, 1, 60.0) as processes:
        answers = dict(processes.answers([small, 2 * crew.MEMORY_BYTES, small]))
    lost = answers[1]
    assert isinstance(lost, Lost)
    assert lost.why == f"it needs more than {crew.MEMORY_BYTES >> 30} GiB of memory"
    assert answers[0] == answers[2] == small

"""Whether this process was kept waiting: what it measured in that time says nothing of its model.

Every kernel boundary waits for the slowest thread, so a preempted one makes a model with many kernels look slower
than it is, and a rewrite that has fewer of them better than it is.
"""

from __future__ import annotations

import os
from pathlib import Path

_TASKS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
_STEAL = 8
"""Place of the time that a hypervisor gave to others, in the first line of /proc/stat."""
_TOLERATED, _FEW = 0.005, 2
"""Share of a run for which each of its threads may wait for a CPU, and the least number that is counted of them."""


def waited_s() -> float:
    """Seconds for which the threads of this process were ready to run and did not, together; 0 where nothing tells."""
    total = 0
    try:
        with os.scandir(_TASKS) as tasks:
            names = [task.name for task in tasks]
    except OSError:  # not Linux
        return 0.0
    for name in names:
        try:
            with (_TASKS / name / "schedstat").open("rb") as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError, ValueError):  # the thread has ended, or the kernel does not count
            continue
    return 1e-9 * total


def stolen_s() -> float:
    """Seconds that this machine's CPUs were given to other machines, together; 0 where nothing tells."""
    try:
        with _STAT.open("rb") as file:
            return float(file.readline().split()[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def was_delayed(waited: float, took: float, threads: int) -> bool:
    """Whether runs that took so long waited for more of it than happens on an idle machine.

    ``waited`` is what ``threads`` of them waited together: the more there are, the more of that there is where nothing
    disturbs them.
    """
    return waited > _TOLERATED * max(threads, _FEW) * took


def ran_s(pid: int) -> float:
    """Seconds for which the threads of a process have run, together; 0 where nothing tells."""
    total = 0
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # not Linux, or it has ended
        return 0.0
    for task in tasks:
        try:
            total += int((task / "schedstat").read_bytes().split()[0])
        except (OSError, IndexError, ValueError):  # the thread has ended, or the kernel does not count
            continue
    return 1e-9 * total

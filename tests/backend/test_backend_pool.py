"""Workers that serve several runs."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from taso_py.backend.pool import WorkerPool, lent
from taso_py.backend.protocol import WorkerConfig
from taso_py.options import Options
from taso_py.progress import SilentProgress
from taso_py.result import Result
from taso_py.run import pipeline
from taso_py.stop import StopFlag
from tests.conftest import tiny_network

CONFIG = WorkerConfig(threads=1)


def optimised(pool: WorkerPool, folder: Path) -> Result:
    options = Options(race=False, strict=True, threads=1, cache=folder / "cache.sqlite")
    return pipeline.optimize(tiny_network(), options, progress=SilentProgress(), stop=StopFlag(), pool=pool)


def test_consecutive_runs_share_one_process(tmp_path: Path) -> None:
    with WorkerPool() as pool:
        process = pool.worker(CONFIG).info().pid
        results = [optimised(pool, tmp_path) for _ in range(2)]
        assert all(r.rules for r in results)
        children = [p.pid for p in psutil.Process().children() if "taso_py.backend.worker" in p.cmdline()]
        assert children == [process]
    assert not psutil.pid_exists(process)


def test_configurations_have_workers_of_their_own() -> None:
    with WorkerPool() as pool:
        one, other = pool.worker(CONFIG), pool.worker(WorkerConfig(threads=2))
        assert one is not other
        assert pool.worker(WorkerConfig(threads=1)) is one


@pytest.mark.parametrize("shared", [False, True])
def test_a_lent_worker_ends_unless_it_is_the_pools(shared: bool) -> None:
    with WorkerPool() as pool:
        with lent(pool if shared else None, CONFIG) as worker:
            process = worker.info().pid
        assert psutil.pid_exists(process) is shared
    assert not psutil.pid_exists(process)

"""A worker that is killed or refused memory may have suffered from its neighbours: a second one is asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
from taso_py.errors import ModelError
from tests.backend.test_backend_worker import model


def without_memory(worker: Worker) -> None:
    """The system refuses the child more than a mebibyte from now on."""
    process = psutil.Process(worker.info().pid)
    most = process.memory_info().vms + 2**20
    process.rlimit(psutil.RLIMIT_AS, (most, most))


def killed(worker: Worker) -> None:
    os.kill(worker.info().pid, signal.SIGKILL)


@pytest.mark.parametrize("fault", [without_memory, killed])
def test_what_neighbours_do_to_a_worker_is_not_put_down_to_the_model(fault: Callable[[Worker], None]) -> None:
    many = 2**23
    widened = model(f"g (float[1] x) => (float[N] y) {{ s = Constant<value_ints = [{many}]>() y = Expand(x, s) }}")
    x = {"x": np.ones(1, np.float32)}
    with Worker(WorkerConfig()) as own:
        handle = own.open(widened)
        fault(own)
        assert own.run(handle, x)["y"].size == many
        fault(own)
        assert own.run(own.open(widened), x)["y"].size == many
        assert own.restarts == 2


def test_a_model_that_is_refused_memory_by_every_worker_fails() -> None:
    huge = model("g (float[1] x) => (float[N] y) { s = Constant<value_ints = [1000000000000000]>() y = Expand(x, s) }")
    with Worker(WorkerConfig()) as own:
        handle = own.open(huge)
        with pytest.raises(ModelError, match=r"ONNX Runtime cannot run it: .*allocate memory"):
            own.run(handle, {"x": np.ones(1, np.float32)})
        assert own.restarts == 1

"""The generator on a Ray cluster of two nodes on this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taso_py.generate.job import Generation, Settings, text_of
from taso_py.generate.tasks import Space
from taso_py.processes.crew import Lost, Work
from taso_py.processes.ray_cluster import RayCrew
from taso_py.progress import SilentProgress
from tests.conftest import cli_environment

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'superopt[ray]'")

# Ray's own clients leave sockets and files to the interpreter's end.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the nodes import this module
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield found
    found.shutdown()


def slow(_: object) -> Work:
    def work(task: int) -> Iterator[int]:
        if task < 0:
            raise ValueError("a task that cannot be done")
        yield task
        time.sleep(60 if task > 100 else 1)
        yield task * task

    return work


def test_a_lost_node_and_a_late_task_cost_nothing_else(cluster: Any) -> None:
    # One test, because two clusters on one machine would want the same ports.
    _tasks_of_a_crew(cluster)
    _the_generators_file(cluster)


def _tasks_of_a_crew(cluster: Any) -> None:
    second = cluster.add_node(num_cpus=1)
    tasks = [*range(8), -1, 101]
    with RayCrew(slow, None, 5.0, attempts=3, address=cluster.address) as crew:
        found: dict[int, Any] = {}
        for number, answer in crew.answers(tasks):
            found[number] = answer
            if len(found) == 2:
                cluster.remove_node(second, allow_graceful=False)
    assert [found[k] for k in range(8)] == [k * k for k in range(8)]
    assert isinstance(found[8], Lost)
    assert found[8].why == "internal error: ValueError: a task that cannot be done"
    assert (found[9].why, found[9].so_far) == ("no answer within 5 s", 101)


def _the_generators_file(cluster: Any) -> None:
    """It is the same as with processes, although a node is lost while laws are proved."""
    settings = Settings(Space("taso", ("ewadd", "transpose", "relu"), 2))
    here = Generation(settings, 1)
    rules = here.run()
    expected = text_of(settings, here.figures, rules)
    second = cluster.add_node(num_cpus=1)
    phases: list[str] = []

    class Saboteur(SilentProgress):
        def phase(self, name: str, total: int | None = None) -> None:
            phases.append(name)
            if name == "proving":
                cluster.remove_node(second, allow_graceful=False)

    there = Generation(settings, ray=cluster.address, progress=Saboteur())
    found = there.run()
    assert phases[-3:] == ["proving", "minimising", "leaving out"]
    assert text_of(settings, there.figures, found) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no Ray cluster answers there"), ("ray://head:10001", "give auto, or HOST:PORT")],
)
def test_no_cluster_is_one_line(tmp_path: Path, address: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "taso_py", "generate", "--ops", "Relu", "--max-operators", "1", "--executor", "ray",
         "--address", address, "-o", str(tmp_path / "o.rules")],
        capture_output=True, text=True, env=cli_environment(), check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
    assert not (tmp_path / "o.rules").exists()

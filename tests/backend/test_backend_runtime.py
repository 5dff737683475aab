"""The runtime's environment: distributions, CPU quotas, names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taso_py.backend import runtime
from taso_py.errors import RuntimeMissingError


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_installed_distribution_is_found_with_its_version() -> None:
    name, version = runtime.require_runtime()
    assert name in runtime.DISTRIBUTIONS
    assert version[0].isdigit()
    assert runtime.installed_distributions() == [(name, version)]


def test_no_runtime_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "installed_distributions", list)
    with pytest.raises(RuntimeMissingError, match=r"pip install 'superopt\[cpu\]'") as caught:
        runtime.require_runtime()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 5


def test_two_runtimes_are_named_with_the_lines_that_repair_it(tmp_path: Path) -> None:
    write(tmp_path / "onnxruntime_gpu-9.9.dist-info/METADATA", "Name: onnxruntime-gpu\nVersion: 9.9\n")
    code = "from taso_py.backend.runtime import require_runtime; require_runtime()"
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "2 ONNX Runtime distributions" in last
    assert "pip uninstall -y onnxruntime onnxruntime-gpu`" in last


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"a/cpu.max": "max 100000", "a/b/cpu.max": "100000 100000"}, 1),
        ({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
    ],
)
def test_cgroup_v2_quota_limits_threads(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/a/b\n")
    for name, text in files.items():
        write(tmp_path / "cgroup" / name, text)
    found = runtime.available_threads(tmp_path / "proc", tmp_path / "cgroup")
    assert found == (cpus() if expected is None else expected)


@pytest.mark.parametrize(("quota", "expected"), [("-1", None), ("100000", 1), ("150000", 2)])
def test_cgroup_v1_quota_limits_threads(tmp_path: Path, quota: str, expected: int | None) -> None:
    write(tmp_path / "proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n3:cpuset:/\n")
    write(tmp_path / "cgroup/cpu,cpuacct/cpu.cfs_quota_us", quota)
    write(tmp_path / "cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
    found = runtime.available_threads(tmp_path / "proc", tmp_path / "cgroup")
    assert found == (cpus() if expected is None else min(cpus(), expected))


def test_cpu_name_is_the_kernels(tmp_path: Path) -> None:
    write(tmp_path / "cpuinfo", "processor\t: 0\nmodel name\t: Good CPU @ 2 GHz\n")
    assert runtime.cpu_name(tmp_path / "cpuinfo") == "Good CPU @ 2 GHz"
    assert runtime.cpu_name(tmp_path / "absent") != ""

"""What this machine offers: the installed ONNX Runtime distributions, the usable CPUs, the CPU's name."""

from __future__ import annotations

import math
import os
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from taso_py.errors import RuntimeMissingError

# Every distribution that provides the import name ``onnxruntime``: two of them overwrite each other's files.
DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-rocm",
    "onnxruntime-migraphx",
    "onnxruntime-qnn",
    "onnxruntime-cann",
    "onnxruntime-vitisai",
    "onnxruntime-webgpu",
    "onnxruntime-training",
    "onnxruntime-silicon",
    "ort-nightly",
    "ort-nightly-gpu",
)


def installed_distributions() -> list[tuple[str, str]]:
    """(name, version) of every installed distribution that provides ``onnxruntime``."""
    found = []
    for name in DISTRIBUTIONS:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found


def require_runtime() -> tuple[str, str]:
    """(name, version) of the one installed ONNX Runtime; RuntimeMissingError for none or several."""
    found = installed_distributions()
    if len(found) == 1:
        return found[0]
    if not found:
        raise RuntimeMissingError(
            "ONNX Runtime is not installed: run `pip install 'superopt[cpu]'` "
            "(or 'superopt[gpu]', 'superopt[openvino]')"
        )
    names = " ".join(name for name, _ in found)
    listed = ", ".join(f"{name} {version}" for name, version in found)
    # Uninstalling one of two removes files that both own, hence: remove all, install one.
    raise RuntimeMissingError(
        f"{len(found)} ONNX Runtime distributions overwrite each other ({listed}): "
        f"run `pip uninstall -y {names}`, then `pip install {found[0][0]}` (the one you want)"
    )


def available_threads(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Number of CPUs this process may use: its affinity, limited by the cgroup v1 or v2 CPU quota."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    quota = _cgroup_quota(proc, cgroup)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def _cgroup_quota(proc: Path, cgroup: Path) -> float | None:
    """Tightest CPU quota (in CPUs) over this process's cgroups and their ancestors; None when unlimited."""
    quotas = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            quotas += [_quota_v2(folder) for folder in _ancestors(cgroup, path)]
        elif "cpu" in controllers.split(","):
            for root in (cgroup / controllers, cgroup / "cpu"):
                quotas += [_quota_v1(folder) for folder in _ancestors(root, path)]
    known = [quota for quota in quotas if quota is not None]
    return min(known) if known else None


def _ancestors(root: Path, path: str) -> list[Path]:
    """``root`` and every folder below it along ``path`` (which need not exist there in a container)."""
    folders = [root]
    for part in Path(path.lstrip("/")).parts:
        folders.append(folders[-1] / part)
    return folders


def _quota_v2(folder: Path) -> float | None:
    fields = _read(folder / "cpu.max").split()
    return _ratio(*fields) if len(fields) == 2 else None


def _quota_v1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    try:
        value = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None
    return value if value > 0 else None  # v1 writes -1 for unlimited


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


@cache
def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's model name as the kernel states it, else what the platform module knows."""
    for line in _read(cpuinfo).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


@cache
def multiplies_bytes(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU adds products of bytes in 32 bits; older x86 ones do in 16, which two of them may leave."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    flags = next((line for line in _read(cpuinfo).splitlines() if line.startswith("flags")), "")
    return any(name in flags for name in ("avx512_vnni", "avx_vnni"))

"""From the texts of the command line to the values that the options hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from taso_py.errors import UsageError
from taso_py.paths import why_no_file

Shape = tuple[int, ...]

# A tensor name may hold nearly anything ("x:0", "/conv/out", "a,b"): the last "=" separates name and sizes.
_SIZES = re.compile(r"^\d{1,18}(,\d{1,18})*$")


def parse_shapes(texts: Iterable[str], option: str = "--shape") -> Mapping[str, Shape]:
    """``["x=1,3,224,224", "batch=1"]`` -> ``{"x": (1, 3, 224, 224), "batch": (1,)}``."""
    result: dict[str, Shape] = {}
    for text in texts:
        name, sizes = _split(text, option, "x=1,3,224,224 or batch=1")
        demand(
            bool(_SIZES.match(sizes)),
            f"{option} '{text}': sizes must be whole numbers of at most 18 digits, and commas",
        )
        demand(name not in result, f"{option} names '{name}' twice: keep one")
        result[name] = tuple(int(size) for size in sizes.split(","))
    return MappingProxyType(result)


def parse_workload(text: str) -> Mapping[str, Shape]:
    """``"a=1,128;b=1,128"`` -> ``{"a": (1, 128), "b": (1, 128)}``."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    demand(bool(parts), f"--workload '{text}' names no input: write 'a=1,128;b=1,128'")
    return parse_shapes(parts, "--workload")


def parse_workloads(texts: Iterable[str]) -> tuple[Mapping[str, Shape], ...]:
    """One workload for each text."""
    return tuple(parse_workload(text) for text in texts)


def parse_ep_options(texts: Iterable[str]) -> Mapping[str, str]:
    """``["device_id=0"]`` -> ``{"device_id": "0"}``; the first "=" separates, values may hold more."""
    result: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        demand(bool(equals and key.strip()), f"--ep-option '{text}' is not of the form key=value")
        demand(key.strip() not in result, f"--ep-option names '{key.strip()}' twice: keep one")
        result[key.strip()] = value
    return MappingProxyType(result)


def parse_inputs(texts: Iterable[str]) -> Mapping[str, Path]:
    """``["ids=ids.npy"]`` -> ``{"ids": Path("ids.npy")}``; every file must exist and end in .npy."""
    result: dict[str, Path] = {}
    for text in texts:
        name, file = _split(text, "--input", "ids=ids.npy")
        path = Path(file)
        demand(name not in result, f"--input names '{name}' twice: keep one")
        demand(path.suffix == ".npy", f"--input '{text}': the file must be a .npy array")
        why = why_no_file(path)
        demand(why is None, f"--input '{text}': {path}: {why}")
        result[name] = path
    return MappingProxyType(result)


def parse_rules(texts: Iterable[str]) -> tuple[Path, ...] | None:
    """No text -> None (the shipped library); ``["none"]`` -> () (no rule); otherwise the files named."""
    names = tuple(texts)
    if not names:
        return None
    if "none" in names:
        demand(len(set(names)) == 1, "--rules none excludes rule files: keep one of them")
        return ()
    for name in names:
        why = why_no_file(Path(name))
        demand(why is None, f"--rules {name}: {why}; 'none' switches all rules off")
    return tuple(Path(name) for name in names)


def parse_names(texts: Iterable[str]) -> tuple[str, ...]:
    """``["a, b", "c"]`` -> ``("a", "b", "c")``."""
    return tuple(name.strip() for text in texts for name in text.split(","))


def _split(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    complete = bool(equals and name.strip() and value.strip())
    demand(complete, f"{option} '{text}' is not of the form {example}")
    return name.strip(), value.strip()


def demand(holds: bool, message: str) -> None:
    """UsageError with this message unless ``holds``."""
    if not holds:
        raise UsageError(message)


def require_file(option: str, path: Path | None) -> None:
    """UsageError for ``-``, which elsewhere means stdout: there is no use of a file of ours on a terminal."""
    demand(str(path) != "-", f"{option} -: what is written there is no text for stdout: name a file")

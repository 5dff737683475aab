"""No wall clock decides anything: it may be set back, forward, or be another machine's.

    python -m scripts.audit.clocks [FILE|FOLDER]...

What lasts is measured by `time.monotonic` or `time.perf_counter`.  Prints every other look at a clock outside the
places that may say when something was, a line each; exit code 1 for any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDERS = ("taso_py",)
CLOCKS: Mapping[str, frozenset[str]] = {
    "time": frozenset({"time", "time_ns", "clock_gettime", "localtime", "gmtime", "ctime", "strftime", "asctime"}),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "date": frozenset({"today"}),
}
"""By module or class: what tells the time of day."""
LISTED: Mapping[tuple[str, str], str] = {
    ("streams.py", "formatted"): "lines of a log say when they were written",
    ("cost/measurement.py", "now"): "a measurement says when it was taken",
    ("cost/database.py", "move_aside"): "a damaged file gets a name that no other has",
    ("folders.py", "_remove_if_abandoned"): "how old a file is the system tells by this clock alone; its lock decides",
}
"""File and function that may look at a wall clock, and why."""


def looks(path: Path, name: str) -> Iterator[str]:
    """The places of a file, called ``name`` in the package, that look at a wall clock and are not listed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function, node in _within(tree, ""):
        what = _clock(node)
        if what is not None and (name, function) not in LISTED:
            yield f"{path}:{node.lineno}: {what} in {function or 'the module'}: measure by time.monotonic"


def _within(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Attribute | ast.ImportFrom]]:
    """Every attribute and import with the name of the outermost function that it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if not function and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = child.name
        if isinstance(child, ast.Attribute | ast.ImportFrom):
            yield inner, child
        yield from _within(child, inner)


def _clock(node: ast.Attribute | ast.ImportFrom) -> str | None:
    if isinstance(node, ast.ImportFrom):
        taken = {alias.name for alias in node.names} & CLOCKS["time"] if node.module == "time" else set()
        return f"import of {', '.join(sorted(taken))}" if taken else None
    owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    return f"{owner}.{node.attr}" if node.attr in CLOCKS.get(owner, ()) else None


def main(names: list[str]) -> int:
    """Looks at the files, and at all below the folders."""
    count, found = 0, list[str]()
    for root in map(Path, names or FOLDERS):
        for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            count += 1
            found += looks(file, file.relative_to(root).as_posix() if root.is_dir() else file.name)
    print("\n".join(found) or f"{count} files without a wall clock that decides anything")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Limits that no linter knows: lines of a file and of a function, fields that a dataclass takes by place.

    python -m scripts.audit.limits [FILE|FOLDER]...

Prints what is too large, a line each; exit code 1 for any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES, FUNCTION_LINES, POSITIONAL = 400, 40, 6
FOLDERS = ("taso_py", "scripts", "tests")


def too_large(path: Path) -> Iterator[str]:
    """What is beyond a limit in a file of Python."""
    text = path.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > FILE_LINES:
        yield f"{path}:1: {lines} lines, at most {FILE_LINES}: split the file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES}: split it"
        elif isinstance(node, ast.ClassDef) and (count := _positional_fields(node)) > POSITIONAL:
            yield f"{path}:{node.lineno}: {node.name} takes {count} fields by place, at most {POSITIONAL}: kw_only"


def _positional_fields(node: ast.ClassDef) -> int:
    """How many fields the constructor of a dataclass takes by place; zero for other classes."""
    decorators = [ast.unparse(d) for d in node.decorator_list]
    if not any(d.startswith("dataclass") for d in decorators) or any("kw_only=True" in d for d in decorators):
        return 0
    count = 0
    for field in (f for f in node.body if isinstance(f, ast.AnnAssign)):
        annotation, default = ast.unparse(field.annotation), "" if field.value is None else ast.unparse(field.value)
        if annotation.endswith("KW_ONLY"):
            break
        count += not ("ClassVar" in annotation or "init=False" in default or "kw_only=True" in default)
    return count


def main(names: list[str]) -> int:
    """Looks at the files, and at all below the folders."""
    roots = map(Path, names or FOLDERS)
    files = [file for root in roots for file in (sorted(root.rglob("*.py")) if root.is_dir() else [root])]
    found = [line for file in files for line in too_large(file)]
    print("\n".join(found) or f"{len(files)} files within their limits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

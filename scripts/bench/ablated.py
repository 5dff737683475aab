"""`superopt` without one of its parts, so that a bench shows what that part is worth.

    python -m scripts.bench.ablated tidying optimize model.onnx -o out.onnx
    python -m scripts.bench.bench NAMES --tools without-tidying --tools without-bundles

Only the search loses the part: what it finds is checked and confirmed as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import taso_py.cli

_SEARCHING, _SELECTING, _PIPELINE = "taso_py.run.searching", "taso_py.run.selecting", "taso_py.run.pipeline"


def _returning(target: str, value: object) -> Callable[[], AbstractContextManager[Any]]:
    """A function that does nothing but return a value."""
    return partial(patch, target, lambda *_, **__: value)


PATCHES: Mapping[str, Sequence[Callable[[], AbstractContextManager[Any]]]] = {
    "tidying": (_returning(f"{_SEARCHING}.without_idle_nodes", None), _returning(f"{_SEARCHING}.removing", [])),
    "bundles": (partial(patch, f"{_SELECTING}.BUNDLES", {}),),
    "selection": (_returning(f"{_PIPELINE}.selected", []),),
    "whole-models": (_returning(f"{_SEARCHING}._selection", None),),
}
"""Parts that are functions or tables: what only removes, bundles of rules, the selection of moves after the search, and
all timing of whole models before the race."""
OPTIONS: Mapping[str, tuple[str, ...]] = {"places": ("--cost", "roofline"), "alpha": ("--alpha", "1")}
"""Parts that an option takes away: all timing during the search, of whole models too, which only what it found is then;
and the patience with states that cost more than the best."""
PARTS = (*PATCHES, *OPTIONS)


@contextmanager
def without(part: str) -> Iterator[None]:
    """While it lasts the program lacks the part."""
    with ExitStack() as stack:
        for taken in PATCHES.get(part, ()):
            stack.enter_context(taken())
        yield


def main(arguments: Sequence[str]) -> int:
    """The exit code of superopt without the part that is named first, with the other arguments; 2 for no such part."""
    part, *rest = arguments or [""]
    if part not in PARTS:
        print(f"{part!r} is no part of the search: name one of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    with without(part):
        return taso_py.cli.main([*rest, *OPTIONS.get(part, ())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

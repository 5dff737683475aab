"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, get_args

import click

from taso_py.options import OrtLevel
from taso_py.progress import Progress

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class EnvOption(click.Option):
    """An option that is also an environment variable: --time-budget and SUPEROPT_TIME_BUDGET.

    click's own prefix would give SUPEROPT_OPTIMIZE_TIME_BUDGET, one name per command.
    """

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        flag = max(self.opts, key=len)
        self.envvar = "SUPEROPT_" + flag.lstrip("-").replace("-", "_").upper()


option = partial(click.option, cls=EnvOption)

json_option = option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")

_RUNTIME = (
    option(
        "--ep",
        default="cpu",
        show_default=True,
        help="Execution provider: any that the installed ORT offers.",
    ),
    option("--ep-option", "ep_options", multiple=True, metavar="K=V", help="Provider option (repeatable)."),
    option("--threads", type=int, help="Threads per session; default: the CPUs this process may use."),
    option(
        "--ort-level",
        type=click.Choice(get_args(OrtLevel)),
        default="all",
        show_default=True,
        help="ONNX Runtime's own graph optimisation level.",
    ),
)
_DATA = (
    option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=SIZES",
        help="Sizes of an input (x=1,3,224,224) or a symbol (batch=1); repeatable. Default: a symbolic first "
        "axis is 1, others 128, the last two of rank 4 are 224.",
    ),
    option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE.npy",
        help="Use this array instead of generated values (repeatable).",
    ),
    option("--seed", type=int, default=0, show_default=True, help="Seed of generated values and choices."),
)


def runtime_options(function: Function) -> Function:
    """--ep, --ep-option, --threads, --ort-level."""
    return _all(_RUNTIME, function)


def data_options(function: Function) -> Function:
    """--shape, --input, --seed."""
    return _all(_DATA, function)


def _all(decorators: tuple[Callable[[Any], Any], ...], function: Function) -> Function:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


@contextmanager
def progress_on_stderr(verbosity: int) -> Iterator[Progress]:
    """A live display when stderr is a terminal, plain lines otherwise; warnings only at -1."""
    from taso_py.report.progress import LiveProgress, PlainProgress

    if verbosity < 0 or not sys.stderr.isatty():
        yield PlainProgress(verbosity=verbosity)
        return
    from rich.console import Console

    with LiveProgress(Console(stderr=True), verbosity=verbosity) as progress:
        yield progress

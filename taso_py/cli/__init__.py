"""The command line: arguments -> one library call -> one exit code.

Commands import the library inside their bodies, so that ``superopt --help`` stays fast.
"""

from __future__ import annotations

import click

from taso_py.cli.apply import apply
from taso_py.cli.cache import cache
from taso_py.cli.certify import certify
from taso_py.cli.command import CommandGroup
from taso_py.cli.completion import completion
from taso_py.cli.config import config
from taso_py.cli.eps import eps
from taso_py.cli.generate import generate
from taso_py.cli.models import bench, check, diff, inspect
from taso_py.cli.optimize import optimize
from taso_py.cli.outcome import EXIT_CODES, exit_code_of
from taso_py.cli.rules import rules
from taso_py.cli.schema import schema
from taso_py.cli.verify import verify
from taso_py.version import VERSION

__all__ = ["main", "superopt"]


@click.group(cls=CommandGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="superopt")
def superopt() -> None:
    """Finds a faster ONNX model that computes the same function, checks it and measures it.

    Every option can also be set as an environment variable, for example SUPEROPT_TIME_BUDGET=60, and in superopt.toml:
    `superopt config` tells what counts.
    """


for command in (
    *(optimize, apply, certify, bench, check, diff, inspect, eps, rules, verify, generate, cache, schema, config),
    completion,
):
    superopt.add_command(command)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; every error becomes one line on stderr."""
    return exit_code_of(superopt, arguments)

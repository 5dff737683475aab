"""Which providers `--ep auto`, or a list, lets race, and where each of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from taso_py.backend.interpreters import absolute
from taso_py.backend.protocol import CPU, WorkerConfig
from taso_py.errors import RuntimeMissingError, WorkerError
from taso_py.options import Options
from taso_py.options.providers import provider_name
from taso_py.options.spelling import spelled
from taso_py.options.text import demand
from taso_py.providers.choosing import interpreter_of, providers_of, worker_config

_REMOTE = "AzureExecutionProvider"
"""Sends what it runs to a service in the network."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A provider, and the options of a run on it alone."""

    options: Options
    config: WorkerConfig


@dataclass(frozen=True, slots=True)
class Contenders:
    """The baseline first; ``left_out`` says of environments why they are not looked into."""

    all: tuple[Contender, ...]
    left_out: tuple[str, ...] = ()


def contenders(options: Options) -> Contenders:
    """Each provider in our own environment if that has it, else in the first of the others that does.

    RuntimeMissingError for a provider that is named and is nowhere; UsageError for options that only one can mean.
    """
    for name in ("ep_options", "ep_library"):
        demand(not getattr(options, name), f"{spelled(name)} is for one provider: name it with {spelled('ep')}")
    demand(options.race, f"{spelled('ep', options.ep)} needs the race: name one provider where nothing is timed")
    if options.ep.lower() == "auto":
        left_out: list[str] = []
        places = dict[str, str | None]()
        for name, python in _everything(options, left_out):
            places.setdefault(name, python)
        return Contenders(tuple(_contender(options, *item) for item in places.items()), tuple(left_out))
    names = dict.fromkeys(provider_name(text.strip()) for text in options.ep.split(",") if text.strip())
    demand(bool(names), f"{spelled('ep', options.ep)} names no provider: write them as in cpu,openvino")
    return Contenders(tuple(_contender(options, name, _place(name, options)) for name in names))


def at_home(options: Options) -> Contenders:
    """The CPU provider of our own environment alone, for which nothing has to be looked up."""
    return Contenders((_contender(options, CPU, None),))


def _everything(options: Options, left_out: list[str]) -> Iterator[tuple[str, str | None]]:
    """Every provider of every environment; the CPU's of our own is the first."""
    yield CPU, None
    for python in (None, *(str(absolute(path)) for path in options.ep_python)):
        try:
            yield from ((name, python) for name in providers_of(python) if name != _REMOTE)
        except (RuntimeMissingError, WorkerError) as error:
            if python is None:
                raise
            left_out.append(str(error))


def _place(name: str, options: Options) -> str | None:
    if name in providers_of(None):
        return None
    if not options.ep_python:
        found = ", ".join(providers_of(None))
        raise RuntimeMissingError(
            f"execution provider {name} is not here ({found}): superopt eps tells what would help"
        )
    python = interpreter_of(name, options.ep_python)
    assert python is not None
    if name not in providers_of(python):
        raise RuntimeMissingError(f"execution provider {name} is not in {python}: superopt eps tells what it has")
    return python


def _contender(options: Options, name: str, python: str | None) -> Contender:
    alone = replace(options, ep=name, ep_python=() if python is None else (Path(python),))
    return Contender(alone, worker_config(alone))

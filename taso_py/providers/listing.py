"""Every execution provider that can be reached from here, and why one cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from taso_py.backend.client import Worker
from taso_py.backend.interpreters import absolute, described
from taso_py.backend.protocol import Device, Offer, WorkerConfig
from taso_py.backend.runtime import available_threads, require_runtime
from taso_py.errors import ModelError, RuntimeMissingError, WorkerError
from taso_py.options.providers import settled_options, short_name
from taso_py.options.spelling import spelled
from taso_py.providers.probe import small_probe

Origin = Literal["built in", "plugin", "not installed"]

_START_S = 60.0
"""How long a provider may take to run a product of two small matrices for the first time."""
_OWN_ENVIRONMENT = "python3 -m venv {folder} && {folder}/bin/pip install numpy {distribution}"
_DISTRIBUTIONS = {"OpenVINOExecutionProvider": "onnxruntime-openvino", "CUDAExecutionProvider": "onnxruntime-gpu"}
"""Providers that are worth knowing of where they are missing, and what brings them."""
_REMOTE = {"AzureExecutionProvider": "it calls a service in the network"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A Python in which workers run, or would; what would help it is a line for a shell."""

    python: str
    own: bool
    """Whether it is the one that superopt runs in."""
    version: str | None = None
    distribution: str | None = None
    """Which of ONNX Runtime's, as pip calls it."""
    ort_version: str | None = None
    why: str | None = None
    """Why no worker runs there; null where one does."""
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An execution provider in one environment; ``ep`` is what --ep takes."""

    ep: str
    name: str
    """As ONNX Runtime calls it."""
    origin: Origin
    python: str | None
    library: str | None = None
    """Of a plugin: the file that has to be loaded."""
    version: str | None = None
    """The provider's own, where it says one, else ONNX Runtime's."""
    devices: tuple[Device, ...] = ()
    usable: bool
    why: str | None = None
    """Why it cannot be used."""
    advice: str | None = None
    """A line for a shell that would help."""


@dataclass(frozen=True, slots=True)
class Offers:
    """All environments, and all providers in them."""

    environments: tuple[Environment, ...]
    providers: tuple[Provider, ...]

    @property
    def usable(self) -> tuple[Provider, ...]:
        """Those that can run a model."""
        return tuple(one for one in self.providers if one.usable)


def list_providers(pythons: Sequence[Path], libraries: Sequence[Path] = ()) -> Offers:
    """What our own environment and the others have; each provider is tried in a process of its own."""
    environments: list[Environment] = []
    providers: list[Provider] = []
    for python in (None, *pythons):
        environment = _environment(python)
        if environment.why is None:
            environment, found = _providers_in(environment, python, libraries)
            providers += found
        environments.append(environment)
    here = {one.name for one in providers if one.usable}
    providers += [_missing(name, text) for name, text in _DISTRIBUTIONS.items() if name not in here]
    return Offers(tuple(environments), tuple(_without_repeats(providers)))


def _environment(python: Path | None) -> Environment:
    path = Path(sys.executable) if python is None else python
    found = Environment(python=str(path), own=python is None)
    try:
        told = described(path)
        runtime = told.distributions[0] if told.distributions else (None, None)
        version = ".".join(map(str, told.version))
        found = replace(found, version=version, distribution=runtime[0], ort_version=runtime[1])
        if python is None:
            require_runtime()
    except RuntimeMissingError as error:
        said = str(error).removeprefix(spelled("ep_python", absolute(path))).lstrip(": ")
        words, _, line = said.rpartition(": ")
        return replace(found, why=words or said, advice=line if words else None)
    if python is not None and told.fault is not None:
        return replace(found, why=told.fault[0], advice=told.fault[1])
    return found


def _providers_in(
    environment: Environment, python: Path | None, libraries: Sequence[Path]
) -> tuple[Environment, list[Provider]]:
    config = WorkerConfig(threads=available_threads(), python=None if python is None else str(python))
    try:
        with Worker(config) as worker:
            version = worker.ort_version()
            offer = worker.survey(timeout=_START_S)
    except (RuntimeMissingError, WorkerError) as error:
        advice = f"{environment.python} -m pip install --force-reinstall {environment.distribution or 'onnxruntime'}"
        return replace(environment, why=str(error), advice=advice), []
    found = [_built_in(name, offer, environment, python, version) for name in offer.providers]
    named = {str(absolute(one)): one.stem for one in libraries}
    for library, name in (dict(offer.packages) | named).items():
        found += _plugins(library, name, replace(config, library=library), set(offer.providers), environment)
    broken = (_plugin(name, environment, None, why=why) for name, why in offer.broken)
    return environment, [*found, *broken]


def _built_in(name: str, offer: Offer, environment: Environment, python: Path | None, version: str) -> Provider:
    devices = tuple(one for one in offer.devices if one.provider == name)
    config = _config(name, python)
    why = _REMOTE.get(name) or why_not(config)
    return Provider(
        ep=short_name(name), name=name, origin="built in", python=environment.python, version=version,
        devices=devices, usable=why is None, why=why, advice=None if why is None else _advice(name, environment),
    )  # fmt: skip


def _plugins(
    library: str, name: str, config: WorkerConfig, known: set[str], environment: Environment
) -> list[Provider]:
    """What a library adds; one row with its own name, and why, where that is nothing."""
    try:
        with Worker(config) as worker:
            devices = worker.survey(timeout=_START_S).devices
    except (RuntimeMissingError, WorkerError) as error:
        return [_plugin(name, environment, library, why=str(error))]
    added = dict.fromkeys(one.provider for one in devices if one.provider not in known)
    if not added:
        return [_plugin(name, environment, library, why="it offers no device of this machine")]
    return [
        _plugin(
            one, environment, library, tuple(d for d in devices if d.provider == one),
            why=why_not(replace(config, ep=one)),
        )
        for one in added
    ]  # fmt: skip


def _plugin(
    name: str, environment: Environment, library: str | None, devices: tuple[Device, ...] = (), *, why: str | None
) -> Provider:
    return Provider(
        ep=short_name(name), name=name, origin="plugin", python=environment.python, library=library,
        version=next((one.version for one in devices), None), devices=devices, usable=why is None, why=why,
        advice=None if why is None else _line_for(name),
    )  # fmt: skip


def why_not(config: WorkerConfig) -> str | None:
    """Why a provider does not run a product of two small matrices; None where it does."""
    small = small_probe()
    try:
        with Worker(config, timeout=_START_S) as worker:
            places = worker.places(small.model, small.feeds)
    except (ModelError, RuntimeMissingError, WorkerError) as error:
        return str(error)
    return None if places.get(config.ep) else "it starts, but takes no node of a model: others run everything"


def _config(name: str, python: Path | None) -> WorkerConfig:
    threads = available_threads()
    options = tuple(settled_options(name, {}, threads).items())
    return WorkerConfig(name, options, threads, python=None if python is None else str(python))


def _advice(name: str, environment: Environment) -> str | None:
    if name == "CUDAExecutionProvider":
        return f"{environment.python} -m pip install 'onnxruntime-gpu[cuda,cudnn]'"
    return _line_for(name)


def _line_for(name: str) -> str | None:
    """How a provider is had in an environment of its own."""
    known = next((text for full, text in _DISTRIBUTIONS.items() if short_name(full) in name.lower()), None)
    if known is None:
        return None
    return _OWN_ENVIRONMENT.format(folder=f".venv/{known.removeprefix('onnxruntime-')}", distribution=known)


def _missing(name: str, distribution: str) -> Provider:
    return Provider(
        ep=short_name(name), name=name, origin="not installed", python=None, usable=False,
        why=f"{distribution} is in none of these environments", advice=_line_for(name),
    )  # fmt: skip


def _without_repeats(providers: Sequence[Provider]) -> list[Provider]:
    """Without the row that says "not installed" of one that is there and does not start."""
    there = {one.name for one in providers if one.origin != "not installed"}
    return [one for one in providers if one.origin != "not installed" or one.name not in there]

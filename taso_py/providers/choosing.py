"""Where the provider that options ask for runs: in our own environment, or in the first of the others that has it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from taso_py.backend.client import Worker
from taso_py.backend.interpreters import absolute, require_interpreter, runtime_of
from taso_py.backend.protocol import WorkerConfig
from taso_py.backend.runtime import available_threads
from taso_py.errors import RuntimeMissingError, UsageError
from taso_py.options import SessionOptions
from taso_py.options.providers import CPU_PROVIDER, settled_options
from taso_py.options.spelling import spelled
from taso_py.providers.record import ProviderRun


def worker_config(options: SessionOptions) -> WorkerConfig:
    """How the sessions of a worker run that these options ask for.

    RuntimeMissingError where no interpreter that is named has the provider, or one cannot be used at all.
    """
    if options.is_race:
        one = spelled("ep", "cpu")
        raise UsageError(f"{spelled('ep', options.ep)}: only optimize chooses among providers: name one, as in {one}")
    threads = options.threads or available_threads()
    library = None if options.ep_library is None else str(absolute(options.ep_library))
    given = options.ep_options
    if given and options.provider == CPU_PROVIDER and library is None:  # which would ignore them without a word
        said = next(spelled("ep_options", text, key=name) for name, text in given.items())
        raise UsageError(f"{said}: ONNX Runtime's CPU provider has no options: name another with {spelled('ep')}")
    # A plugin knows its own options alone: we do not know which of them make it lossless.
    settled = dict(given) if library is not None else settled_options(options.provider, given, threads)
    return WorkerConfig(
        options.provider,
        tuple(settled.items()),
        threads,
        options.ort_level,
        python=interpreter_of(options.provider, options.ep_python, library),
        library=library,
    )


def run_of(config: WorkerConfig) -> ProviderRun:
    """For whoever makes a session later: what the sessions of a worker are made with; RuntimeMissingError as above."""
    distribution, version = runtime_of(config.python)
    return ProviderRun(
        ep=config.ep, python=config.python, library=config.library, options=dict(config.ep_options),
        threads=config.threads, ort_level=config.ort_level, distribution=distribution, ort_version=version,
    )  # fmt: skip


def interpreter_of(provider: str, pythons: Sequence[Path], library: str | None = None) -> str | None:
    """The first of the interpreters whose ONNX Runtime has the provider; None, our own, where none is named."""
    if not pythons:
        return None
    for python in pythons:
        require_interpreter(python)
    if len(pythons) == 1 or library is not None:  # what it lacks is said when it is asked for
        return str(absolute(pythons[0]))
    for python in pythons:
        if provider in providers_of(str(absolute(python))):
            return str(absolute(python))
    named = ", ".join(map(str, pythons))
    raise RuntimeMissingError(f"execution provider {provider} is in none of {named}: superopt eps tells what they have")


@cache
def providers_of(python: str | None) -> tuple[str, ...]:
    """What is built into the ONNX Runtime of an interpreter; None: of our own."""
    with Worker(WorkerConfig(python=python)) as worker:
        return worker.info().providers

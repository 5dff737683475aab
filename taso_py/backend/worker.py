"""The child process: ``python -m taso_py.backend.worker FD`` serves one parent over an inherited socket.

It owns every ONNX Runtime session, on one global thread pool, because private pools of several sessions spin
against each other and make timings meaningless. It ends when its parent does.
"""

from __future__ import annotations

import gc
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnxruntime as ort

from taso_py.backend import conformance, offered, values
from taso_py.backend.accelerators import Memory, load_libraries, memory_of
from taso_py.backend.blocks import Block, run_block, undelayed_block
from taso_py.backend.kernels import Kernel, kernels_of, nodes_by_provider
from taso_py.backend.protocol import (
    CPU,
    LEVELS,
    Close,
    Conform,
    Describe,
    Feeds,
    Info,
    Open,
    Outputs,
    Places,
    Profile,
    Reference,
    Reply,
    Request,
    Run,
    Signature,
    Survey,
    Time,
    Timings,
    Value,
    WorkerConfig,
    receive,
    send,
)
from taso_py.errors import ModelError, RuntimeMissingError, SuperoptError

_LEVELS = dict(
    zip(
        LEVELS,
        (
            ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
            ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
            ort.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
            ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        ),
        strict=True,
    )
)

_MOST_DELAYED = 3
"""Rounds that may not count for each that should."""
_LEAST_PROFILED, _MOST_PROFILED = 5, 200
"""Runs of a profile: a million events are the most that ONNX Runtime keeps."""

# "/onnxruntime_src/onnxruntime/core/x.cc:12 void f(const Y&) Message": users need the message only.
_SOURCE_PLACE = re.compile(r"/onnxruntime(?:_src)?/\S+:\d+ .*?\) ")
_MAKES_PROVIDER = "CreateExecutionProvider"
"""Part of the place in ONNX Runtime's source that an error names which a provider, and no model, is the reason of."""


class Host:
    """The sessions of one worker, and one method per request."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.sessions: dict[int, tuple[ort.InferenceSession, Memory]] = {}
        self.opened = 0
        ort.set_default_logger_severity(4)
        if not config.denormal_as_zero:
            ort.set_global_thread_pool_sizes(config.threads, 1)
        self.missing = load_libraries(ort, config.ep)
        if config.library is not None:  # makes ONNX Runtime's environment, which the pool has to be part of
            _loaded(config.library)

    def info(self) -> Info:
        return Info(ort.__version__, tuple(ort.get_available_providers()), os.getpid())

    def answer(self, request: Request) -> Any:
        """Dispatch one request; what it raises is sent back by name."""
        match request:
            case Open():
                return self.open(request)
            case Close(session):
                del self.sessions[session]
                return None
            case Describe(session):
                return _signature(self.sessions[session][0])
            case Run(session, feeds, outputs):
                return self.run(session, feeds, outputs)
            case Time():
                return self.time(request)
            case Profile():
                return self.profile(request)
            case Survey() | Places() | Conform():
                return self.of_provider(request)
            case Reference(model, feeds, noise):
                from taso_py.backend import reference

                return reference.evaluate(model, feeds, noise)

    def of_provider(self, request: Survey | Places | Conform) -> Any:
        """What is asked about providers, not about a model."""
        match request:
            case Survey():
                return offered.offer()
            case Places():
                return self.places(request)
            case Conform():
                return conformance.conform(self, request)

    def open(self, request: Open) -> int:
        session = self.created(request, self.options(request))
        self.opened += 1
        self.sessions[self.opened] = (session, self.memory(request.ep))
        return self.opened

    def memory(self, ep: str) -> Memory:
        """Where the tensors of a provider lie."""
        return self.config.memory if ep == self.config.ep else memory_of(ep, {})

    def created(self, request: Open, options: ort.SessionOptions) -> ort.InferenceSession:
        """A session at the provider of the request, which takes part; ModelError or RuntimeMissingError otherwise."""
        providers = self._providers(request.ep, options)
        source = request.model if isinstance(request.model, str) else bytes(request.model)
        further = {"disabled_optimizers": list(request.disabled) or None, "enable_fallback": 0}
        try:
            session = ort.InferenceSession(source, options, providers=providers, **further)
        except Exception as error:
            if _MAKES_PROVIDER in str(error):
                words = f"{request.ep} cannot start: {one_line(error)}: check its options, drivers and libraries"
                raise RuntimeMissingError(words) from error
            raise ModelError(one_line(error)) from error
        active = session.get_providers()
        if request.ep not in active:  # ONNX Runtime falls back silently when a provider cannot start
            raise RuntimeMissingError(
                f"{request.ep} is part of this ONNX Runtime but cannot start (active: {', '.join(active)}): "
                f"check its drivers and libraries{self.missing and f' ({self.missing[:300]})'}"
            )
        return session

    def _providers(self, ep: str, options: ort.SessionOptions) -> list[Any] | None:
        """What a session is given; None for a plugin's provider, which is put into the options."""
        given = dict(self.config.ep_options) if ep == self.config.ep else {}
        available = ort.get_available_providers()
        devices = offered.devices_of(ep) if self.config.library is not None else []
        if devices:
            options.add_provider_for_devices(devices, given)
            return None
        if ep not in available:
            if self.config.library is not None:
                raise RuntimeMissingError(f"{self.config.library} offers no device of {ep} here: see superopt eps")
            raise RuntimeMissingError(
                f"execution provider {ep} is not in this ONNX Runtime {ort.__version__}: "
                f"use one of {', '.join(available)}, or install the distribution that has it"
            )
        return [(ep, given)] if ep == CPU else [(ep, given), CPU]

    def options(self, request: Open) -> ort.SessionOptions:
        """What the configuration and a request ask of a session."""
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = _LEVELS[request.level]
        if self.config.denormal_as_zero:
            # Python can tell only private pools to flush denormals in all their threads; one that stops
            # spinning when its session's run ends does not disturb the next session.
            options.intra_op_num_threads = self.config.threads
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
            options.add_session_config_entry("session.force_spinning_stop", "1")
        else:
            options.use_per_session_threads = False
        if request.base_dir is not None:
            key = "session.model_external_initializers_file_folder_path"
            options.add_session_config_entry(key, request.base_dir)
        return options

    def run(self, number: int, feeds: Feeds, names: tuple[str, ...] | None) -> Outputs:
        session, _ = self.sessions[number]
        try:
            return values.run(session, feeds, names)
        except Exception as error:
            raise ModelError(one_line(error)) from error

    def time(self, request: Time) -> Timings:
        """The seconds of each run; a round that the deadline interrupts is dropped."""
        deadline = time.perf_counter() + request.budget_s
        rounds: list[list[Block]] = []
        delayed = 0
        gc.disable()
        try:
            runs = [self._runner(number, feeds) for number, feeds in request.entries]
            while len(rounds) < request.rounds and delayed < _MOST_DELAYED * request.rounds:
                forward = (len(rounds) + delayed) % 2 == 0
                blocks = [self._block(run, request, deadline) for run in (runs if forward else runs[::-1])]
                whole = [block for block in blocks if block is not None]
                waited = not all(block.counts for block in whole)
                delayed += waited
                if len(whole) < len(blocks):
                    break
                if not waited:
                    rounds.append(whole if forward else whole[::-1])
        except SuperoptError:
            raise
        except Exception as error:
            raise ModelError(one_line(error)) from error
        finally:
            gc.enable()
        seconds = [[block.seconds for block in blocks] for blocks in rounds]
        return Timings(seconds, delayed, [[block.waited for block in blocks] for blocks in rounds])

    def _block(self, run: Callable[[], object], request: Time, deadline: float) -> Block | None:
        if request.warm and time.perf_counter() < deadline:
            run()
        if request.undelayed:
            return undelayed_block(run, request.block_s, deadline, self.config.threads)
        runs = run_block(run, request.block_s, deadline)
        return None if runs is None else Block(runs)

    def profile(self, request: Profile) -> tuple[Kernel, ...]:
        """Kernel times of a model; a first run that makes everything ready is among the slower half of its runs."""
        options = self.options(request.opened)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(request.folder) / "profile")
        session = self.created(request.opened, options)
        run = values.runner(session, request.feeds, self.memory(request.opened.ep))
        try:
            runs = _repeated(run, request.budget_s)
        except Exception as error:
            raise ModelError(one_line(error)) from error
        return kernels_of(Path(session.end_profiling()), runs)

    def places(self, request: Places) -> dict[str, tuple[str, ...]]:
        """The nodes of a model that each provider runs, by name."""
        options = self.options(request.opened)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(request.folder) / "places")
        session = self.created(request.opened, options)
        try:
            values.run(session, request.feeds, None)
        except Exception as error:
            raise ModelError(one_line(error)) from error
        return nodes_by_provider(Path(session.end_profiling()))

    def _runner(self, number: int, feeds: Feeds) -> Callable[[], object]:
        session, memory = self.sessions[number]
        return values.runner(session, feeds, memory)


def _repeated(run: Callable[[], object], seconds: float) -> int:
    """Runs for so long, a few times at least and not for ever; how often."""
    end = time.perf_counter() + seconds
    count = 0
    while count < _LEAST_PROFILED or (count < _MOST_PROFILED and time.perf_counter() < end):
        run()
        count += 1
    return count


def _signature(session: ort.InferenceSession) -> Signature:
    return Signature(
        tuple(Value(arg.name, arg.type, tuple(arg.shape)) for arg in session.get_inputs()),
        tuple(Value(arg.name, arg.type, tuple(arg.shape)) for arg in session.get_outputs()),
    )


def _loaded(library: str) -> None:
    """Load a plugin library; RuntimeMissingError where that fails."""
    try:
        offered.load_library(library)
    except Exception as error:
        raise RuntimeMissingError(f"the provider library {library} cannot be loaded: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """ONNX Runtime's message without its error-code prefix, on one line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    text = _SOURCE_PLACE.sub("", text)
    return text if len(text) <= 300 else text[:297] + "..."


def _end_with_parent(connection: Connection) -> None:
    """Leave as soon as the parent's end of the socket closes, even in the middle of a long run."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    poll.poll()
    os._exit(0)


def main(descriptor: int) -> None:
    """Serve requests until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(descriptor)
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    try:
        host = Host(receive(connection))
    except RuntimeMissingError as error:  # our parent says it as its own
        send(connection, Reply(str(error), type(error).__name__))
        return
    send(connection, Reply(host.info()))
    while True:
        try:
            request = receive(connection)
        except (EOFError, OSError):
            os._exit(0)
        try:
            reply = Reply(host.answer(request))
        except SuperoptError as error:
            reply = Reply(str(error), type(error).__name__)
        except Exception as error:  # noqa: BLE001 - our bug or ORT's; the parent reports it and lives on
            reply = Reply(f"{type(error).__name__}: {one_line(error)}", "WorkerError")
        send(connection, reply)


if __name__ == "__main__":
    main(int(sys.argv[1]))

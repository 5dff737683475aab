"""The parent's side of a worker process.

A crash or a hang of the child costs the request that met it (``WorkerError``); the next request starts a fresh
child and opens again what it needs. A child that was killed or refused memory may have suffered from its neighbours,
so what opens or runs a model is asked of a second one. Not thread-safe: one request at a time.
"""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from taso_py.backend.interpreters import runtime_of
from taso_py.backend.kernels import Kernel
from taso_py.backend.protocol import (
    LEVELS,
    Close,
    Conform,
    Describe,
    Feeds,
    Finding,
    Info,
    ModelRef,
    Offer,
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
    WorkerConfig,
    receive,
    send,
)
from taso_py.backend.starting import Child, started
from taso_py.errors import ModelError, RuntimeMissingError, UsageError, WorkerError, WorkerTimeoutError
from taso_py.files import require_text_name
from taso_py.folders import temporary_folder
from taso_py.paths import why_no_file
from taso_py.processes.isolated import LONGEST_S, ending, killed_after, last_words
from taso_py.stop import is_hurried

if TYPE_CHECKING:
    import numpy as np

    Samples = list[np.ndarray[Any, np.dtype[np.float64]]]

_MOMENT_S, _FAREWELL_S, _LEAST_START_S = 1.0, 2.0, 5.0


class Worker:
    """ONNX Runtime in a child process, started at the first request; a context manager.

    Every request takes ``timeout`` in seconds (default: the worker's); a child that exceeds it is killed.  None is
    waited for beyond ``until``, a time.monotonic() value, but for a moment.
    Raises RuntimeMissingError (no ONNX Runtime, no such provider), ModelError (ONNX Runtime refuses the model
    or the run), WorkerError (the child died or hung).
    """

    def __init__(self, config: WorkerConfig, *, timeout: float = 600.0) -> None:
        if config.ort_level not in LEVELS:
            raise UsageError(f"unknown ORT level {config.ort_level!r}: use one of {', '.join(LEVELS)}")
        if config.threads < 1:
            raise UsageError(f"threads must be at least 1, not {config.threads}")
        self.config = config
        self.timeout = timeout
        self.until = math.inf
        self.restarts = 0
        self._child: Child | None = None
        self._opened: dict[int, tuple[ModelRef, Open]] = {}
        self._next = 1
        self._version: str | None = None

    @contextmanager
    def keeping_to(self, until: float) -> Iterator[None]:
        """Within the block no request is waited for beyond this time.monotonic() value, but for a moment."""
        outer, self.until = self.until, min(self.until, until)
        try:
            yield
        finally:
            self.until = outer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(at_once=is_hurried(kind))

    def info(self) -> Info:
        """ONNX Runtime's version and providers, and the child's process id."""
        return self._alive().info

    def ort_version(self) -> str:
        """ONNX Runtime's version; starts no child."""
        return self._version or runtime_of(self.config.python)[1]

    def open(
        self,
        model: ModelRef | Path | bytes,
        *,
        level: str | None = None,
        ep: str | None = None,
        disabled: Sequence[str] = (),
        timeout: float | None = None,
    ) -> int:
        """Create a session (level and ep default to the configuration's) and return its handle."""
        ref = ModelRef.of(model)
        request = self._request(ref, level, ep, disabled)
        handle = self._next
        self._next += 1
        self._twice(lambda: self._create(handle, ref, request, timeout))
        self._opened[handle] = (ref, request)
        return handle

    def close(self, handle: int) -> None:
        """Free the session; closing twice is allowed."""
        if self._opened.pop(handle, None) is None or self._child is None:
            return
        session = self._child.sessions.pop(handle, None)
        if session is not None:
            self._call(Close(session))

    def signature(self, handle: int) -> Signature:
        """Inputs and outputs of the session as ONNX Runtime reports them."""
        return cast(Signature, self._call(Describe(self._session(handle))))

    def run(
        self,
        handle: int,
        feeds: Feeds,
        outputs: Sequence[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Outputs:
        """Outputs by name: arrays, lists of arrays for sequences, None for an empty optional."""
        wanted = None if outputs is None else tuple(outputs)
        try:
            answer = self._twice(lambda: self._call(Run(self._session(handle), feeds, wanted), timeout))
        except ModelError as error:
            raise ModelError(f"{self._name(handle)}: ONNX Runtime cannot run it: {error}") from None
        return cast(Outputs, answer)

    def time_rounds(
        self,
        handles: Sequence[int],
        feeds: Sequence[Feeds],
        *,
        rounds: int = 6,
        block_s: float = 0.25,
        deadline: float | None = None,
        warm: bool = True,
    ) -> list[Samples]:
        """Seconds of each run as ``result[round][model]``: per model one warm run, if wanted, then ``block_s`` of runs.

        Odd rounds visit the models in reverse. ``deadline`` is a time.monotonic() value; a round that it
        interrupts is dropped, so fewer may return; without it rounds may take the worker's timeout each. Entries
        that share one feeds object share its memory too.
        """
        return cast("list[Samples]", self._timed(handles, feeds, deadline, Time((), rounds, block_s, 0, warm)).rounds)

    def time_undelayed(
        self, handles: Sequence[int], feeds: Sequence[Feeds], *, rounds: int, block_s: float, deadline: float,
        warm: bool = True,
    ) -> Timings:  # fmt: skip
        """Like `time_rounds`, of runs that never waited for a CPU, or little; others are made up for if possible."""
        return self._timed(handles, feeds, deadline, Time((), rounds, block_s, 0, warm, undelayed=True))

    def _timed(self, handles: Sequence[int], feeds: Sequence[Feeds], deadline: float | None, like: Time) -> Timings:
        entries = tuple((self._session(handle), feed) for handle, feed in zip(handles, feeds, strict=True))
        budget = like.rounds * self.timeout if deadline is None else deadline - time.monotonic()
        try:
            timed = self._call(replace(like, entries=entries, budget_s=budget), budget + self.timeout)
        except ModelError as error:
            names = ", ".join(dict.fromkeys(self._name(handle) for handle in handles))
            raise ModelError(f"{names}: ONNX Runtime cannot run it: {error}") from None
        return cast(Timings, timed)

    def time_blocks(
        self,
        handles: Sequence[int],
        feeds: Sequence[Feeds],
        *,
        rounds: int = 6,
        block_s: float = 0.25,
        deadline: float | None = None,
        warm: bool = True,
    ) -> list[list[float]]:
        """Median seconds of each block, as ``result[round][model]``; arguments as for `time_rounds`."""
        timed = self.time_rounds(handles, feeds, rounds=rounds, block_s=block_s, deadline=deadline, warm=warm)
        return [[_median(block) for block in blocks] for blocks in timed]

    def profile(
        self, model: ModelRef | Path | bytes, feeds: Feeds, *, budget_s: float = 0.5, timeout: float | None = None
    ) -> tuple[Kernel, ...]:
        """Seconds of each kernel of the optimised graph, from runs of ``budget_s`` seconds in a session of its own."""
        ref = ModelRef.of(model)
        with temporary_folder() as folder:
            request = Profile(self._request(ref), feeds, budget_s, str(folder.path))
            try:
                return cast("tuple[Kernel, ...]", self._call(request, timeout))
            except ModelError as error:
                raise ModelError(f"{ref.name}: ONNX Runtime cannot profile it: {error}") from None

    def survey(self, *, timeout: float | None = None) -> Offer:
        """Providers and devices, those of the configuration's library included."""
        return cast(Offer, self._call(Survey(), timeout))

    def places(
        self, model: ModelRef | Path | bytes, feeds: Feeds, *, timeout: float | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        """The nodes of the optimised graph that each provider runs, by name, at the configuration's provider."""
        ref = ModelRef.of(model)
        with temporary_folder() as folder:
            request = Places(self._request(ref), feeds, str(folder.path))
            return cast("Mapping[str, tuple[str, ...]]", self._call(request, timeout))

    def conform(
        self, check: str, model: ModelRef | Path | bytes, feeds: Feeds, *, timeout: float | None = None
    ) -> Finding:
        """What a check of `taso_py.backend.conformance` finds at the configuration's provider."""
        return cast(Finding, self._call(Conform(check, self._request(ModelRef.of(model)), feeds), timeout))

    def reference(
        self,
        model: ModelRef | Path | bytes,
        feeds: Feeds,
        *,
        noise: int | None = None,
        timeout: float | None = None,
    ) -> Outputs:
        """Outputs of the model evaluated in float64 by the onnx package; ModelError when it cannot.

        ``noise`` is the seed of errors of rounding, as float32 makes them, in all that is computed; None: none.
        """
        source = ModelRef.of(model).model
        request = Reference(str(source.absolute()) if isinstance(source, Path) else source, feeds, noise)
        return cast(Outputs, self._call(request, timeout))

    def stop(self, *, at_once: bool = False) -> None:
        """End the child, if there is one, by all means if ``at_once``; a later request starts another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.connection.close()
        try:
            child.process.wait(0 if at_once else _FAREWELL_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
        child.stderr.close()

    def _twice(self, ask: Callable[[], Any]) -> Any:
        """What is asked; of a fresh child once more where it failed for a reason that need not be the model's."""
        try:
            return ask()
        except (ModelError, WorkerError) as error:
            if _NEIGHBOURS.search(str(error)) is None:
                raise
            self._kill()
            return ask()

    def _session(self, handle: int) -> int:
        """The child's number for a handle, opened again when the child that knew it is gone."""
        if handle not in self._opened:
            raise WorkerError(f"session {handle} is not open: open the model first")
        sessions = self._alive().sessions
        if handle not in sessions:
            self._create(handle, *self._opened[handle], None)
            sessions = self._alive().sessions
        return sessions[handle]

    def _request(
        self, ref: ModelRef, level: str | None = None, ep: str | None = None, disabled: Sequence[str] = ()
    ) -> Open:
        _require_file(ref)
        level = level or self.config.ort_level
        if level not in LEVELS:
            raise UsageError(f"unknown ORT level {level!r}: use one of {', '.join(LEVELS)}")
        return Open(
            str(ref.model.absolute()) if isinstance(ref.model, Path) else ref.model,
            None if ref.base_dir is None else str(ref.base_dir.absolute()),
            level,
            ep or self.config.ep,
            (*ref.disabled, *disabled),
        )

    def _create(self, handle: int, ref: ModelRef, request: Open, timeout: float | None) -> None:
        child = self._alive()
        model = request.model if isinstance(request.model, str) else pickle.PickleBuffer(request.model)
        sent = Open(model, request.base_dir, request.level, request.ep, request.disabled)
        try:
            child.sessions[handle] = cast(int, self._call(sent, timeout))
        except ModelError as error:
            text = f"{ref.name}: ONNX Runtime cannot load it: {error}{_advice(str(error))}"
            raise ModelError(text) from None

    def _name(self, handle: int) -> str:
        return self._opened[handle][0].name

    def _call(self, request: Request, timeout: float | None = None) -> Any:
        """Send one request and return the reply's value; any failure to do so ends the child."""
        child = self._alive()
        left = max(_MOMENT_S, self.until - time.monotonic())
        limit = min(self.timeout if timeout is None else timeout, left, LONGEST_S)
        end, doing = time.monotonic() + limit, type(request).__name__.lower()
        try:
            with killed_after(child.process, limit):
                send(child.connection, request)
                if not child.connection.poll(limit):
                    raise TimeoutError
                reply = cast(Reply, receive(child.connection))
        except (EOFError, OSError) as error:
            if not isinstance(error, TimeoutError) and time.monotonic() < end:
                raise WorkerError(self._bury(doing)) from None
            self._kill()
            raise WorkerTimeoutError(
                f"worker did not answer {doing} within {limit:.3g} s and was stopped: "
                "allow more time or use a smaller input"
            ) from None
        except BaseException:  # Ctrl-C: the late reply must not answer the next request
            self._kill()
            raise
        if reply.error is not None:
            raise _ERRORS[reply.error](reply.value)
        return reply.value

    def _alive(self) -> Child:
        if self._child is None:
            self._child = started(self.config, max(_LEAST_START_S, self.until - time.monotonic()))
            self._version = self._child.info.ort_version
        return self._child

    def _kill(self) -> None:
        if self._child is not None:
            self._child.process.kill()
            self.stop()
            self.restarts += 1

    def _bury(self, doing: str) -> str:
        """One line on how the child died; forgets it."""
        child = self._child
        assert child is not None
        try:
            code = child.process.wait(10)
        except subprocess.TimeoutExpired:
            child.process.kill()
            code = child.process.wait()
        tail = last_words(child.stderr)
        self.stop()
        self.restarts += 1
        return f"worker died ({ending(code)}) during {doing}; it is restarted for the next request{tail}"


_NEIGHBOURS = re.compile(r"bad_alloc|bad allocation|allocate memory|Unable to allocate|MemoryError|\(SIGKILL\)")
"""How ONNX Runtime, C++, NumPy and Python say that they were refused memory, and how a system without any ends one."""

_ERRORS: dict[str, type[ModelError | RuntimeMissingError | WorkerError]] = {
    "ModelError": ModelError,
    "RuntimeMissingError": RuntimeMissingError,
    "WorkerError": WorkerError,
}


def _require_file(ref: ModelRef) -> None:
    """`ModelError` for a model in no file, or in one that ONNX Runtime cannot open by its name."""
    if isinstance(ref.model, Path) and (why := why_no_file(ref.model)) is not None:
        raise ModelError(f"{ref.model}: {why}: give the path of an ONNX file")
    place = ref.model if isinstance(ref.model, Path) else ref.base_dir
    if place is not None:
        require_text_name(place)


def _advice(message: str) -> str:
    if "*guarantees* support for models stamped" in message:
        return ": convert it to an older opset or install a newer ONNX Runtime"
    return ""


def _median(samples: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    import numpy as np

    return float(np.median(samples))

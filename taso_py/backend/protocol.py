"""What the parent and the worker process say to each other, and how it travels.

A message is a pickle; large buffers travel beside it, so that no side holds a second copy of a tensor or
model. Both ends are our own processes on a private socket pair, so unpickling is safe.
"""

from __future__ import annotations

import pickle
from dataclasses import KW_ONLY, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from taso_py.backend.accelerators import Memory, memory_of

CPU = "CPUExecutionProvider"
LEVELS = ("disable", "basic", "extended", "layout", "all")

# Input name -> array; a list of arrays for a sequence, None for an absent optional.
Feeds: TypeAlias = dict[str, Any]
Outputs: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How sessions run; one worker process serves exactly one such configuration."""

    ep: str = CPU
    ep_options: tuple[tuple[str, str], ...] = ()
    threads: int = 1
    ort_level: str = "all"
    denormal_as_zero: bool = False
    _: KW_ONLY
    python: str | None = None
    """Path of the interpreter that the process runs under; None: our own."""
    library: str | None = None
    """A plugin library of providers that is loaded first."""

    @property
    def memory(self) -> Memory:
        """Where the provider's tensors lie."""
        return memory_of(self.ep, dict(self.ep_options))

    @property
    def tells_kernel_times(self) -> bool:
        """Whether the times in ONNX Runtime's profile are those of the kernels.

        On a device of its own, kernels are started and not awaited: the profile tells how long starting them took.
        """
        return self.memory.is_host


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model to open: a file, or serialized bytes whose external data lies in ``base_dir``."""

    name: str
    model: Path | bytes
    base_dir: Path | None = None
    disabled: tuple[str, ...] = ()  # names of ONNX Runtime optimizers to switch off

    @staticmethod
    def of(model: ModelRef | Path | bytes, name: str | None = None) -> ModelRef:
        """The reference for a path (named by its file name) or for bytes (named "model")."""
        if isinstance(model, ModelRef):
            return model
        return ModelRef(name or (model.name if isinstance(model, Path) else "model"), model)


@dataclass(frozen=True, slots=True)
class Value:
    """One input or output as ONNX Runtime reports it, e.g. ``Value("x", "tensor(float)", ("batch", 3))``."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of an open session, in graph order."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Info:
    """What the worker found: ONNX Runtime's version and the providers this build offers."""

    ort_version: str
    providers: tuple[str, ...]
    pid: int


# Requests. ``session`` is the worker's own number for an open session.
@dataclass(frozen=True, slots=True)
class Open:
    model: Any  # str path, or a buffer
    base_dir: str | None
    level: str
    ep: str
    disabled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Close:
    session: int


@dataclass(frozen=True, slots=True)
class Describe:
    session: int


@dataclass(frozen=True, slots=True)
class Run:
    session: int
    feeds: Feeds
    outputs: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Time:
    """In each round one block per entry, after a warm run if wanted; the rounds that fit into ``budget_s``.

    Odd rounds visit the entries in reverse. ``undelayed``: runs that waited for a CPU do not count, nor rounds in
    which some entry has no others.
    """

    entries: tuple[tuple[int, Feeds], ...]
    rounds: int
    block_s: float
    budget_s: float
    warm: bool
    undelayed: bool = False


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of each run as ``rounds[round][entry]``, and how many rounds did not count."""

    rounds: list[list[Any]]
    delayed: int
    waited: list[list[float]]
    """The part of each run of a block, at most, by which it may be longer because its threads waited for a CPU."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Kernel times of a model in a session of its own, from as many runs as fit into ``budget_s``, at least five."""

    opened: Open
    feeds: Feeds
    budget_s: float
    folder: str
    """Where ONNX Runtime may write."""


@dataclass(frozen=True, slots=True)
class Device:
    """What an execution provider offers to run on; ``provider`` is its name in ONNX Runtime."""

    provider: str
    kind: str
    """CPU, GPU or NPU."""
    vendor: str
    version: str | None
    """Of the provider, where it says one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What an ONNX Runtime offers, the configuration's library included."""

    providers: tuple[str, ...]
    """Built in."""
    devices: tuple[Device, ...]
    packages: tuple[tuple[str, str], ...]
    """(library, provider) of the plugins that are installed as packages; they are not loaded."""
    broken: tuple[tuple[str, str], ...]
    """Such packages that do not say what they should, and why."""


@dataclass(frozen=True, slots=True)
class Survey:
    """List what is offered."""


@dataclass(frozen=True, slots=True)
class Places:
    """Run a model once and tell the nodes that each provider ran, by its name."""

    opened: Open
    feeds: Feeds
    folder: str
    """Where ONNX Runtime may write."""


@dataclass(frozen=True, slots=True)
class Conform:
    """Make one check of `taso_py.backend.conformance`, of the configuration's provider."""

    check: str
    opened: Open
    feeds: Feeds


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check of a provider found; ``passed`` is None where there is nothing to check."""

    passed: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Evaluate in float64 with the onnx package's own evaluator."""

    model: Any
    feeds: Feeds
    noise: int | None = None
    """The seed of errors of rounding to make."""


Request: TypeAlias = Open | Close | Describe | Run | Time | Profile | Survey | Places | Conform | Reference


@dataclass(frozen=True, slots=True)
class Reply:
    """``error`` is None, or the name of the exception class in ``taso_py.errors`` that ``value`` explains."""

    value: Any
    error: str | None = None


def send(connection: Connection, message: object) -> None:
    """Write one message; raises OSError when the other side is gone."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    connection.send_bytes(pickle.dumps((head, [part.nbytes for part in raw])))
    for part in raw:
        if part.nbytes:
            connection.send_bytes(part)


def receive(connection: Connection) -> Any:
    """Read one message; raises EOFError or OSError when the other side is gone."""
    import numpy as np

    head, sizes = pickle.loads(connection.recv_bytes())  # noqa: S301 - see the module docstring
    buffers = []
    for size in sizes:
        buffer = np.empty(size, dtype=np.uint8)
        if size:
            connection.recv_bytes_into(buffer.data)
        buffers.append(buffer)
    return pickle.loads(head, buffers=buffers)  # noqa: S301

"""One target in a process of its own: `python -m scripts.audit.reading.running JOB`, JOB being JSON.

The input that is being read lies in the folder, so that whoever started this process has it when the process dies.
Everything else that is found is written there as it is found.  With atheris inputs are led by what they cover, else
each is a mutation of a seed: the k-th of a number is always the same.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scripts.audit.reading.targets import Begun, Target

INPUT, FINDINGS, COUNT = "current", "findings.jsonl", "count.json"
LONGEST_LINE = 2000
LARGEST_INPUT = 2**18
_PACKAGE = "taso_py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process does: inputs number ``first`` and on, for so many seconds of processor time."""

    target: str
    folder: str
    seconds: float
    seed: int
    first: int = 0
    guided: bool = False
    extra: str | None = None
    replay: str | None = None
    """A file to read once instead."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What should not be, once for each class; ``input`` is the file's name in the folder."""

    target: str
    fault: str
    line: str
    input: str
    trace: str


class TooSlowError(BaseException):
    """More processor time than a reader may take: no `except Exception` of it stops this one."""


@dataclass(slots=True, kw_only=True)
class Run:
    """The state of one process."""

    job: Job
    target: Target
    begun: Begun
    folder: Path
    count: int = 0
    returned: int = 0
    faults: set[str] = field(default_factory=set)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = _spent()

    def one(self, data: bytes) -> None:
        """Reads one input, and writes down what is wrong with that."""
        self.count += 1
        self.tell()  # with the input: this process may die of it
        (self.folder / INPUT).write_bytes(data)
        path = self.folder / "input" / self.target.file
        path.write_bytes(data)
        try:
            with _limited(self.target.patience_s):
                self.begun.read(path)
            self.returned += 1
        except BaseException as error:  # noqa: BLE001 - any other way to end is what is looked for
            self._judge(error, data)

    def _judge(self, error: BaseException, data: bytes) -> None:
        from taso_py.errors import SuperoptError

        if isinstance(error, click.ClickException):
            return
        if isinstance(error, SuperoptError) and error.exit_code != SuperoptError.exit_code:
            line = str(error)
            fit = bool(line.strip()) and "\n" not in line and len(line) <= LONGEST_LINE
            if fit:
                return
            error = AssertionError(f"no clear line: {line[:300]!r} ... of {len(line)} characters")
        fault = f"{type(error).__name__} at {_place(error)}"
        if fault in self.faults:
            return
        self.faults.add(fault)
        name = f"finding-{os.getpid()}-{len(self.faults)}"
        (self.folder / name).write_bytes(data)
        said = " ".join(f"{error}".split())[:300]
        found = Finding(self.target.name, fault, said, name, "".join(traceback.format_exception(error))[-6000:])
        with (self.folder / FINDINGS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found)) + "\n")

    def tell(self) -> None:
        """Writes down how far it has come."""
        told = {"count": self.count, "returned": self.returned, "seconds": _spent() - self.began}
        (self.folder / COUNT).write_text(json.dumps(told), encoding="utf-8")

    def done(self) -> bool:
        return _spent() - self.began >= self.job.seconds

    def blind(self) -> None:
        """The inputs of this seed, one after the other."""
        number = self.job.first
        while not self.done():
            random = Random(f"{self.job.seed} {self.job.target} {number}")
            seed = random.choice(self.begun.seeds)
            self.one(self.target.mutate(seed, random, self.begun.seeds)[:LARGEST_INPUT] if number else seed)
            number += 1

    def guided(self, atheris: Any) -> None:
        """Inputs led by what of the package they reach; ends the process."""

        def mutate(data: bytes, most: int, number: int) -> bytes:
            random = Random(number)
            if random.random() < 0.15:
                return bytes(atheris.Mutate(data, most))
            return self.target.mutate(bytes(data), random, self.begun.seeds)[:most]

        def one(data: bytes) -> None:
            self.one(data)
            if self.done():
                self.tell()
                os._exit(0)

        corpus = self.folder / "corpus"
        if not corpus.is_dir():
            corpus.mkdir()
            for number, seed in enumerate(self.begun.seeds):
                (corpus / f"seed{number}").write_bytes(seed)
        number = 1 + Random(f"{self.job.seed} {self.job.first}").randrange(2**31)
        flags = [f"-seed={number}", f"-max_len={LARGEST_INPUT}", "-timeout=600", "-rss_limit_mb=0", "-len_control=0"]
        atheris.Setup(["readers", *flags, str(corpus)], one, custom_mutator=mutate)
        atheris.Fuzz()


def _spent() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _place(error: BaseException) -> str:
    """The deepest line of the package that an error has passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if f"/{_PACKAGE}/" in frame.filename]
    if not frames:
        frames = list(traceback.extract_tb(error.__traceback__))[-1:]
    return f"{frames[-1].filename.rpartition(f'/{_PACKAGE}/')[2]}:{frames[-1].name}" if frames else "?"


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """`TooSlowError` after so much processor time of this process, and again each second after it."""

    def late(*_: object) -> None:
        raise TooSlowError(f"more than {seconds:g} s of processor time")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory(most: int) -> None:
    """So many bytes of address space beyond what is in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _target(name: str) -> Target:
    """One of ours by its name, or anybody's as ``module:name``."""
    module, colon, attribute = name.partition(":")
    if colon:
        found: Target = getattr(importlib.import_module(module), attribute)
        return found
    from scripts.audit.reading.targets import TARGETS

    return TARGETS[name]


def _prepared(job: Job) -> Run:
    from scripts.audit.reading.targets import Ground

    target, folder = _target(job.target), Path(job.folder)
    (folder / "input").mkdir(parents=True, exist_ok=True)
    ground = Ground(folder / "input", Path(job.extra) if job.extra else None)
    run = Run(job=job, target=target, begun=target.begin(ground), folder=folder)
    if target.memory is not None:
        _limit_memory(target.memory)
    return run


def main(job: Job) -> None:
    """Does the job."""
    if job.replay is not None:
        run = _prepared(job)
        run.one(Path(job.replay).read_bytes())
    elif job.guided:
        import atheris

        with atheris.instrument_imports(include=[_PACKAGE]):
            run = _prepared(job)
            run.guided(atheris)
    else:
        run = _prepared(job)
        run.blind()
    run.tell()
    sys.stdout.flush()
    os._exit(0)  # whatever threads and workers are left are not waited for


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))

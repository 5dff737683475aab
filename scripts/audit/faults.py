"""Disturb ``superopt optimize`` at random moments, and look at how it ends and what it leaves.

    python -m scripts.audit.faults model.onnx --moments 50 --jobs 2
    python -m scripts.audit.faults model.onnx --fault "worker killed" --fault SIGTERM

Each run has a TMPDIR, a cache and an output of its own, and the moment is drawn from the time that an undisturbed run
takes.  A run is a finding where its exit code is none that the fault may lead to, where it shows a traceback, lasts
longer than it may, leaves a process or something in TMPDIR or beside the output, or writes an output that
``superopt check`` refuses.  What SIGKILL leaves in TMPDIR the next run there has to remove.
Exits with 1 where there is a finding.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

ANSWER_S = 5.0
"""How long a run may go on after a signal that asks it to end."""
GRACE_S, GRACE_SHARE = 3.0, 0.1
"""What any run may last beyond its budget: so many seconds, or a share of it."""
STARTING_S = 2.0
"""What a process needs before it counts: python starts, and packages are imported."""
ORPHAN_S = 10.0
"""How long the processes of a run that was killed may take to notice."""
HANG_S = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one run, and what lies in it."""

    root: Path

    @property
    def out(self) -> Path:
        return self.root / "out" / "out.onnx"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def cache(self) -> Path:
        return self.root / "cache.sqlite"

    def make(self) -> None:
        for folder in (self.out.parent, self.temporary):
            folder.mkdir(parents=True)


Strike = Callable[[psutil.Process, Place, random.Random], None]


def _to_group(number: int) -> Strike:
    """As a terminal does: to the run and all its processes."""
    return lambda run, place, chance: os.killpg(run.pid, number)


def _to_run(number: int) -> Strike:
    return lambda run, place, chance: run.send_signal(number)


def _to_worker(strike: Callable[[psutil.Process], None]) -> Strike:
    def one(run: psutil.Process, _: Place, chance: random.Random) -> None:
        workers = run.children(recursive=True)
        if workers:
            strike(chance.choice(workers))

    return one


def _no_more_memory(worker: psutil.Process) -> None:
    now = worker.memory_info().vms + 2**20
    worker.rlimit(psutil.RLIMIT_AS, (now, now))


def _disk_full(run: psutil.Process, _place: Place, _chance: random.Random) -> None:
    """Nothing can be written from now on: what a full disk refuses, a limit on file sizes refuses as well."""
    for process in (run, *run.children(recursive=True)):
        with suppress(psutil.Error):
            process.rlimit(psutil.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def _cache_damaged(_: psutil.Process, place: Place, chance: random.Random) -> None:
    if place.cache.is_file():
        with place.cache.open("r+b") as file:
            file.seek(chance.randrange(max(1, place.cache.stat().st_size)))
            file.write(chance.randbytes(4096))


FAULTS: Mapping[str, tuple[Strike, frozenset[int]]] = {
    "SIGINT": (_to_group(signal.SIGINT), frozenset({0, 130, -signal.SIGINT})),
    "SIGTERM": (_to_run(signal.SIGTERM), frozenset({0, 143, -signal.SIGTERM})),
    "SIGHUP": (_to_run(signal.SIGHUP), frozenset({0, 129, -signal.SIGHUP})),
    "SIGXCPU": (_to_run(signal.SIGXCPU), frozenset({0, 152, -signal.SIGXCPU})),
    "SIGKILL": (_to_run(signal.SIGKILL), frozenset({0, -signal.SIGKILL})),
    "worker crashed": (_to_worker(lambda w: w.send_signal(signal.SIGSEGV)), frozenset({0, 3, 5})),
    "worker killed": (_to_worker(psutil.Process.kill), frozenset({0, 3, 5})),
    "worker stopped": (_to_worker(psutil.Process.suspend), frozenset({0, 3, 5})),
    "worker out of memory": (_to_worker(_no_more_memory), frozenset({0, 3, 5})),
    "disk full": (_disk_full, frozenset({0, 4})),
    "cache damaged": (_cache_damaged, frozenset({0})),
}
"""What is done, and the exit codes that it may lead to; a signal before Python handles it ends it at once."""
_ASKED_TO_END = frozenset({"SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one run ended."""

    fault: str
    moment_s: float
    code: int | None
    """None: it did not end."""
    seconds: float
    answer_s: float
    """Seconds after the fault."""
    wrote: bool
    wrong: tuple[str, ...]
    """What is not as it should be."""
    says: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The model, and what all runs have in common."""

    model: Path
    budget_s: float
    folder: Path

    @property
    def longest_s(self) -> float:
        return self.budget_s + max(GRACE_S, GRACE_SHARE * self.budget_s) + STARTING_S

    def start(self, place: Place) -> subprocess.Popen[str]:
        words = ["optimize", self.model, "-o", place.out, "--time-budget", f"{self.budget_s:g}", "--cache", place.cache]
        return subprocess.Popen(
            [sys.executable, "-m", "taso_py", *map(str, words), "--quiet"],
            env={**os.environ, "TMPDIR": str(place.temporary)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip

    def superopt(self, place: Place, *words: str | Path) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "taso_py", *map(str, words)],
            env={**os.environ, "TMPDIR": str(place.temporary)}, check=False, capture_output=True, timeout=HANG_S,
        )  # fmt: skip
        return done.returncode


def disturbed(subject: Subject, fault: str, moment_s: float, seed: int) -> Ending:
    """One run with one fault."""
    strike, codes = FAULTS[fault]
    place = Place(Path(tempfile.mkdtemp(dir=subject.folder)))
    place.make()
    begun = time.monotonic()
    popen = subject.start(place)
    run, workers = psutil.Process(popen.pid), list[psutil.Process]()
    with suppress(subprocess.TimeoutExpired):
        popen.wait(moment_s)
    struck = time.monotonic()
    with suppress(psutil.Error, ProcessLookupError):
        workers = run.children(recursive=True)
        strike(run, place, random.Random(seed))
    try:
        _, error = popen.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        _, error = popen.communicate()
        popen.returncode = None
    ended = time.monotonic()
    orphans = psutil.wait_procs(workers, timeout=ORPHAN_S)[1]
    wrong = [*_wrong(subject, fault, popen.returncode, ended - begun, ended - struck), *_left(subject, place, fault)]
    wrong += [f"leaves process {orphan.pid}" for orphan in orphans]
    for orphan in orphans:
        with suppress(psutil.Error):
            orphan.kill()
    if popen.returncode not in codes:
        wrong.append(f"exit code {popen.returncode}")
    if "Traceback" in error and "taso_py" in error:  # and not of a Python that was only starting
        wrong.append("traceback")
    if place.out.is_file() and subject.superopt(place, "check", subject.model, place.out) != 0:
        wrong.append("check refuses the output")
    if popen.returncode == 0 and not place.out.is_file():
        wrong.append("no output")
    return Ending(
        fault=fault, moment_s=moment_s, code=popen.returncode, seconds=ended - begun, answer_s=ended - struck,
        wrote=place.out.is_file(), wrong=tuple(wrong), says=(error.strip().splitlines() or [""])[-1],
    )  # fmt: skip


def _wrong(subject: Subject, fault: str, code: int | None, seconds: float, answer_s: float) -> Sequence[str]:
    if code is None:
        return ["does not end"]
    if fault in _ASKED_TO_END and answer_s > ANSWER_S:
        return [f"ends {answer_s:.1f} s after the signal"]
    return [f"lasts {seconds:.1f} s"] if seconds > subject.longest_s else []


def _left(subject: Subject, place: Place, fault: str) -> Sequence[str]:
    """What lies where nothing may lie; after SIGKILL, after another run there."""
    if fault == "SIGKILL":
        for path in (place.temporary, *place.temporary.rglob("*"), place.out.parent, *place.out.parent.iterdir()):
            os.utime(path, (0, 0), follow_symlinks=False)  # old enough to be taken for left behind
        subject.superopt(place, "optimize", subject.model, "-o", place.root / "out" / "next.onnx", "--no-race")
        (place.root / "out" / "next.onnx").unlink(missing_ok=True)
    beside = [path for path in place.out.parent.iterdir() if path != place.out]
    return [f"leaves {path.name}" for path in (*place.temporary.iterdir(), *beside)]


def _undisturbed(subject: Subject) -> float:
    """Seconds of a run to which nothing happens."""
    place = Place(Path(tempfile.mkdtemp(dir=subject.folder)))
    place.make()
    begun = time.monotonic()
    run = subject.start(place)
    run.communicate(timeout=HANG_S)
    if run.returncode != 0:
        raise click.ClickException(f"{subject.model}: an undisturbed run ends with {run.returncode}")
    return time.monotonic() - begun


def _table(endings: Sequence[Ending]) -> Table:
    table = Table("fault", "runs", "exit codes", "with output", "longest answer, s", "findings")
    for fault in dict.fromkeys(ending.fault for ending in endings):
        mine = [ending for ending in endings if ending.fault == fault]
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(Counter(str(e.code) for e in mine).items()))
        table.add_row(
            fault, str(len(mine)), codes, str(sum(e.wrote for e in mine)), f"{max(e.answer_s for e in mine):.1f}",
            str(sum(bool(e.wrong) for e in mine)),
        )  # fmt: skip
    return table


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("model", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)), help="Only this one (repeatable).")
@click.option("--moments", type=click.IntRange(min=1), default=50, show_default=True, help="Of each fault.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at a time.")
@click.option("--budget", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Of each run.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Append every ending, as JSON lines.")
def main(
    *, model: Path, faults: tuple[str, ...], moments: int, seed: int, jobs: int, budget: float, output: Path | None
) -> None:
    chance = random.Random(seed)
    # What a shell ignores in the background, the runs would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    endings: list[Ending] = []
    with tempfile.TemporaryDirectory(prefix="superopt-audit-") as name, ThreadPoolExecutor(jobs) as pool:
        subject = Subject(model.absolute(), budget, Path(name))
        whole_s = _undisturbed(subject)
        runs = [
            (fault, chance.uniform(0, whole_s), chance.getrandbits(32))
            for fault in faults or FAULTS
            for _ in range(moments)
        ]
        for ending in pool.map(lambda run: disturbed(subject, *run), runs):
            endings.append(ending)
            if output is not None:
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(ending)) + "\n")
    console = Console(width=120)
    console.print(_table(endings))
    for ending in (ending for ending in endings if ending.wrong):
        line = f"{ending.fault} at {ending.moment_s:.2f} s: {'; '.join(ending.wrong)}: {ending.says}"
        console.print(line, markup=False, highlight=False)
    sys.exit(any(ending.wrong for ending in endings))


if __name__ == "__main__":
    main()

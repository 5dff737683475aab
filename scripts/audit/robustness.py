"""Put models that nobody chose through ``superopt optimize --no-race``, and count how the runs end.

    python -m scripts.audit.robustness --sample 150
    python -m scripts.audit.robustness --random 2000 --jobs 4 --only random

The models: every case of `onnx.backend.test` that ships, every .onnx file below an installed package, and random
models of two grammars: of networks (`random_models`), and of what exporters write rarely (`wild_models`); and models
whose inputs are sizes, states and indices (`dynamic_models`).  Each is one process, as a user starts it, without any
--input or --shape.
Runs with exit code 70, or past their time, are findings: they are listed, and the exit code is 1.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import onnx.backend.test.loader as loader
from rich.console import Console
from rich.table import Table

from scripts.audit.dynamic_models import MODELS, dynamic_model
from scripts.audit.half_precision import halved
from scripts.audit.random_models import random_model
from scripts.audit.wild_models import wild_model

BACKEND_KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
TIMEOUT_S = 180.0
LATE, CRASH = "late", 70


@dataclass(frozen=True, slots=True)
class Subject:
    """One model to run, as a file or as content for one."""

    kind: str
    name: str
    source: Path | bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run ended."""

    kind: str
    name: str
    code: int | str
    """The exit code, or "late"."""
    rewritten: bool
    seconds: float
    says: str
    """The last line on stderr, where the run failed."""


def backend_models() -> Iterator[Subject]:
    """Every model of onnx's own backend tests that lies in the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases are computed when they are loaded, overflows included
        for kind in BACKEND_KINDS:
            for test in loader.load_model_tests(kind=kind):
                folder = Path(test.model_dir or "") / "model.onnx"
                source = folder if test.model is None else test.model.SerializeToString()
                if not isinstance(source, Path) or source.is_file():
                    yield Subject(kind, test.name, source)
    # Real networks whose weights are computed when they run.
    for path in sorted((Path(loader.DATA_DIR) / "light").glob("*.onnx")):
        yield Subject("light", path.stem, path)


def packaged_models() -> Iterator[Subject]:
    """Models that installed packages other than onnx bring along."""
    root = Path(sysconfig.get_path("purelib"))
    for path in sorted(root.rglob("*.onnx")):
        if path.relative_to(root).parts[0] != "onnx":
            yield Subject("packaged", str(path.relative_to(root)), path)


def random_models(count: int) -> Iterator[Subject]:
    """The models of the first ``count`` seeds, every other one in float16 as well."""
    for seed in range(count):
        model = random_model(seed)
        yield Subject("random", f"random{seed}", model.SerializeToString())
        if seed % 2:
            yield Subject("float16", f"float16-{seed}", halved(model).SerializeToString())


def wild_models(count: int) -> Iterator[Subject]:
    """The wild models of the first ``count`` seeds."""
    for seed in range(count):
        yield Subject("wild", f"wild{seed}", wild_model(seed)[0].SerializeToString())


def dynamic_models() -> Iterator[Subject]:
    """The models whose inputs are sizes, states and indices."""
    for name in MODELS:
        yield Subject("dynamic", name, dynamic_model(name).SerializeToString())


def run(subject: Subject, folder: Path, budget_s: float) -> Ending:
    """``superopt optimize --no-race`` on one model, in a process of its own."""
    place = Path(tempfile.mkdtemp(dir=folder))
    model, out = place / "model.onnx", place / "out.onnx"
    if isinstance(subject.source, bytes):
        model.write_bytes(subject.source)
    else:
        model = subject.source
    options = ["--no-race", "--time-budget", f"{budget_s:g}", "--cache", str(folder / "cache.sqlite"), "--json"]
    command = [sys.executable, "-m", "taso_py", "optimize", str(model), "-o", str(out), *options]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Ending(subject.kind, subject.name, LATE, False, time.monotonic() - begin, "")
    seconds = time.monotonic() - begin
    rewritten = done.returncode == 0 and bool(json.loads(done.stdout)["rules"])
    says = (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""
    return Ending(subject.kind, subject.name, done.returncode, rewritten, seconds, says)


def _counts(endings: Iterable[Ending]) -> Table:
    found = list(endings)
    codes = sorted({e.code for e in found}, key=str)
    table = Table("kind", "models", *(f"exit {c}" for c in codes), "rewritten")
    for kind in dict.fromkeys(e.kind for e in found):
        mine = [e for e in found if e.kind == kind]
        count = Counter(e.code for e in mine)
        table.add_row(kind, str(len(mine)), *(str(count[c]) for c in codes), str(sum(e.rewritten for e in mine)))
    count = Counter(e.code for e in found)
    table.add_row("all", str(len(found)), *(str(count[c]) for c in codes), str(sum(e.rewritten for e in found)))
    return table


@click.command()
@click.option("--sample", type=int, help="Run this many models, drawn by --seed; default: all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--random", "count", type=int, default=200, show_default=True, help="Random models of each grammar among them."
)
@click.option("--only", "kinds", multiple=True, help="Run only this kind (repeatable).")
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs at a time.")
@click.option("--budget", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Of each run.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE",
              help="Append every ending, as JSON lines.")  # fmt: skip
def main(
    *, sample: int | None, seed: int, count: int, kinds: tuple[str, ...], jobs: int, budget: float, output: Path | None
) -> None:
    """Run the corpus, or a sample of it, and count exit codes by kind."""
    every = [*backend_models(), *packaged_models(), *random_models(count), *wild_models(count), *dynamic_models()]
    subjects = [s for s in every if not kinds or s.kind in kinds]
    if sample is not None and sample < len(subjects):
        subjects = random.Random(seed).sample(subjects, sample)
    endings: list[Ending] = []
    with tempfile.TemporaryDirectory(prefix="superopt-audit-") as name, ThreadPoolExecutor(jobs) as pool:
        for ending in pool.map(lambda s: run(s, Path(name), budget), subjects):
            endings.append(ending)
            if output is not None:  # at once: a run of all takes hours
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(ending)) + "\n")
    endings.sort(key=lambda e: (e.kind, e.name))
    console = Console(width=120)
    console.print(_counts(endings))
    for ending in endings:
        if ending.code != 0:
            console.print(f"{ending.kind} {ending.name}: {ending.code} {ending.says}", markup=False, highlight=False)
    sys.exit(any(e.code in (CRASH, LATE) for e in endings))


if __name__ == "__main__":
    main()

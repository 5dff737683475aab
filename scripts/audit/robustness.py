"""Put models that nobody chose through ``superopt optimize --no-race``, and count how the runs end.

    python -m scripts.audit.robustness --sample 150
    python -m scripts.audit.robustness --random 2000 --jobs 4 --only random
    python -m scripts.audit.robustness --random 300 --first 2000 --apply-all
    python -m scripts.audit.robustness --models some/folder --only some --output endings.jsonl --resume

The models: every case of `onnx.backend.test` that ships, every .onnx file below an installed package, and random
models of two grammars: of networks (`random_models`), and of what exporters write rarely (`wild_models`); models
whose inputs are sizes, states and indices (`dynamic_models`); models with one oddity each (`exporter_models`); random
ones of If nodes (`branched_models`); and those of folders, each a kind by its name.
Each is one process, as a user starts it, without any --input or --shape.
Runs with exit code 70, past their time, or with a rewrite that changed values or would have broken a promise to
callers are findings, and so is what a run leaves in TMPDIR and an output that `superopt check` refuses: they are
listed, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
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

from scripts.audit.branched_models import branched_model
from scripts.audit.dynamic_models import MODELS, dynamic_model
from scripts.audit.exporter_models import MODELS as ODD_MODELS
from scripts.audit.exporter_models import exporter_model
from scripts.audit.half_precision import halved
from scripts.audit.random_models import random_model
from scripts.audit.wild_models import wild_model

BACKEND_KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
TIMEOUT_S = 180.0
LATE, CRASH = "late", 70
MISMATCH = 1
"""The exit code of a rewrite that changed values, under --strict and of ``superopt check``."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One model to run, as a file or as content for one."""

    kind: str
    name: str
    source: Path | bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    barred: int = 0
    """Rewrites that changed values and were taken back."""
    broken: int = 0
    """Rewrites that would have broken a promise to callers and were left out."""
    left: tuple[str, ...] = ()
    """What it left in TMPDIR."""
    checked: int | str | None = None
    """The exit code of ``superopt check`` on what was rewritten; None: not asked."""

    @property
    def finding(self) -> bool:
        """Whether it ended as no run may end."""
        bad = self.code in (CRASH, LATE, MISMATCH) or "Traceback" in self.says
        return bad or bool(self.left) or bool(self.broken) or self.checked in (CRASH, LATE, MISMATCH)


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


def models_below(folder: Path) -> Iterator[Subject]:
    """The models in a folder and below it."""
    for path in sorted(folder.rglob("*.onnx")):
        yield Subject(folder.name, str(path.relative_to(folder)), path)


def random_models(count: int, first: int = 0) -> Iterator[Subject]:
    """The models of ``count`` seeds from ``first`` on, every other one in float16 as well."""
    for seed in range(first, first + count):
        model = random_model(seed)
        yield Subject("random", f"random{seed}", model.SerializeToString())
        if seed % 2:
            yield Subject("float16", f"float16-{seed}", halved(model).SerializeToString())


def wild_models(count: int, first: int = 0) -> Iterator[Subject]:
    """The wild models of ``count`` seeds from ``first`` on."""
    for seed in range(first, first + count):
        yield Subject("wild", f"wild{seed}", wild_model(seed)[0].SerializeToString())


def branched_models(count: int, first: int = 0) -> Iterator[Subject]:
    """The models of If nodes of ``count`` seeds from ``first`` on."""
    for seed in range(first, first + count):
        yield Subject("branched", f"branched{seed}", branched_model(seed).SerializeToString())


def dynamic_models() -> Iterator[Subject]:
    """The models whose inputs are sizes, states and indices."""
    for name in MODELS:
        yield Subject("dynamic", name, dynamic_model(name).SerializeToString())


def exporter_models() -> Iterator[Subject]:
    """The models that have one oddity each."""
    for name in ODD_MODELS:
        yield Subject("exporter", name, exporter_model(name).SerializeToString())


def run(subject: Subject, folder: Path, budget_s: float, *options: str) -> Ending:
    """``superopt optimize --no-race`` on one model, in a process and a TMPDIR of its own; then ``superopt check``."""
    place = Path(tempfile.mkdtemp(dir=folder))
    model, out, temporary = place / "model.onnx", place / "out.onnx", place / "tmp"
    temporary.mkdir()
    if isinstance(subject.source, bytes):
        model.write_bytes(subject.source)
    else:
        model = subject.source
    limits = ["--time-budget", f"{budget_s:g}", "--cache", str(folder / "cache.sqlite")]
    begin = time.monotonic()
    done = _superopt(temporary, "optimize", model, "-o", out, "--no-race", "--json", *limits, *options)
    seconds = time.monotonic() - begin
    left = tuple(sorted(path.name for path in temporary.iterdir()))
    if done is None:
        return Ending(
            kind=subject.kind, name=subject.name, code=LATE, rewritten=False, seconds=seconds, says="", left=left
        )
    result = json.loads(done.stdout) if done.returncode == 0 else {}
    rewritten = bool(result.get("rules"))
    checked: int | str | None = None
    if rewritten:
        verdict = _superopt(temporary, "check", model, out)
        checked = LATE if verdict is None else verdict.returncode
    says = (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""
    rejected = result.get("rejected", ())
    barred = sum(bool(r.get("reproduction")) for r in rejected)
    broken = sum("breaks the contract" in r["reason"] for r in rejected)
    return Ending(
        kind=subject.kind,
        name=subject.name,
        code=done.returncode,
        rewritten=rewritten,
        seconds=seconds,
        says=says,
        barred=barred,
        broken=broken,
        left=left,
        checked=checked,
    )


def _superopt(temporary: Path, *words: str | Path) -> subprocess.CompletedProcess[str] | None:
    """The command, as a user starts it; None where it takes too long."""
    command = [sys.executable, "-m", "taso_py", *map(str, words)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, env=environment
        )
    except subprocess.TimeoutExpired:
        return None


def told_in(output: Path) -> list[Ending]:
    """The endings in a file of an earlier run."""
    return [Ending(**json.loads(line)) for line in output.read_text(encoding="utf-8").splitlines()]


def _counts(endings: Iterable[Ending]) -> Table:
    found = list(endings)
    codes = sorted({e.code for e in found}, key=str)
    table = Table("kind", "models", *(f"exit {c}" for c in codes), "rewritten", "checked", "barred", "leave files")
    kinds = {kind: [e for e in found if e.kind == kind] for kind in dict.fromkeys(e.kind for e in found)}
    for kind, mine in {**kinds, "all": found}.items():
        count = Counter(e.code for e in mine)
        sums = (sum(e.rewritten for e in mine), sum(e.checked == 0 for e in mine), sum(e.barred for e in mine))
        table.add_row(kind, *map(str, (len(mine), *(count[c] for c in codes), *sums, sum(bool(e.left) for e in mine))))
    return table


@click.command()
@click.option("--sample", type=int, help="Run this many models, drawn by --seed; default: all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--random", "count", type=int, default=200, show_default=True, help="Random models of each grammar among them."
)
@click.option("--first", type=int, default=0, show_default=True, help="Their first seed.")
@click.option("--apply-all", is_flag=True, help="Run with --apply all --strict.")
@click.option("--models", "folders", type=click.Path(file_okay=False, exists=True, path_type=Path), multiple=True,
              help="Also the models below this folder (repeatable).")  # fmt: skip
@click.option("--only", "kinds", multiple=True, help="Run only this kind (repeatable).")
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs at a time.")
@click.option("--budget", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Of each run.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE",
              help="Append every ending, as JSON lines.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Leave out what --output tells of already; its endings are counted.")
def main(
    *,
    sample: int | None,
    seed: int,
    count: int,
    first: int,
    apply_all: bool,
    folders: tuple[Path, ...],
    kinds: tuple[str, ...],
    jobs: int,
    budget: float,
    output: Path | None,
    resume: bool,
) -> None:
    """Run the corpus, or a sample of it, and count exit codes by kind."""
    made = (*random_models(count, first), *wild_models(count, first), *branched_models(count, first))
    options = ("--apply", "all", "--strict") if apply_all else ()
    found = [subject for folder in folders for subject in models_below(folder)]
    every = [*backend_models(), *packaged_models(), *made, *dynamic_models(), *exporter_models(), *found]
    subjects = [s for s in every if not kinds or s.kind in kinds]
    if sample is not None and sample < len(subjects):
        subjects = random.Random(seed).sample(subjects, sample)
    endings = told_in(output) if resume and output is not None and output.exists() else []
    known = {(e.kind, e.name) for e in endings}
    subjects = [s for s in subjects if (s.kind, s.name) not in known]
    with tempfile.TemporaryDirectory(prefix="superopt-audit-") as name, ThreadPoolExecutor(jobs) as pool:
        for ending in pool.map(lambda s: run(s, Path(name), budget, *options), subjects):
            endings.append(ending)
            if output is not None:  # at once: a run of all takes hours
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(ending)) + "\n")
    endings.sort(key=lambda e: (e.kind, e.name))
    console = Console(width=120)
    console.print(_counts(endings))
    for ending in endings:
        if ending.code != 0 or ending.finding:
            more = f" check: {ending.checked}" if ending.checked else ""
            line = f"{ending.kind} {ending.name}: {ending.code} {ending.says}{more} {' '.join(ending.left)}"
            console.print(line.rstrip(), markup=False, highlight=False)
    sys.exit(any(e.finding for e in endings))


if __name__ == "__main__":
    main()

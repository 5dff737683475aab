"""Give every reader of files damaged and hostile input: each must return, or raise one clear line.

    python -m scripts.audit.readers --seconds 3600             all of them; processor time, shared out
    python -m scripts.audit.readers --target rules --seed 7
    python -m scripts.audit.readers --target model --replay FILE

Each target runs in a process of its own, with 5 seconds and 1 GiB for one input (longer for whole runs).  Where atheris
is installed, inputs are led by what they reach; --blind, or no atheris: a seed always gives the same inputs.
A finding is a crash, an error of no documented exit code, a message that is not one line, a limit that is passed.
Findings are kept in a folder, one input for each class, and the exit code is 1.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click

from scripts.audit.reading.running import COUNT, FINDINGS, INPUT, Finding, Job

SLICE_S = 120.0
"""Seconds of processor time for one process: what a library never frees is not held against one input."""
SILENCE_S = 120.0
"""Seconds without a new input after which a process hangs; it limits processor time by itself."""


@dataclass(slots=True)
class Outcome:
    """What one target has come to."""

    target: str
    executions: int = 0
    returned: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def add(self, folder: Path) -> None:
        """What a process has left in its folder."""
        count, findings = folder / COUNT, folder / FINDINGS
        if count.is_file():
            told = json.loads(count.read_text(encoding="utf-8"))
            self.executions += told["count"]
            self.returned += told["returned"]
            self.seconds += told["seconds"]
            count.unlink()
        if findings.is_file():
            known = {one.fault for one in self.findings}
            found = [Finding(**json.loads(line)) for line in findings.read_text(encoding="utf-8").splitlines()]
            self.findings += [one for one in {one.fault: one for one in found}.values() if one.fault not in known]
            findings.unlink()


def _run(job: Job) -> str | None:
    """One process to its end; how it died, None where it did not."""
    folder = Path(job.folder)
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONHASHSEED": "0", "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-m", "scripts.audit.reading.running", json.dumps(asdict(job))]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if _silent(folder):
                    return "it hangs"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode < 0:
        return f"it died of {signal.Signals(-process.returncode).name}"
    return None if process.returncode == 0 else f"it ended with exit code {process.returncode}"


def _silent(folder: Path) -> bool:
    """Whether a process has taken up nothing new for long."""
    current = folder / INPUT
    return current.is_file() and time.time() - current.stat().st_mtime > SILENCE_S


def explore(job: Job) -> Outcome:
    """All of a target's time, in processes one after the other; what each died of is a finding."""
    outcome, folder = Outcome(job.target), Path(job.folder)
    stillborn = 0
    while outcome.seconds < job.seconds and stillborn < 2:
        rest = min(job.seconds - outcome.seconds, SLICE_S)
        (folder / INPUT).unlink(missing_ok=True)
        before = outcome.executions
        death = _run(replace(job, seconds=rest, first=before))
        outcome.add(folder)
        if death is not None:
            outcome.findings.append(_death(job.target, folder, death, len(outcome.findings)))
        stillborn += outcome.executions == before
    return outcome


def _death(target: str, folder: Path, death: str, number: int) -> Finding:
    kept = folder / f"death-{number}"
    if (folder / INPUT).is_file():
        kept.write_bytes((folder / INPUT).read_bytes())
    log = (folder / "log").read_bytes()[-3000:].decode("utf-8", "replace")
    return Finding(target, death, "the whole process", kept.name, log)


def confirmed(outcome: Outcome, job: Job) -> Iterator[Finding]:
    """The findings that a new process has as well: nothing else is in its memory, and nothing slows it."""
    for finding in outcome.findings:
        folder = Path(job.folder) / "again"
        again = replace(job, folder=str(folder), replay=str(Path(job.folder) / finding.input), guided=False)
        (folder / INPUT).unlink(missing_ok=True) if folder.is_dir() else None
        death, seen = _run(again), Outcome(job.target)
        seen.add(folder)
        if death is not None or seen.findings:
            yield finding


def report(outcomes: list[Outcome]) -> str:
    """A table, and each finding with its input."""
    lines = [f"{'target':<16}{'inputs':>9}{'returned':>10}{'seconds':>9}{'findings':>10}"]
    lines += [
        f"{o.target:<16}{o.executions:>9}{o.returned:>10}{o.seconds:>9.0f}{len(o.findings):>10}" for o in outcomes
    ]
    for outcome in outcomes:
        for one in outcome.findings:
            lines += ["", f"FINDING {one.target}: {one.fault}: {one.line}", f"  {one.input}", one.trace.rstrip()]
    return "\n".join(lines)


def audit(targets: dict[str, float], job: Job) -> list[Outcome]:
    """Each of the targets for its seconds; the paths of findings are whole."""
    outcomes = []
    for name, seconds in targets.items():
        own = replace(job, target=name, folder=str(Path(job.folder) / name), seconds=seconds)
        Path(own.folder).mkdir(parents=True, exist_ok=True)
        if own.replay is not None:
            death, outcome = _run(own), Outcome(name)
            outcome.add(Path(own.folder))
            outcome.findings += [] if death is None else [Finding(name, death, "the whole process", own.replay, "")]
        else:
            outcome = explore(own)
            outcome.findings = list(confirmed(outcome, own))
        outcome.findings = [replace(f, input=str(Path(own.folder) / f.input)) for f in outcome.findings]
        click.echo(f"{name}: {outcome.executions} inputs, {len(outcome.findings)} findings", err=True)
        outcomes.append(outcome)
    return outcomes


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=600.0, show_default=True, help="Processor time, shared by the targets.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--target", "names", multiple=True, help="Only this one (repeatable).")
@click.option("--blind", is_flag=True, help="Mutations of seeds only, without atheris.")
@click.option("--seeds", "extra", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A folder of further models to begin from.")  # fmt: skip
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read this one input.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for what is found.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def main(
    *,
    seconds: float,
    seed: int,
    names: tuple[str, ...],
    blind: bool,
    extra: Path | None,
    replay: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """The command line."""
    from scripts.audit.reading.targets import TARGETS

    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise click.UsageError(f"--target {unknown[0]}: there are {', '.join(TARGETS)}")
    if replay is not None and len(names) != 1:
        raise click.UsageError("--replay FILE needs the one --target that reads it")
    chosen = {name: TARGETS[name].share for name in names or TARGETS}
    whole = sum(chosen.values())
    folder = output or Path(tempfile.mkdtemp(prefix="superopt-readers-"))
    job = Job(
        target="",
        folder=str(folder.absolute()),
        seconds=seconds,
        seed=seed,
        guided=not blind and importlib.util.find_spec("atheris") is not None,
        extra=None if extra is None else str(extra.absolute()),
        replay=None if replay is None else str(replay.absolute()),
    )
    outcomes = audit({name: seconds * share / whole for name, share in chosen.items()}, job)
    click.echo(json.dumps([asdict(o) for o in outcomes], indent=2) if as_json else report(outcomes))
    sys.exit(any(outcome.findings for outcome in outcomes))


if __name__ == "__main__":
    main()

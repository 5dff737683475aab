"""Run ONNX's own test cases, and the rules' left sides, through the optimiser; nothing may crash or change.

    python -m scripts.audit.conformance                          everything
    python -m scripts.audit.conformance --case 'conv' --mode all
    python -m scripts.audit.conformance --jobs 4

Every case runs in every mode (see `conformance_run.MODES`), strictly: a mismatch fails it. Cases that a rule has
rewritten run once more in the end, and must give the same bytes. Results: conformance_output/report.json and .md.
Exits with 1 when anything failed.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.audit import conformance_report as report
from scripts.audit.conformance_cases import Case, all_cases
from scripts.audit.conformance_run import MODES, Outcome, Runner, runner

Job = tuple[Case, str]
RULE_MODES = ("all", "best", "rule")
"""Modes of the rules' left sides; "rule" is that one rule alone."""

_open = ExitStack()
_runners: list[Runner] = []


def _start() -> None:
    """In a child: one runner for its whole life."""
    _runners.append(_open.enter_context(runner()))


def _do(case: Case, mode: str) -> Outcome:
    return _runners[0].run(case, mode)


def jobs_of(cases: Iterable[Case], modes: Sequence[str]) -> list[Job]:
    """Cases times the modes that make sense for them."""
    return [(c, m) for m in modes for c in cases if m in (RULE_MODES if c.rule else MODES)]


def run(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """Outcomes as they come; a job that kills its process is a crash of its own and costs no other job."""
    left = dict(enumerate(jobs))
    while left:
        try:
            for number, outcome in _run_pool(left, processes):
                del left[number]
                yield outcome
        except BrokenProcessPool:
            # Whoever it was, it is among the first of what is left: those run alone.
            for number in list(left)[: 2 * processes]:
                case, mode = left.pop(number)
                yield _alone(case, mode)


def _run_pool(jobs: dict[int, Job], processes: int) -> Iterator[tuple[int, Outcome]]:
    with _pool(processes) as pool:
        waiting = iter(list(jobs.items()))
        running: dict[Future[Outcome], int] = {}
        while True:
            for number, (case, mode) in waiting:
                running[pool.submit(_do, case, mode)] = number
                if len(running) == 2 * processes:
                    break
            if not running:
                return
            for future in wait(running, return_when="FIRST_COMPLETED").done:
                yield running.pop(future), future.result()


def _alone(case: Case, mode: str) -> Outcome:
    with _pool(1) as pool:
        try:
            return pool.submit(_do, case, mode).result()
        except BrokenProcessPool:
            return Outcome(case.name, case.kind, mode, "crash", detail="the process died", rule=case.rule)


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_start)


def again(outcomes: Sequence[Outcome], cases: Sequence[Case], processes: int) -> list[Outcome]:
    """Every rewriting search once more, in other processes (with other hash seeds): the bytes must be the same."""
    by_name = {case.name: case for case in cases}
    first = {o.case: o for o in outcomes if o.mode == "best" and o.digest}
    found = []
    for outcome in run([(by_name[name], "best") for name in first], processes):
        same = outcome.digest == first[outcome.case].digest
        found.append(
            replace(outcome, mode="again")
            if same
            else replace(outcome, mode="again", verdict="nondeterminism", detail="other bytes than the first time")
        )
    return found


def _with_bar(outcomes: Iterable[Outcome], total: int, console: Console) -> list[Outcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    done: list[Outcome] = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("cases", total=total)
        for outcome in outcomes:
            done.append(outcome)
            bar.advance(task)
            if not console.is_terminal and len(done) % 1000 == 0:
                console.print(f"{len(done)} of {total} runs")
            if outcome.verdict not in ("ok", "skipped"):
                text = f"{outcome.case} ({outcome.mode}): {outcome.verdict}: {outcome.detail}"
                console.print(text, markup=False, soft_wrap=True, highlight=False)
    return done


@click.command()
@click.option("--case", "pattern", default="", help="Only cases whose name holds this regular expression.")
@click.option("--mode", "modes", multiple=True, type=click.Choice((*MODES, "rule")), help="Only this (repeatable).")
@click.option("--jobs", "processes", default=2, show_default=True, help="Processes.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("conformance_output"), show_default=True)
@click.option("--zoo", type=click.Path(path_type=Path), default=Path("zoo_models"), show_default=True)
def main(pattern: str, modes: tuple[str, ...], processes: int, out: Path, zoo: Path) -> None:
    """Run the conformance suite."""
    console = Console(stderr=True)
    begin = time.monotonic()
    console.print("collecting cases")
    cases = [case for case in all_cases() if re.search(pattern, case.name)]
    jobs = jobs_of(cases, modes or (*MODES, "rule"))
    outcomes = _with_bar(run(jobs, processes), len(jobs), console)
    outcomes += again(outcomes, cases, processes)
    console.print("looking at the zoo")
    shares = [report.zoo_share(path) for path in sorted(zoo.glob("*.onnx"))] if not pattern else []
    summary = report.Summary(outcomes, shares, time.monotonic() - begin)
    report.write(summary, out)
    console.print(summary.line(), markup=False, highlight=False)
    sys.exit(1 if summary.failures else 0)


if __name__ == "__main__":
    main()

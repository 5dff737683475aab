"""Ask the prover about random equations: true ones made by the library's laws, and false ones made of those.

    python -m scripts.audit.fuzz --json fuzz.jsonl          3,000 of each; goes on where it stopped
    python -m scripts.audit.fuzz --sample 100 --seed 7

A false equation differs from a true one in one place, and the oracle has seen that its sides differ.
Exits with 1 when a false equation was proved, or when the oracle finds an equation false that should be true.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from scripts.audit.mutation.crosstab import alarms, report
from scripts.audit.mutation.driver import Setting, cross, equations
from scripts.audit.mutation.jobs import PROVER
from scripts.audit.mutation.store import Entry, Store


def broken(entries: list[Entry]) -> list[Entry]:
    """Equations that laws of the library made, and that are false."""
    return [e for e in entries if e.kind == "true" and e.row == "different"]


@click.command(help=__doc__)
@click.option("--sample", type=int, default=3000, show_default=True, help="So many true and as many false ones.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Findings, one line each; read when it exists.")
@click.option("--prover", default=PROVER, show_default=True, help="The prover as module:function.")
@click.option("--limit", type=float, default=20.0, show_default=True, help="Seconds for one proof.")
@click.option("--processes", type=int, default=2, show_default=True)
@click.option("--judge-only", is_flag=True, help="Ask the oracle, not the prover.")
def main(
    *, sample: int, seed: int, path: Path | None, prover: str, limit: float, processes: int, judge_only: bool
) -> None:
    """The command line."""
    setting = Setting(prover, limit, processes, Console(stderr=True))
    store = Store(path, prover)
    entries = equations(store, seed, sample, setting)
    if not judge_only:
        cross(store, entries, setting, mutants=False)
    click.echo(report(entries))
    for entry in broken(entries):
        click.echo(f"\nthe library makes a false equation:\n{entry.text}  at {entry.oracle['example']}")
    sys.exit(1 if alarms(entries) or broken(entries) else 0)


if __name__ == "__main__":
    main()

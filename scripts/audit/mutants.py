"""Ask the prover about thousands of mutants of the shipped laws: none that is false may be proved.

    python -m scripts.audit.mutants --json mutants.jsonl        10,000 of them; goes on where it stopped
    python -m scripts.audit.mutants --sample                    one mutant of each of a few laws, within seconds
    python -m scripts.audit.mutants --law conv-sum --kind pad
    python -m scripts.audit.mutants --before old.jsonl          beside another prover's verdicts on the same mutants

Whether a proved mutant is false says an oracle that runs both sides in ONNX Runtime (`mutation/oracle.py`).
Exits with 1 when a false law was proved and its instance would be rewritten.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import click
from rich.console import Console

from scripts.audit.mutation.comparison import Before, compared, read
from scripts.audit.mutation.crosstab import alarms, report
from scripts.audit.mutation.driver import Setting, audit, mutants
from scripts.audit.mutation.jobs import QUICK
from scripts.audit.mutation.mutants import laws
from scripts.audit.mutation.store import Store

COUNT, SAMPLE = 10_000, 60


def chosen(names: tuple[str, ...], sample: int | None, seed: int) -> list[str]:
    """The names of the laws that are mutated: those that are named, else all, of which ``sample`` are drawn."""
    known = names or tuple(law.name for law in laws())
    return list(known) if sample is None or sample >= len(known) else random.Random(seed).sample(known, sample)


@click.command(help=__doc__)
@click.option("--count", type=int, default=COUNT, show_default=True, help="So many mutants, spread over all laws.")
@click.option("--sample", type=int, flag_value=SAMPLE, is_flag=False, help=f"One mutant of so many laws ({SAMPLE}).")
@click.option("--law", "names", multiple=True, help="Only mutants of this law; may be given more than once.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind of change; may be given more than once.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Findings, one line each; read when it exists.")
@click.option("--before", "earlier", type=click.Path(path_type=Path, exists=True), help="Another prover's verdicts.")
@click.option("--prover", default=QUICK, show_default=True, help="The prover as module:function.")
@click.option("--limit", type=float, default=60.0, show_default=True, help="Seconds for one proof.")
@click.option("--processes", type=int, default=2, show_default=True)
def main(
    *, count: int, sample: int | None, names: tuple[str, ...], kinds: tuple[str, ...], seed: int, path: Path | None,
    earlier: Path | None, prover: str, limit: float, processes: int,
) -> None:  # fmt: skip
    """The command line."""
    setting = Setting(prover, limit, processes, Console(stderr=True))
    store = Store(path, prover)
    known = chosen(names, sample, seed)
    entries = mutants(store, known, count if sample is None else min(count, len(known)), seed, setting)
    if kinds:
        entries = [e for e in entries if e.kind in kinds]
    before: dict[str, Before] = read(earlier) if earlier else {}
    audit(store, entries, setting, {i for i, b in before.items() if b.proved})
    click.echo(report(entries))
    if before:
        click.echo(compared(entries, before))
    sys.exit(1 if alarms(entries) else 0)


if __name__ == "__main__":
    main()

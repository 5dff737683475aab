"""Ask the prover about thousands of mutants of the library's laws: none that is false may be proved.

    python scripts/prover_mutants.py --json mutants.jsonl        all of them; goes on where it stopped
    python scripts/prover_mutants.py --sample 500 --seed 1
    python scripts/prover_mutants.py --law conv-sum --kind pad

Whether a mutant is false says an oracle that runs both sides in ONNX Runtime (`scripts/mutation/oracle.py`).
Exits with 1 when a false law was proved.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import click
from rich.console import Console

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mutation.crosstab import alarms, report
from scripts.mutation.driver import Setting, cross, judge
from scripts.mutation.jobs import PROVER
from scripts.mutation.mutants import MOST, Mutant, laws, mutants_of
from scripts.mutation.store import Store


def chosen(names: tuple[str, ...], kinds: tuple[str, ...], most: int) -> list[Mutant]:
    """The mutants of these laws and kinds (all when none is named), distinct over all laws."""
    found: dict[str, Mutant] = {}
    for law in laws():
        if not names or law.name in names:
            for mutant in mutants_of(law, most):
                if not kinds or mutant.kind in kinds:
                    found.setdefault(mutant.id, mutant)
    return list(found.values())


@click.command(help=__doc__)
@click.option("--law", "names", multiple=True, help="Only mutants of this law; may be given more than once.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind of change; may be given more than once.")
@click.option("--sample", type=int, help="So many of the mutants, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Findings, one line each; read when it exists.")
@click.option("--prover", default=PROVER, show_default=True, help="The prover as module:function.")
@click.option("--limit", type=float, default=20.0, show_default=True, help="Seconds for one proof.")
@click.option("--processes", type=int, default=2, show_default=True)
@click.option("--judge-only", is_flag=True, help="Ask the oracle, not the prover.")
def main(
    names: tuple[str, ...], kinds: tuple[str, ...], sample: int | None, seed: int, path: Path | None, prover: str,
    limit: float, processes: int, judge_only: bool,
) -> None:  # fmt: skip
    """The command line."""
    mutants = chosen(names, kinds, MOST)
    if sample is not None and sample < len(mutants):
        mutants = random.Random(seed).sample(mutants, sample)
    setting = Setting(prover, limit, processes, Console(stderr=True))
    store = Store(path, prover)
    entries = [store.entry(m.id, m.law, m.kind, m.text()) for m in mutants]
    if judge_only:
        judge(store, entries, setting, mutants=True)
    else:
        cross(store, entries, setting, mutants=True)
    click.echo(report(entries))
    sys.exit(1 if alarms(entries) else 0)


if __name__ == "__main__":
    main()

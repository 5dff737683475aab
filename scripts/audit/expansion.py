"""Every proved law against the third judge: all its small instances, written out element by element.

    python -m scripts.audit.expansion [FILES] [--sample N]

Prints how many laws were shown, looked at in part, or contradicted, and exits with 1 for a contradiction.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import click

from taso_py.prove.expansion.judge import exhaustive
from taso_py.rules.library import load_file
from taso_py.rules.location import rules_directory
from taso_py.rules.rule import Rule


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--sample", type=click.IntRange(min=1), help="Only so many laws, picked at random.")
@click.option("--seed", default=0, show_default=True, help="Which laws a sample has.")
def main(files: tuple[Path, ...], sample: int | None, seed: int) -> None:
    """Expand all laws of FILES (default: those that ship) that are said to be proved."""
    found = [rule for file in files or sorted(rules_directory().glob("*.rules")) for rule in load_file(file)]
    rules = [rule for rule in found if rule.promise == "proved"]
    if sample is not None:
        rules = random.Random(seed).sample(rules, min(sample, len(rules)))
    counts: Counter[str] = Counter()
    for rule in rules:
        told = outcome(rule)
        counts[told.partition(":")[0]] += 1
        if told.startswith("contradicted"):
            click.echo(f"{rule.name} {told}")
    click.echo(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    sys.exit(1 if counts["contradicted"] else 0)


def outcome(rule: Rule) -> str:
    """``shown``, ``in part`` or ``contradicted: instance`` over both directions."""
    told = "shown"
    for directed in rule.directions():
        found = exhaustive(directed)
        if found.refuted:
            return f"contradicted: {found.contradictions[0]}"
        told = told if found.shown else "in part"
    return told


if __name__ == "__main__":
    main()

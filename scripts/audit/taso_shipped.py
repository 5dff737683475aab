"""Judge TASO's shipped substitutions: each proved for all sizes or refuted, under two typings.

    python -m scripts.audit.taso_shipped taso_shipped_rules.json

The file is TASO's graph_subst.pb decoded to JSON (`taso_py.rules.taso.reader.read`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import click

from taso_py.prove.batch import judged
from taso_py.prove.verdict import Proved, Refuted
from taso_py.prove.verify import Judgement
from taso_py.rules.taso.reader import DeclaredSizes, Substitution, law, read


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--typing", type=click.Choice([t.name.lower() for t in DeclaredSizes]), multiple=True, help="Default: both."
)
@click.option("--limit", default=4.0, show_default=True, help="Seconds for one rule.")
@click.option("--processes", default=2, show_default=True)
def main(file: Path, typing: tuple[str, ...], limit: float, processes: int) -> None:
    """Prints a table per typing."""
    substitutions = read(file.read_text(encoding="utf-8"))
    for each in DeclaredSizes:
        if not typing or each.name.lower() in typing:
            _judge(substitutions, each, limit, processes)


def _judge(substitutions: tuple[Substitution, ...], typing: DeclaredSizes, limit: float, processes: int) -> None:
    start = time.monotonic()
    laws = [replace(law(s, typing), name=f"shipped-{s.id:03}") for s in substitutions]
    verdicts: dict[str, list[str]] = defaultdict(list)
    # Read with one group count, four of them have the same term on both sides.
    verdicts["identical"] = [rule.name.removeprefix("shipped-") for rule in laws if rule.left == rule.right]
    for rule, judgement in judged([r for r in laws if r.left != r.right], jobs=processes, limit_s=limit):
        verdicts[_kind(judgement)].append(rule.name.removeprefix("shipped-"))
        if not isinstance(judgement.verdict, Proved):
            click.echo(f"  {rule.name}: {str(judgement.verdict)[:300]}")
    click.echo(f"{typing.name.lower()}: {len(laws)} rules in {time.monotonic() - start:.1f} s")
    for kind, names in sorted(verdicts.items()):
        click.echo(f"  {kind}: {len(names)}" + ("" if kind == "proved" else f" ({', '.join(sorted(names))})"))


def _kind(judgement: Judgement) -> str:
    match judgement.verdict:
        case Proved(None):
            return "proved"
        case Proved(limit):
            return f"proved up to size {limit}"
        case Refuted():
            return "refuted"
        case _:
            return "unknown"


if __name__ == "__main__":
    main()

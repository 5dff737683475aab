"""Which rules made which models faster: a heat map of rules by models, as an SVG.

    python -m scripts.bench.heat heat.svg bench_output/bench.json ...

A cell holds the number of sites at which a rule was applied in the result, darker for more.  Rules that helped the most
models stand on top; models that came back as they were are left out, and so are rules that helped none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import click

Sites = Mapping[str, Mapping[str, int]]
"""By model, then by rule."""

_CELL, _ROW, _LEFT, _TOP = 24, 15, 250, 120


def sites_of(files: Sequence[Path]) -> Sites:
    """Of the improved models of what `scripts.bench.bench` leaves; of two results for one model the later file's.

    click.UsageError for a file that is none.
    """
    found: dict[str, dict[str, int]] = {}
    for file in files:
        try:
            for row in json.loads(file.read_text(encoding="utf-8"))["models"]:
                result = row["result"] or {"rules": []}
                found[row["model"]] = {rule["name"]: rule["sites"] for rule in result["rules"]}
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{file} is not what a bench leaves ({error!r}): give its bench.json") from None
    return {model: rules for model, rules in found.items() if rules}


def svg(sites: Sites) -> str:
    """The whole picture."""
    helped: dict[str, int] = {}
    for rules in sites.values():
        for rule in rules:
            helped[rule] = helped.get(rule, 0) + 1
    rules_ = sorted(helped, key=lambda rule: (-helped[rule], rule))
    width, height = _LEFT + _CELL * len(sites) + 10, _TOP + _ROW * len(rules_) + 10
    style = "text{font:11px sans-serif}.n{font-size:9px;text-anchor:middle}"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return "\n".join([opening, f"<style>{style}</style>", *_cells(sites, rules_), "</svg>"]) + "\n"


def _cells(sites: Sites, rules: Sequence[str]) -> Iterator[str]:
    most = max((count for found in sites.values() for count in found.values()), default=1)
    for row, rule in enumerate(rules):
        yield f'<text x="{_LEFT - 6}" y="{_TOP + _ROW * row + 11}" text-anchor="end">{escape(rule)}</text>'
    for column, (model, found) in enumerate(sites.items()):
        x = _LEFT + _CELL * column
        yield f'<text transform="translate({x + 15} {_TOP - 6}) rotate(-60)">{escape(model)}</text>'
        for row, rule in enumerate(rules):
            if rule not in found:
                continue
            y, share = _TOP + _ROW * row, (1 + math.log(found[rule])) / (1 + math.log(most))
            title = f"<title>{escape(f'{rule} in {model}: {found[rule]} sites')}</title>"
            colour = f"hsl(210 80% {95 - 50 * share:.0f}%)"
            yield f'<rect x="{x}" y="{y}" width="{_CELL - 1}" height="{_ROW - 1}" fill="{colour}">{title}</rect>'
            yield f'<text class="n" x="{x + _CELL / 2 - 0.5}" y="{y + 10}">{found[rule]}</text>'


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(*, target: Path, files: tuple[Path, ...]) -> None:
    found = sites_of(files)
    if not found:
        raise click.UsageError("no model was improved: there is nothing to draw")
    target.write_text(svg(found), encoding="utf-8")


if __name__ == "__main__":
    main()

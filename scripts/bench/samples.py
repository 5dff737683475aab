"""Samples of a network's inputs, for an error budget: NAME.npz as `superopt optimize --calibration` takes it.

    python -m scripts.bench.samples resnet50 some/model.onnx --out samples

They are drawn, by the seed alone.  The zoo's weights are random, so no inputs are more real to it than random ones; a
network with weights that were learned needs samples of what it will meet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx

from scripts.bench import zoo
from scripts.bench.feeds import random_feeds

COUNT = 400
"""Of which superopt calibrates with 50, selects by 50 and tests on 300: 299 are what 99 % with 95 % confidence need."""
_APART = 2**20
"""Seeds of samples lie so far apart for each seed that is given: no two files have samples in common."""


def write(model_file: Path, target: Path, *, count: int = COUNT, seed: int = 1) -> None:
    """Draw ``count`` samples of all inputs, the same ones for the same seed.

    ValueError for inputs of open sizes, or of types that nothing is drawn for.
    """
    model = onnx.load(model_file, load_external_data=False)
    first = random_feeds(model, _APART * seed)
    arrays: dict[str, Any] = {name: np.empty((count, *value.shape), value.dtype) for name, value in first.items()}
    for number in range(count):
        for name, value in random_feeds(model, _APART * seed + number).items():
            arrays[name][number] = value
    partial = target.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    partial.replace(target)


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, required=True, metavar="NAME|MODEL...")
@click.option("--zoo", "zoo_dir", type=click.Path(path_type=Path), default=zoo.DEFAULT_OUT, show_default=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("samples"), show_default=True)
@click.option("--count", type=click.IntRange(min=10), default=COUNT, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
def main(*, names: tuple[str, ...], zoo_dir: Path, out: Path, count: int, seed: int) -> None:
    for name in names:
        model = zoo_dir / f"{name}.onnx" if name in zoo.ZOO else Path(name)
        if not model.is_file():
            raise click.UsageError(f"{model}: there is no such file: scripts.bench.zoo exports it")
        out.mkdir(parents=True, exist_ok=True)
        target = out / f"{model.stem}.npz"
        try:
            write(model, target, count=count, seed=seed)
        except ValueError as error:
            raise click.ClickException(f"{model}: {error}") from error
        click.echo(f"{target}: {count} samples, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

"""Draw networks by seed from the model lists of timm, torchvision and transformers, and export them for the bench.

    python -m scripts.bench.drawn $(git rev-parse HEAD)
    python -m scripts.bench.bench drawn_models/*.onnx --time-budget 60

A network that cannot be exported, or is larger than --parameters, is passed over with its reason, and the next one
is drawn; nothing is chosen by what becomes of it later.  Random weights, batch 1; those of transformers have four
layers.
"""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import onnx

from scripts.bench import zoo_torch
from scripts.bench.zoo import verify

SOURCES = ("timm", "torchvision", "transformers")
_LAYERS = 4
_TOKENS = 128
_SAMPLES = 16_000
_SIZE_FIELDS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A network of a list, by its name there."""

    source: str
    name: str

    @property
    def stem(self) -> str:
        return f"{self.source}_{self.name.replace('.', '_').replace('-', '_')}"


def names(source: str) -> list[str]:
    """All that the source lists, in its order: classifiers of the first two, base models of the third."""
    if source == "timm":
        listed: list[str] = zoo_torch.require("timm").list_models()
        return listed
    if source == "torchvision":
        models = zoo_torch.import_torchvision().models
        return [*models.list_models(module=models)]
    mapping = zoo_torch.require("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    return sorted(mapping)


def draws(seed: str) -> Iterator[Drawn]:
    """Without end and without repetition: first the source, then one of its names."""
    zoo_torch.import_torchvision()  # the other two look for it, and find it broken without its compiled operators
    chance = random.Random(seed)
    left = {source: names(source) for source in SOURCES}
    while any(left.values()):
        source = chance.choice([source for source in SOURCES if left[source]])
        yield Drawn(source, left[source].pop(chance.randrange(len(left[source]))))


def _image(model: Any) -> int:
    settings = getattr(model, "pretrained_cfg", {})
    return int((settings.get("input_size") or (3, 224, 224))[-1])


def _made(make: Callable[[], Any], most_parameters: float) -> Any:
    """The model; its parameters are counted on the device without memory first."""
    with zoo_torch.require("torch").device("meta"):
        count = sum(parameter.numel() for parameter in make().parameters())
    if count > most_parameters:
        raise ValueError(f"it has {count / 1e6:.0f} million parameters")
    return make().eval()


def _vision(drawn: Drawn, most_parameters: float) -> tuple[Any, tuple[Any, ...], list[str]]:
    torch = zoo_torch.require("torch")
    if drawn.source == "timm":
        timm = zoo_torch.require("timm")
        model = _made(lambda: timm.create_model(drawn.name, pretrained=False), most_parameters)
        side = _image(model)
    else:
        models = zoo_torch.import_torchvision().models
        inception = drawn.name in ("inception_v3", "googlenet")
        options = {"aux_logits": False, "init_weights": True} if inception else {}
        model = _made(lambda: models.get_model(drawn.name, weights=None, **options), most_parameters)
        side = 299 if drawn.name == "inception_v3" else 224
    return model, (torch.randn(1, 3, side, side),), ["image"]


def _text_or_signal(drawn: Drawn, most_parameters: float) -> tuple[Any, tuple[Any, ...], list[str]]:
    """A base model of transformers with four layers, fed as its main input's name says."""
    torch, transformers = zoo_torch.require("torch"), zoo_torch.require("transformers")
    config = transformers.AutoConfig.for_model(drawn.name)
    for field in _SIZE_FIELDS:
        if isinstance(getattr(config, field, None), int):
            setattr(config, field, min(_LAYERS, getattr(config, field)))
    config.use_cache = False
    model = _made(lambda: transformers.AutoModel.from_config(config, attn_implementation="eager"), most_parameters)
    feeds: dict[str, Callable[[], Any]] = {
        "input_ids": lambda: torch.randint(0, min(1000, config.vocab_size), (1, _TOKENS)),
        "pixel_values": lambda: torch.randn(
            1, getattr(config, "num_channels", 3), *[getattr(config, "image_size", 224)] * 2
        ),
        "input_values": lambda: torch.randn(1, _SAMPLES),
    }
    fed = model.main_input_name
    if fed not in feeds:
        raise ValueError(f"its main input is {fed!r}")
    needed = [
        parameter.name
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    if set(needed) - {fed}:
        raise ValueError(f"it needs {', '.join(sorted(set(needed) - {fed}))} too")
    return zoo_torch.first_output(model, [fed]), (feeds[fed](),), [fed]


def build(drawn: Drawn, most_parameters: float) -> onnx.ModelProto:
    """The network with random weights; whatever its library raises where it cannot be made or exported.

    Raises ValueError where it has more parameters, or inputs that cannot be made up.
    """
    zoo_torch.require("torch").manual_seed(zoo_torch.SEED)
    model, inputs, fed = (_text_or_signal if drawn.source == "transformers" else _vision)(drawn, most_parameters)
    model = zoo_torch.randomise(model, inputs)
    errors = []
    for dynamo in (False, True):
        try:
            return zoo_torch.export(model, inputs, fed, ["output"], dynamo=dynamo)
        except Exception as error:  # noqa: BLE001 - an exporter raises whatever it likes
            errors.append(error)
    raise errors[-1]


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("seed")
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="drawn_models", show_default=True)
@click.option("--parameters", type=float, default=150e6, show_default=True, help="Most that a network may have.")
def main(seed: str, count: int, out: Path, parameters: float) -> None:
    out.mkdir(parents=True, exist_ok=True)
    made = 0
    for drawn in draws(seed):
        if made == count:
            break
        begun = time.monotonic()
        target = out / f"{drawn.stem}.onnx"
        try:
            onnx.save_model(build(drawn, parameters), target)
            nodes = verify(target)
        except Exception as error:  # noqa: BLE001 - and so does a library that makes a model
            target.unlink(missing_ok=True)
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            click.echo(f"{drawn.source} {drawn.name}: passed over, {reason[:200]}")
            continue
        made += 1
        seconds = time.monotonic() - begun
        click.echo(f"{target}: {nodes} nodes, {target.stat().st_size / 1e6:.1f} MB, {seconds:.0f} s")


if __name__ == "__main__":
    main()

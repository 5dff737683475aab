"""Export the networks of the bench as ONNX files: random weights, fixed shapes, batch 1.

    python -m scripts.bench.zoo --list
    python -m scripts.bench.zoo nasrnn mobileone_s0
    python -m scripts.bench.zoo --all

Networks that are not built in code here need the ``bench`` extra (torch, torchvision, timm, transformers).
Where a hand-written reference graph exists it is written beside the model as ``NAME.reference.onnx``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx

from scripts.bench import zoo_torch
from scripts.bench.feeds import random_feeds
from scripts.bench.networks import NETWORKS
from scripts.bench.networks import REFERENCES as IN_CODE

DEFAULT_OUT = Path("zoo_models")


@dataclass(frozen=True, slots=True)
class Entry:
    """One network of the zoo: where it comes from and how to make it."""

    source: str
    build: Callable[[], onnx.ModelProto]


def _in_code(name: str) -> Entry:
    return Entry("built in code", NETWORKS[name])


def _vision(
    source: str,
    name: str,
    image: int = 224,
    *,
    dynamo: bool = False,
    options: Mapping[str, bool] | None = None,
) -> Entry:
    vision = zoo_torch.Vision(source, name, image, dynamo, options or {})
    return Entry(f"{source}.{name}", lambda: zoo_torch.export_vision(vision))


def _reparameterized(name: str, image: int) -> Callable[[], onnx.ModelProto]:
    vision = zoo_torch.Vision("timm", name, image, False, {})
    return lambda: zoo_torch.export_vision(vision, reparameterized=True)


_INCEPTION = {"aux_logits": False, "transform_input": False, "init_weights": True}

# The tracing exporter writes convolutional nets as most files in circulation have them; it leaves shape
# arithmetic in NASNet and ShuffleNet, and attention needs the newer one.
ZOO: dict[str, Entry] = {
    "nasrnn": _in_code("nasrnn"),
    "mobileone_s0": _in_code("mobileone_s0"),
    "repvgg_a0": _in_code("repvgg_a0"),
    "resnext50": _in_code("resnext50"),
    "bert_lora": _in_code("bert_lora"),
    "gru": _in_code("gru"),
    "separate_heads": _in_code("separate_heads"),
    "multi_gate_experts": _in_code("multi_gate_experts"),
    "resnet50": _vision("torchvision", "resnet50"),
    "regnet_x_1_6gf": _vision("torchvision", "regnet_x_1_6gf"),
    "squeezenet": _vision("torchvision", "squeezenet1_1"),
    "inception_v3": _vision("torchvision", "inception_v3", 299, options=_INCEPTION),
    "nasnet_a": _vision("timm", "nasnetalarge", 331, dynamo=True),
    "densenet121": _vision("torchvision", "densenet121"),
    "vgg19": _vision("torchvision", "vgg19"),
    "mobilenet_v3": _vision("torchvision", "mobilenet_v3_large"),
    "efficientnet_b0": _vision("torchvision", "efficientnet_b0"),
    "shufflenet_v2": _vision("torchvision", "shufflenet_v2_x1_0", dynamo=True),
    "fastvit_t8": _vision("timm", "fastvit_t8", 256),
    "repvit_m1": _vision("timm", "repvit_m1"),
    "ghostnet": _vision("timm", "ghostnet_100"),
    "googlenet": _vision("torchvision", "googlenet", options={"aux_logits": False, "init_weights": True}),
    "levit_128": _vision("timm", "levit_128"),
    "decoder": Entry("built in torch", zoo_torch.export_decoder),
    "dlrm": Entry("built in torch", zoo_torch.export_dlrm),
    "swin_t": _vision("torchvision", "swin_t", dynamo=True),
    "vit_b_16": _vision("torchvision", "vit_b_16", dynamo=True),
    "bert": Entry("transformers.BertModel", zoo_torch.export_bert),
    "gpt2": Entry("transformers.GPT2Model", zoo_torch.export_gpt2),
    "llama": Entry("transformers.LlamaModel", zoo_torch.export_llama),
}

REFERENCES: dict[str, Callable[[], onnx.ModelProto]] = {
    **IN_CODE,
    "fastvit_t8": _reparameterized("fastvit_t8", 256),
    "repvit_m1": _reparameterized("repvit_m1", 224),
    "levit_128": _reparameterized("levit_128", 224),
}


def verify(model_file: Path) -> int:
    """Run the file in ONNX Runtime on normal inputs and return its number of nodes.

    Raises click.ClickException when an output is not finite or is all zero.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])
    model = onnx.load(model_file, load_external_data=False)
    names = [output.name for output in session.get_outputs()]
    for name, value in zip(names, session.run(None, random_feeds(model)), strict=True):
        if not np.isfinite(value).all():
            raise click.ClickException(f"{model_file}: output {name!r} is not finite; scale its weights down")
        if not value.any():
            raise click.ClickException(f"{model_file}: output {name!r} is all zero; its weights are degenerate")
    return len(model.graph.node)


def reference_path(model_file: Path) -> Path:
    """Where the reference graph of a model lies: ``x.onnx`` -> ``x.reference.onnx``."""
    return model_file.with_suffix(".reference.onnx")


def export(name: str, out: Path, *, force: bool = False) -> list[Path]:
    """Write and verify one network and its reference; a file that exists is kept unless ``force``."""
    target = out / f"{name}.onnx"
    jobs = {target: ZOO[name].build}
    if name in REFERENCES:
        jobs[reference_path(target)] = REFERENCES[name]
    written = []
    for path, build in jobs.items():
        if path.exists() and not force:
            click.echo(f"{path}: kept (use --force to write it again)")
            continue
        partial = path.with_suffix(".partial")
        onnx.save_model(build(), partial)
        nodes = verify(partial)
        partial.replace(path)
        click.echo(f"{path}: {nodes} nodes, {path.stat().st_size / 1e6:.1f} MB")
        written.append(path)
    return written


def _print_list() -> None:
    for name, entry in ZOO.items():
        click.echo(f"{name:16} {entry.source}{' + reference' if name in REFERENCES else ''}")


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True)
@click.option("--all", "everything", is_flag=True, help="Export every network.")
@click.option("--list", "listing", is_flag=True, help="List the networks and stop.")
@click.option("--force", is_flag=True, help="Write files again that exist already.")
def main(names: tuple[str, ...], out: Path, everything: bool, listing: bool, force: bool) -> None:
    if listing:
        _print_list()
        return
    chosen = tuple(ZOO) if everything else names
    unknown = [name for name in chosen if name not in ZOO]
    if unknown:
        raise click.UsageError(f"unknown network {unknown[0]!r}; --list prints the {len(ZOO)} known ones")
    if not chosen:
        raise click.UsageError("name at least one network, or use --all; --list prints them")
    out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        export(name, out, force=force)


if __name__ == "__main__":
    main()

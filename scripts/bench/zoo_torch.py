"""The torch side of the zoo: random weights and statistics, and export to ONNX.

Nothing here is imported by the package, the demo or the tests; torch is imported inside the functions.
"""

from __future__ import annotations

import importlib
import io
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import onnx

SEED = 0
SEQUENCE = 128


def require(name: str) -> Any:
    """The module, or click.ClickException with the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = "pip install 'superopt[bench]'"
        raise click.ClickException(f"{name} cannot be imported ({error}); {hint}") from error


_DETECTION_OPS: list[Any] = []


def import_torchvision() -> Any:
    """torchvision, without its compiled operators where they do not load: models import once their signatures exist.

    Declared only after an import has failed: where the operators do load, declaring one twice ends the process.
    """
    torch = require("torch")
    try:
        return require("torchvision")
    except RuntimeError:  # "operator torchvision::nms does not exist"
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DETECTION_OPS.append(library)  # the declarations live as long as this object
    return require("torchvision")


def _calibrate(model: Any, inputs: tuple[Any, ...]) -> None:
    """Set every BatchNorm's statistics near those of its input, so that activations stay of order one.

    A share of mean^2 is added to the variance: on noise images some channels hardly vary, and dividing by
    their deviation would amplify every shift made before them.
    """
    torch = require("torch")
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # cumulative average: one pass overwrites what was there
        norm.reset_running_stats()
    if norms:
        model.train()
        with torch.no_grad():
            model(*(torch.cat([x, torch.randn_like(x)]) for x in inputs))
            for norm in norms:
                mean, variance = norm.running_mean, norm.running_var
                variance.add_(0.25 * mean**2).mul_(torch.empty_like(mean).uniform_(0.6, 1.6))
                mean.add_(torch.randn_like(mean) * 0.1 * variance.sqrt())
    model.eval()


def randomise(model: Any, inputs: tuple[Any, ...]) -> Any:
    """Draw scales, shifts and statistics, so that no normalisation and no bias is trivial."""
    torch = require("torch")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and not parameter.any():  # zero-initialised heads give constant outputs
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
            elif parameter.ndim == 1 and bool((parameter == 1).all()):
                parameter.uniform_(0.6, 1.4)
            elif parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        _calibrate(model, inputs)
    return model


def export(
    model: Any, inputs: tuple[Any, ...], names: list[str], outputs: list[str], *, dynamo: bool
) -> onnx.ModelProto:
    """Export in evaluation mode: the tracing exporter writes opset 17, the newer one its default."""
    torch = require("torch")
    for noisy in ("torch.onnx", "onnxscript"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if dynamo:
            program = torch.onnx.export(
                model, inputs, dynamo=True, input_names=names, output_names=outputs, verbose=False
            )
            proto: onnx.ModelProto = program.model_proto
            return proto
        buffer = io.BytesIO()
        torch.onnx.export(
            model, inputs, buffer, dynamo=False, opset_version=17, input_names=names, output_names=outputs
        )
    return onnx.load_model_from_string(buffer.getvalue())


@dataclass(frozen=True, slots=True)
class Vision:
    """A classifier of torchvision or timm, the side of its image, and the exporter that suits it."""

    source: str
    name: str
    image: int
    dynamo: bool
    options: Mapping[str, bool]


def export_vision(vision: Vision, *, reparameterized: bool = False) -> onnx.ModelProto:
    """The classifier on one image; input ``image [1, 3, side, side]``, output ``logits``.

    ``reparameterized``: as timm merges the parallel branches of its training form, from the same weights.
    """
    torch, torchvision = require("torch"), import_torchvision()
    torch.manual_seed(SEED)
    if vision.source == "timm":
        model = require("timm").create_model(vision.name, pretrained=False, **vision.options)
    else:
        model = getattr(torchvision.models, vision.name)(weights=None, **vision.options)
    inputs = (torch.randn(1, 3, vision.image, vision.image),)
    model = randomise(model, inputs)
    if reparameterized:
        model = require("timm.utils").reparameterize_model(model)
    return export(model, inputs, ["image"], ["logits"], dynamo=vision.dynamo)


def export_decoder() -> onnx.ModelProto:
    """The segmentation head on one image of 256 pixels a side."""
    torch, modules = require("torch"), _modules()
    torch.manual_seed(SEED)
    inputs = (torch.randn(1, 3, 256, 256),)
    return export(randomise(modules.Decoder(), inputs), inputs, ["image"], ["scores"], dynamo=False)


def export_dlrm() -> onnx.ModelProto:
    """The recommender on 16 users."""
    torch, modules = require("torch"), _modules()
    torch.manual_seed(SEED)
    inputs = (torch.randn(16, 13), torch.randint(0, 1000, (16, 26)))
    return export(randomise(modules.Recommender(), inputs), inputs, ["dense", "categories"], ["p"], dynamo=False)


def _modules() -> Any:
    require("torch")
    return importlib.import_module("scripts.bench.zoo_modules")


def _token_ids(vocabulary: int) -> Any:
    return require("torch").randint(0, vocabulary, (1, SEQUENCE))


def first_output(model: Any, names: Sequence[str]) -> Any:
    """The model reduced to its first output, its inputs by name: exporters and users have no need of the rest."""
    torch = require("torch")

    class Wrapper(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            return self.model(**dict(zip(names, inputs, strict=True)), return_dict=False)[0]

    return Wrapper().eval()


def _export_text(model: Any, inputs: tuple[Any, ...], names: list[str]) -> onnx.ModelProto:
    randomise(model, inputs)
    return export(first_output(model, names), inputs, names, ["last_hidden_state"], dynamo=True)


def export_bert() -> onnx.ModelProto:
    """BERT-base cut to 4 layers, 128 tokens."""
    torch, transformers = require("torch"), require("transformers")
    torch.manual_seed(SEED)
    config = transformers.BertConfig(num_hidden_layers=4, attn_implementation="eager")
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    inputs = (_token_ids(config.vocab_size), torch.ones(1, SEQUENCE, dtype=torch.int64))
    return _export_text(model, inputs, ["input_ids", "attention_mask"])


def export_gpt2() -> onnx.ModelProto:
    """GPT-2 cut to 4 layers, 128 tokens, without its language-model head."""
    torch, transformers = require("torch"), require("transformers")
    torch.manual_seed(SEED)
    config = transformers.GPT2Config(n_layer=4, use_cache=False, attn_implementation="eager")
    return _export_text(transformers.GPT2Model(config).eval(), (_token_ids(config.vocab_size),), ["input_ids"])


def export_llama() -> onnx.ModelProto:
    """Four Llama blocks of width 1024 with 16 query and 4 key-value heads, 128 tokens."""
    torch, transformers = require("torch"), require("transformers")
    torch.manual_seed(SEED)
    config = transformers.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=8192, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return _export_text(transformers.LlamaModel(config).eval(), (_token_ids(config.vocab_size),), ["input_ids"])

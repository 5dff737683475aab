"""Networks built in code without torch, for the demo, the tests and the zoo.

``NETWORKS`` builds each model at its published size; ``REFERENCES`` builds, from the same weights, the
fastest graph known by hand that computes the same function. Builders take size parameters for tiny variants.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from .attention import bert, bert_lora, reference_bert_lora, softsign_experts, tiny_mlp
from .convnets import reference_resnext50, resnext50, squeezenet, tiny_cnn
from .generators import sngan
from .recurrent import lstm, nasrnn, reference_nasrnn
from .reparam import mobileone_s0, reference_mobileone_s0, reference_repvgg_a0, repvgg_a0
from .siblings import (
    gru,
    multi_gate_experts,
    reference_gru,
    reference_multi_gate_experts,
    reference_separate_heads,
    separate_heads,
)

NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "nasrnn": nasrnn,
    "mobileone_s0": mobileone_s0,
    "repvgg_a0": repvgg_a0,
    "resnext50": resnext50,
    "bert": bert,
    "bert_lora": bert_lora,
    "squeezenet": squeezenet,
    "lstm": lstm,
    "tiny_cnn": tiny_cnn,
    "tiny_mlp": tiny_mlp,
    "softsign_experts": softsign_experts,
    "sngan": sngan,
    "gru": gru,
    "separate_heads": separate_heads,
    "multi_gate_experts": multi_gate_experts,
}

REFERENCES: dict[str, Callable[..., onnx.ModelProto]] = {
    "nasrnn": reference_nasrnn,
    "mobileone_s0": reference_mobileone_s0,
    "repvgg_a0": reference_repvgg_a0,
    "resnext50": reference_resnext50,
    "bert_lora": reference_bert_lora,
    "gru": reference_gru,
    "separate_heads": reference_separate_heads,
    "multi_gate_experts": reference_multi_gate_experts,
}

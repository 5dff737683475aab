"""Build a recurrent network with Softsign gates, the README's example of a new operator.

    python scripts/softsign_cell.py softsign.onnx
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def network(steps: int = 8, hidden: int = 128, gates: int = 6, seed: int = 0) -> onnx.ModelProto:
    """x0..[1, hidden], h[1, hidden] -> y[1, hidden]: each step adds up ``gates`` gates softsign(x·W + h·U)."""
    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array((rng.standard_normal((hidden, hidden)) / np.sqrt(hidden)).astype(np.float32), name)
        for k in range(gates)
        for name in (f"W{k}", f"U{k}")
    ]
    nodes = []
    state = "h"
    for t in range(steps):
        gated = []
        for k in range(gates):
            nodes += [
                helper.make_node("MatMul", [f"x{t}", f"W{k}"], [f"p{t}_{k}"]),
                helper.make_node("MatMul", [state, f"U{k}"], [f"q{t}_{k}"]),
                helper.make_node("Add", [f"p{t}_{k}", f"q{t}_{k}"], [f"s{t}_{k}"]),
                helper.make_node("Softsign", [f"s{t}_{k}"], [f"g{t}_{k}"]),
            ]
            gated.append(f"g{t}_{k}")
        total = gated[0]
        for k, gate in enumerate(gated[1:], start=1):
            nodes.append(helper.make_node("Add" if k % 2 else "Mul", [total, gate], [f"t{t}_{k}"]))
            total = f"t{t}_{k}"
        state = total
    nodes.append(helper.make_node("Identity", [state], ["y"]))
    row = [1, hidden]
    names = ["h", *(f"x{t}" for t in range(steps))]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, row) for name in names]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, row)]
    graph = helper.make_graph(nodes, "softsign", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@click.command(help=__doc__)
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
def main(out: Path) -> None:
    """Writes the model."""
    onnx.save_model(network(), out)


if __name__ == "__main__":
    main()

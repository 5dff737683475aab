"""Where a model's time goes, by ONNX Runtime's own kernel profile, and what a rewrite can gain at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from taso_py.backend.client import Worker
from taso_py.backend.kernels import Kernel
from taso_py.backend.protocol import Feeds, ModelRef
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Opaque, Table
from taso_py.report.products import PRODUCTS, bare
from taso_py.result import ModelProfile, OperatorTime

_SIDE = 1024
_PEAK_BLOCK_S = 0.05


def profile(worker: Worker, model: ModelRef, feeds: Feeds, table: Table, roofline: Roofline) -> ModelProfile:
    """Kernel times by operator, and how near to this machine's peak the products run.

    ModelError or WorkerError where ONNX Runtime cannot run the model or died.
    """
    kernels = worker.profile(model, feeds)
    total = sum(kernel.seconds for kernel in kernels)
    products = [kernel for kernel in kernels if bare(kernel.operator) in PRODUCTS]
    seconds = sum(kernel.seconds for kernel in products)
    operations = _operations(table, roofline)
    pace = operations / seconds if operations is not None and seconds > 0 else None
    peak = _peak(worker) if pace is not None else None
    busy = pace is not None and peak is not None and pace > peak  # others had the machine when the peak was taken
    return ModelProfile(
        seconds=total,
        operators=_by_operator(kernels, total),
        product_kernels=sum(kernel.calls for kernel in products),
        products_share=seconds / total if total > 0 else 0.0,
        operations_per_second=pace,
        peak_operations_per_second=None if busy else peak,
    )


def _by_operator(kernels: Sequence[Kernel], total: float) -> tuple[OperatorTime, ...]:
    """The slowest first."""
    found: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        found.setdefault(kernel.operator, []).append(kernel)
    rows = [
        OperatorTime(
            name,
            sum(k.calls for k in same),
            sum(k.seconds for k in same),
            0.0 if total <= 0 else sum(k.seconds for k in same) / total,
        )
        for name, same in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _operations(table: Table, roofline: Roofline) -> float | None:
    """Scalar operations of the products; None where some are not known."""
    total = 0.0
    for value, node in table.order():
        if value in table.values.constant:
            continue
        operator = node.operator
        name = operator.onnx
        if name in PRODUCTS:
            work = roofline.work(table, value, node)
            if isinstance(operator, Opaque) or not work.known:
                return None
            total += work.operations
    return total


def _peak(worker: Worker) -> float:
    """Operations per second of a large product of float32 matrices: what this machine reaches in ONNX Runtime."""
    value = onnx.helper.make_tensor_value_info
    shape, kind = [_SIDE, _SIDE], onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["a", "b"], ["c"])], "peak", [value("a", kind, shape)],
        [value("c", kind, shape)], [onnx.numpy_helper.from_array(np.full(shape, 0.5, np.float32), "b")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    handle = worker.open(ModelRef("peak", model.SerializeToString()))
    try:
        feeds = {"a": np.full(shape, 0.5, np.float32)}
        blocks = worker.time_rounds([handle], [feeds], rounds=4, block_s=_PEAK_BLOCK_S)
        return 2.0 * _SIDE**3 / min(float(block.min()) for (block,) in blocks)
    finally:
        worker.close(handle)

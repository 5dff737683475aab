"""What `superopt inspect` tells about a model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx

from taso_py.backend.client import Worker
from taso_py.check.facts import InputSpec, read_facts
from taso_py.check.fitting import fitted_instead
from taso_py.check.inputs import advice, make_feeds, with_arrays
from taso_py.check.shapes import Assignment, resolve_shapes
from taso_py.cost.roofline import Roofline, tensor_bytes
from taso_py.errors import ModelError, UsageError
from taso_py.files import load_arrays, require_model_file
from taso_py.graph.table import Table
from taso_py.onnx_io.load import Loaded, load
from taso_py.options import InspectOptions
from taso_py.options.spelling import spelled
from taso_py.providers.choosing import worker_config
from taso_py.result import Inspection, ModelProfile
from taso_py.run.profile import profile
from taso_py.run.provenance import machine_note, stated
from taso_py.run.subject import blaming, named, open_note, reference, require_runnable, weight_bytes


def inspect(model: Path | onnx.ModelProto, options: InspectOptions) -> Inspection:
    """Operators, parameters, FLOPs, bytes moved and peak activation memory, at the given or default shapes."""
    if isinstance(model, Path):
        require_model_file(model)
    loaded = load(model)
    timed = None
    if options.profile:
        assignment, timed = _profiled(model, loaded, options)
    else:
        specs, overrides = read_facts(loaded.proto).inputs, load_arrays(options.inputs)
        assignment = resolve_shapes(specs, with_arrays(options.shapes, overrides))
    roofline = Roofline(loaded.sizes_of(assignment.shapes))
    known = _all_known(loaded, roofline)
    return Inspection(
        input=loaded.path,
        nodes=len(loaded.proto.graph.node),
        operators=dict(Counter(_label(n.domain, n.op_type) for n in loaded.proto.graph.node).most_common()),
        opaque_types=dict(loaded.opaque.most_common()),
        opsets={o.domain or "ai.onnx": o.version for o in loaded.proto.opset_import},
        ir_version=loaded.proto.ir_version,
        inputs={v.name: _type_text(loaded, v.name) for v in loaded.proto.graph.input},
        outputs={v.name: _type_text(loaded, v.name) for v in loaded.proto.graph.output},
        parameters=sum(math.prod(t.dims) for t in loaded.proto.graph.initializer),
        parameter_bytes=weight_bytes(loaded.proto),
        flops=int(roofline.flops(loaded.table)) if known else None,
        bytes_moved=int(_bytes_moved(loaded.table, roofline)) if known else None,
        peak_activation_bytes=_peak(loaded.table, roofline) if known else None,
        shapes=dict(assignment.shapes),
        profile=timed,
        provenance=stated(loaded.proto),
        notes=(*machine_note(named(model), loaded.proto, worker_config(options)), *open_note(loaded)),
    )


def _profiled(
    model: Path | onnx.ModelProto, loaded: Loaded, options: InspectOptions
) -> tuple[Assignment, ModelProfile]:
    """At the default sizes and inputs, or at those that the model takes instead."""
    require_runnable(model)
    config = worker_config(options)
    if not config.tells_kernel_times:
        words = "starts kernels without waiting for them, so ONNX Runtime's profile does not tell how long they take"
        raise UsageError(
            f"{spelled('profile')}: {config.ep} {words}: use its vendor's profiler, or {spelled('ep', 'cpu')}"
        )
    overrides = load_arrays(options.inputs)
    given = with_arrays(options.shapes, overrides)
    facts, original = read_facts(loaded.proto), reference(model)

    def at(specs: Sequence[InputSpec], assignment: Assignment) -> tuple[Assignment, ModelProfile]:
        feeds = make_feeds(specs, assignment, seed=options.seed, overrides=overrides)
        roofline = Roofline(loaded.sizes_of(assignment.shapes))
        return assignment, profile(worker, original, feeds, loaded.table, roofline)

    first = resolve_shapes(facts.inputs, given)
    with blaming(model), Worker(config) as worker:
        try:
            return at(facts.inputs, first)
        except ModelError as error:
            fit = fitted_instead(worker, original, facts, given, overrides, seed=options.seed)
            if fit is None:
                raise ModelError(f"{error} ({advice(facts.inputs, first, overrides)})") from None
        return at(fit.inputs, resolve_shapes(fit.inputs, given, fit.sizes))


def _all_known(loaded: Loaded, roofline: Roofline) -> bool:
    """Whether every value that is computed has a rank and sizes."""
    if loaded.unsupported is not None:
        return False
    return all(roofline.concrete(loaded.values.types[v]) is not None for v, _ in loaded.table.order())


def _label(domain: str, op_type: str) -> str:
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def _type_text(loaded: Loaded, name: str) -> str:
    value = loaded.ids.get(name)
    return str(loaded.values.types[value]) if value is not None else "?"


def _bytes_moved(table: Table, roofline: Roofline) -> float:
    return sum(roofline.work(table, v, n).bytes for v, n in table.order())


def _peak(table: Table, roofline: Roofline) -> int:
    """The largest sum of live activations when nodes run in table order and values die after their last use."""
    order = [(v, n) for v, n in table.order() if v not in table.values.constant]
    last = {i: k for k, (_, n) in enumerate(order) for i in n.inputs if i is not None}
    forever = set(table.outputs)
    live: dict[int, int] = {v: _size(table, v, roofline) for v in table.values.inputs}
    total = peak = sum(live.values())
    for k, (value, node) in enumerate(order):
        live[value] = _size(table, value, roofline)
        total += live[value]
        peak = max(peak, total)
        used = [i for i in dict.fromkeys(node.inputs) if i is not None]
        for dead in [v for v in used if v in live and v not in forever and last[v] == k]:
            total -= live.pop(dead)
    return peak


def _size(table: Table, value: int, roofline: Roofline) -> int:
    type_ = roofline.concrete(table.type(value))
    return 0 if type_ is None else tensor_bytes(type_)

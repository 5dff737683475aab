"""The library's front door: `taso_py.optimize` and `taso_py.certify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from taso_py.options import Apply, CostName, Objective, Options, OrtLevel, Shape
from taso_py.progress import Progress, SilentProgress
from taso_py.result import Result
from taso_py.stop import StopFlag

if TYPE_CHECKING:
    import onnx

    from taso_py.certificate.certify import Certified
    from taso_py.certificate.laws import Prover

Shapes = Mapping[str, int | Sequence[int]]


class OptionFields(TypedDict, total=False):
    """The keywords of `optimize`; meanings and defaults are those of `taso_py.options.Options`."""

    ep: str
    ep_options: Mapping[str, str]
    threads: int | None
    ort_level: OrtLevel
    shapes: Shapes
    workloads: Sequence[Shapes]
    inputs: Mapping[str, str | Path]
    rules: Sequence[str | Path] | None
    only: Sequence[str]
    disable: Sequence[str]
    allow_bounded: bool
    allow_overflow: bool
    apply: Apply
    alpha: float
    time_budget_s: float
    cost: CostName
    objective: Objective
    race: bool
    min_gain: float
    freeze_initializers: bool
    allow_contrib: bool
    provenance: bool
    cache: str | Path | None
    seed: int
    strict: bool


def optimize(
    model: str | Path | onnx.ModelProto,
    *,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
    **options: Unpack[OptionFields],
) -> Result:
    """Find a faster model that computes the same function as `model`, check it and measure it.

    Prints nothing, never exits, writes nothing but the cache of measurements: `Result.save` writes the model.
    Raises the classes of `taso_py.errors`, among them UsageError for an option that cannot be meant.
    """
    from taso_py.run import pipeline

    source = Path(model) if isinstance(model, str) else model
    return pipeline.optimize(
        source, options_from(options), progress=progress or SilentProgress(), stop=stop or StopFlag()
    )


def certify(
    original: str | Path | onnx.ModelProto,
    optimised: str | Path | onnx.ModelProto,
    certificate: str | Path,
    *,
    freeze_initializers: bool = False,
    shapes: Shapes | None = None,
    inputs: Mapping[str, str | Path] | None = None,
    seed: int = 0,
    prover: Prover | None = None,
) -> Certified:
    """Check that a certificate, which `Result.save_certificate` wrote, leads from `original` to `optimised`.

    Every rule is judged again, every step replayed, and both models run in ONNX Runtime on inputs as for `optimize`.
    Raises CertificateError with the first thing that does not hold, UsageError where `freeze_initializers` is not what
    the certificate was made with. `prover` replaces the judgement of the rules.
    """
    from taso_py.certificate.certify import certify as run
    from taso_py.certificate.numeric import Inputs
    from taso_py.files import load_arrays

    first, second = (Path(model) if isinstance(model, str) else model for model in (original, optimised))
    arrays = load_arrays({name: Path(file) for name, file in (inputs or {}).items()})
    return run(
        first,
        second,
        Path(certificate),
        freeze_initializers=freeze_initializers,
        inputs=Inputs(_shapes(shapes or {}), arrays, seed),
        prover=prover,
    )


def options_from(fields: OptionFields) -> Options:
    """`Options` from the keywords of `optimize`: strings, lists and single sizes become what it holds."""
    given: dict[str, object] = dict(fields)
    if "shapes" in fields:
        given["shapes"] = _shapes(fields["shapes"])
    if "workloads" in fields:
        given["workloads"] = tuple(_shapes(workload) for workload in fields["workloads"])
    if "inputs" in fields:
        given["inputs"] = {name: Path(file) for name, file in fields["inputs"].items()}
    if (rules := fields.get("rules")) is not None:
        given["rules"] = tuple(Path(file) for file in rules)
    if (cache := fields.get("cache")) is not None:
        given["cache"] = Path(cache)
    given |= {"only": tuple(fields.get("only", ())), "disable": tuple(fields.get("disable", ()))}
    return Options(**given)  # type: ignore[arg-type]


def _shapes(shapes: Shapes) -> dict[str, Shape]:
    return {name: (sizes,) if isinstance(sizes, int) else tuple(sizes) for name, sizes in shapes.items()}

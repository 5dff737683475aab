"""How a result is run, what its figures hold for, and how to check them where it will run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from taso_py.providers.record import Placement, ProviderRun
from taso_py.report.approximation import budget_flags
from taso_py.report.content import shape_text
from taso_py.result import Result


@dataclass(frozen=True, slots=True)
class Deployment:
    """Code, a sentence and commands; plain text."""

    code: str
    holds: str
    again: str


def deployment(result: Result) -> Deployment | None:
    """For the file that was written, or for a name that it could get; None for a result that is the original."""
    if not result.changed and result.placement is None:
        return None
    output = str(result.output or "optimised.onnx")
    code = (
        "import onnxruntime as ort\n"
        f"options = ort.SessionOptions(); options.intra_op_num_threads = {result.threads}\n"
        f"session = ort.InferenceSession({output!r}, options, providers=[{result.ep!r}])"
    )
    if result.ran is not None:
        code = f"import superopt\nsession = superopt.session({output!r})  # as {output}.session.json says"
    sizes = " and for ".join(shape_text(shapes, separator="; ") for shapes in result.shapes) or "the model's own"
    what = "The speed-up holds" if result.improved else "The figures hold"
    holds = (
        f"{what} for the sizes {sizes}; threads: {result.threads}; {result.ep}; {result.cpu}; "
        f"ONNX Runtime {result.ort_version}. Where one of these is different, optimise there."
    )
    files = f"{shlex.quote(str(result.input or 'model.onnx'))} {shlex.quote(output)}"
    placed = result.ran
    ep = result.ep if placed is None else placed.ep
    where = "" if placed is None or placed.python is None else f" --ep-python {shlex.quote(placed.python)}"
    flags = f" --threads {result.threads} --ep {shlex.quote(ep)}{where}{_hint(placed)}"
    further = result.approximation
    budget = budget_flags(further) if further is not None and further.applied else ""
    lines = []
    for shapes in result.shapes or ({},):
        given = "".join(f" --shape {shlex.quote(shape_text({name: sizes}))}" for name, sizes in shapes.items())
        lines += [f"superopt check {files}{flags}{given}{budget}", f"superopt bench {files}{flags}{given}"]
    return Deployment(code, holds, "\n".join(lines))


def _hint(placed: ProviderRun | None) -> str:
    """The provider options of an approximation, as the command line spells them: `check` is to judge what is run."""
    if placed is None or isinstance(placed, Placement):
        return ""
    given = (f"{name}={text}" for name, text in placed.options.items())
    return "".join(f" --ep-option {shlex.quote(one)}" for one in given)

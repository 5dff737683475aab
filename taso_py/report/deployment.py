"""How a result is run, what its figures hold for, and how to check them where it will run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from taso_py.options.providers import settled_options
from taso_py.providers.record import ProviderRun
from taso_py.report.approximation import NEW_SAMPLES, budget_flags
from taso_py.report.content import processors, shape_text
from taso_py.result import Result


@dataclass(frozen=True, slots=True)
class Deployment:
    """Code, a sentence and commands; plain text."""

    code: str
    holds: str
    again: str


def deployment(result: Result) -> Deployment | None:
    """For the file that was written, or for a name that it could get; None for a result that is the original."""
    ran = result.ran
    if not result.changed and ran is None:
        return None
    output = str(result.output or "optimised.onnx")
    code = (
        "import onnxruntime as ort\n"
        f"options = ort.SessionOptions(); options.intra_op_num_threads = {result.threads}\n"
        f"session = ort.InferenceSession({output!r}, options, providers=[{result.ep!r}])"
    )
    if ran is not None:
        code = f"import superopt\nsession = {session_call(ran, output)}  # as {output}.session.json says"
    sizes = " and for ".join(shape_text(shapes, separator="; ") for shapes in result.shapes) or "the model's own"
    what = "The speed-up holds" if result.improved else "The figures hold"
    holds = (
        f"{what} for the sizes {sizes}; threads: {result.threads}; {result.ep}; {processors(result)}; "
        f"ONNX Runtime {result.ort_version}. Where one of these is different, optimise there."
    )
    files = f"{shlex.quote(str(result.input or 'model.onnx'))} {shlex.quote(output)}"
    flags = f" --threads {result.threads}{f' --ep {shlex.quote(result.ep)}' if ran is None else _flags(ran)}"
    further = result.approximation
    budget = budget_flags(further) if further is not None and further.applied else ""
    lines = [f"# {NEW_SAMPLES}: samples that the model was not chosen by"] if NEW_SAMPLES in budget else []
    for shapes in result.shapes or ({},):
        given = "".join(f" --shape {shlex.quote(shape_text({name: sizes}))}" for name, sizes in shapes.items())
        lines += [f"superopt check {files}{flags}{given}{budget}", f"superopt bench {files}{flags}{given}"]
    return Deployment(code, holds, "\n".join(lines))


def session_call(ran: ProviderRun, output: str) -> str:
    """The Python expression that makes a session of the file ``output`` as the file beside it says."""
    allowed = "" if ran.needs_consent is None else ", allow_library=True"
    return f"superopt.session({output!r}{allowed})"


def _flags(ran: ProviderRun) -> str:
    """What makes `check` and `bench` run a model in the same way, but for options that they take by themselves."""
    settled = {} if ran.library is not None else settled_options(ran.ep, {}, ran.threads or 0)
    words = ["--ep", ran.ep]
    words += [] if ran.python is None else ["--ep-python", ran.python]
    words += [] if ran.library is None else ["--ep-library", ran.library]
    for name, text in ran.options.items():
        words += [] if settled.get(name) == text else ["--ep-option", f"{name}={text}"]
    words += [] if ran.ort_level == "all" else ["--ort-level", ran.ort_level]
    return "".join(f" {shlex.quote(word)}" for word in words)

"""What `optimize`, `check` and `certify` let outputs differ by."""

from __future__ import annotations

from taso_py.options.field import OptionRecord, Range, option, record


@record
class ToleranceOptions(OptionRecord):
    """How far outputs may differ, as `numpy.allclose` has it."""

    rtol: float | None = option(
        "--rtol",
        None,
        "Allow |y - y'| <= atol + rtol*|y| in each float of an output (1e-5 if --atol alone is given); default: "
        "by element type, relative to max|y|.",
        metavar="R",
        within=Range(least=0),
        group="Check",
    )
    atol: float | None = option(
        "--atol",
        None,
        "The other half of it (1e-8 if --rtol alone is given).",
        metavar="A",
        within=Range(least=0),
        group="Check",
    )

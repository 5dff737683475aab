"""`superopt certify`: does a certificate lead from one model to another?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, data_options, json_option
from taso_py.errors import CertificateError
from taso_py.options import parse_inputs, parse_shapes

if TYPE_CHECKING:
    from taso_py.certificate.certify import Certified

FILE = click.Path(path_type=Path)


@click.command(context_settings=SETTINGS, short_help="Check a certificate that optimize wrote.")
@click.argument("original", type=FILE)
@click.argument("optimised", type=FILE)
@click.argument("certificate", type=FILE, metavar="FILE")
@click.option("--freeze-initializers", is_flag=True,
              help="Initializers that are inputs are constants: say so here if it was said to optimize.")  # fmt: skip
@data_options
@json_option
def certify(
    original: Path,
    optimised: Path,
    certificate: Path,
    freeze_initializers: bool,
    shapes: tuple[str, ...],
    inputs: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Replay FILE from ORIGINAL alone and compare with OPTIMISED; exit code 1 if it does not hold.

    Every step is matched again with all its conditions, every rule judged again from its text in FILE (proved, and
    tried on instances), every computed weight computed again. Then both models are run on the same inputs. ONNX Runtime
    must be installed (exit code 5 without it).
    """
    from taso_py.backend.runtime import require_runtime
    from taso_py.certificate.certify import certify as run
    from taso_py.certificate.numeric import Inputs
    from taso_py.files import load_arrays, require_model_file

    given = Inputs(parse_shapes(shapes), load_arrays(parse_inputs(inputs)), seed)
    require_runtime()
    for model in (original, optimised):
        require_model_file(model)
    try:
        found = run(original, optimised, certificate, freeze_initializers=freeze_initializers, inputs=given)
    except CertificateError as error:
        if as_json:
            emit(_json((original, optimised, certificate), None, str(error)))
        raise
    emit(_json((original, optimised, certificate), found, None) if as_json else _sentence(original, optimised, found))


def _sentence(original: Path, optimised: Path, found: Certified) -> str:
    runs = f"; both agree on {found.inputs} sets of inputs"
    if not found.steps:
        return f"{optimised} is {original}, unchanged{runs}"
    rules = "1 proved rule" if len(found.rules) == 1 else f"{len(found.rules)} proved rules"
    weights = f", {found.weights} weights computed again" if found.weights else ""
    other = "" if found.same_file else "; it is written differently from the file that the certificate was made for"
    return f"{optimised} follows from {original} by {rules} in {found.places} places{weights}{runs}{other}"


def _json(files: tuple[Path, Path, Path], found: Certified | None, reason: str | None) -> str:
    from taso_py.result import plain

    names = dict(zip(("original", "optimised", "certificate"), map(str, files), strict=True))
    head = {"schema": "superopt.certification/1", **names, "holds": found is not None, "reason": reason}
    rules = None if found is None else [{"name": law.name, "id": law.id} for law in found.rules]
    figures = ("steps", "places", "weights", "largest_ulp", "same_file", "inputs")
    return json.dumps(head | {n: plain(getattr(found, n, None)) for n in figures} | {"rules": rules}, indent=2)

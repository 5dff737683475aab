"""`superopt certify`: does a certificate lead from one model to another?"""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, takes
from taso_py.errors import ApproximateError, CertificateError
from taso_py.options import CertifyOptions, Display


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Check a certificate that optimize wrote.",
    examples=(
        "superopt certify model.onnx faster.onnx faster.json",
        "superopt certify model.onnx faster.onnx faster.json --shape batch=4 --seed 7",
        "superopt certify model.onnx faster.onnx faster.json --json",
    ),
)
@click.argument("original", type=FILE)
@click.argument("optimised", type=FILE)
@click.argument("certificate", type=FILE, metavar="FILE")
@takes(options=CertifyOptions, display=Display)
def certify(original: Path, optimised: Path, certificate: Path, options: CertifyOptions, display: Display) -> None:
    """Replay FILE from ORIGINAL alone and compare with OPTIMISED; exit code 1 if it does not hold.

    Every step is matched again with all its conditions, every rule judged again from its text in FILE (proved, and
    tried on instances), every computed weight computed again. Then both models are run on the same inputs. ONNX Runtime
    must be installed (exit code 5 without it). Of a result within an error budget the exact part is checked, and the
    approximate rest named: exit code 9, as that is not proved.
    """
    from taso_py.report.certification import certification_json, certification_text, exact_part

    files = (original, optimised, certificate)
    try:
        found = api.certify(*files, options)
    except CertificateError as error:
        if display.as_json:
            emit(certification_json(files, None, str(error)))
        raise
    except ApproximateError as error:
        if display.as_json:
            emit(certification_json(files, exact_part(error), str(error), error.nodes))
        raise
    emit(certification_json(files, found, None) if display.as_json else certification_text(original, optimised, found))

"""A package configuration of Microsoft Olive that knows `superopt` beside Olive's own passes.

    python -m taso_py.integrations.olive_package > olive-package.json
    olive run --config workflow.json --package-config olive-package.json

Olive takes such a file instead of its own, not in addition to it.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from taso_py.cli.outcome import emit, exit_code_of
from taso_py.cli.shared import SETTINGS
from taso_py.errors import RuntimeMissingError

PASS = {
    "module_path": "taso_py.integrations.olive.SuperOpt",
    "supported_providers": ["*"],
    "supported_accelerators": ["*"],
    "supported_precisions": ["*"],
    "supported_algorithms": [],
    "supported_quantization_encodings": [],
    "run_on_target": True,  # it measures
}
"""What Olive is told of the pass."""


def package_config() -> dict[str, Any]:
    """The configuration of the installed Olive with the pass SuperOpt; RuntimeMissingError where there is no Olive.

    Found without importing Olive, which takes many seconds.
    """
    spec = find_spec("olive")
    if spec is None or spec.origin is None:
        raise RuntimeMissingError("Olive is not installed: pip install 'superopt[olive]'")
    path = Path(spec.origin).with_name("olive_config.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found | {"passes": found["passes"] | {"SuperOpt": PASS}}


@click.group(invoke_without_command=True, context_settings=SETTINGS)
def package() -> None:
    """Print the configuration of the installed Olive, with the pass SuperOpt added, as JSON."""
    emit(json.dumps(package_config(), indent=2))


if __name__ == "__main__":
    sys.exit(exit_code_of(package, None))

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

from taso_py.errors import UsageError

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
    """The configuration of the installed Olive with the pass SuperOpt; UsageError where there is no Olive.

    Found without importing Olive, which takes many seconds.
    """
    spec = find_spec("olive")
    if spec is None or spec.origin is None:
        raise UsageError("Olive is not installed: pip install 'superopt[olive]'")
    path = Path(spec.origin).with_name("olive_config.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found | {"passes": found["passes"] | {"SuperOpt": PASS}}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(package_config(), indent=2) + "\n")
    except UsageError as error:
        sys.exit(f"superopt: error: {error}")

"""Development scripts: networks built in code, the zoo exporter, the bench."""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before anything imports ONNX Runtime, here or in a child

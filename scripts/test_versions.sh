#!/usr/bin/env bash
# Run tests with the oldest version of each dependency that pyproject.toml admits, and with the newest there is.
# Each has an environment of its own (.venv/lowest-direct, .venv/highest); the test tools are the pinned ones.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2} python=${2:-.venv/bin/python}

tools=(hypothesis jsonschema junitparser psutil pydantic pytest pytest-xdist pyyaml setuptools)
# What touches the dependencies: reading and writing models, sessions, proofs, the command line.
tests=(
    tests/onnx_io tests/certificate tests/backend/test_backend_worker.py tests/run/test_pipeline.py
    tests/prove/test_false_laws.py tests/prove/test_obligations.py tests/test_api.py
    # ONNX's own cases are a part of the onnx package: they are put through with the pinned one.
    --ignore tests/onnx_io/test_onnx_io_backend.py
)
for resolution in lowest-direct highest; do
    folder=.venv/$resolution
    "$python" -m uv venv --quiet --clear --python "$python" "$folder"
    install=("$python" -m uv pip install --quiet --python "$folder/bin/python")
    "${install[@]}" --resolution "$resolution" '.[cpu]'
    "${install[@]}" "${tools[@]}" --constraint <(grep -E "^($(IFS='|'; echo "${tools[*]}"))==" constraints.txt)
    echo "$resolution: $("$folder/bin/python" -c 'import importlib.metadata as m; print(", ".join(f"{n} {m.version(n)}" for n in
        ("onnxruntime", "onnx", "onnx-ir", "numpy", "z3-solver", "click", "rich")))')"
    PYTHONPATH=. "$folder/bin/python" -m pytest -n "$jobs" "${tests[@]}"
done

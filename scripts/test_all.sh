#!/usr/bin/env bash
# Run every test under each supported Python that is installed, in one environment per interpreter (.venv/python3.11, ...).
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {  # a version manager's shim may exist without its interpreter: ask it to run
    local version=$1 candidate
    for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python"$version"; do
        if "$candidate" -c '' 2>/dev/null; then echo "$candidate"; return; fi
    done
}

tested=()
for version in 3.11 3.12 3.13; do
    python=$(find_python "$version")
    [ -n "$python" ] || { echo "Python $version: not installed, skipped"; continue; }
    echo "Python $version: $python"
    make test PYTHON="$python" VENV=".venv/python$version" JOBS="${1:-2}"
    tested+=("$version")
done
[ ${#tested[@]} -gt 0 ] || { echo "no Python 3.11 to 3.13 found" >&2; exit 1; }
echo "tested: ${tested[*]}"
